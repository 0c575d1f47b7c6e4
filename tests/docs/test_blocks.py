"""What the pages say about their blocks: which are not run and why, and that the diagrams show the code."""

from __future__ import annotations

import re
import tomllib

import pytest

from docs_pages import ROOT, Block, blocks_of, documentation_pages
from ragstone import sinks

BLOCKS = [(page, block) for page in documentation_pages() for block in blocks_of(page)]

MAX_NOT_RUN = 17
"""Blocks that `nox -s pages` does not run. A change may only lower this number."""


def place(page, block: Block) -> str:
    """Where a block is."""
    return f"{page.relative_to(ROOT)}, line {block.line}"


def test_every_block_says_what_it_is():
    """Commands and programs run. Any other language needs a comment: a file of the reader, an output, or not run."""
    assert [] == [f"{place(page, block)}: {block.language}" for page, block in BLOCKS if block.kind == "unknown"]


def test_every_fence_is_found():
    """A fence that is not seen would not be run."""
    for page in documentation_pages():
        fences = re.findall(r"^\s*```", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len(blocks_of(page)), page


def test_few_blocks_are_not_run():
    """Each with its reason."""
    not_run = [f"{place(page, block)}: {block.value}" for page, block in BLOCKS if block.kind == "not run"]
    assert all(re.search(r": \w+ \w+", line) for line in not_run)
    assert len(not_run) <= MAX_NOT_RUN, "\n".join(not_run)


@pytest.mark.parametrize(
    ("page", "block"),
    [pair for pair in BLOCKS if pair[1].kind == "file"],
    ids=lambda value: getattr(value, "value", ""),
)
def test_the_name_of_a_file_stands_in_the_text(page, block):
    """The comment is invisible, and the reader must know where to write the block."""
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert block.value in text


def test_the_first_page_names_every_kind_of_sink():
    """A list in words is easily forgotten when a sink is added."""
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").lower()
    kinds = {name.removesuffix("Sink").lower() for name in sinks.__all__ if name.endswith("Sink")} - {""}
    assert [] == [kind for kind in kinds if {"otlp": "opentelemetry"}.get(kind, kind) not in page]
    words = {8: "eight", 9: "nine"}
    assert f"{words[len(kinds)]} kinds" in page


def test_the_page_shows_the_layers_of_the_code():
    """The block of the page on the architecture lists them line by line, as import-linter checks them."""
    page = ROOT / "docs" / "explanation" / "architecture.md"
    (block,) = [block for block in blocks_of(page) if "errors" in block.text]
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ][0]
    assert [[name.strip() for name in layer.split("|")] for layer in contract["layers"]] == [
        line.split(", ") for line in block.text.splitlines()
    ]
