"""Processes of a worker, as their owner sees them: errors, logs, outages, answers and stops."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest

from ragstone.errors import ConfigurationError, RagstoneError, StoreOwnedError
from ragstone.judges import is_any_endpoint_down
from ragstone.judges._limits import gate
from ragstone.metrics import resolve_metrics
from ragstone.schema import Sample, Score
from ragstone.testing import FakeJudge
from ragstone.worker._child import Child
from ragstone.worker._scoring_processes import ProcessScorer, _Process
from ragstone.worker._worker_process import WorkerProcess


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ConfigurationError", ConfigurationError),
        ("StoreOwnedError", StoreOwnedError),
        ("JudgeError", RagstoneError),
        ("ValueError", RagstoneError),
    ],
)
def test_the_error_of_a_process_keeps_its_type(kind, expected):
    """Whoever has started the process reacts to an error as if it had occurred here."""
    child = Child()
    child.on_failed(kind, "the reason")
    assert (expected, "the reason") == (type(child.error), str(child.error))


def test_an_entry_of_the_log_keeps_its_level(caplog):
    """An error of a process is an error in the log of its owner."""
    Child().on_log(logging.ERROR, "requests stay pending")
    assert [("ragstone", logging.ERROR, "requests stay pending")] == caplog.record_tuples


def test_a_process_that_is_stopped_at_once_could_have_started():
    """It ends before its interpreter has the work, and nothing is wrong with the machine."""

    class Stopped(Child):
        end_s = 0.0

    async def run() -> Child:
        child = Stopped()
        await child.start(b"")
        await child.aclose()
        return child

    assert not asyncio.run(run()).cannot_start


def test_the_outage_of_a_process_ends_with_it(monkeypatch):
    """Another process asks the judge again, and says if it is still unavailable."""
    monkeypatch.setattr(gate, "_registry", type(gate._registry)())

    async def run() -> list[bool]:
        process = _Process(None, lambda _: None)
        process.on_state(True, (3.0, 60.0))
        before = is_any_endpoint_down()
        process.on_end()
        return [before, is_any_endpoint_down()]

    assert [True, False] == asyncio.run(run())


def test_outcomes_have_the_judge_of_the_owner():
    """A process that could not reach the judge yet does not know its final identity."""
    (metric,) = metrics = resolve_metrics("ccrs.qr")

    async def score(sample: Sample, *_: object, **__: object) -> tuple[Score, ...]:
        about = {"sample_id": sample.id, "metric": metric.card.name, "metric_version": metric.card.version}
        return (Score(value=0.5, method="single_reply", judge_hash="provisional", **about),)

    scorer = ProcessScorer(metrics, FakeJudge(), processes=SimpleNamespace(score=score), concurrency=1, deadline_s=None)
    (outcome,) = asyncio.run(scorer.score(Sample(id="s", query="q", response="r")))
    assert scorer.judged_by(metric).hash == outcome.judge_hash


def test_an_answer_to_an_earlier_question_does_not_show_that_all_is_scored():
    """The process has sent it before it knew what is asked now."""
    process = WorkerProcess(None)
    process.wake()
    process.on_answer(1, 10, True, False)
    is_idle = process.idle_check()
    found = []
    for question, n_polls in ((1, 10), (1, 12), (2, 13), (2, 14), (3, 15)):
        process.on_answer(question, n_polls, True, False)
        found.append(is_idle())
    assert [False, False, False, False, True] == found
