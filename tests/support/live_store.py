"""Stores for tests of the live page: requests with scores of three metrics, of which a quarter is judged wrong."""

from __future__ import annotations

from pathlib import Path

from completions import complete
from ragstone.schema import Captured, Passage, Score, Trace
from ragstone.store import PlannedMetric, SqliteStore

__all__ = ["METRICS", "add_request", "add_requests", "make_store", "make_trace"]

METRICS = ("ccrs.ac", "ragas.faithfulness", "ccrs.qr")


def make_trace(k: int, *, bad: str = "") -> Trace:
    """A request. `bad` is added to all its texts."""
    return Trace(
        trace_id=f"t{k}{bad}".encode(errors="replace").decode(),
        started_at=1_700_000_000.0 + 60 * k,
        query=f"When does ferry {k} leave? {bad}",
        response=f"It leaves at nine. It costs {k} crowns. {bad}",
        contexts=tuple(
            Passage(text=f"The ferry leaves at nine. {k} {p} {bad}", id=f"p{p}{bad}", relevance=float(k % 2))
            for p in range(3)
        ),
        reference=(f"At ten. {bad}",),
        metadata={"topic": f"{['fares', 'times'][k % 2]}{bad}"},
        name=bad or "ask",
    )


def _scores(trace: Trace, k: int, bad: str, judge: str) -> list[Score]:
    judged = 0.1 if k % 4 == 0 else 0.9
    claims = [{"claim": f"It costs {k} crowns. {bad}", "supported": bool(k % 3)}]
    values = ((judged, {"em": 0.0, "judge": judged}), (float(bool(k % 3)), {"claims": claims}), (k % 7 / 7, {}))
    return [
        Score(
            sample_id=trace.trace_id,
            metric=metric,
            metric_version="1",
            value=value,
            method="exact",
            details=details,
            explanation=bad or None,
            judge=judge,
            judge_hash="h",
        )
        for metric, (value, details) in zip(METRICS, values, strict=True)
    ]


def add_request(store: SqliteStore, k: int, *, scored: bool = True, bad: str = "", judge: str | None = None) -> None:
    """Add request number `k`. `bad` is added to all its texts, and to the name of the judge if that is not given."""
    trace = make_trace(k, bad=bad)
    store.traces.ingest("test", k + 1, [Captured(trace=trace)])
    if scored:
        complete(store, trace.trace_id, _scores(trace, k, bad, f"judge {bad}".strip() if judge is None else judge))


def add_requests(store: SqliteStore, first: int, n: int, *, scored: bool = True, bad: list[str] | None = None) -> None:
    """Add requests with the numbers `first` to `first + n - 1`."""
    for k in range(first, first + n):
        add_request(store, k, scored=scored, bad=bad[k % len(bad)] if bad else "")


def make_store(path: Path, n: int, *, scored: bool = True, bad: list[str] | None = None) -> Path:
    """Make a store of `n` requests."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name=name, version="1", judge_hash="h") for name in METRICS], [])
        add_requests(store, 0, n, scored=scored, bad=bad)
    return path
