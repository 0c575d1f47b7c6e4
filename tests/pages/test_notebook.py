"""The notebook of `examples` is the tutorial, and runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from docs_pages import ROOT


def test_the_notebook_is_the_tutorial_and_runs(tmp_path):
    """In an empty directory, in a kernel of its own."""
    environment = os.environ | {
        "HOME": str(tmp_path),
        "IPYTHONDIR": str(tmp_path),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    command = [sys.executable, ROOT / ".ci" / "notebook.py", "--check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


CELLS = """
import ragstone

rows = [
    {
        "id": f"q{n}",
        "query": f"Who has key {n}? <script>document.title = 'run'</script>",
        "contexts": ["The harbour master has the key."],
        "response": "I do not know." if n % 3 == 0 else "The harbour master has it.",
        "reference": "The harbour master",
    }
    for n in range(30)
]
result = ragstone.evaluate(rows, ["ccrs"], judge="lexical")
---
result
---
result.worst(3)
---
result.plot("ccrs.ac")
---
print(repr(result).count("\\n") < 15, result.plot("ccrs.ac").data["n"])
"""


def test_results_in_a_notebook_are_shown_without_a_script(tmp_path, monkeypatch):
    """A kernel sends the HTML of results, answers and charts, and texts of the data are not markup in it."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in CELLS.split("---")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))

    def output(number):
        (shown,) = cells[number].outputs
        return shown

    summary, worst, chart = (output(number).data["text/html"] for number in (1, 2, 3))
    assert "10 of 30 answers are judged wrong (33 %" in summary
    assert "Answer correctness" in summary
    assert summary.count("<svg") >= 5
    assert "I do not know." in worst
    assert "&lt;script&gt;" in worst
    assert chart.count("<svg") >= 1
    assert "<script" not in (summary + worst + chart).lower()
    assert len(summary) < 50_000
    assert output(4).text == "True 30\n"
