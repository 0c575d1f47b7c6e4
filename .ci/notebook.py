"""Write examples/notebook.ipynb from docs/tutorial/notebook.md, and run it: `nox -s pages` checks that it is up to date.

python .ci/notebook.py            write and run it
python .ci/notebook.py --check    fail if it differs from the page, and run it
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial" / "notebook.md"
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"

sys.path.insert(0, str(ROOT / "tests" / "support"))

from docs_pages import blocks_of  # noqa: E402


def cells() -> list[nbformat.NotebookNode]:
    """Return the page as cells: its Python blocks, and the text between them. Pictures and shown outputs are left out."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    found, at = [], 0
    for block in blocks_of(PAGE):
        start = block.line - 1
        found.append(_text(lines[at:start]))
        at = block.line + len(block.text.splitlines()) + 1
        if block.kind == "python":
            found.append(nbformat.v4.new_code_cell(block.text.rstrip("\n")))
    found.append(_text(lines[at:]))
    found = [cell for cell in found if cell.source]
    for number, cell in enumerate(found):
        cell.id = f"cell-{number}"
    return found


def _text(lines: list[str]) -> nbformat.NotebookNode:
    kept = [line for line in lines if not line.startswith(("![", "<!-- "))]
    return nbformat.v4.new_markdown_cell("\n".join(kept).strip())


def main() -> int:
    """Write or check the notebook, and execute it in an empty directory."""
    notebook = nbformat.v4.new_notebook(cells=cells())
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    text = nbformat.writes(notebook) + "\n"
    if "--check" not in sys.argv:
        NOTEBOOK.write_text(text, encoding="utf-8")
    elif NOTEBOOK.read_text(encoding="utf-8") != text:
        print(f"{NOTEBOOK.name} differs from {PAGE.name}: run `python .ci/notebook.py`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory:
        done = nbclient.NotebookClient(
            notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": directory}}
        ).execute()
    if "--keep" in sys.argv:
        nbformat.write(done, sys.argv[sys.argv.index("--keep") + 1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
