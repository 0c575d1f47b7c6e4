"""`ragstone store backfill`: old requests get the scores of a new metric, once, within a budget, and never an alarm."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from command_line import run_command
from completions import complete
from fake_servers import FakeJudgeServer
from ragstone.errors import DataError
from ragstone.metrics import resolve_metrics
from ragstone.schema import Captured, NotApplicable, Passage, SampledOut, Score, Trace, Usage
from ragstone.settings import Limits, Watch
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.store._watch_types import EndedBackfill
from ragstone.testing import FakeJudge
from ragstone.watch import Scale, fold, open_alarms, read_streams
from ragstone.worker import Backfill, ScoringSetup
from watch_tables import DAY_S, KEY, MemoryTables, sessions

NOW = time.time()
OLD = PlannedMetric(name="token_f1", version="1")


def make_trace(k: int, *, session: str | None = None) -> Trace:
    """Request `k`, one for each hour before now, newest first."""
    return Trace(
        trace_id=f"t{k}",
        started_at=NOW - 3600.0 * (k + 1),
        query=f"When does ferry {k} leave?",
        response="It leaves at nine.",
        contexts=(Passage(text="The ferry leaves at nine.", id="p"),),
        reference=("At nine.",),
        session_id=session,
        app="bot",
    )


def old_score(trace_id: str) -> Score:
    return Score(sample_id=trace_id, metric=OLD.name, metric_version=OLD.version, value=0.5, method="exact")


def fill(path, n=20, *, sessions_of=1):
    """A store of `n` requests that an earlier plan has scored, one pending and one sampled out."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([OLD], ["jsonl:old"])
        traces = [make_trace(k, session=f"s{k // sessions_of}") for k in range(n + 1)]
        out = SampledOut(trace_id="out", started_at=NOW - 60, inclusion_probability=0.5)
        store.traces.ingest("a", 1, [*(Captured(trace=trace) for trace in traces), out])
        for trace in traces[:n]:
            complete(store, trace.trace_id, [old_score(trace.trace_id)])
    return path


@pytest.fixture
def path(tmp_path):
    return fill(tmp_path / "a.db")


def backfill(path, *arguments):
    metrics = () if "--metrics" in arguments else ("--metrics", "rouge_l")
    return run_command("store", "backfill", path, *metrics, "--since", "-10d", *arguments)


def values(path, metric="rouge_l"):
    with SqliteStore.open(path, mode="read") as store:
        return list(store.outcomes.read(metric=metric))


def test_scores_what_is_there(path):
    """All finished requests, and nothing else; the others are told with their reason; a second run finds nothing."""
    done = backfill(path)
    assert 0 == done.returncode
    assert "20 requests scored, 0 failures" in done.stdout
    assert "1 not possible: not captured, because of sampling" in done.stdout
    assert "1 pending: the worker scores them" in done.stdout
    assert {f"t{k}" for k in range(20)} == {o.sample_id for o in values(path)}
    rest = backfill(path, "--json")
    again = json.loads(rest.stdout)
    assert 0 == rest.returncode, rest.stderr
    assert (0, 20, 0) == (again["n_done"], again["scored"], again["unscored"])
    assert 20 == len(values(path))
    assert "backfill of rouge_l: 0 requests scored" in run_command("status", path).stdout


def test_removed_texts_are_counted(path):
    """Requests whose text retention has removed cannot be scored, and are counted."""
    with SqliteStore.open(path, mode="own") as store:
        store.deliveries.mark("jsonl:old", [o.id for o in store.outcomes.read()], "sent")
        assert 5 == store.upkeep.remove_texts(before=NOW - 3600 * 15.5)
    done = backfill(path)
    assert "15 requests scored" in done.stdout
    assert "5 not possible: retention has removed their text" in done.stdout


def test_dry_run(path):
    """The cost is told before, and nothing is stored."""
    command = ("store", "backfill", path, "--metrics", "ccrs.qr", "--since", "-10d", "--judge", "http://127.0.0.1:9/v1")
    plan = run_command(*command, "--dry-run", "--set", "limits.call_latency_s=2")
    assert "20 requests would be scored" in plan.stdout
    assert "about 20 calls" in plan.stdout
    assert not values(path, "ccrs.qr")


