"""The plan of a store: a monitor writes what decides its scores, and commands score with it or say what differs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from builders import make_trace
from command_line import Done, run_command
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.schema import Captured
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from ragstone.worker import advise, read_ledger

STORE = "my app.db"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no model in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGSTONE_JUDGE", raising=False)
    return tmp_path


def capture(n: int = 1, **arguments: Any) -> None:
    """Capture requests in a monitor that does not score."""
    settings: dict[str, Any] = {"metrics": "ccrs.qr", "judge": "lexical", "scoring": "none"} | arguments
    with Monitor(store=STORE, **settings) as monitor:
        for _ in range(n):
            monitor.record(TraceDraft(query="Why?", response="Because."))
        assert monitor.flush()


def commands(text: str) -> list[list[str]]:
    """Return the arguments of the commands of workers in a text."""
    found = re.findall(r"ragstone worker (?:'[^']*'|\S+)(?: --\S+| '--[^']*')*", text)
    return [shlex.split(command)[1:] for command in found]


def judges() -> dict[str, int]:
    """Return the number of outcomes by judge."""
    counts: dict[str, int] = {}
    with SqliteStore.open(STORE, mode="read") as store:
        for outcome in store.outcomes.read():
            counts[str(outcome.judge)] = counts.get(str(outcome.judge), 0) + 1
    return counts


def words(done: Done) -> str:
    """Return what a command has printed, without line breaks."""
    return " ".join((done.stdout + done.stderr).split())


def test_a_monitor_that_does_not_score_writes_its_plan() -> None:
    """`scoring="none"` writes metrics and judge with each request, and a worker without options scores with them."""
    capture(2, judge={"url": "lexical"}, metrics=["ccrs.qr", "exact_match"])
    (plan,) = read_ledger(STORE).plans
    assert {"scoring.metrics": ["ccrs.qr", "exact_match"], "judge.url": "lexical"} == plan.settings
    assert 2 == plan.pending
    done = run_command("worker", STORE, "--until-idle")
    assert 0 == done.returncode, done.stderr
    assert {"lexical baseline": 2, "None": 2} == judges()
    assert {"ccrs.qr", "exact_match"} == read_ledger(STORE).metrics.keys()


@pytest.mark.parametrize("is_drained", [False, True])
@pytest.mark.parametrize(
    ("options", "environment", "key", "planned", "own"),
    [
        (["--judge", "lexical"], {}, "judge.url", "http://127.0.0.1:9/v1", "lexical"),
        ([], {"RAGSTONE_JUDGE": "lexical"}, "judge.url", "http://127.0.0.1:9/v1", "lexical"),
        (["--judge-model", "n"], {}, "judge.model", "m", "n"),
        (["--metrics", "ccrs.id"], {}, "scoring.metrics", "ccrs.qr", "ccrs.id"),
    ],
)
def test_a_worker_that_differs_from_the_plan_says_what_differs(
    options: list[str], environment: dict[str, str], key: str, planned: str, own: str, *, is_drained: bool
) -> None:
    """A worker with other settings ends with exit code 2, names the key and both values, and changes nothing."""
    capture(judge={"url": "http://127.0.0.1:9/v1", "model": "m"})
    if is_drained:
        plan = read_ledger(STORE).plans[0].settings
        with SqliteStore.open(STORE, mode="own") as store:
            store.traces.ingest("other", 1, [Captured(trace=make_trace("t1"), plan=plan)])
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}

    done = run_command("worker", STORE, "--until-idle", *options, **environment)

    assert 2 == done.returncode, done.stderr
    text = words(done)
    for part in (
        f"{key}: plan {planned}, here {own}",
        "--replan",
        f"plan {read_ledger(STORE).plans[0].id}",
        "my app.db",
    ):
        assert part in text
    assert before == {path: path.read_bytes() for path in before}


def test_replan_scores_pending_and_later_requests_with_the_new_settings() -> None:
    """`--replan` replaces the plan for pending requests, and for those that the same monitor captures later."""
    capture(judge="http://127.0.0.1:9/v1")
    assert 0 == run_command("worker", STORE, "--until-idle", "--judge", "lexical", "--replan").returncode
    capture(judge="http://127.0.0.1:9/v1")
    assert 0 == run_command("worker", STORE, "--until-idle").returncode
    assert {"lexical baseline": 2} == judges()
    assert 0 == read_ledger(STORE).total.pending


def test_a_redeployed_monitor_leaves_requests_of_the_earlier_plan_with_their_plan() -> None:
    """A monitor with a new plan scores its own requests. The earlier ones are named with a command that uses their plan."""
    capture(2, metrics="ccrs.qr")
    with Monitor(store=STORE, metrics="ccrs.id", judge="lexical") as monitor:
        monitor.record(TraceDraft(query="Why?", response="Because."))
        assert monitor.drain()
    ledger = read_ledger(STORE)
    earlier, current = ledger.plans
    assert (2, 0) == (earlier.pending, current.pending)
    assert {"ccrs.id": 1} == {name: row.scored for name, row in ledger.metrics.items()}
    (sentence,) = advise(STORE, ledger)
    assert f"2 requests are pending with plan {earlier.id} (judge.url = lexical, scoring.metrics = ccrs.qr)" in sentence
    (command,) = commands(sentence)
    assert ["worker", STORE, "--until-idle", f"--plan={earlier.id}"] == command
    assert 0 == run_command(*command).returncode
    assert 0 == read_ledger(STORE).total.pending
    with SqliteStore.open(STORE, mode="read") as store:
        assert ["ccrs.id", "ccrs.qr", "ccrs.qr"] == sorted(outcome.metric for outcome in store.outcomes.read())


def test_two_monitors_with_different_plans_lose_nothing() -> None:
    """Requests of both plans are counted and named, and the printed commands score each with its own metrics."""
    capture(1, metrics="ccrs.qr")
    capture(2, metrics="ccrs.id")
    capture(1, metrics="ccrs.qr")
    text = run_command("status", STORE).stdout
    assert "2 requests are pending with plan" in text
    found = commands(text)
    assert 2 == len(found)
    for command in found:
        assert 0 == run_command(*command).returncode
    with SqliteStore.open(STORE, mode="read") as store:
        assert ["ccrs.id", "ccrs.id", "ccrs.qr", "ccrs.qr"] == sorted(
            outcome.metric for outcome in store.outcomes.read()
        )
    assert 0 == read_ledger(STORE).total.pending


def test_the_plan_of_a_rolled_back_monitor_applies_again() -> None:
    """If an application returns to its earlier settings, a worker without options scores with these."""
    for metrics in ("ccrs.qr", "ccrs.id", "ccrs.qr"):
        capture(metrics=metrics)
        with SqliteStore.open(STORE, mode="own"):
            pass
        assert 0 == run_command("worker", STORE, "--until-idle").returncode
        assert [metrics] == read_ledger(STORE).plans[-1].settings["scoring.metrics"]
    assert 0 == read_ledger(STORE).total.pending


def test_a_store_without_the_judge_of_its_plan_is_completed_by_a_worker() -> None:
    """A plan without a judge is not a difference, and the worker that names one scores its requests."""
    capture(judge=None)
    assert None is read_ledger(STORE).plans[-1].settings["judge.url"]
    assert 0 == run_command("worker", STORE, "--until-idle", "--judge", "lexical").returncode
    assert {"lexical baseline": 1} == judges()


def test_a_worker_that_names_judge_and_reader_completes_a_plan_without_a_judge() -> None:
    """Without a judge, the plan does not have a reader either, so that a worker may name both."""
    capture(judge=None, metrics="udcg")
    done = run_command("worker", STORE, "--until-idle", "--judge", "lexical", "--reader", "lexical")
    assert (0, 0) == (done.returncode, read_ledger(STORE).total.pending), done.stderr


def test_a_group_and_its_metrics_are_the_same_plan() -> None:
    """A worker that names the metrics of a group one by one does not differ from a plan with the group."""
    capture(metrics="ccrs")
    names = "ccrs.cc,ccrs.qr,ccrs.id,ccrs.ac,ccrs.ir"
    done = run_command("worker", STORE, "--until-idle", "--metrics", names)
    assert 0 == done.returncode, done.stderr
    assert 0 == read_ledger(STORE).total.pending


@pytest.mark.parametrize(
    ("judge", "shown", "way_out"),
    [
        ("http://user:secret@127.0.0.1:9/v1", "secret:http://127.0.0.1:9/v1 (url)", "a store does not keep"),
        (FakeJudge(), "object:fake judge", "only the application can make"),
    ],
)
def test_a_worker_that_lacks_a_part_of_the_plan_names_it(judge: Any, shown: str, way_out: str) -> None:
    """A worker refuses a plan with an object or a secret, names it, and the store does not contain the secret."""
    capture(judge=judge)
    done = run_command("worker", STORE, "--until-idle")
    text = words(done)
    assert 2 == done.returncode
    for part in (shown, way_out, "--judge"):
        assert part in text
    stored = [path.read_bytes() for path in Path().rglob("*") if path.is_file()]
    assert not any(b"user:secret" in content for content in stored)


def test_a_metric_that_is_not_installed_is_named() -> None:
    """A worker refuses a plan with an unknown metric, names it, and scores with others and `--replan`."""
    plan = {"scoring.metrics": ["their.metric"], "judge.url": "lexical"}
    with SqliteStore.open(STORE, mode="own") as store:
        store.traces.ingest("app", 1, [Captured(trace=make_trace("t1"), plan=plan)])
    done = run_command("worker", STORE, "--until-idle")
    assert 2 == done.returncode
    for part in ("of the store 'my app.db'", "their.metric", "--metrics and --replan"):
        assert part in words(done)
    assert 0 == run_command("worker", STORE, "--until-idle", "--metrics", "ccrs.qr", "--replan").returncode
    assert {"lexical baseline": 1} == judges()


def test_default_metrics_are_said() -> None:
    """A worker that names a judge for a store without a plan says that the default metrics are scored."""
    with SqliteStore.open(STORE, mode="own") as store:
        store.traces.ingest("app", 1, [Captured(trace=make_trace("t1"))])
    done = run_command("worker", STORE, "--until-idle", "--judge", "lexical")
    assert (0, True) == (done.returncode, "no metrics are named, so ccrs is scored" in done.stderr)
    again = run_command("worker", STORE, "--until-idle")
    assert (0, False) == (again.returncode, "no metrics are named" in again.stderr)


def test_an_unknown_plan_is_refused() -> None:
    """`--plan` with an id that the store does not have ends with exit code 2 and names those that it has."""
    capture()
    done = run_command("worker", STORE, "--plan", "7")
    assert (2, True) == (
        done.returncode,
        f"does not have this plan (its plans: {read_ledger(STORE).plans[0].id})" in words(done),
    )


def test_the_rows_of_the_ledger_add_up_to_all_requests() -> None:
    """If requests were scored with another plan, each metric's row counts them, so that all rows have the same sum."""
    capture(3)
    assert 0 == run_command("worker", STORE, "--until-idle").returncode
    assert 0 == run_command("worker", STORE, "--until-idle", "--metrics", "ccrs.id", "--replan").returncode
    text = run_command("status", STORE).stdout
    rows = [line.split() for line in text.splitlines() if re.match(r"(traces|ccrs\.id) +\d", line)]
    assert [
        ["traces", "3", "3", "0", "0", "0", "0", "0", "0"],
        ["ccrs.id", "3", "0", "0", "0", "0", "0", "0", "3"],
    ] == rows
    assert "3 stored outcomes are of metrics, versions or judges that do not score the store now" in text


