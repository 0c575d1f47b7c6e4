"""Counters of traces and outcomes, which change in the transaction that changes the rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ragstone.schema import Evidence
from ragstone.store._bodies import to_outcome
from ragstone.store._checksums import damaged, sum_checksums
from ragstone.store._sql import Sql, starting_with

OutcomeKind = tuple[str, str, str, str]
"""Metric, version, judge hash and kind of outcomes that are counted together."""

_STATE: Final = "state:"
"""Beginning of the names of the counters of traces by state."""
DROPPED: Final = "dropped:"
"""Beginning of the names of the counters of dropped requests, by the reason."""
IGNORED: Final = "ignored:"
"""Beginning of the names of the counters of ignored traces. The same key in `meta` has one example."""
SAMPLED_OUT_FORGOTTEN: Final = "forgotten:sampled_out"
"""Counter of requests that were sampled out, of which no row is left. They stay counted in their state."""


def state_counter(state: str) -> str:
    """Return the name of the counter of traces in a state."""
    return f"{_STATE}{state}"


def add_to_counters(db: Sql, counts: Mapping[str, int]) -> None:
    """Increase counters. Sorted, and after `add_to_outcome_counts`, so that transactions never wait in a circle."""
    db.executemany(
        "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = counters.n + excluded.n",
        [(name, n) for name, n in sorted(counts.items()) if n],
    )


def add_to_outcome_counts(db: Sql, outcomes: Iterable[tuple[OutcomeKind, float | None]], *, n: int = 1) -> None:
    """Count new outcomes, or with n=-1 removed ones, by kind. Sorted, so that transactions never wait in a circle."""
    values = defaultdict[OutcomeKind, list[float | None]](list)
    for kind, value in outcomes:
        values[kind].append(value)
    kinds = OutcomeTotals()
    for kind, same in values.items():
        kinds.add(kind, [value for value in same if value is not None] or None, [n] * len(same))
    db.executemany(
        """
        INSERT INTO outcome_counts (metric, metric_version, judge_hash, kind, n, checksum) VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT (metric, metric_version, judge_hash, kind)
        DO UPDATE SET n = outcome_counts.n + excluded.n, checksum = outcome_counts.checksum + excluded.checksum
        """,
        kinds.rows(),
    )


class OutcomeTotals:
    """Numbers of outcomes, and sums of the checksums of their values, by kind.

    The sum does not depend on the order of the values, so it changes with each outcome, and verifies all values that a
    report reads, also from an index.
    """

    def __init__(self) -> None:
        self._totals: dict[OutcomeKind, tuple[int, int]] = {}

    def add(self, kind: OutcomeKind, values: Sequence[float] | None, repeats: Sequence[int]) -> None:
        """Add outcomes: scores, each of which occurs `repeats` times, or others, which have no values."""
        if len(repeats):
            n, checksum = self._totals.get(kind, (0, 0))
            checksum += 0 if values is None else sum_checksums(values, repeats)
            self._totals[kind] = n + sum(repeats), checksum

    def rows(self) -> list[tuple[str | int, ...]]:
        """Return the rows of `outcome_counts`, sorted."""
        return [(*kind, *total) for kind, total in sorted(self._totals.items())]

    def check(self, db: Sql, metric: str, metric_version: str, judge_hash: str) -> None:
        """Verify that these are all outcomes of a metric.

        Raise DamagedRowError if outcomes are missing, or values differ from those that were stored.
        """
        stored = db.execute(
            """
            SELECT metric, metric_version, judge_hash, kind, n, checksum FROM outcome_counts
            WHERE metric = ? AND metric_version = ? AND judge_hash = ? AND n > 0 ORDER BY kind
            """,
            (metric, metric_version, judge_hash),
        ).fetchall()
        if [tuple(row) for row in stored] != self.rows():
            raise damaged("outcomes", metric, "the outcomes of this metric differ from their counters")


def read_states(db: Sql) -> defaultdict[str, int]:
    """Return the number of traces in each state."""
    rows = db.execute("SELECT name, n FROM counters WHERE name >= ? AND name < ?", starting_with(_STATE))
    return defaultdict(int, {name.removeprefix(_STATE): int(n) for name, n in rows})


def count_outcome_kinds(db: Sql) -> dict[str, defaultdict[str, int]]:
    """Return the number of outcomes of each planned metric, by kind."""
    kinds: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, kind, n in db.execute(
        """
        SELECT p.name, c.kind, c.n FROM plan AS p JOIN outcome_counts AS c
        ON c.metric = p.name AND c.metric_version = p.version AND c.judge_hash = p.judge_hash
        """
    ):
        kinds[name][kind] = int(n)
    return kinds


def count_unplanned(db: Sql) -> list[tuple[str, str, str, int]]:
    """Return the number of outcomes of each metric, version and judge that is not in the plan."""
    return db.execute(
        """
        SELECT c.metric, c.metric_version, c.judge_hash, sum(c.n) FROM outcome_counts AS c
        WHERE EXISTS (SELECT 1 FROM plan) AND NOT EXISTS (
            SELECT 1 FROM plan AS p
            WHERE c.metric = p.name AND c.metric_version = p.version AND c.judge_hash = p.judge_hash
        )
        GROUP BY c.metric, c.metric_version, c.judge_hash HAVING sum(c.n) > 0
        ORDER BY c.metric, c.metric_version, c.judge_hash
        """
    ).fetchall()


def judge_of(db: Sql, metric: tuple[str, str, str]) -> str | None:
    """Return the name of the judge of some outcomes, by metric, version and judge hash. Only the bodies have it."""
    body = db.execute(
        """
        SELECT b.body, o.outcome_id, o.value FROM outcomes AS o JOIN outcome_bodies AS b USING (seq)
        WHERE o.metric = ? AND o.metric_version = ? AND o.judge_hash = ? ORDER BY o.kind DESC LIMIT 1
        """,
        metric,
    ).fetchone()
    return to_outcome(*body).judge if body else None


def evidence_counters(evidence: Evidence | None) -> list[str]:
    """Return the names of the counters that a trace increases."""
    if evidence is None:
        return []
    rules = [f"rule:{part}:{getattr(evidence, part)}" for part in ("query", "contexts", "response")]
    tools = [
        f"tool:{'called' if called else 'unused'}:{name}"[:200] for name, called in evidence.declared_tools.items()
    ]
    return rules + [f"doubt:{doubt}"[:200] for doubt in evidence.doubts] + tools
