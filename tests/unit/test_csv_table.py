"""Tables that spreadsheets open run nothing, and their texts can be read again."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import run_command
from ragstone import Monitor
from ragstone._util.csv_table import csv_table, guarded, unguarded
from ragstone.experiments import add_labels
from ragstone.views._markdown import escape_markdown

ATTACKS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\n@x", "\uff1d1", "'=1", "=cmd|' /C calc'!A0"]


@pytest.mark.parametrize("text", ATTACKS)
def test_no_cell_begins_like_a_formula(text: str) -> None:
    """The first character is a quote, which spreadsheets do not show."""
    (row,) = csv.reader(io.StringIO(csv_table([[text]]), newline=""))
    assert row[0].startswith("'")


@given(st.text())
def test_texts_are_read_again(text: str) -> None:
    """A text without control characters is unchanged after both functions."""
    plain = "".join(character for character in text if character.isprintable() or character in "\n\t\r")
    assert plain == unguarded(guarded(plain))


def test_control_characters_become_spaces() -> None:
    """A terminal or a program that reads the file gets none. Line breaks and tabs stay."""
    assert "a b  c\n\td" == guarded("a\x1bb\x00\x9bc\n\td")


def test_drawn_requests_are_guarded_and_can_be_labeled(tmp_path: Path) -> None:
    """`labels draw` writes a file without formulas, and `labels add` finds the requests of its rows."""
    store, file = tmp_path / "s.db", tmp_path / "f.csv"
    monitor = Monitor(judge="lexical", metrics="ccrs", store=store)
    for text in ATTACKS:
        with monitor.request(f"{text} why\x1b[2J?") as request:
            request.found(["It is."])
            request.prompt(f"It is. {text}")
            request.answer(text)
    assert monitor.drain(timeout_s=100)
    monitor.close()
    done = run_command("labels", "draw", store, "-o", file)
    assert 0 == done.returncode, done.stderr
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"), newline="")))
    assert len(ATTACKS) == len(rows)
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.strip()[:1] in tuple("=+-@\uff1d") and cell.strip()]
    assert not [cell for cell in cells if "\x1b" in cell]
    file.write_text(
        csv_table([list(rows[0]), *([*list(row.values())[:-1], "correct"] for row in rows)]).replace("''", "'")
    )
    assert len(ATTACKS) == add_labels(store, file, author="me").n


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://evil.example/x", r"see https\://evil.example/x"),
        ("ftp://evil.example", r"ftp\://evil.example"),
        ("www.evil.example", r"www\.evil.example"),
        ("WWW.evil.example", r"WWW\.evil.example"),
        ("at 10:30, w.e", "at 10:30, w.e"),
    ],
)
def test_addresses_are_not_links(text: str, expected: str) -> None:
    """Markdown makes links of bare addresses, unless a character of them is escaped."""
    assert expected == escape_markdown(text)
