"""Decisions are numbered, and everything that names one by its number links to it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
TRACKED = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
TEXTS = {
    path: path.read_text(encoding="utf-8")
    for path in map(ROOT.joinpath, TRACKED.split("\0"))
    if path.suffix in (".md", ".py", ".toml", ".yml") and path.is_file() and path != Path(__file__)
}


def test_numbers_are_those_of_the_headings():
    """The decisions have the numbers from 1 on without a hole, and the heading of each has the number of its file."""
    numbers = list(range(1, len(DECISIONS) + 1))
    assert numbers == [int(path.name[:4]) for path in DECISIONS]
    assert [["#", f"{number}."] for number in numbers] == [TEXTS[path].split()[:2] for path in DECISIONS]


def test_named_decisions_exist():
    """Each file of a decision that a text names exists, also if the text is a comment in the code."""
    named = {name for text in TEXTS.values() for name in re.findall(r"\b\d{4}-[a-z0-9-]+\.md\b", text)}
    assert named == {path.name for path in DECISIONS}


def test_a_number_in_a_text_links_to_the_decision():
    """A text that says "decision 8" is a link to the decision with this number."""
    wrong = []
    for path, text in TEXTS.items():
        for number, target in re.findall(r"\b[Dd]ecision (\d+)\b(?:\]\(([^)]*)\))?", text):
            if f"/{int(number):04}-" not in f"/{target}":
                wrong.append(f"{path.relative_to(ROOT)}: decision {number} ({target or 'without a link'})")
    assert wrong == []