def test_the_command_stops_at_its_budget(path):
    """The newest requests are scored, the rest is counted, and the same command resumes."""
    with FakeJudgeServer() as server:
        command = ("--metrics", "ccrs.qr", "--judge", server.url, "--set=limits.concurrency=1")
        done = backfill(path, *command, "--set", "budget.calls=5")
        assert 4 == done.returncode, done.stderr
        # One call found out what the endpoint can do.
        assert "4 requests scored, 0 failures, 4 calls" in done.stdout
        assert "Stopped: the budget of the models is reached. 16 requests are left" in done.stdout
        assert 5 == server.calls
        assert {f"t{k}" for k in range(4)} == {o.sample_id for o in values(path, "ccrs.qr")}
        rest = backfill(path, *command)
        assert (0, 20) == (rest.returncode, len(values(path, "ccrs.qr"))), rest.stderr
        assert "16 requests scored" in rest.stdout


def test_dry_run_after_a_backfill(path, tmp_path):
    """It knows the judge of the backfill. With a changed prompt, which is another version, all requests are left."""
    (tmp_path / "own.toml").write_text('[prompts]\n"ccrs.qr" = "Rate from 0 to 100: {query} {response}"\n')
    with FakeJudgeServer() as server:
        command = ("--metrics", "ccrs.qr", "--judge", server.url)
        assert "at most 20 requests would be scored\n" in backfill(path, *command, "--dry-run").stdout
        backfill(path, *command)
        text = backfill(path, *command, "--dry-run").stdout
        assert text.startswith("0 requests would be scored, if the judge is that of the plan or of the last backfill\n")
        command = ("store", "backfill", path, *command, "--since", "-10d", "--dry-run")
        own = run_command("--config", tmp_path / "own.toml", *command)
        assert "at most 20 requests would be scored\n" in own.stdout, own.stderr


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_another_judge_than_that_of_the_plan_is_refused(path, dry_run):
    """Also by a dry run, whose estimate is of no use if the run is refused."""
    with SqliteStore.open(path, mode="own") as store:
        planned = {"scoring.metrics": ["ccrs.qr"], "judge.url": "http://127.0.0.1:9/v1", "judge.model": "m"}
        store.plan.use(planned, {})
    command = ("store", "backfill", path, "--metrics", "ccrs.qr", "--since", "-10d", *dry_run)
    refused = run_command(*command, "--judge", "http://127.0.0.1:8/v1", "--judge-model", "m")
    text = " ".join(refused.stderr.split())
    assert 2 == refused.returncode
    assert "judge.url: plan http://127.0.0.1:9/v1, here http://127.0.0.1:8/v1" in text
    assert not values(path, "ccrs.qr")


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("judge", "arguments", "message"),
    [
        ("http://127.0.0.1:9/v1", ("--set", "judge.model=n"), "judge.model: plan m, here n"),
        (
            "http://127.0.0.1:9/v1",
            ("--set", "judge.score_mode=sampled"),
            "judge.score_mode: plan not set, here sampled",
        ),
        ("object:Mine 0123456789ab", (), "which only the application can make. Name it with --judge"),
        ("secret:http://127.0.0.1:9/v1 (url)", (), "which a store does not keep. Name it with --judge"),
    ],
)
def test_what_the_plan_and_the_settings_make_together_is_refused(path, judge, arguments, message, dry_run):
    """The plan completes the settings of a judge without a URL, in a dry run as in a run."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.use({"scoring.metrics": ["ccrs.qr"], "judge.url": judge, "judge.model": "m"}, {})
    command = ("store", "backfill", path, "--metrics", "ccrs.qr", "--since", "-10d", *dry_run)
    refused = run_command(*command, *arguments)
    assert (2, True) == (refused.returncode, message in " ".join(refused.stderr.split())), refused.stderr
    assert not values(path, "ccrs.qr")


@pytest.mark.parametrize("arguments", [(), ("--judge", "http://127.0.0.1:9/v1", "--judge-model", "m")])
def test_a_dry_run_with_the_judge_of_the_plan_or_none(path, arguments):
    """It estimates the calls."""
    with SqliteStore.open(path, mode="own") as store:
        planned = {"scoring.metrics": ["ccrs.qr"], "judge.url": "http://127.0.0.1:9/v1", "judge.model": "m"}
        store.plan.use(planned, {})
    command = ("store", "backfill", path, "--metrics", "ccrs.qr", "--since", "-10d", "--dry-run")
    assert "20 requests would be scored" in run_command(*command, *arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "set the time to score"),
        (("--metrics", "ccrs"), "set the time to score"),
        (("--since", "soon"), "invalid time"),
        (("--since", "3099-01-01"), "must be before its end"),
        (("--since", "-10d", "--sample", "0"), "sample must be above 0"),
        (("--since", "-10d", "--sample", "1.5"), "sample must be above 0"),
    ],
)
def test_refusals(path, arguments, message):
    """Each message names the value or the options."""
    refused = run_command("store", "backfill", path, "--metrics", "rouge_l", *arguments)
    assert (2, True) == (refused.returncode, message in " ".join(refused.stderr.split()))


def test_share_of_the_sessions(tmp_path):
    """Whole sessions are drawn, the same in each run, and a larger share contains a smaller one."""
    path = fill(tmp_path / "a.db", 200, sessions_of=4)
    estimate = backfill(path, "--sample", "0.3", "--dry-run").stdout
    assert "about 60 requests would be scored\n" in estimate
    assert "\n  140 are, by estimate, of sessions outside of the share\n" in estimate
    text = backfill(path, "--sample", "0.3").stdout
    first = {o.sample_id for o in values(path)}
    assert f"{len(first)} requests scored" in text
    assert f"\n  {200 - len(first)} are of sessions outside of the share" in text
    assert 20 < len(first) < 110
    assert all(len(first & {f"t{4 * s + i}" for i in range(4)}) in (0, 4) for s in range(50))
    assert "0 requests scored" in backfill(path, "--sample", "0.3").stdout
    backfill(path, "--sample", "0.6")
    assert first < {o.sample_id for o in values(path)}
    with SqliteStore.open(path, mode="read") as store, store._database.read() as db:
        shares = dict(db.execute("SELECT backfilled, COUNT(*) FROM outcomes GROUP BY backfilled").fetchall())
    assert (200, len(first)) == (shares[None], shares[0.3])


def test_ledger_stays_balanced(path):
    """A planned metric that joined later counts the requests that a backfill has scored for it."""
    setup = ScoringSetup([OLD.name, "rouge_l"])
    new = setup.planned_metrics()[1]
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([OLD, new], ["jsonl:old"])
        assert 2 == store.ledger().metrics[new.name].captured
        asyncio.run(Backfill(store, ScoringSetup([new.name]), since=NOW - 10 * 3600.5, until=NOW).run())
        row = store.ledger().metrics[new.name]
        assert (12, 10, True) == (row.captured, row.scored, row.balanced)
        assert store.ledger().total.balanced
        # The plan again: nothing changes.
        store.plan.set([OLD, new], ["jsonl:old"])
        assert row == store.ledger().metrics[new.name]
        assert (new.name,) == store.traces.explain("t0").backfilled
        assert any("Backfilled" in reason for reason in store.traces.explain("t0").reasons)


def test_only_missing_metrics_are_scored(path):
    """A request that has one of two metrics is scored with the other one."""
    both = [PlannedMetric(name="rouge_l", version="1"), PlannedMetric(name="rouge_1", version="1")]
    score = old_score("t3").model_copy(update={"metric": "rouge_1"})
    with SqliteStore.open(path, mode="own") as store:
        assert 1 == store.outcomes.add_backfilled("t3", [score])
        assert 0 == store.outcomes.add_backfilled("t3", [score])
        page = store.outcomes.unscored(both, since=0.0, before=(NOW, 2**62), limit=1000)
        assert [f"t{k}" for k in range(20)] == [item.trace.trace_id for item in page.traces]
        assert [("rouge_l",)] == [item.missing for item in page.traces if item.trace.trace_id == "t3"]
        assert {("rouge_l", "rouge_1")} == {item.missing for item in page.traces if item.trace.trace_id != "t3"}
        counts = store.outcomes.count_backfill(both, since=0.0, until=NOW)
        assert (20, 0) == (counts.unscored, counts.scored)
        for trace_id in ("t20", "out", "nothing"):
            with pytest.raises(DataError, match="Only finished requests"):
                store.outcomes.add_backfilled(trace_id, [score])


def test_pages_have_each_request_once(path):
    """Although nothing is scored between two pages."""
    found: list[str] = []
    before: tuple[float, int] | None = (NOW, 2**62)
    with SqliteStore.open(path, mode="own") as store:
        while before is not None and len(found) < 100:
            page = store.outcomes.unscored(
                [PlannedMetric(name="rouge_l", version="1")], since=0.0, before=before, limit=3
            )
            found += [item.trace.trace_id for item in page.traces]
            before = page.before
    assert sorted(f"t{k}" for k in range(20)) == sorted(found)


def test_stops_at_the_budget_of_the_day(path, tmp_path):
    """Other processes of the store have spent a part of it; a day that is spent scores nothing, with exit code 4."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.add_spend(Usage(calls=4))
        setup = ScoringSetup(["ccrs.qr"], judge=FakeJudge(number=80), limits=Limits(concurrency=2))
        done = asyncio.run(Backfill(store, setup, since=0.0, until=NOW, daily_budget={"calls": 10}).run())
        assert "stopped" == done["state"]
        assert "the daily budget is reached" in done["reason"]
        assert 6 <= done["n_done"] <= 8
        assert 4 + done["n_done"] == store.plan.spent_today().calls
    config = tmp_path / "ragstone.toml"
    config.write_text("[daily_budget]\ncalls = 4\n")
    done = run_command("--config", config, "store", "backfill", path, "--metrics", "rouge_l", "--since", "-10d")
    assert (4, []) == (done.returncode, values(path))
    assert "the daily budget is reached" in done.stdout


