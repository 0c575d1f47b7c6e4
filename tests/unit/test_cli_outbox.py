"""`ragstone outbox`, in process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run_command
from completions import complete
from ragstone.schema import Captured, Score, Trace
from ragstone.store import PlannedMetric, SqliteStore

PLANNED = PlannedMetric(name="ccrs.qr", version="1", judge_hash="j")


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store of three outcomes for two sinks: one refuses all of them, the other takes all but one."""
    path = tmp_path / "a.db"
    with SqliteStore.open(path, mode="own") as opened:
        opened.plan.set([PLANNED], ["refuses", "takes"])
        key = {"metric": "ccrs.qr", "metric_version": "1", "judge_hash": "j"}
        outcomes = [Score(sample_id=f"t{n}", value=1.0, method="exact", **key) for n in range(3)]
        for n, outcome in enumerate(outcomes):
            opened.traces.ingest("s", n + 1, [Captured(trace=Trace(trace_id=f"t{n}", started_at=1.0, query="Why?"))])
            complete(opened, f"t{n}", [outcome])
        ids = [outcome.id for outcome in outcomes]
        opened.deliveries.mark("refuses", ids, "failed", error="no such project")
        opened.deliveries.mark("takes", ids[:1], "failed", error="too large")
        opened.deliveries.mark("takes", ids[1:], "sent")
    return str(path)


def outbox(*arguments: str) -> dict[str, object]:
    return json.loads(run_command("store", "deliveries", *arguments, "--json").stdout)


def counts(store: str, *arguments: str) -> tuple[object, int]:
    found = outbox(store, *arguments)
    return found["n"], len(found["deliveries"])


def test_the_number_of_deliveries_is_of_the_sink_and_state_that_were_asked_for(store: str) -> None:
    """Also if fewer are listed."""
    assert (4, 4) == counts(store)
    assert (3, 3) == counts(store, "--sink", "refuses")
    assert (3, 1) == counts(store, "--sink", "refuses", "--limit", "1")
    assert (1, 1) == counts(store, "--sink", "takes")
    assert (2, 2) == counts(store, "--sink", "takes", "--state", "sent")


def test_one_sink_can_be_sent_again(store: str) -> None:
    """The other sink's deliveries stay as they are."""
    assert {"requeued": 1} == outbox(store, "--sink", "takes", "--retry")
    assert (1, 1) == counts(store, "--state", "pending")
    assert (3, 3) == counts(store)
