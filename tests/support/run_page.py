"""Run the blocks of one page in the current directory, as a reader would: one shell, one Python session, in order.

    python run_page.py PAGE SUBSTITUTIONS.json

The page is run as it is written, except for the addresses of servers, which the substitutions replace. Commands that
run until they are stopped (`worker`, `ingest`, `view`) run in the background, as in another terminal.
"""

from __future__ import annotations

import io
import json
import linecache
import subprocess
import sys
import time
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from docs_pages import GIVEN, Block, blocks_of

_TIMEOUT_S = 300
_SHELL = "set -eo pipefail\n[ ! -f {state} ] || . {state}\n{block}\nexport -p > {state}\n"


class _PageError(Exception):
    """A block does not do what the page says."""


class _Session:
    def __init__(self, page: Path, replaced: dict[str, str], state: Path) -> None:
        self._page = page
        self._replaced = replaced
        self._state = state
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._printed = ""

    def run(self, block: Block) -> None:
        text = block.text
        for documented, real in self._replaced.items():
            text = text.replace(documented, real)
        match block.kind:
            case "python" | "program":
                names = self._names if block.kind == "python" else {"__name__": "__main__"}
                self._printed = self._python(text, block, names)
            case "bash":
                self._printed = self._bash(text, int(block.value or 0) if block.key == "exit" else 0)
            case "file":
                path = Path(block.value)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            case "output":
                _compare(block.text, self._printed)
            case "unknown":
                raise _PageError(
                    f"a block of {block.language!r} needs a comment that says what it is: see docs_pages.py"
                )

    def _python(self, text: str, block: Block, names: dict[str, Any]) -> str:
        name = f"{self._page}:{block.line}"
        # For tracebacks, and for libraries that read the source of a function.
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(text, name, "exec"), names)  # noqa: S102
        return printed.getvalue()

    def _bash(self, text: str, expected: int) -> str:
        script = _SHELL.format(state=self._state, block=text.rstrip("\n"))
        done = subprocess.run(
            ["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode != expected:
            raise _PageError(f"exit code {done.returncode} instead of {expected}\n{text}{done.stdout}{done.stderr}")
        return done.stdout


def _compare(expected: str, printed: str) -> None:
    """Compare what a page shows with what the block before it printed. Spaces at the ends of lines do not count."""
    lines = [line.rstrip() for line in printed.splitlines()]
    at = 0
    for part in "\n".join(line.rstrip() for line in expected.strip("\n").splitlines()).split("\n...\n"):
        wanted = [line for line in part.split("\n") if line != "..."]
        found = (n for n in range(at, len(lines) - len(wanted) + 1) if lines[n : n + len(wanted)] == wanted)
        if (start := next(found, None)) is None:
            raise _PageError(
                "the page shows\n\n" + "\n".join(wanted) + f"\n\nbut the block before it prints\n\n{printed}"
            )
        at = start + len(wanted)


def main(page: Path, replaced: dict[str, str], state: Path) -> int:
    """Run the page, and print where it fails."""
    if GIVEN in page.read_text(encoding="utf-8"):
        from watched_store import DAY_S, make

        make(Path("ragstone.db"), time.time() - 11.5 * DAY_S)
    session = _Session(page, replaced, state)
    for block in blocks_of(page):
        try:
            session.run(block)
        except BaseException as error:  # noqa: BLE001 - a page may exit
            print(f"{page.name}, line {block.line}: ", end="", file=sys.stderr)
            print(error, file=sys.stderr) if isinstance(error, _PageError) else traceback.print_exc()
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), Path(sys.argv[3])))
