"""A store with scored sessions over some days, of which one release gets worse."""

from __future__ import annotations

import numpy as np

from completions import complete
from ragstone.schema import Captured, Failure, Score, Trace
from ragstone.settings import Watch
from ragstone.store import PlannedMetric, open_store
from ragstone.watch import Scale, fold

DAY_S = 86_400.0
METRIC = "ccrs.qr"
PLANNED = PlannedMetric(name=METRIC, version="1", judge_hash="j1")
SCALES = {METRIC: Scale(low=0.0, high=1.0)}
OPTIONS = Watch()


def requests(t0, *, days=11, per_day=120, bad_from=9.0, app="qa-bot", seed=0):
    """Traces with their outcome, in order of time. From day `bad_from` on, every second session has a bad release."""
    rng = np.random.default_rng(seed)
    for i in range(int(days * per_day)):
        day = (i + 0.5) / per_day
        release = "2.4.1" if day >= bad_from and i % 2 else "2.4.0"
        trace = Trace(
            trace_id=f"{app}-{i:05d}",
            started_at=t0 + day * DAY_S,
            query=f"Question {i}?",
            response="An answer.",
            session_id=f"{app}-s{i}",
            app=app,
            release=release,
            name="chat",
            tags=("topic:billing", "beta"),
        )
        about = {"sample_id": trace.trace_id, "metric": METRIC, "metric_version": "1", "judge_hash": "j1"}
        value = float(np.clip(rng.normal(0.4 if release == "2.4.1" else 0.8, 0.08), 0, 1))
        if rng.random() < 0.02:
            yield trace, Failure(kind="unparseable", reason="no number", **about)
        else:
            yield trace, Score(value=round(value, 3), method="single_reply", judge="a judge", **about)


def fill(store, t0, **options):
    """Store all requests with their outcomes."""
    rows = list(requests(t0, **options))
    store.plan.set([PLANNED], [])
    store.traces.ingest("segment", 1, [Captured(trace=trace) for trace, _ in rows])
    for trace, outcome in rows:
        complete(store, trace.trace_id, [outcome])


def fold_at(store, now, *, notify=(), limit=None, after=None):
    """Fold what has closed, and return the result, or None if another worker folds."""
    with store.watch.change(notify=notify) as tables:
        if tables is None:
            return None
        return fold(tables, now=now, options=OPTIONS, scales=SCALES, limit=limit, after=after)


def fold_in_parts(store, now, *, limit, notify=()):
    """Fold a large queue as a worker does, and return the results."""
    results = [fold_at(store, now, notify=notify, limit=limit)]
    while results[-1].more_after is not None:
        results.append(fold_at(store, now, notify=notify, limit=limit, after=results[-1].more_after))
    return results


def snapshot(store):
    """Streams, budget and alarms."""
    with store.watch.read() as tables:
        return tables.streams(), tables.budget(), tables.alarms()


def make(path, t0, *, folds=(11.5,), notify=(), **options):
    """A store file that was filled and folded."""
    with open_store(path, mode="own", clock=lambda: t0) as store:
        fill(store, t0, **options)
        for day in folds:
            fold_at(store, t0 + day * DAY_S, notify=notify)
    return path
