"""The matrix on the page, generated from the scenarios of the other files in this directory."""

from __future__ import annotations

import importlib.util
import os
import re
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "llama-index.md"
BEGIN, END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"
USUAL = re.compile(r"(\d+ × )?`ok`: contexts, answer")
FILES = ("engines", "streams", "chat", "agents")


def rows():
    """Return row, title and records of all files, sorted by row."""
    lines = []
    for name in FILES:
        file = Path(__file__).with_name(f"test_llama_index_{name}.py")
        spec = importlib.util.spec_from_file_location(f"llama_index_matrix_{name}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for row, scenario, records in module.MATRIX:
            title = ("stream " if name == "streams" else "") + scenario.__name__.replace("_", " ")
            lines.append((int(str(row).rstrip("abcdef")), title, records))
    return sorted(lines, key=lambda line: line[0])


def test_no_row_is_missing():
    """The matrix contains every row, and no scenario twice."""
    lines = rows()
    assert list(range(1, 42)) == sorted({row for row, _, _ in lines})
    assert [] == [name for name, count in Counter(name for _, name, _ in lines).items() if count > 1]


def describe(contexts, answer, status):
    """Describe a record as on the page."""
    label = "contexts unknown" if contexts is None else "contexts" if contexts else "no contexts"
    return f"`{status}`: {label}, {'no answer' if answer is None else 'answer' if answer else 'an empty answer'}"


def table():
    """Build the table of scenarios of which a record is not `ok` with contexts and an answer."""
    lines = {}
    for _, title, records in rows():
        counts = Counter(describe(*record[1:]) for record in records)
        recorded = "; ".join(f"{count} × {text}" if count > 1 else text for text, count in counts.items())
        lines.setdefault(recorded or "nothing", []).append(title)
    shown = [f"| {', '.join(runs)} | {recorded} |" for recorded, runs in lines.items() if not USUAL.fullmatch(recorded)]
    return "\n".join(["| scenario | recorded traces |", "|---|---|", *shown, ""])


def test_the_page_shows_the_matrix():
    """The page contains the current table. RAGSTONE_WRITE_DOCS=1 updates the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    shown, _, after = rest.partition(END)
    if os.environ.get("RAGSTONE_WRITE_DOCS"):
        PAGE.write_text(before + BEGIN + table() + END + after, encoding="utf-8")
    else:
        assert table() == shown