def test_failures_of_the_judge_end_the_command_with_an_error(tmp_path):
    """The limit of `evaluate` applies if too few requests fail for the backfill to stop early."""
    with FakeJudgeServer(reply=lambda _: "no idea", structured="refused") as server:
        done = backfill(fill(tmp_path / "a.db", 3), "--metrics", "ccrs.qr", "--judge", server.url, "--json")
        assert (3, "done") == (done.returncode, json.loads(done.stdout)["state"])
        assert "exit code 3: 3 of 3 judged outcomes failed (100%)" in " ".join(done.stderr.split())
        command = ("--metrics", "ccrs.qr,rouge_l", "--judge", server.url, "--set", "limits.max_failed_share=1")
        allowed = backfill(fill(tmp_path / "b.db", 3), *command)
        assert 0 == allowed.returncode, allowed.stderr


def test_only_failures_without_a_judge_end_the_command_with_an_error(path, monkeypatch):
    """A metric with a bug fails all requests, and none of them is judged."""

    async def fail(*_):
        raise ZeroDivisionError

    (metric,) = resolve_metrics(["rouge_l"])
    monkeypatch.setattr(type(metric), "compute", fail)
    done = backfill(path)
    assert 3 == done.returncode, done.stderr
    assert "exit code 3: all outcomes failed." in done.stderr


