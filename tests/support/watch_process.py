"""A process that scores and folds simulated days, for tests that kill it. Arguments: store, start time, days."""

from __future__ import annotations

import sys

from ragstone.schema import Captured
from ragstone.store import open_store
from watched_store import DAY_S, PLANNED, fold_at, requests


def work(path: str, t0: float, days: int) -> None:
    """Complete each request and fold every six hours, from the beginning: what is done already is done once."""
    rows = list(requests(t0, days=days, per_day=100))
    with open_store(path, mode="own", clock=lambda: t0) as store:
        store.set_plan([PLANNED], [])
        store.ingest("segment", 1, [Captured(trace=trace) for trace, _ in rows])
        print("ready", flush=True)
        done = 0
        for quarter in range(1, days * 4 + 3):
            now = t0 + quarter * DAY_S / 4
            while done < len(rows) and rows[done][0].started_at <= now:
                store.complete(rows[done][0].trace_id, [rows[done][1]])
                done += 1
            fold_at(store, now, notify=["slack:x"])
    print("done", flush=True)


if __name__ == "__main__":
    work(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