def test_a_worker_logs_requests_of_other_plans_once() -> None:
    """A worker that leaves requests of another plan alone says how many they are, and with which command they are scored."""
    capture(2, metrics="ccrs.qr")
    other = read_ledger(STORE).plans[0].id
    capture(metrics="ccrs.id")
    done = run_command("worker", STORE, "--until-idle")
    assert 0 == done.returncode
    assert 1 == done.stderr.count(f"2 requests are pending with plan {other}")
    assert f"--plan={other}" in done.stderr


@pytest.mark.parametrize("command", ["status", "report", "traces"])
def test_every_command_names_the_requests_of_each_plan(command: str) -> None:
    """`status`, `report` and `traces` print the same command for the pending requests of another plan."""
    capture(metrics="ccrs.id")
    assert 0 == run_command("worker", STORE, "--until-idle").returncode
    current = read_ledger(STORE).plans[-1].id
    capture(metrics="ccrs.qr")
    with Monitor(store=STORE, metrics="ccrs.id", judge="lexical") as monitor:
        monitor.record(TraceDraft(query="Why?", response="Because."))
        assert monitor.drain()
    earlier = next(plan.id for plan in read_ledger(STORE).plans if plan.id != current)
    assert [["worker", STORE, "--until-idle", f"--plan={earlier}"]] == commands(words(run_command(command, STORE)))


