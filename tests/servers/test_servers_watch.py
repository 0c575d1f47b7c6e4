"""The monitoring in PostgreSQL: four workers complete and fold concurrently."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from completions import complete
from ragstone.schema import Captured
from ragstone.store import open_store
from watched_store import DAY_S, PLANNED, fold_at, make, requests, snapshot

pytestmark = pytest.mark.servers

T0 = 1_790_000_000.0


def test_four_workers_fold_each_outcome_once(database, tmp_path):
    """Outcomes are committed in any order by four workers that also try to fold: the states equal a serial fold."""
    rows = list(requests(T0))
    shuffled = random.Random(5).sample(rows, len(rows))
    with open_store(database, mode="own", clock=lambda: T0) as store:
        store.plan.set([PLANNED], [])
        store.traces.ingest("segment", 1, [Captured(trace=trace) for trace, _ in rows])

    def score_share(worker):
        folded = 0
        with open_store(database, mode="own", clock=lambda: T0) as store:
            store.plan.set([PLANNED], [])
            for i, (trace, outcome) in enumerate(shuffled[worker::4]):
                complete(store, trace.trace_id, [outcome])
                if i % 50 == 0:
                    # Nothing has closed yet at this time.
                    result = fold_at(store, T0)
                    folded += 0 if result is None else result.n_outcomes
        return folded

    def fold_all(_):
        with open_store(database, mode="own", clock=lambda: T0) as store:
            result = fold_at(store, T0 + 11.5 * DAY_S)
            return 0 if result is None else result.n_outcomes

    with ThreadPoolExecutor(4) as pool:
        assert [0] * 4 == list(pool.map(score_share, range(4)))
        assert len(rows) == sum(pool.map(fold_all, range(4)))
    serial = make(tmp_path / "serial.db", T0)
    with open_store(database, mode="read") as shared, open_store(serial, mode="read") as single:
        assert snapshot(shared) == snapshot(single)
        assert snapshot(shared)[2]
