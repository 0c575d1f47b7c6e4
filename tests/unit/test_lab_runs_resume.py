"""Every command of the lab that calls models resumes after a stop at any of its calls, with the result of a whole run."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from ragstone.testing import FakeJudge
from ragstone_lab import apply_review, build_dataset, build_negatives, judge_card, run_udcg_experiment
from udcg_world import chance, questions, reader_of


class Stopped(BaseException):
    """The end of a process in the middle of a call."""


def judge_that_stops(at):
    """A judge that answers `at` calls, counts them, and stops everything at the next one. None: it never stops."""
    calls = []

    def fail(prompt):
        if len(calls) == at:
            raise Stopped
        calls.append(prompt)

    def rate(prompt):
        if prompt.construct == "passage_relevance":
            return float(" gold " in prompt.fields["passage"])
        return round(100 * chance(prompt.construct, prompt.task, str(prompt.fields)))

    return FakeJudge(rate, fail=fail), calls


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory with documents, questions, samples and labels."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for n in range(3):
        (tmp_path / "docs" / f"{n}.md").write_text(f"Tower {n} of the town was built in {1900 + n}. It is tall.")
    return tmp_path


SAMPLES = [
    {"id": f"q{n}", "query": f"Why {n}?", "contexts": [f"Because {n}.", "Or not."], "response": f"Because {n}."}
    for n in range(10)
]
LABELS = [{"id": f"q{n}", "ccrs.cc": n % 3 > 0} for n in range(10)]


def reader():
    """A reader whose answers depend on the kinds of the passages."""
    return reader_of(lambda query, kinds: "correct" if chance(query, *kinds) < 0.5 else "wrong")


def review(judge):
    """Edit texts of a dataset, and apply the review."""
    if not Path("set/review.csv").exists():
        build_dataset("docs", "set", judge=judge_that_stops(None)[0])
        path = Path("set/review.csv")
        rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
        for row in rows:
            row["text"] += " Mine."
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    return apply_review("set", judge=judge, concurrency=1)


TOOLS = {
    "dataset build": lambda judge: build_dataset("docs", "out", judge=judge, concurrency=1),
    "dataset apply-review": review,
    "dataset negatives": lambda judge: build_negatives("docs", "out", judge=judge, queries=20, concurrency=1),
    "udcg experiment": lambda judge: run_udcg_experiment(
        questions(3, labels=False), "out", parts="position,correlation,orders", reader=reader(), judge=judge, k=2, n_contexts=2,
        erag=False, concurrency=1,
    ),
    "judge-card": lambda judge: judge_card(
        LABELS, SAMPLES, judge=judge, metrics=["ccrs.cc"], conditions=("wording", "order", "repeats"), output_dir="out",
        n_resamples=20, concurrency=1, max_crossed=5,
    ),
}  # fmt: skip


def plain(result):
    """The result without the numbers of calls."""
    values = json.loads(json.dumps(result.to_dict(), default=str))
    calls = {name: values.pop(name) for name in ("n_asked", "n_known", "usage")}
    for judge in values.get("judges", ()):
        judge.pop("costs")
    return values, calls


@pytest.mark.parametrize("tool", TOOLS)
def test_a_stop_at_any_call_costs_that_call_alone(tool, tmp_path, monkeypatch):
    """The next run asks only for what is missing, and its result is that of a run without a stop."""

    def start(name):
        (tmp_path / name).mkdir()
        (tmp_path / name / "docs").symlink_to(tmp_path / "docs")
        monkeypatch.chdir(tmp_path / name)

    start("whole")
    judge, calls = judge_that_stops(None)
    whole, _ = plain(TOOLS[tool](judge))
    total = len(calls)
    assert total > 5
    stops = sorted({0, 1, total - 1, *range(2, total, max(1, total // 6))})
    for at in stops:
        start(f"stop-{at}")
        judge, calls = judge_that_stops(at)
        with pytest.raises(BaseException) as caught:  # noqa: PT011 - the stop may be part of a group
            TOOLS[tool](judge)
        assert isinstance(caught.value, Stopped) or caught.group_contains(Stopped)
        assert at == len(calls)
        judge, more = judge_that_stops(None)
        resumed, numbers = plain(TOOLS[tool](judge))
        assert whole == resumed
        assert total - at == len(more)
        assert numbers["n_known"] >= at