def test_a_worker_of_an_earlier_plan_gives_the_current_metrics_back() -> None:
    """After a worker has completed the requests of an earlier plan, `status` counts those of the current plan as before."""
    capture(2, metrics="ccrs.qr")
    earlier = read_ledger(STORE).plans[0].id
    capture(3, metrics="ccrs.id")
    assert 0 == run_command("worker", STORE, "--until-idle").returncode
    assert 0 == run_command("worker", STORE, "--until-idle", f"--plan={earlier}").returncode
    ledger = read_ledger(STORE)
    assert (5, 0) == (ledger.total.scored, ledger.total.pending)
    assert {"ccrs.id": 3} == {name: row.scored for name, row in ledger.metrics.items()}
    assert 2 == sum(ledger.other_outcomes.values())


@pytest.mark.parametrize(
    "command", ["replay rows.jsonl --store {0} --metrics ccrs.qr", "store backfill {0} --metrics ccrs.qr --since -1d"]
)
def test_a_command_that_keeps_the_plan_refuses_another_judge(command: str) -> None:
    """`replay` and `store backfill` name key and both values if their judge is not that of the plan, and score nothing."""
    capture(2, metrics="ccrs.id")
    assert 0 == run_command("worker", STORE, "--until-idle").returncode
    Path("rows.jsonl").write_text(
        '{"query": "Why?", "contexts": ["Because."], "response": "Because."}', encoding="utf-8"
    )
    before = read_ledger(STORE)
    arguments = [word.format(STORE) for word in command.split()]
    for options, variables in (
        (["--judge", "http://127.0.0.1:9/v1"], {}),
        ([], {"RAGSTONE_JUDGE": "http://127.0.0.1:9/v1"}),
    ):
        done = run_command(*arguments, *options, **variables)
        assert 2 == done.returncode, words(done)
        assert "judge.url: plan lexical, here http://127.0.0.1:9/v1" in words(done)
        assert "ragstone worker --replan" in words(done)
    assert before == read_ledger(STORE)
    assert 0 == run_command(*arguments).returncode


