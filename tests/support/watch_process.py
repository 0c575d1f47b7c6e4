"""A process that scores and folds simulated days, for tests that kill it. Arguments: store, start time, days, mode."""

from __future__ import annotations

import sys

from completions import complete
from ragstone.schema import Captured
from ragstone.store import open_store
from watched_store import DAY_S, PLANNED, fill, fold_at, fold_in_parts, requests


def work(path: str, t0: float, days: int) -> None:
    """Complete each request and fold every six hours, from the beginning: what is done already is done once."""
    rows = list(requests(t0, days=days, per_day=100))
    with open_store(path, mode="own", clock=lambda: t0) as store:
        store.plan.set([PLANNED], [])
        store.traces.ingest("segment", 1, [Captured(trace=trace) for trace, _ in rows])
        print("ready", flush=True)
        done = 0
        for quarter in range(1, days * 4 + 3):
            now = t0 + quarter * DAY_S / 4
            while done < len(rows) and rows[done][0].started_at <= now:
                complete(store, rows[done][0].trace_id, [rows[done][1]])
                done += 1
            fold_at(store, now, notify=["slack:x"])
    print("done", flush=True)


def catch_up(path: str, t0: float, days: int, *, limit: int | None = 20) -> None:
    """Fold all requests, which were completed before, in parts."""
    with open_store(path, mode="own", clock=lambda: t0) as store:
        print("ready", flush=True)
        fold_in_parts(store, t0 + (days + 1) * DAY_S, limit=limit, notify=["slack:x"])
    print("done", flush=True)


def fill_store(path: str, t0: float, days: int) -> None:
    """Complete all requests, and fold nothing, as a worker that stops before its first fold."""
    with open_store(path, mode="own", clock=lambda: t0) as store:
        fill(store, t0, days=days, per_day=100)


if __name__ == "__main__":
    {"work": work, "catch_up": catch_up}[sys.argv[4]](sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