def test_requests_that_raise_are_not_done(path, monkeypatch, caplog):
    """A backfill whose requests cannot be stored is stopped, names their number, and leaves them to the next one."""
    with SqliteStore.open(path, mode="own") as store:

        def refuse(*_, **__):
            raise DataError("not finished")

        monkeypatch.setattr(store.outcomes, "add_backfilled", refuse)
        done = asyncio.run(Backfill(store, ScoringSetup(["rouge_l"]), since=0.0, until=NOW).run())
    assert ("stopped", 0, 20) == (done["state"], done["n_done"], done["n_left"])
    assert "20 requests could not be scored" in done["reason"]
    assert "trace t7 could not be scored" in caplog.text


def test_a_store_with_a_running_worker_is_refused(path):
    """The worker owns the file, so the command names the way out and stores nothing; a dry run needs no ownership."""
    with SqliteStore.open(path, mode="own"):
        refused = backfill(path)
        assert 3 == refused.returncode
        assert "Stop the worker while this command runs." in " ".join(refused.stderr.split())
        assert "20 requests would be scored" in backfill(path, "--dry-run").stdout
    assert [] == values(path)


def test_requests_that_cannot_be_scored(path):
    """A request that failed gets "not applicable", as it would have when it arrived."""
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest(
            "b", 1, [Captured(trace=make_trace(50).model_copy(update={"status": "error", "error": "x"}))]
        )
        complete(store, "t50", [old_score("t50")])
    backfill(path)
    (found,) = (o for o in values(path) if o.sample_id == "t50")
    assert isinstance(found, NotApplicable)


