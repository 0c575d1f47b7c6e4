"""Checks of outcomes in production: the counter of `/metrics`, and the notices of a worker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from command_line import run_command
from fake_servers import FakeJudgeServer
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.sinks import Delivery, PrometheusSink


def score(method: str, metric: str = "ccrs.qr", judge: str = "m at host", **fields: Any) -> Score:
    """Return a score of a judge."""
    known = {"sample_id": "t", "metric_version": "1", "judge_hash": "j", "value": 0.5}
    return Score(metric=metric, judge=judge, method=method, **known | fields)


def not_applicable(reason: str, **fields: Any) -> NotApplicable:
    """Return an outcome of a metric that does not apply."""
    return NotApplicable(
        sample_id="t", metric="ccrs.qr", metric_version="1", judge="m", judge_hash="j", reason=reason, **fields
    )


@pytest.mark.parametrize(
    ("outcome", "check"),
    [
        (score("forced_reply"), "forced"),
        (score("second_reply"), "second_request"),
        (score("single_reply_no_probabilities"), "no_probabilities"),
        (score("monte_carlo", "udcg", details={"passages": [{"n_declined": 0}, {"n_declined": 2}]}), "other_words"),
        (score("mixed_forced_reply"), "forced"),
        (score("mixed_second_reply"), "second_request"),
        (score("mixed"), None),
        (score("nli_parts"), "experimental"),
        (score("classifier"), "experimental"),
        (score("mixed_nli_nli_parts"), "experimental"),
        (not_applicable("the response does not contain claims"), "no_claims"),
        (score("single_reply"), None),
        (score("forced_reply", judge="lexical baseline"), None),
        (score("monte_carlo", "udcg", details={"passages": [{"n_declined": 0}, 3]}), None),
        (score("monte_carlo", "udcg", details={"passages": 3}), None),
        (not_applicable("the response does not contain claims", answer=("abstains",)), None),
        (not_applicable("no references"), None),
        (Failure(sample_id="t", metric="ccrs.qr", metric_version="1", kind="unparseable", reason="forced"), None),
    ],
)
def test_counter(outcome: Score | NotApplicable | Failure, check: str | None) -> None:
    """Each doubtful outcome is counted by metric and reason, and no other one."""
    registry = prometheus_client.CollectorRegistry()
    sink = PrometheusSink(registry)
    asyncio.run(sink.write([Delivery(outcome=outcome, trace_id="t", app="app")]))
    samples = [s for family in registry.collect() for s in family.samples if s.name.startswith("ragstone_doubtful")]
    counted = {(s.labels["metric"], s.labels["check"]): s.value for s in samples if s.name.endswith("_total")}
    assert ({} if check is None else {(outcome.metric, check): 1.0}) == counted
    asyncio.run(sink.aclose())


def count_rated(values: list[float], **fields: Any) -> dict[str, float]:
    """Return the counted checks after scores with these values."""
    registry = prometheus_client.CollectorRegistry()
    sink = PrometheusSink(registry)
    for k, value in enumerate(values):
        outcome = score("single_reply", **{"value": value, "sample_id": f"t{k}"} | fields)
        asyncio.run(sink.write([Delivery(outcome=outcome, trace_id=f"t{k}", app="app")]))
    samples = [
        s for family in registry.collect() for s in family.samples if s.name == "ragstone_doubtful_outcomes_total"
    ]
    asyncio.run(sink.aclose())
    return {s.labels["check"]: s.value for s in samples}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.8] * 19, {}),
        ([0.8] * 23, {"one_value": 4.0}),
        ([0.8] * 19 + [0.7] * 5, {}),
        ([0.8] * 21 + [0.7] * 5, {"one_value": 2.0}),
        ([0.001, 0.009] * 11, {"fractions": 3.0}),
        ([0.0] * 25, {"one_value": 6.0}),
        ([0.001, 0.009] * 9 + [0.5] * 9, {}),
    ],
)
def test_values(values: list[float], expected: dict[str, float]) -> None:
    """Ratings are counted from the 20th on, as long as all of a judge have one value, or are on a scale from 0 to 1."""
    assert expected == count_rated(values)
    assert {} == count_rated(values, judge="lexical baseline")


@pytest.mark.parametrize(("reply", "n", "is_noticed"), [("80", 24, True), ("80", 19, False), ("", 24, False)])
def test_worker_with_one_value(tmp_path: Path, reply: str, n: int, is_noticed: bool) -> None:
    """A worker says once that its judge has one value for all requests."""
    store, numbers = tmp_path / "s.db", iter(range(1000))
    with FakeJudgeServer(reply=lambda body: reply or str(next(numbers) % 90)) as server:
        with Monitor(store=store, metrics="ccrs.qr", judge=server.url, scoring="none") as monitor:
            for k in range(n):
                monitor.record(TraceDraft(query=f"Why {k}?", response="Because."))
            assert monitor.flush()
        done = run_command("worker", store, "--until-idle")
    assert 0 == done.returncode, done.stderr
    notices = [line for line in done.stderr.splitlines() if "have one value" in line]
    assert is_noticed == (len(notices) == 1), done.stderr


@pytest.mark.parametrize(("reply", "n", "is_noticed"), [("none", 24, True), ("80", 24, False), ("none", 19, False)])
def test_worker(tmp_path: Path, reply: str, n: int, is_noticed: bool) -> None:
    """A worker says once that its scores are forced, when there are enough of them."""
    store = tmp_path / "s.db"
    with FakeJudgeServer(reply=lambda body: reply) as server:
        with Monitor(store=store, metrics="ccrs.qr", judge=server.url, scoring="none") as monitor:
            for k in range(n):
                monitor.record(TraceDraft(query=f"Why {k}?", response="Because."))
            assert monitor.flush()
        done = run_command("worker", store, "--until-idle")
    assert 0 == done.returncode, done.stderr
    notices = [line for line in done.stderr.splitlines() if "the server forced" in line]
    assert is_noticed == (len(notices) == 1)
    assert all("judged outcomes are numbers that the server forced" in line for line in notices)
