"""Laws of splitting into words and tokens: what is split fast is split as by the patterns, on any text."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragstone._util.words import _TYPOGRAPHIC, _patterns, normalize_case, split_tokens, split_words

ASCII = "".join(map(chr, range(128)))
OTHERS = "äßİıΣς塔ー한ิ\u0301\u0300\u05b0\u00a8\u00b4\u2028\x85\u3000\ufe0f½²ﬁＡ＿\ud800\U0001f600"


def by_pattern(text: str) -> tuple[list[str], list[str]]:
    """Words and tokens of the normalized text as the patterns find them."""
    word, token = _patterns()
    normal = normalize_case(text)
    return word.findall(normal), token.findall(normal)


@given(st.text(st.sampled_from(ASCII)) | st.text(st.sampled_from(ASCII + _TYPOGRAPHIC + OTHERS)) | st.text())
@example(ASCII)
@example("\u2019\u0301a b\u2026c\u00a0\u0308d _e_")
@example("a\u2019\u0301b")
@example(" \x1c\x1d\x1e\x1fa\x1cb\x0bc\x0cd\x85e")
def test_words_and_tokens_are_those_of_the_patterns(text):
    """ASCII, ASCII with typographic punctuation, and every other text."""
    assert by_pattern(text) == (split_words(text), split_tokens(text))


@pytest.mark.parametrize("alphabet", [ASCII, ASCII + _TYPOGRAPHIC, ASCII * 3 + _TYPOGRAPHIC + OTHERS])
def test_many_random_texts(alphabet):
    """The same on 5,000 texts of up to 80 characters for each alphabet."""
    rng = random.Random(11)
    for _ in range(5_000):
        text = "".join(rng.choices(alphabet, k=rng.randrange(80)))
        assert by_pattern(text) == (split_words(text), split_tokens(text)), text