def test_metrics_that_a_capturing_monitor_does_not_name_are_left_to_the_worker() -> None:
    """The default metrics of a monitor that does not score are not in its plan, so any metrics of a worker apply."""
    with Monitor(store=STORE, judge="lexical", scoring="none") as monitor:
        monitor.record(TraceDraft(query="Why?", response="Because."))
    assert None is read_ledger(STORE).plans[-1].settings["scoring.metrics"]
    assert 0 == run_command("worker", STORE, "--until-idle", "--metrics", "ccrs.qr").returncode
    assert {"ccrs.qr"} == read_ledger(STORE).metrics.keys()
    assert 0 == read_ledger(STORE).total.pending


def test_reasons_of_a_report_come_from_the_judge_of_the_plan() -> None:
    """`report --reasons` uses the plan's judge if nothing else names one, and an option comes first."""
    capture()
    assert 0 == run_command("worker", STORE, "--until-idle").returncode
    done = run_command("report", STORE, "--reasons", "1")
    assert (2, True) == (done.returncode, "lexical baseline" in words(done)), words(done)
    named = run_command("report", STORE, "--reasons", "1", "--judge", "http://127.0.0.1:9/v1")
    assert "lexical baseline, which" not in words(named)


def test_requests_with_plans_arrive_and_are_claimed_without_reading_those_that_are_pending() -> None:
    """A request with the plan of a store, or with another one, costs the same if many requests are pending."""
    plans = [{"judge.url": url, "scoring.metrics": None} for url in ("http://a/v1", "http://b/v1")]
    with SqliteStore.open(STORE, mode="own") as store:
        store.traces.ingest("app", 1, [Captured(trace=make_trace(f"t{i}"), plan=plans[i % 2]) for i in range(3000)])
        steps: list[int] = []
        with store._database.write() as db:
            db.set_progress_handler(lambda: steps.append(1), 100)
        for i, plan in enumerate(plans):
            store.traces.ingest("app", 2 + i, [Captured(trace=make_trace(f"new{i}"), plan=plan)])
        assert len(steps) < 100
        assert [1501, 1501] == [plan.pending for plan in store.ledger().plans]


def test_a_new_plan_applies_although_the_clock_was_put_back(tmp_path):
    """The plan of the worker that starts last is the current one, also an hour before the other plan in time."""
    now = [1e9]
    with SqliteStore.open(tmp_path / "r.db", mode="own", clock=lambda: now[0]) as store:
        first = store.plan.use({"scoring.metrics": ["ccrs"]}, {})
        now[0] -= 3600
        second = store.plan.use({"scoring.metrics": ["udcg"]}, {})
        assert [first, second] == [plan.id for plan in store.ledger().plans]
