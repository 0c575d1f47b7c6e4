"""The fenced blocks of a page of the documentation, and what its invisible comments say about them.

A comment on the line before a block says how the block is used:

- `<!-- file: NAME -->`: the block is the content of the file NAME, which the reader writes.
- `<!-- output -->`: what the block before it prints. A line `...` stands for any number of lines.
- `<!-- program -->`: a whole Python program, which uses nothing of the blocks before it.
- `<!-- exit: 1 -->`: the last command of the block ends with this exit code.
- `<!-- not run: REASON -->`: the block needs something that the tests do not have, or is not meant to be run.

`<!-- given: ragstone.db with an alarm -->` anywhere on a page puts such a store into the directory before the first block:
an alarm needs days of traffic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["GIVEN", "ROOT", "Block", "blocks_of", "documentation_pages"]

ROOT = Path(__file__).parents[2]

GIVEN = "<!-- given: ragstone.db with an alarm -->"

_BLOCK = re.compile(
    r"^(?:<!-- (?P<key>file|output|program|exit|not run)(?:: (?P<value>.+?))? -->\n)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block: its language, its text, and the key and value of its comment (empty without one)."""

    language: str
    text: str
    line: int
    key: str = ""
    value: str = ""

    @property
    def kind(self) -> str:
        """What a reader does with it: "python", "program" or "bash" (runs it), "file", "output", "not run", "text" or "unknown"."""
        if self.key in ("file", "output", "program", "not run"):
            return self.key
        return self.language if self.language in ("python", "bash", "text") else "unknown"


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(m["language"], m["text"], text.count("\n", 0, m.start("text")), m["key"] or "", m["value"] or "")
        for m in _BLOCK.finditer(text)
    ]


def documentation_pages() -> list[Path]:
    """Return the READMEs and all pages of the documentation."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    distributions = sorted([*ROOT.glob("packages/*/README.md"), *ROOT.glob("integrations/*/README.md")])
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *distributions, *pages]
