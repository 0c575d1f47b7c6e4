"""Nothing is scored by a model that nobody has named: no judge, no reader and no embedder has a default."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragstone
from builders import make_sample
from command_line import run_command
from ragstone.errors import ConfigurationError
from ragstone.judges import MissingModel, describe_missing, judge_from, reader_from
from ragstone.metrics import resolve_metrics
from ragstone.monitor import Monitor
from ragstone.replay import replay_traces
from ragstone.requests import TraceDraft
from ragstone.schema import Failure, Score
from ragstone.scoring import Scorer
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from ragstone.worker import ScorerSpec, ScoringSetup, read_ledger
from ragstone_lab import build_dataset, judge_card, rank_udcg, run_udcg_experiment

ROW = {"query": "Why?", "contexts": ["Because."], "response": "Because.", "reference": "Because."}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory without files, and an environment that names no model."""
    monkeypatch.chdir(tmp_path)
    for role in ("JUDGE", "READER", "EMBEDDER"):
        monkeypatch.delenv(f"RAGSTONE_{role}", raising=False)


def card() -> None:
    rows = [ROW | {"query": f"Why {n}?", "label": n % 2} for n in range(20)]
    judge_card(rows, rows, judge=judge_from(None))


def dataset() -> None:
    Path("handbook.md").write_text("Ferries leave at noon. Dogs travel free. The fare is two euros.", encoding="utf-8")
    build_dataset(["handbook.md"], "set", judge=judge_from(None))


