"""Canaries: a fixed set of requests shows that the judge has changed, and keeps its texts."""

from __future__ import annotations

import asyncio
import json
import time

import numpy as np
import pytest

from command_line import run_command
from completions import complete
from fake_servers import FakeJudgeServer, RecordingServer
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import OpenAICompatibleJudge
from ragstone.schema import Captured, Score, Trace
from ragstone.settings import Watch, read_table
from ragstone.store import CanaryScore, PlannedMetric, StreamKey, open_store
from ragstone.testing import FakeJudge
from ragstone.watch import all_alarms
from ragstone.watch._canaries import begin_round, judge_shift
from ragstone.worker import ScoringSetup, Worker
from ragstone.worker._watching import score_canaries
from watched_store import DAY_S, METRIC

KEY = StreamKey("", METRIC, "1", "j1")
T0 = 1_790_000_000.0


def rounds(n, values, *, noise=0.0, seed=0):
    """Scores of `n` canaries: one round a day, with the mean of each round, and the noise of each score."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(-0.2, 0.2, n)
    return [
        CanaryScore(key=KEY, trace_id=f"c{i}", scored_at=day, value=float(mean + level[i] + noise * rng.normal()))
        for day, mean in enumerate(values)
        for i in range(n)
    ]


def test_a_judge_that_does_not_change_has_no_shift():
    """A judge that repeats itself has no difference at all, one with noise an interval that covers 0 in 95%."""
    exact = judge_shift(rounds(20, [0.7] * 4), before=2, after=2)
    assert (20, pytest.approx(0), pytest.approx(0)) == (exact.n, exact.low, exact.high)
    found = [judge_shift(rounds(20, [0.7] * 9, noise=0.1, seed=i), before=7, after=7) for i in range(400)]
    covered = np.mean([shift.low <= 0 <= shift.high for shift in found])
    assert 0.92 <= covered <= 0.98
    # The noise of the first rounds is shared by all later pairs: more rounds after the change do not make it surer.
    many = [judge_shift(rounds(20, [0.7] * 40, noise=0.1, seed=i), before=1, after=1) for i in range(400)]
    assert 0.92 <= np.mean([shift.low <= 0 <= shift.high for shift in many]) <= 0.98


def test_a_judge_that_became_stricter():
    """The size is that of its change, the rounds between the earliest and the latest start do not count."""
    scores = rounds(20, [0.8, 0.8, 0.1, 0.7], noise=0.02)
    shift = judge_shift(scores, before=2, after=3)
    assert shift.low < 0.1 < shift.high
    assert shift.low > 0.05
    upside_down = judge_shift(scores, before=2, after=3, sign=-1)
    assert (upside_down.drop, upside_down.low) == pytest.approx((-shift.drop, -shift.high))
    assert judge_shift(scores, before=0, after=3) is None, "no round before"
    assert judge_shift(rounds(4, [0.8, 0.7]), before=1, after=1) is None, "too few"


def fill(store, t0, *, version, hash_, days=11, per_day=120, bad_from=9.0):
    """Requests whose scores fall by 20 points on day `bad_from`."""
    rng = np.random.default_rng(1)
    store.plan.set([PlannedMetric(name=METRIC, version=version, judge_hash=hash_)], [])
    rows = []
    for i in range(int(days * per_day)):
        day = (i + 0.5) / per_day
        about = {"sample_id": f"t{i:05d}", "metric": METRIC, "metric_version": version, "judge_hash": hash_}
        trace = Trace(
            trace_id=f"t{i:05d}",
            started_at=t0 + day * DAY_S,
            query=f"Question {i}?",
            response=f"Answer {i}.",
            app="bot",
        )
        value = float(np.clip(rng.normal(0.6 if day >= bad_from else 0.8, 0.08), 0, 1))
        rows.append((trace, Score(value=value, method="single_reply", judge="a judge", **about)))
    store.traces.ingest("s", 1, [Captured(trace=trace) for trace, _ in rows])
    for trace, score in rows:
        complete(store, trace.trace_id, [score])


class Judge(FakeJudge):
    """A judge whose replies change behind an unchanged name."""

    level = 80

    def __init__(self):
        super().__init__(lambda _: self.level)


def work(path, judge, now, **options):
    """Run a worker until it is idle, at a time."""
    worker = Worker(path, ScoringSetup(METRIC, judge=judge), watch=Watch(**options), clock=lambda: now)
    asyncio.run(asyncio.wait_for(worker.run(until_idle=True), 120))


def test_a_judge_that_changes_turns_the_alarm_into_its_own(tmp_path):
    """Rounds of each day, one right after the alarm, and the event that says that the judge changed."""
    path, judge, t0 = tmp_path / "a.db", Judge(), time.time() - 11.6 * DAY_S
    setup = ScoringSetup(METRIC, judge=judge)
    (metric,) = setup.metrics
    with open_store(path, mode="own", clock=lambda: t0) as store:
        fill(store, t0, version=metric.card.version, hash_=setup.scorer.judged_by(metric).hash)
    with RecordingServer() as slack:
        options = {"canaries": 20, "notify": [f"slack:{slack.address}/services/T/B/x"]}
        for day in (1.0, 2.0, 2.5, 8.9):
            work(path, judge, t0 + day * DAY_S, **options)
        assert 3 * 20 == len(judge.prompts), "one round a day, and none after half a day"
        assert "canaries: 20 scored at" in run_command("watch", path).stdout
        judge.level = 60
        work(path, judge, t0 + 9.0 * DAY_S + 3600, **options)
        assert 3 * 20 == len(judge.prompts), "no round is due"
        # The drop is found, and the judge is asked at once. Without that it would be asked a day after the last round.
        work(path, judge, t0 + 9.5 * DAY_S, **options)
        texts = [json.loads(request.content)["text"] for request in slack.requests]
    assert 4 * 20 == len(judge.prompts)
    alarms = [text for text in texts if text.startswith("*ALARM 1")]
    assert [False, True] == ["the judge changed" in text.partition("\n")[0] for text in alarms]
    assert "stricter: 20 canaries -20.0 [-20.0, -20.0]" in alarms[1]
    shown = run_command("watch", path, "--alarm", "1").stdout
    assert shown.startswith("ALARM 1 · the judge changed: bot · Question relevance")


def test_a_judge_that_did_not_change_is_said_to_be_unchanged(tmp_path):
    """The application got worse: the alarm stays one of the application, without a further message."""
    path, judge, t0 = tmp_path / "a.db", Judge(), time.time() - 11.6 * DAY_S
    setup = ScoringSetup(METRIC, judge=judge)
    (metric,) = setup.metrics
    with open_store(path, mode="own", clock=lambda: t0) as store:
        fill(store, t0, version=metric.card.version, hash_=setup.scorer.judged_by(metric).hash)
    for day in (1.0, 9.5):
        work(path, judge, t0 + day * DAY_S, canaries=20, notify=["webhook:http://127.0.0.1:9/x"])
    with open_store(path, mode="read") as store, store.watch.read() as tables:
        (alarm,) = all_alarms(tables)
    assert (0.0, 20, False) == (alarm.judge.drop, alarm.judge.n, alarm.judge_explains)
    with open_store(path, mode="read") as store:
        assert {"1:alarm", "1:follow_up"} >= {row.item_id for row in store.deliveries.read()} != set()
    assert "judge      unchanged: 20 canaries +0.0 [+0.0, +0.0]" in run_command("watch", path, "--alarm", "1").stdout


def test_the_set_is_fixed_keeps_its_texts_and_is_given_up(tmp_path):
    """Retention removes all texts but those of canaries, until canaries are turned off."""
    path, judge = tmp_path / "a.db", Judge()
    with open_store(path, mode="own", clock=lambda: T0) as store:
        fill(store, T0, version="1", hash_="j1", days=2)
        with store.watch.change() as tables:
            first = begin_round(tables, now=T0 + DAY_S, options=Watch(canaries=20))
        assert 20 == len(set(first))
        assert 220 == store.upkeep.remove_texts(before=T0 + 99 * DAY_S, limit=999)
        assert set(first) == {trace.trace_id for trace in store.traces.read()}
        assert 20 == store.upkeep.count_texts(before=T0 + 99 * DAY_S).labeled
        with store.watch.change() as tables:
            assert begin_round(tables, now=T0 + 1.5 * DAY_S, options=Watch(canaries=20)) is None
            assert first == begin_round(tables, now=T0 + 40 * DAY_S, options=Watch(canaries=20))
            assert begin_round(tables, now=T0 + 99 * DAY_S, options=Watch()) is None
            assert [] == tables.canaries.read()
        assert 20 == store.upkeep.remove_texts(before=T0 + 99 * DAY_S, limit=999)
    assert judge.prompts == []


def test_too_few_requests_wait(tmp_path):
    """A round needs the whole set."""
    with open_store(tmp_path / "a.db", mode="own", clock=lambda: T0) as store:
        fill(store, T0, version="1", hash_="j1", days=0.1)
        with store.watch.change() as tables:
            assert begin_round(tables, now=T0 + DAY_S, options=Watch(canaries=20)) is None
            assert 12 == len(begin_round(tables, now=T0 + DAY_S, options=Watch(canaries=12)))


def test_what_the_budget_prevents_is_left_out():
    """The calls are those of the worker's judge, so its budget holds."""
    judge = FakeJudge(70, fail=lambda _: JudgeError("spent", kind="budget") if len(judge.prompts) > 3 else None)
    traces = [Trace(trace_id=f"t{i}", started_at=T0, query=f"q{i}?", response="r.") for i in range(6)]
    counted = []
    done = asyncio.run(score_canaries(ScoringSetup(METRIC, judge=judge), traces, at=T0, spend=counted.append))
    assert (3, T0) == (len(done.scores), done.at)
    assert 6 == len(counted), "the daily budget counts them, too"


