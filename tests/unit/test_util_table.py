"""The text tables fit their width, and lose and break no word."""

from __future__ import annotations

import itertools

import pytest

from ragstone._util.table import text_table

ROWS = [
    ("metric", "system", "mean [95% CI]", "n scored / failed / n.a.", "remark"),
    ("ccrs.cc", "first", "0.922 [0.708, 1.000]", "29 / 0 / 0", "few samples, wide interval"),
    ("vera.retrieval_context_precision", "second system", "no score", "0 / 12 / 17", ""),
]


def test_a_table_that_fits_has_one_line_a_row() -> None:
    """And a line under the header; nothing at the end of a line."""
    lines = text_table([("a", "bb"), ("one", "2"), ("x", "")], align="lr", width=80).splitlines()
    assert ["a    bb", "---  --", "one   2", "x"] == lines


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_a_narrow_table_loses_no_word_and_breaks_none(width: int) -> None:
    """Words, intervals and counts stay whole in every width that a column pair can have."""
    text = text_table(ROWS, n_keys=1, width=width)
    assert width >= max(map(len, text.splitlines()))
    assert {"[0.708, 1.000]", "29 / 0 / 0", "vera.retrieval_context_precision"} == {
        part for part in ("[0.708, 1.000]", "29 / 0 / 0", "vera.retrieval_context_precision") if part in text
    }
    words = set(itertools.chain.from_iterable(cell.split() for row in ROWS for cell in row))
    assert words <= set(text.split())


def test_optional_columns_go_first() -> None:
    """What is said elsewhere is left out before the table is broken into blocks."""
    assert "remark" not in text_table(ROWS, n_optional=1, width=75)
    assert "remark" in text_table(ROWS, n_optional=1, width=120)


def test_each_block_repeats_the_keys() -> None:
    """So that each value can be read with its row."""
    text = text_table(ROWS, n_keys=2, width=60)
    assert text.count("vera.retrieval_context_precision") > 1
    assert text.count("vera.retrieval_context_precision") == text.split().count("second")


def test_titles_of_groups_and_wide_characters() -> None:
    """A title is a line of its own; a character that takes two columns counts as two."""
    lines = text_table([("a", "b"), ("group",), ("評価", "x"), ("other",), ("y", "z")], width=80).splitlines()
    assert ["a     b", "----  -", "group", "評価  x", "", "other", "y     z"] == lines


def test_the_width_is_the_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """`COLUMNS` says it where it is set."""
    monkeypatch.setenv("COLUMNS", "300")
    assert max(map(len, text_table(ROWS).splitlines())) > 80
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, text_table(ROWS).splitlines())) <= 80


def test_without_a_header_there_is_no_line() -> None:
    """A list of facts."""
    assert ["  a   long", "  bb  x"] == text_table([("a", "long"), ("bb", "x")], header=False, indent=2).splitlines()


def test_titles_come_first_where_the_width_allows() -> None:
    """If many of them had to be folded, or a column would move to another block, the ids stand alone."""
    rows = [("metric", "mean"), *((f"ccrs.{name}", "0.922 [0.708, 1.000]") for name in "abcdef")]
    titles = {row[0]: f"Title of {row[0][-1]}" for row in rows[1:-1]}
    assert "Title of a (ccrs.a)  0.922 [0.708, 1.000]" in text_table(rows, titles=titles, width=60)
    assert "\nccrs.f               0.922" in text_table(rows, titles=titles, width=60)
    assert text_table(rows, width=40) == text_table(rows, titles=titles, width=40)
    one_long = titles | {"ccrs.c": "A title that is much longer"}
    assert "A title that is much\n" not in text_table(rows, titles=one_long, width=60)
    assert "Title of a (ccrs.a)" in text_table(rows, titles=one_long, width=45)
    assert "(ccrs.c)" in text_table(rows, titles=one_long, width=45)
    assert text_table(rows, titles=titles, width=45).count("\n") == text_table(rows, width=45).count("\n")