SCALES = {"ccrs.qr": Scale(low=0.0, high=1.0)}
OPTIONS = Watch()
T0 = 1_790_000_000.0


def old_sessions(days, **options):
    import dataclasses

    return [dataclasses.replace(o, is_backfilled=True) for o in sessions(days, per_day=100, start=T0, **options)]


def test_baseline_at_once_and_no_alarm():
    """A backfill of four weeks with a drop in the middle gives a baseline, raises nothing, and live units are watched."""
    tables = MemoryTables()
    tables.put(*old_sessions((0, 28), drop=[(14, 0.4)]))
    fold(tables, now=T0 + 28.1 * DAY_S, options=OPTIONS, scales=SCALES)
    assert ([], [], None) == (tables.events, read_streams(tables), tables.budget())
    tables.ended = [EndedBackfill(id="b", since=T0, keys=[KEY])]
    fold(tables, now=T0 + 28.2 * DAY_S, options=OPTIONS, scales=SCALES)
    streams = {stream.kind: stream for stream in read_streams(tables)}
    assert ([], []) == (tables.ended, tables.events)
    assert "watching" == streams["score"].phase
    assert streams["score"].baseline.days >= 28
    # A drop of live requests raises an alarm, which dates from live time.
    tables.put(*sessions((28.2, 32), per_day=200, start=T0, drop=[(28.2, 0.9)]))
    fold(tables, now=T0 + 33 * DAY_S, options=OPTIONS, scales=SCALES)
    assert 1 == len(open_alarms(tables))


def test_backfill_does_not_change_a_known_baseline():
    """A stream that watches keeps its baseline and its evidence."""
    tables = MemoryTables()
    tables.put(*sessions((0, 15), per_day=250, start=T0))
    fold(tables, now=T0 + 16 * DAY_S, options=OPTIONS, scales=SCALES)
    before = {stream.kind: stream.state() for stream in read_streams(tables)}
    assert before["score"]["baseline"] is not None
    tables.put(*old_sessions((-9, -1), drop=[(-9, 0.4)]))
    tables.ended = [EndedBackfill(id="b", since=T0 - 10 * DAY_S, keys=[KEY])]
    fold(tables, now=T0 + 16.1 * DAY_S, options=OPTIONS, scales=SCALES)
    assert before == {stream.kind: stream.state() for stream in read_streams(tables)}


def test_too_few_requests_continue_to_learn():
    """Fewer than 200 sessions do not make a baseline; live sessions complete it."""
    tables = MemoryTables()
    tables.put(*old_sessions((0, 1)))
    tables.ended = [EndedBackfill(id="b", since=T0, keys=[KEY])]
    fold(tables, now=T0 + 2 * DAY_S, options=OPTIONS, scales=SCALES)
    assert {"learning"} == {stream.phase for stream in read_streams(tables)}