def test_a_metric_that_does_not_apply_has_not_failed(caplog):
    """A request without a reference cannot be compared with it."""
    trace = Trace(trace_id="t", started_at=T0, query="q?", response="r.")
    done = asyncio.run(score_canaries(ScoringSetup("ccrs.ac", judge=FakeJudge()), [trace], at=T0))
    assert ([], []) == (done.scores, [record.getMessage() for record in caplog.records])


def test_replies_are_not_from_the_cache(tmp_path):
    """A judge that has changed would look unchanged."""
    traces = [Trace(trace_id=f"t{i}", started_at=T0, query=f"q{i}?", response="r.") for i in range(6)]

    async def score() -> list[int]:
        async with ScoringSetup(METRIC, judge=OpenAICompatibleJudge(server.url, cache=tmp_path)) as setup:
            await setup.scorer.prepare()
            rounds = [await score_canaries(setup, traces, at=T0) for _ in range(2)]
        return [done.usage.calls for done in rounds]

    with FakeJudgeServer() as server:
        assert [6, 6] == asyncio.run(score())


@pytest.mark.parametrize("value", [3, -1, 201, True, 20.0, "20"])
def test_bad_numbers_are_refused(value):
    """With the value and the rule."""
    with pytest.raises(ConfigurationError, match=r"canaries must be 0, or an integer from 5 to 200"):
        read_table(Watch, {"canaries": value}, source="x")
