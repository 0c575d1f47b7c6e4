"""The worker's monitoring under `kill -9`: the states are those of an uninterrupted run, bit for bit."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragstone.store import open_store
from watch_process import catch_up, fill_store, work
from watched_store import snapshot

T0 = 1_790_000_000.0
DAYS = 10
SUPPORT = Path(__file__).parents[1] / "support"


def start(path, mode="work"):
    """A process at work, which has the store open."""
    process = subprocess.Popen(
        [sys.executable, str(SUPPORT / "watch_process.py"), str(path), str(T0), str(DAYS), mode],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(SUPPORT)},
    )
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(3000)])])
def test_states_equal_an_uninterrupted_run(tmp_path, kills):
    """Killed at random points and started again: equal streams, budget and alarms, and each event is queued once."""
    whole, killed = tmp_path / "whole.db", tmp_path / "killed.db"
    rng, interrupted = random.Random(kills), 0
    work(str(whole), T0, DAYS)
    for _ in range(kills):
        with start(killed) as process:
            time.sleep(rng.uniform(0.0, 0.6))
            process.kill()
        interrupted += process.returncode < 0
        if not interrupted:
            break
    with start(killed) as process:
        process.stdout.read()
    assert 0 == process.returncode
    assert interrupted > 0
    with open_store(whole, mode="read") as one, open_store(killed, mode="read") as other:
        assert snapshot(one) == snapshot(other)
        assert snapshot(one)[2]
        ids = [[delivery.id for delivery in store.deliveries.due_alarms("slack:x", limit=99)] for store in (one, other)]
        assert ids[0] == ids[1] != []


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(3000)])])
def test_large_queue_keeps_its_place(tmp_path, kills):
    """Killed while it folds what was queued during a stop: what is folded stays, and nothing is folded twice."""
    whole, killed = tmp_path / "whole.db", tmp_path / "killed.db"
    for path in (whole, killed):
        fill_store(str(path), T0, DAYS)
    catch_up(str(whole), T0, DAYS, limit=None)
    rng, left = random.Random(kills), []
    for _ in range(kills):
        with start(killed, "catch_up") as process:
            time.sleep(rng.uniform(0.0, 0.02 if kills > 4 else 0.1))
            process.kill()
        with open_store(killed, mode="read") as store, store.watch.read() as tables:
            left.append(len(tables.queue.closed_outcomes(now=1e12, gap_s=0.0, max_s=0.0)))
    # The first kills interrupt the work, and no kill brings outcomes back.
    assert 0 < left[0] <= DAYS * 100
    assert sorted(left, reverse=True) == left
    catch_up(str(killed), T0, DAYS)
    with open_store(whole, mode="read") as one, open_store(killed, mode="read") as other:
        assert snapshot(one) == snapshot(other)
        assert snapshot(one)[2]
        ids = [[delivery.id for delivery in store.deliveries.due_alarms("slack:x", limit=99)] for store in (one, other)]
        assert ids[0] == ids[1] != []
