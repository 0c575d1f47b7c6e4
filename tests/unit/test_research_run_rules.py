"""All tools of research that call models stop, count and exit as `evaluate` does."""

from __future__ import annotations

import csv
import json

import pytest

from command_line import run_command
from fake_models import FakeReader
from fake_servers import FakeJudgeServer
from ragstone.errors import JudgeError
from ragstone.testing import FakeJudge
from ragstone_lab import (
    apply_review,
    build_dataset,
    build_negatives,
    correlate_udcg,
    rank_udcg,
    run_udcg_experiment,
)
from udcg_world import questions

QUICK = {"parts": "position,correlation", "k": 3, "n_contexts": 4, "erag": False}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory with 30 documents and questions of UDCG."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for n in range(30):
        (tmp_path / "docs" / f"{n}.md").write_text(f"Tower {n} of the town was built in {1900 + n}. It is tall.")
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions(8)))
    return tmp_path


def broken(kind="rejected"):
    """A judge whose calls all fail."""
    return FakeJudge(fail=lambda prompt: JudgeError("no such model", kind=kind))


def misled():
    """A reader whose answers are all different, and wrong."""
    return FakeReader(0.5, answer=lambda query, texts: f"It is {' and '.join(texts)}.")


GRADED = [
    {"query": row["query"], "contexts": row["contexts"], "response": "x", "reference": "y"} for row in questions(4)
]
TOOLS = {
    "build": lambda **options: build_dataset("docs", "set", judge=broken(), max_items=30, **options),
    "negatives": lambda **options: build_negatives("docs", "out", judge=broken(), queries=200, **options),
    "experiment": lambda **options: run_udcg_experiment(
        "questions.jsonl", "run", reader=misled(), judge=broken(), **QUICK, **options
    ),
    "rank": lambda **options: rank_udcg(
        questions(3), reader=FakeReader(lambda query, texts: JudgeError("no such model", kind="rejected")), judge=broken(),
        **options,
    ),
    "correlate": lambda **options: correlate_udcg(
        GRADED, reader=FakeReader(lambda query, texts: JudgeError("no such model", kind="rejected")), judge=broken(), **options
    ),
}  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS)
def test_a_model_that_fails_systematically_stops_the_run(tool):
    """After 20 failures, also if another model of the run works. The message names the setting that continues."""
    with pytest.raises(
        JudgeError, match=r"the run was stopped\. .* failed on all of the first 2\d .*no such model.*stop_early"
    ) as caught:
        TOOLS[tool](concurrency=1)
    assert "rejected" == caught.value.kind


@pytest.mark.parametrize("tool", ["build", "negatives", "experiment"])
def test_a_run_that_does_not_stop_early_counts_all_failures(tool):
    """It makes all calls."""
    result = TOOLS[tool](stop_early=False)
    assert result.failures["rejected"] > 20
    assert ("no such model",) == result.errors
    assert not result.unfinished


def test_a_review_stops_as_well(folder):
    """No dataset is written."""
    build_dataset("docs", "set", judge=FakeJudge(), max_items=30)
    review = folder / "set" / "review.csv"
    with review.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["text"] += " Mine."
    with review.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    before = (folder / "set" / "dataset.jsonl").read_bytes()
    with pytest.raises(JudgeError, match="no such model"):
        apply_review("set", judge=broken())
    assert before == (folder / "set" / "dataset.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (
            "udcg experiment questions.jsonl --parts position --no-erag --set research.k=3 --reader lexical",
            "I think so.",
        ),
        ("dataset build docs", "I think so."),
        ("dataset negatives docs --set research.queries=5", "I think so."),
    ],
)
@pytest.mark.usefixtures("virtual_time")
def test_a_command_with_a_broken_judge_exits_with_3(command, reply):
    """Although nothing is systematic: replies without the requested value."""
    with FakeJudgeServer(structured="ignored", reply=lambda body: reply) as server:
        done = run_command("lab", *command.split(), "--judge", server.url)
    assert 3 == done.returncode, done.stdout
    assert "failed, unparseable: " in done.stdout
    assert "exit code 3: " in done.stderr
    assert "(100%), more than the limit of 50% (limits.max_failed_share). By kind: " in done.stderr


@pytest.mark.usefixtures("virtual_time")
def test_the_limit_of_failures_is_a_setting():
    """With 1 all calls of a model may fail."""
    with FakeJudgeServer(structured="ignored", reply=lambda body: "I think so.") as server:
        done = run_command(
            *[
                "lab",
                "udcg",
                "experiment",
                "questions.jsonl",
                "--parts",
                "position",
                "--no-erag",
                "--set",
                "research.k=3",
                "--reader",
                "lexical",
            ],
            *("--set", "limits.max_failed_share=1", "--judge", server.url),
        )
    assert 0 == done.returncode, done.stderr
