"""The ways of the quickstart from an empty directory to a result: their steps as documented, counted and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs_pages import ROOT, blocks_of

QUICKSTART = ROOT / "docs" / "tutorial" / "quickstart.md"
PROGRAMS = Path(sys.executable).parent


def below(page, heading):
    """The blocks below a heading, up to the next one."""
    text = page.read_text()
    start = text.index(f"\n{heading}\n") + 1
    end = text.find("\n##", start)
    first, last = text.count("\n", 0, start), text.count("\n", 0, end)
    return [block for block in blocks_of(page) if first < block.line <= last]


def with_text(page, part):
    """The blocks with a text, and those after them on the page."""
    blocks = blocks_of(page)
    return blocks[next(n for n, block in enumerate(blocks) if part in block.text) :]


def documented_steps(way):
    """The number of steps in the table of the quickstart."""
    return int(re.search(rf"^\| \[{way}\]\S* \| (\d+) ", QUICKSTART.read_text(), re.MULTILINE)[1])


@pytest.fixture
def run(tmp_path):
    """The function that runs a command in an empty directory."""

    def run(command):
        environment = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200,
            check=False,
        )  # fmt: skip
        assert 0 == done.returncode, (command, done.stdout, done.stderr)
        return done.stdout

    return run


def write_files(blocks, directory):
    """Write what the reader has before the first step."""
    for block in blocks:
        if block.kind == "file":
            (directory / block.value).write_text(block.text)


def commands(block):
    """The commands of a block."""
    assert "bash" == block.kind
    return block.text.splitlines()


def test_a_chatbot_in_langgraph_needs_three_lines(tmp_path, run):
    """Its request is captured with the passage that it found, and scored."""
    page = ROOT / "docs" / "how-to" / "langchain.md"
    retriever = with_text(page, "retriever = ")[0].text
    added, chatbot = [block.text for block in with_text(page, "ragstone_enable(Monitor(")][:2]
    lines = [line for line in added.splitlines() if line]
    assert len(lines) == documented_steps("a chatbot in LangGraph") <= 4
    (tmp_path / "chatbot.py").write_text(added + retriever + chatbot)

    run("python chatbot.py")
    run("ragstone worker chatbot.db --until-idle")

    status = json.loads(run("ragstone status chatbot.db --json"))
    assert (1, 1) == (status["total"]["captured"], status["metrics"]["ccrs.cc"]["scored"])
    (trace,) = json.loads(run("ragstone traces chatbot.db --json --full"))
    assert ["A touchstone is a dark stone on which gold leaves a visible streak."] == [
        passage["text"] for passage in trace["passages"]
    ]


def test_a_spreadsheet_needs_two_commands(tmp_path, run):
    """The wrong answer is first, with its question and what is wrong."""
    blocks = below(QUICKSTART, "### A spreadsheet")
    write_files(blocks, tmp_path)
    steps = commands(blocks[-1])
    assert len(steps) == documented_steps("a spreadsheet") <= 2

    report = [run(step) for step in steps][-1]

    assert "1 of 2 answers is judged wrong" in report
    worst = report.index("When does the ferry leave?")
    assert worst < report.index("does not find the answer supported") < report.index("Do dogs pay on the ferry?")


def test_three_retrievers_need_four_commands(tmp_path, run):
    """The page has the verdict, and the texts of the questions that changed."""
    blocks = below(QUICKSTART, "### Three retrievers")
    write_files(blocks, tmp_path)
    samples, steps = (commands(block) for block in blocks if block.kind == "bash")
    for sample in samples:
        run(sample)
    assert len(steps) == documented_steps("three retrievers") <= 4

    verdict = [run(step) for step in steps][-1]

    assert "four beats one on ccrs.qr by" in verdict
    page = (tmp_path / "comparison.html").read_text()
    assert "four beats one on ccrs.qr by" in page
    assert "Questions: four against one" in page
    assert "Above what wind does the Petrel not sail?" in page


def test_an_export_of_langfuse_needs_two_commands(run):
    """The report says how many answers are wrong, and what to do next."""
    page = ROOT / "docs" / "how-to" / "replay.md"
    (sample,), steps = map(commands, with_text(page, "ragstone demo --samples langfuse")[:2])
    run(sample)
    assert len(steps) == documented_steps("an export of Langfuse") <= 2

    report = [run(step) for step in steps][-1]

    assert "4 of 29 answers abstain or are not supported" in report
    assert "\nNext: " in report


def test_the_operator_example_has_the_documented_number_of_services():
    """Its README lists the commands, which the tests of the servers run."""
    readme = (ROOT / "examples" / "operator" / "README.md").read_text()
    services = readme.split("Start each command")[1].split("Ask, and see")[0]
    documented = re.search(r"\| (\d+) commands, in `examples/operator` \|", QUICKSTART.read_text())[1]
    assert int(documented) == len(re.findall(r"^    \S", services, re.MULTILINE))
