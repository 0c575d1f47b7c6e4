"""CI runs what the README tells people to run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language, each padded so that a traceback names the page's own line."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text.count("\n", 0, match.start(1)) + match[1] for match in found]


def test_ci_runs_what_the_readme_says():
    """`.ci/run` has the parts of the command that the README gives for the tests, in this order."""
    (command,) = [
        line for block in blocks(ROOT / "README.md", "bash") for line in block.split("\n") if "-s tests" in line
    ]
    text = (ROOT / ".ci/run").read_text(encoding="utf-8")
    found = [text.find(part) for part in command.split(" && ")]
    assert -1 not in found
    assert found == sorted(found)
