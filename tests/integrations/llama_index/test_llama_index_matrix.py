"""The scenarios of the other files in this directory are complete, and the page states their number."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "llama-index.md"
FILES = ("engines", "streams", "chat", "agents")


def rows():
    """Return row and title of each scenario of all files."""
    lines = []
    for name in FILES:
        file = Path(__file__).with_name(f"test_llama_index_{name}.py")
        spec = importlib.util.spec_from_file_location(f"llama_index_matrix_{name}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for row, scenario, _ in module.MATRIX:
            title = ("stream " if name == "streams" else "") + scenario.__name__.replace("_", " ")
            lines.append((int(str(row).rstrip("abcdef")), title))
    return lines


def test_no_row_is_missing():
    """The matrix contains every row, and no scenario twice."""
    lines = rows()
    assert list(range(1, 42)) == sorted({row for row, _ in lines})
    assert [] == [name for name, count in Counter(name for _, name in lines).items() if count > 1]


def test_the_page_states_the_number_of_scenarios():
    """Users read how many ways of running LlamaIndex are tested."""
    assert f"Tests run {len(rows())} scenarios" in PAGE.read_text(encoding="utf-8")
