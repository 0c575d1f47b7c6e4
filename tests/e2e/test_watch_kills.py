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
from watch_process import work
from watched_store import snapshot

T0 = 1_790_000_000.0
DAYS = 10
SUPPORT = Path(__file__).parents[1] / "support"


def start(path):
    """A process at work, which has the store open."""
    process = subprocess.Popen(
        [sys.executable, str(SUPPORT / "watch_process.py"), str(path), str(T0), str(DAYS)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(SUPPORT)},
    )
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3000)])])
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
        ids = [[delivery.id for delivery in store.due_alarms("slack:x", limit=99)] for store in (one, other)]
        assert ids[0] == ids[1] != []