DOORS: dict[str, Callable[[], Any]] = {
    "evaluate": lambda: ragstone.evaluate([ROW]),
    "evaluate some": lambda: ragstone.evaluate([ROW], ["rouge_l", "ccrs.qr"]),
    "assert_score": lambda: ragstone.assert_score(ROW, {"ccrs.qr": 0.5}),
    "replay_traces": lambda: replay_traces(["rows.jsonl"], ["ccrs"], store="r.db"),
    "ScoringSetup": lambda: ScoringSetup("ccrs"),
    "ScorerSpec": lambda: ScorerSpec("ccrs"),
    "ScorerSpec with limits": lambda: ScorerSpec("ccrs", judge={"max_concurrent_requests": 4}),
    "Scorer": lambda: asyncio.run(Scorer(resolve_metrics("ccrs"), judge_from(None)).prepare()),
    "reasons": lambda: ragstone.evaluate([ROW], ["rouge_l"], reasons=1),
    "judge_card": card,
    "build_dataset": dataset,
    "run_udcg_experiment": lambda: run_udcg_experiment([ROW], "experiment"),
    "rank_udcg": lambda: rank_udcg([ROW]),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_judged_metric_is_refused_without_a_judge(door: str) -> None:
    """Each way to score raises an error that names the way out, and leaves no file, if nobody has named a judge."""
    with pytest.raises(ConfigurationError, match=r"[Ss]et (judge|reader)") as caught:
        DOORS[door]()
    assert "baseline" not in str(caught.value)
    assert [] == [path.name for path in Path().iterdir() if path.suffix in (".db", ".jsonl")]


def test_the_sentence_names_the_metrics_and_the_ways_out() -> None:
    """The error of `evaluate` names the metrics that need the judge, and not those that do not."""
    with pytest.raises(ConfigurationError) as caught:
        ragstone.evaluate([ROW], ["rouge_l", "ccrs.qr", "udcg"])
    assert describe_missing("judge", ["ccrs.qr", "udcg"]) == str(caught.value)
    for text in ("ccrs.qr, udcg need a judge", "judge (--judge)", "RAGSTONE_JUDGE", "lexical to try the setup"):
        assert text in str(caught.value)


def test_an_embedder_has_no_default() -> None:
    """A metric that embeds texts is refused if a judge is named and no embedder is."""
    with pytest.raises(ConfigurationError, match=r"need an embedder, and none is named. Set embedder \(embedder.url\)"):
        ragstone.evaluate([ROW], "cosine", judge="lexical")


def test_metrics_without_a_judge_need_none() -> None:
    """A metric that compares texts is scored without a judge, and the result says that none was named."""
    result = ragstone.evaluate([ROW], ["exact_match"])
    assert [1.0] == [outcome.value for outcome in result.outcomes if isinstance(outcome, Score)]
    assert {"name": "not named", "is_baseline": False}.items() <= result.to_dict()["judge"].items()


def test_the_judge_of_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`RAGSTONE_JUDGE=lexical` is a name."""
    monkeypatch.setenv("RAGSTONE_JUDGE", "lexical")
    assert "lexical baseline" == ragstone.evaluate([ROW]).judge.name


def test_a_missing_judge_replies_to_nothing() -> None:
    """A scorer with a judge that nobody has named fails each judged metric and computes no score."""
    missing = judge_from(None)
    assert isinstance(reader_from(None, judge=missing), MissingModel)
    scorer = Scorer(resolve_metrics("ccrs"), missing)
    outcomes = asyncio.run(scorer.score(make_sample(**ROW)))
    assert {"rejected"} == {outcome.kind for outcome in outcomes if isinstance(outcome, Failure)}
    assert 5 == len(outcomes)
    with pytest.raises(ConfigurationError, match="no reader is named"):
        reader_from(None, judge=missing).is_abstention("No.")


def record(monitor: Monitor, n: int = 3) -> None:
    for _ in range(n):
        assert monitor.record(TraceDraft(query="Why?", response="Because."))


def test_a_monitor_without_a_judge_captures_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """A monitor without a judge keeps requests pending, does not wait for scores, and logs the ways out once."""
    caplog.set_level(logging.WARNING)
    with Monitor(store="app.db", metrics=["ccrs"]) as monitor:
        record(monitor)
        assert not monitor.drain()
        record(monitor)
    (entry,) = caplog.records
    for text in (
        "ccrs.cc, ccrs.qr",
        "RAGSTONE_JUDGE",
        "lexical to try the setup",
        "--until-idle --judge=JUDGE",
    ):
        assert text in entry.getMessage()
    ledger = read_ledger("app.db")
    assert (6, 6, 0) == (ledger.total.captured, ledger.total.pending, ledger.total.scored)


def test_a_worker_with_a_judge_scores_what_a_monitor_without_one_has_captured() -> None:
    """A worker takes over while the application runs, with the metrics of the monitor and the judge that it names."""
    with Monitor(store="app.db", metrics=["ccrs.qr", "rouge_l"]) as monitor:
        record(monitor)
        assert not monitor.drain()
        assert (3, 0) == ((rows := read_ledger("app.db").metrics)["rouge_l"].not_applicable, rows["ccrs.qr"].scored)
        done = run_command("worker", "app.db", "--judge", "lexical", "--until-idle")
    assert 0 == done.returncode, done.stderr
    with SqliteStore.open("app.db", mode="read") as store:
        assert 3 == len(list(store.outcomes.read(metric="ccrs.qr")))
        assert 3 == len(list(store.outcomes.read(metric="rouge_l")))


def test_a_monitor_without_a_judge_keeps_the_record_of_a_worker() -> None:
    """A restarted monitor without a judge does not erase the judge that the store has on record."""
    with Monitor(store="app.db", metrics=["ccrs.qr"]) as monitor:
        record(monitor)
    assert 0 == run_command("worker", "app.db", "--judge", "lexical", "--until-idle").returncode
    with Monitor(store="app.db", metrics=["ccrs.qr"]) as monitor:
        record(monitor)
        assert monitor.flush()
    assert "lexical" == read_ledger("app.db").plans[-1].settings["judge.url"]


def test_outcomes_of_a_worker_stay_those_of_the_store_if_a_monitor_without_a_judge_follows() -> None:
    """`status` counts the judged outcomes as before while a monitor without a judge scores the other metrics."""
    for n_scored in (0, 3):
        with Monitor(store="app.db", metrics=["ccrs.qr", "exact_match"]) as monitor:
            record(monitor)
            assert not monitor.drain()
        ledger = read_ledger("app.db")
        assert (3, n_scored, {}) == (ledger.total.pending, ledger.metrics["ccrs.qr"].scored, ledger.other_outcomes)
        assert 0 == run_command("worker", "app.db", "--judge", "lexical", "--until-idle").returncode
    assert (6, 0) == ((total := read_ledger("app.db").total).scored, total.pending)


def test_a_monitor_scores_metrics_that_need_no_judge(caplog: pytest.LogCaptureFixture) -> None:
    """A monitor whose metrics need no judge scores at once, and does not warn."""
    with Monitor(store="app.db", metrics=["exact_match", "rouge_l"]) as monitor:
        record(monitor)
        assert monitor.drain()
    assert [] == [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.WARNING]
    assert 0 == read_ledger("app.db").total.pending


def test_the_end_of_a_block_does_not_wait_without_a_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `with` block of a script ends at once if no judge is named, because no score can arrive."""
    waits: list[float] = []
    monkeypatch.setattr("ragstone.monitor._background.is_script", lambda: True)
    monkeypatch.setattr("ragstone.monitor._background.pauses", lambda *_, **__: waits.append(1.0) or iter(()))
    for judge, n_waits in ((None, 0), ("lexical", 1)):
        with Monitor(store=f"{judge}.db", metrics=["ccrs.qr"], judge=judge) as monitor:
            record(monitor)
        assert n_waits == len(waits)


def test_a_process_is_not_started_without_a_judge() -> None:
    """`scoring="process"` without a judge captures too, and does not raise."""
    with Monitor(store="app.db", scoring="process") as monitor:
        record(monitor)
    assert 3 == read_ledger("app.db").total.pending


@pytest.mark.parametrize("metrics", ["rouge_l", "ccrs"])
def test_a_named_judge_is_called_for_judged_metrics_only(metrics: str) -> None:
    """A judge is prepared only if a metric needs it, so an endpoint that is down does not stop other metrics."""

    class Down(FakeJudge):
        n_prepared = 0

        async def prepare(self) -> None:
            self.n_prepared += 1

    judge = Down(lambda _: 50)
    ragstone.evaluate([ROW], metrics, judge=judge)
    assert (metrics == "ccrs") == (judge.n_prepared > 0)


def test_doctor_without_a_model_says_how_to_name_one() -> None:
    """`ragstone doctor` exits with 2 and the sentence if no model is named."""
    done = run_command("doctor")
    assert (2, True) == (done.returncode, describe_missing("judge") in " ".join(done.stderr.split()))
