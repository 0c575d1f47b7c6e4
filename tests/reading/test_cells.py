"""A cell of a table that begins like a list is read as that list, or is an error, and never one text with brackets."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.errors import DataError
from ragstone.reading import ReadingReport, read_samples, sample_from_row

Q = "Why?"


def texts_of(cell: str) -> list[str]:
    """Return the passages that a cell of contexts is read as."""
    return [passage.text for passage in sample_from_row({"query": Q, "contexts": cell}, position=1).contexts or ()]


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ("['a','b']", ["a", "b"]),
        ("['a', 'b',]", ["a", "b"]),
        ('["a", "b",]', ["a", "b"]),
        ("[\"it's\", 'b']", ["it's", "b"]),
        ("['it\\'s', \"b\"]", ["it's", "b"]),
        ("('a', 'b')", ["a", "b"]),
        ("('a',)", ["a"]),
        ("['a',\n 'b']", ["a", "b"]),
        ("[ 'a' , 'b' ]", ["a", "b"]),
        ("  ['a']\n", ["a"]),
        ('["a\nb", "c"]', ["a\nb", "c"]),
        ("['a' 'b']", ["a", "b"]),
        ('["a" "b"]', ["a", "b"]),
        ("['a'\n 'b']", ["a", "b"]),
        ("array(['a', 'b'], dtype=object)", ["a", "b"]),
        ("Index(['a', 'b'], dtype='object')", ["a", "b"]),
        ("[Document(page_content='a', metadata={'source': 'x', 'page': 1})]", ["a"]),
        ("[Document(metadata={}, page_content=\"it's\"), Document(id='7', page_content='b')]", ["it's", "b"]),
        ("Document(page_content='a')", ["a"]),
        ("page_content='a' metadata={'source': 'x'}", ["a"]),
        ("{'text': 'a'}", ["a"]),
        ('{"text": "a"}', ["a"]),
        ("[{'text': 'a', 'score': 0.5} {'text': 'b', 'score': nan}]", ["a", "b"]),
        ("[]", []),
        (json.dumps(json.dumps(["a", "b"])), ["a", "b"]),
        ("[ ]", []),
        ("()", []),
        ("", []),
        ("['\\x41\\u00e9']", ["Aé"]),
        ('["\\ud83d\\ude00",]', ["\U0001f600"]),
    ],
)
def test_a_list_is_read_whoever_wrote_it(cell: str, texts: list[str]) -> None:
    """JSON, Python, NumPy, pandas and LangChain write the same list differently."""
    assert texts == texts_of(cell)


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("['a' x 'b']", "'x' is not in quotes"),
        ("['a''b']", "no comma or blank"),
        ('[""a"", ""b""]', "no comma or blank"),
        ("['it's one', 'two']", "no comma or blank"),
        ("['a', 'b'", "does not end"),
        ("['a', 'b", "is not closed"),
        ("['a', 'b'] and more", "text follows"),
        ('["Foo" is a song] by nobody', "is not in quotes"),
        ("['a'] ['b']", "text follows"),
        ("['a', 'b' 'c']", "some items are separated by commas"),
        ("[a, b]", "'a' is not in quotes"),
        ("[see the appendix]", "'see' is not in quotes"),
        ("[see the appendix", "'see' is not in quotes"),
        ("[...]", "items are omitted"),
        ("['a' ... 'b']", "items are omitted"),
        (r"['\alpha', 'b']", "more than one meaning"),
        (r"['\d']", "more than one meaning"),
        ("{'a', 'b'}", "a set is unordered"),
        ("('a')", "one value in brackets"),
        ("0    first passage\n1    second\nName: contexts, dtype: object", "pandas Series"),
        ("[" * 100_000, "nested more than 50"),
        ("['\\U00110000']", "is not a character"),
        ("[array('a')]", "not a list"),
        ("[('a' 'b'), 'c']", "texts in parentheses without a comma"),
        (f"['{'a' * 99}' x]", f"read as one: 'x' is not in quotes: \"['{'a' * 58}…\". Write lists with json.dumps"),
        ("[1, 2]", "passage 1 must be text"),
        ("[None]", "passage 1 must be text"),
    ],
)
def test_a_list_that_cannot_be_read_is_an_error_of_its_row(cell: str, problem: str) -> None:
    """The message has the row, the field and the reason."""
    with pytest.raises(DataError, match=r"^row 1: ") as caught:
        texts_of(cell)

    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "cell",
    [
        "[1] see the appendix",
        "[1] and [2]",
        "[[1] see the appendix",
        "(Paris) is a city",
        "(1)",
        "{x} is a set",
        "{name}",
        "a ['b']",
        "'a', 'b'",
        "none of these",
    ],
)
def test_prose_with_brackets_stays_one_text(cell: str) -> None:
    """The bracket closes before the end of the cell, and no quote opens directly after it."""
    assert [cell] == texts_of(cell)


def test_texts_that_begin_with_a_bracket_are_counted(tmp_path: Path) -> None:
    """The report has their number by field, so that a layout which was not recognized can be seen."""
    path = tmp_path / "rows.csv"
    path.write_text("query,contexts,response\n[1] why?,[2] because,['x']\nwhy?,because,(y) z\n")
    report = ReadingReport()

    samples, _ = read_samples(path, report=report)

    assert "['x']" == samples[0].response
    assert {"query": 1, "response": 2, "contexts": 1} == dict(report.values["bracket"])


def test_a_row_with_a_broken_list_is_counted_or_stops(tmp_path: Path) -> None:
    """It is an error of the file, or a row that is skipped."""
    path = tmp_path / "rows.csv"
    path.write_text("query,contexts\nwhy?,[a\nwhy?,[b\nwhat?,c\n")
    report = ReadingReport()

    samples, rejected = read_samples(path, on_bad_row="skip", report=report)

    assert (["what?"], [1, 2], 2) == ([s.query for s in samples], [r.position for r in rejected], report.n_rejected)
    with pytest.raises(DataError, match="2 of 3 rows cannot be read"):
        read_samples(path)


def spellings(texts: list[str]) -> list[str]:
    """Return a list as several programs and people write it."""
    dumped = json.dumps(texts)
    return [
        dumped,
        json.dumps(texts, ensure_ascii=False),
        json.dumps(texts, separators=(",", ":")),
        json.dumps(texts, indent=1),
        repr(texts),
        repr(tuple(texts)),
        f"{repr(texts)[:-1]},]" if texts else "[]",
        f"{dumped[:-1]},]" if texts else "[]",
        f"[{','.join(map(repr, texts))}]",
        f"[{', '.join(json.dumps(t) if n % 2 else repr(t) for n, t in enumerate(texts))}]",
        dumped.replace('"', '""'),
        str(np.array(texts, dtype=object)) if texts else "[]",
    ]


@given(st.lists(st.text(alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from("'\"\\,[](){} \n.")))))
def test_another_spelling_of_a_list_is_the_same_sample_or_an_error(texts: list[str]) -> None:
    """No spelling of a list is read as other passages or other correct answers."""
    for cell in spellings(texts):
        if cell.startswith('["",""'):
            continue  # a list of empty texts, which are counted, or of commas whose quotes are doubled
        try:
            sample = sample_from_row({"query": Q, "contexts": cell, "reference": cell}, position=1)
        except DataError:
            continue
        assert texts == [passage.text for passage in sample.contexts or ()], cell
        assert tuple(text for text in texts if text.strip()) == sample.reference, cell


@given(st.lists(st.text(alphabet="ab'\"\\ \n", min_size=1), min_size=1))
def test_the_spellings_of_json_and_python_are_never_an_error(texts: list[str]) -> None:
    """The writers that people use are read, whatever is in the texts."""
    for cell in (json.dumps(texts), repr(texts), repr(tuple(texts)), f"{repr(texts)[:-1]},]"):
        assert texts == texts_of(cell), cell


@given(st.text(alphabet="[]{}()'\",: ab\\.\n"))
def test_any_text_is_a_sample_or_an_error_of_its_row(cell: str) -> None:
    """No cell raises another error, and a text with brackets is kept as it is or taken apart."""
    try:
        texts = texts_of(cell)
    except DataError:
        return
    assert texts == [cell] or "".join(texts) != cell or not cell.strip()


def test_csv_keeps_every_spelling(tmp_path: Path) -> None:
    """The same list in a file, in each spelling, gives the same passages. Doubled quotes are refused elsewhere."""
    texts = ["it's, one", 'two "q"', "three\nlines"]
    cells = [cell for cell in spellings(texts) if not cell.startswith('[""')]
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("query", "contexts"), *((Q, cell) for cell in cells)])

    samples, _ = read_samples(path)

    assert [texts] * len(cells) == [[p.text for p in sample.contexts or ()] for sample in samples]
