"""Words and tokens in scripts with and without spaces, with and without marks."""

from __future__ import annotations

import pytest

from ragstone._util.words import split_sentences, split_tokens, split_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The U.S. has 3.5% more!", ["the", "u", "s", "has", "3", "5", "more"]),
        ("Über-Maß", ["über", "mass"]),
        ("ＡＢＣ　１２", ["abc", "12"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("한국 GPU", ["한", "국", "gpu"]),
        ("𠮷野", ["𠮷", "野"]),
        ("हिन्दी दिन", ["हिन्दी", "दिन"]),
        ("שָׁלוֹם", ["שָׁלוֹם"]),
        ("مَرحَبًا", ["مَرحَبًا"]),
        ("cafe\u0301", ["café"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("塔x塔", ["塔", "x", "塔"]),
        ("❤\ufe0f a_b", ["a", "b"]),
        (" \n…", []),
    ],
)
def test_words(text, expected):
    """Case, width and punctuation go; accents and vowel marks stay with their letters."""
    assert expected == split_words(text)


def test_words_that_differ_in_a_vowel_sign_differ():
    """Day and donation in Hindi have the same consonants."""
    assert split_words("दिन") != split_words("दान")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("The U.S. is 3.5%", ["the", "u.s.", "is", "3.5%"]), ("塔is高い!", ["塔", "is", "高", "い", "!"]), (" ", [])],
)
def test_tokens(text, expected):
    """What blanks separate keeps its punctuation; characters of scripts without blanks stand alone."""
    assert expected == split_tokens(text)


def test_sentences():
    """Marks with a blank behind them, full-width marks and line ends; parts without a word are none."""
    expected = ["It is 3.5 m.", "Tall!", "塔は高い。", "そう", "end"]
    assert expected == split_sentences("It is 3.5 m. Tall! ... \n塔は高い。そう\n\nend")
