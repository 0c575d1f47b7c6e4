"""Counts of the outcomes of each planned metric, by value, verified against counters."""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from ragstone.store._counters import OutcomeTotals, judge_of
from ragstone.store._plan import read_plan
from ragstone.store._sql import Sql
from ragstone.store._types import MetricCounts, PlannedMetric

_ROWS: Final = 10_000
"""Rows that are taken apart at once."""

_SAMPLED: Final = "JOIN traces AS t ON t.trace_id = o.sample_id"
"""Reads the request of an outcome, for its sampling probability."""


def count_outcomes(db: Sql, *, by_trace: bool) -> list[MetricCounts]:
    """Count the outcomes of each planned metric. See `Outcomes.count`."""
    sampled = db.execute(
        "SELECT 1 FROM traces WHERE inclusion_probability < 1 AND state <> 'sampled_out' LIMIT 1"
    ).fetchone()
    plan = read_plan(db)
    if by_trace:
        return _count_by_trace(db, plan, sampled=bool(sampled))
    return [_count_by_value(db, metric, sampled=bool(sampled)) for metric in plan]


def _count_by_value(db: Sql, metric: PlannedMetric, *, sampled: bool) -> MetricCounts:
    """Count the outcomes of a metric, by value and probability."""
    found = _count_others(db, metric, sampled=sampled)
    scores = f"""
        FROM outcomes AS o {_SAMPLED if sampled else ""}
        WHERE o.metric = ? AND o.metric_version = ? AND o.judge_hash = ? AND o.kind = 'score'
    """
    if sampled:
        pair = "o.value, t.inclusion_probability"
        rows = iter(db.execute(f"SELECT {pair}, count(*) {scores} GROUP BY {pair}", metric))
        while page := list(itertools.islice(rows, _ROWS)):
            found.add_scores(*zip(*page, strict=True))
        return found.checked(db)
    # Most judges give few distinct values, which the database counts fastest. Nearly every value of a continuous metric is
    # distinct. These are read twice as fast without being counted.
    values = f"SELECT o.value, count(*) {scores} GROUP BY o.value ORDER BY o.value LIMIT {_ROWS}"
    counted = db.execute(values, metric).fetchall()
    for value, n in counted:
        found.add_scores([value], [1.0], [n])
    if len(counted) == _ROWS:
        others = db.execute(f"SELECT o.value {scores} AND o.value > ?", (*metric, counted[-1][0]))
        found.add_values(itertools.chain.from_iterable(others))
    return found.checked(db)


def _count_by_trace(db: Sql, plan: Sequence[PlannedMetric], *, sampled: bool) -> list[MetricCounts]:
    """Count the outcomes of all planned metrics with one read of the table, because its index does not have the traces."""
    counted = [_count_others(db, metric, sampled=sampled) for metric in plan]
    for position, trace_id, value, probability in db.execute(
        f"""
        SELECT p.position, o.sample_id, o.value, {"t.inclusion_probability" if sampled else "1.0"}
        FROM outcomes AS o CROSS JOIN plan AS p {_SAMPLED if sampled else ""}
        WHERE o.metric = p.name AND o.metric_version = p.version AND o.judge_hash = p.judge_hash AND o.kind = 'score'
        ORDER BY o.seq
        """  # noqa: S608 - its parts are written above
    ):
        found = counted[position]
        found.trace_ids.append(trace_id)
        found.values.append(value)
        found.probabilities.append(probability)
    for found in counted:
        found.repeats.extend(itertools.repeat(1, len(found.values)))
    return [found.checked(db) for found in counted]


def _count_others(db: Sql, metric: PlannedMetric, *, sampled: bool) -> _Counted:
    """Count the outcomes of a metric that are not scores."""
    found = _Counted(metric)
    columns = "o.kind" + (", t.inclusion_probability" if sampled else "")
    for kind, *p, n in db.execute(
        f"""
        SELECT {columns}, count(*) FROM outcomes AS o {_SAMPLED if sampled else ""}
        WHERE o.metric = ? AND o.metric_version = ? AND o.judge_hash = ? AND o.kind <> 'score'
        GROUP BY {columns}
        """,  # noqa: S608 - its parts are written above
        metric,
    ):
        found.add(kind, p[0] if p else 1.0, n)
    return found


class _Counted:
    """Collects the outcomes of a metric."""

    def __init__(self, metric: PlannedMetric) -> None:
        self._key = metric
        self._others: Counter[str] = Counter()
        self._others_p: set[float] = set()
        self._totals = OutcomeTotals()
        self.values, self.probabilities, self.repeats = array("d"), array("d"), array("q")
        self.trace_ids: list[str] = []

    def add(self, kind: str, probability: float, n: int) -> None:
        """Add outcomes that are not scores."""
        self._totals.add((*self._key, kind), None, [n])
        self._others_p.add(probability)
        self._others[kind] += n

    def add_scores(self, values: Iterable[float], probabilities: Iterable[float], repeats: Iterable[int]) -> None:
        """Add scores, with the probabilities of their requests, and how often each pair occurs."""
        self.values.extend(values)
        self.probabilities.extend(probabilities)
        self.repeats.extend(repeats)

    def add_values(self, values: Iterable[float]) -> None:
        """Add scores of requests that were all kept."""
        import numpy as np

        distinct, repeats = np.unique(np.fromiter(values, float), return_counts=True)
        self.values.frombytes(distinct.tobytes())
        self.repeats.frombytes(repeats.astype("q").tobytes())
        self.probabilities.extend(itertools.repeat(1.0, distinct.size))

    def checked(self, db: Sql) -> MetricCounts:
        """Verify the outcomes against their counters, and return them."""
        self._totals.add((*self._key, "score"), self.values, self.repeats)
        self._totals.check(db, *self._key)
        return MetricCounts(
            metric=self._key[0],
            judge=judge_of(db, self._key),
            values=self.values,
            probabilities=self.probabilities,
            repeats=self.repeats,
            n_failed=self._others["failure"],
            n_not_applicable=self._others["not_applicable"],
            is_sampled=len(self._others_p.union(self.probabilities)) > 1,
            trace_ids=self.trace_ids,
        )
