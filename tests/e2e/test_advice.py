"""Commands that Ragstone prints for pending requests, run exactly as they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import run_in_new_process
from fake_servers import FakeJudgeServer
from pending_requests import N_REQUESTS, capture, check_outage, check_parts, follow, read_page
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.schema import Score
from ragstone.store import open_store
from ragstone.worker import read_ledger

STORE = "my app.db"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJudgeServer:
    """A judge that is down. A `with` block starts it on the same port."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGSTONE_JUDGE", raising=False)
    with FakeJudgeServer() as made:
        pass
    return made


@pytest.mark.parametrize(
    ("command", "scoring"),
    [(None, "thread"), *((name, "thread") for name in ("status", "report", "traces", "view")), (None, "process")],
)
def test_each_printed_command_scores_with_the_judge_of_the_application(
    server: FakeJudgeServer, command: str | None, scoring: str
) -> None:
    """A command that the monitor, `status`, `report`, `traces` or the page of `view` shows scores everything with the named judge and ends."""
    text = capture(STORE, judge=server.url, scoring=scoring)
    if command == "view":
        text = read_page(STORE)
    elif command is not None:
        done = run_in_new_process(command, STORE)
        text = done.stdout + done.stderr
    assert f"{N_REQUESTS} requests are pending" in text

    with server:
        done = follow(text)

    assert 0 == done.returncode, done.stderr
    with open_store(STORE, mode="read") as store:
        outcomes = list(store.outcomes.read())
    assert {("ccrs.qr", "fake-judge"), ("ccrs.id", "fake-judge")} == {
        (outcome.metric, str(outcome.judge).partition(" ")[0]) for outcome in outcomes
    }
    assert 2 * N_REQUESTS == len(outcomes)
    assert (N_REQUESTS, 0) == ((total := read_ledger(STORE).total).scored, total.pending)
    assert 0 == run_in_new_process("report", STORE).returncode


def test_a_printed_command_has_the_settings_of_a_judge_with_secrets(server: FakeJudgeServer) -> None:
    """A user who replaces JUDGE and sets what is named as not stored scores with the model and score mode of the plan."""
    url = server.url.replace("//", "//user:s3cret@")
    judge = {"url": url, "model": "fake-judge", "score_mode": "sampled", "headers": {"x-team": "s3cret"}}
    with Monitor(store=STORE, judge=judge, metrics="ccrs.qr", scoring="none") as monitor:
        monitor.record(TraceDraft(query="Why?", response="Because."))
    text = run_in_new_process("status", STORE).stdout
    assert (
        f"which is {server.url} without its secret parts, and set judge.headers, which the store does not keep" in text
    )
    assert "s3cret" not in text

    with server:
        done = follow(text.replace("--judge=JUDGE", f"--judge={url}"), RAGSTONE_JUDGE_HEADERS='{"x-team": "s3cret"}')

    assert 0 == done.returncode, done.stderr
    with open_store(STORE, mode="read") as store:
        assert ["sampled"] == [outcome.method for outcome in store.outcomes.read() if isinstance(outcome, Score)]


def test_a_worker_without_options_uses_the_judge_and_metrics_on_record(server: FakeJudgeServer) -> None:
    """A worker without `--judge` and `--metrics` scores with those of the monitor if the store has them on record."""
    capture(STORE, judge=server.url)

    with server:
        done = run_in_new_process("worker", STORE, "--until-idle")

    assert 0 == done.returncode, done.stderr
    assert {"ccrs.qr": N_REQUESTS, "ccrs.id": N_REQUESTS} == {
        name: row.scored for name, row in read_ledger(STORE).metrics.items()
    }
    assert server.calls > 0


@pytest.mark.parametrize("scoring", ["thread", "process"])
def test_a_judge_that_nobody_named_is_not_on_record(server: FakeJudgeServer, scoring: str) -> None:
    """The record of a monitor without a judge does not name the baseline, so that a later worker refuses to use it."""
    capture(STORE, judge="", metrics="ccrs.qr", scoring=scoring)

    assert {"scoring.metrics": ["ccrs.qr"], "judge.url": None} == read_ledger(STORE).plans[-1].settings
    done = run_in_new_process("worker", STORE, "--until-idle")
    assert (2, True) == (done.returncode, "needs a judge" in done.stderr)


def test_no_hint_lets_another_judge_score_the_requests_of_an_application(server: FakeJudgeServer) -> None:
    """If the judge of an application is down, each printed command, followed literally, leaves all scores to this judge."""
    check_outage(STORE, server)


def test_only_the_missing_metrics_are_scored_when_a_judge_appears(server: FakeJudgeServer) -> None:
    """Without a judge, metrics that need none are scored. A worker with one adds only the others, while the application runs."""
    check_parts(STORE, server)
