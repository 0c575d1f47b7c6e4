"""Outcomes: the plan, queries, the state of a trace, the counts of a metric and the ledger."""

from __future__ import annotations

import itertools
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from typing_extensions import override

from ragstone.errors import ConfigurationError, DataError
from ragstone.schema import DeclaredTool, Evidence, Failure, IgnoredTraces, Ledger, LedgerRow, NotApplicable, Score
from ragstone.store._body import last_key, to_outcome, to_trace
from ragstone.store._completion import prepare, read_plan, store_completions
from ragstone.store._counts import OutcomeTotals, count_outcome_kinds, count_unplanned, read_states
from ragstone.store._deliveries import count_deliveries, deliveries
from ragstone.store._erase import ERASED, ERASED_DELIVERIES
from ragstone.store._feedback import count_feedback, feedback_of
from ragstone.store._plans import count_pending
from ragstone.store._ranges import set_sinks
from ragstone.store._records import (
    Completion,
    MetricCounts,
    PlannedMetric,
    StoredAnswer,
    StorePosition,
    TraceReport,
)
from ragstone.store._spend import read_record, read_spend
from ragstone.store._sql import LAST_SEQ, PAGE, Sql, SqlStore

IGNORED: Final = "ignored:"
"""Beginning of the names of the counters of ignored traces. The same key in `meta` has one example."""

_ROWS: Final = 10_000
"""Rows that are taken apart at once."""

_SAMPLED: Final = "JOIN traces AS t ON t.trace_id = o.sample_id"
"""Reads the request of an outcome, for its sampling probability."""

_LATEST_S: Final = 7200.0
"""Longer than any pause between two attempts, in seconds."""


class SqlOutcomes(SqlStore):
    """The methods of a store about the plan and the outcomes, and about accounting."""

    @override
    def set_plan(self, metrics: Sequence[PlannedMetric], sinks: Sequence[str]) -> None:
        with self._database.write() as db:
            write_plan(db, metrics, sinks, now=self._clock())

    @override
    def planned_metrics(self) -> list[PlannedMetric]:
        with self._database.read() as db:
            return read_plan(db)

    @override
    def complete(
        self, trace_id: str, outcomes: Sequence[Score | NotApplicable | Failure], *, owner: str | None = None
    ) -> bool:
        (result,) = self.complete_many([Completion(trace_id=trace_id, outcomes=outcomes, owner=owner)])
        if isinstance(result, DataError):
            raise result
        return result

    @override
    def complete_many(self, completions: Sequence[Completion]) -> list[bool | DataError]:
        # Checked and serialized before the transaction, which is then short and cannot fail because of one of them.
        prepared = [prepare(completion) for completion in completions]
        valid = [each for each in prepared if not isinstance(each, DataError)]
        with self._database.write() as db:
            stored = iter(
                store_completions(db, valid, now=self._clock(), order=self._order_outcomes, lock=self._lock_completed)
            )
        return [each if isinstance(each, DataError) else next(stored) for each in prepared]

    @override
    def outcomes(
        self,
        *,
        metric: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: StorePosition | None = None,
        upto: StorePosition | None = None,
    ) -> Iterator[Score | NotApplicable | Failure]:
        last = -1 if after is None else after.outcomes
        while True:
            with self._database.read() as db:
                page = db.execute(
                    """
                    SELECT o.seq, o.outcome_id, o.value, b.body
                    FROM outcomes AS o LEFT JOIN outcome_bodies AS b USING (seq)
                    JOIN traces AS t ON t.trace_id = o.sample_id
                    WHERE o.seq > ?1 AND (o.metric = ?2 OR ?2 IS NULL)
                          AND (t.started_at >= ?3 OR ?3 IS NULL) AND (t.started_at < ?4 OR ?4 IS NULL)
                          AND o.seq <= ?5
                    ORDER BY o.seq LIMIT ?6
                    """,
                    (last, metric, since, until, LAST_SEQ if upto is None else upto.outcomes, PAGE),
                ).fetchall()
                last = last_key("outcomes", page, last)
                found = [to_outcome(body, outcome_id, value) for _, outcome_id, value, body in page]
            if not page:
                return
            yield from found

    @override
    def count_outcomes(self, *, by_trace: bool = False) -> list[MetricCounts]:
        with self._database.read() as db:
            sampled = db.execute(
                "SELECT 1 FROM traces WHERE inclusion_probability < 1 AND state <> 'sampled_out' LIMIT 1"
            ).fetchone()
            plan = read_plan(db)
            if by_trace:
                return _count_by_trace(db, plan, sampled=bool(sampled))
            return [_count_by_value(db, metric, sampled=bool(sampled)) for metric in plan]

    @override
    def ledger(self) -> Ledger:
        # One transaction, so that all columns belong to one moment.
        with self._database.read() as db:
            now = self._clock()
            traces = read_states(db)
            drops: dict[str, int] = dict(db.execute("SELECT reason, n FROM drops ORDER BY reason"))
            total = LedgerRow(
                captured=read_counter(db, "captured"),
                scored=traces["scored"],
                sampled_out=traces["sampled_out"],
                not_applicable=traces["not_applicable"],
                failed=traces["failed"],
                dropped=sum(drops.values()),
                pending=traces["pending"],
            )
            oldest = db.execute(
                "SELECT received_at FROM traces WHERE state = 'pending' ORDER BY seq LIMIT 1"
            ).fetchone()
            return Ledger(
                total=total,
                metrics=_metric_rows(db, total),
                dropped_by_reason=drops,
                erased=_counts_of(db, ERASED),
                erased_deliveries=_erased_deliveries(db),
                oldest_pending_s=None if oldest is None else max(now - oldest[0], 0.0),
                outbox=count_deliveries(db, now=now),
                rules=_rules(db),
                ignored=_ignored(db),
                doubts=_counts_of(db, "doubt:"),
                ended=_counts_of(db, "ended:"),
                declared_tools=_declared_tools(db),
                feedback=count_feedback(db, now=now),
                spent_today=read_spend(db, now=now),
                daily_budget=read_record(db, "daily_budget"),
                plans=tuple(count_pending(db)),
                last_worker=read_record(db, "last_worker"),
                other_outcomes=_count_others_by_judge(db),
            )

    @override
    def answers(self, trace_ids: Sequence[str]) -> dict[str, StoredAnswer]:
        found: dict[str, StoredAnswer] = {}
        for start in range(0, len(trace_ids), PAGE):
            page = list(trace_ids[start : start + PAGE])
            places = ", ".join("?" * len(page))
            with self._database.read() as db:
                rows = db.execute(
                    f"""
                    SELECT t.trace_id, t.state, t.started_at, b.body
                    FROM traces AS t LEFT JOIN trace_bodies AS b USING (seq) WHERE t.trace_id IN ({places})
                    """,  # noqa: S608 - only the number of parameters varies
                    page,
                ).fetchall()
                bodies: defaultdict[str, list[Score | NotApplicable | Failure]] = defaultdict(list)
                for sample_id, outcome_id, value, body in db.execute(
                    f"""
                    SELECT o.sample_id, o.outcome_id, o.value, b.body FROM outcomes AS o LEFT JOIN outcome_bodies AS b USING (seq)
                    WHERE o.sample_id IN ({places}) ORDER BY o.seq
                    """,  # noqa: S608 - only the number of parameters varies
                    page,
                ):
                    bodies[sample_id].append(to_outcome(body, outcome_id, value))
                for trace_id, state, started_at, body in rows:
                    found[trace_id] = StoredAnswer(
                        state=state,
                        started_at=started_at,
                        trace=None if body is None else to_trace(body, trace_id),
                        outcomes=tuple(bodies[trace_id]),
                    )
        return found

    @override
    def explain(self, trace_id: str) -> TraceReport | None:
        with self._database.read() as db:
            row = db.execute(
                """
                SELECT t.state, t.started_at, t.received_at, t.inclusion_probability, t.attempts, t.lease_owner,
                       t.lease_until, t.text_removed_at, b.body
                FROM traces AS t LEFT JOIN trace_bodies AS b USING (seq) WHERE t.trace_id = ?
                """,
                (trace_id,),
            ).fetchone()
            if row is None:
                return None
            state, started_at, received_at, probability, attempts, lease_owner, lease_until, removed_at, body = row
            bodies = db.execute(
                """
                SELECT o.outcome_id, o.value, b.body, o.metric, o.backfilled
                FROM outcomes AS o LEFT JOIN outcome_bodies AS b USING (seq)
                WHERE o.sample_id = ? ORDER BY o.seq
                """,
                (trace_id,),
            ).fetchall()
            report = TraceReport(
                trace_id=trace_id,
                state=state,
                reasons=(),
                trace=None if body is None else to_trace(body, trace_id),
                started_at=started_at,
                received_at=received_at,
                inclusion_probability=probability,
                text_removed_at=removed_at,
                attempts=attempts,
                lease_owner=lease_owner,
                lease_until=lease_until if lease_owner is not None else None,
                outcomes=tuple(to_outcome(text, outcome_id, value) for outcome_id, value, text, _, _ in bodies),
                backfilled=tuple(metric for _, _, _, metric, share in bodies if share is not None),
                feedback=tuple(feedback_of(db, trace_id)),
                outbox=tuple(deliveries(db, trace_id=trace_id)),
            )
            reasons = _reasons(report, read_plan(db), max_attempts=self._max_attempts, now=self._clock())
            return replace(report, reasons=tuple(reasons))


def write_plan(db: Sql, metrics: Sequence[PlannedMetric], sinks: Sequence[str], *, now: float) -> None:
    """Replace the plan. Metrics that are in both plans keep their counts."""
    twice = sorted(name for name, n in Counter(metric.name for metric in metrics).items() if n > 1)
    if twice:
        raise ConfigurationError(f"metrics {twice!r} are planned twice. Name each metric once.")
    finished_before = {
        PlannedMetric(name=name, version=version, judge_hash=judge_hash): n
        for name, version, judge_hash, n in db.execute("SELECT name, version, judge_hash, finished_before FROM plan")
    }
    for metric in metrics:
        if metric not in finished_before:
            (n,) = db.execute(
                """
                SELECT count(*) FROM traces AS t
                WHERE t.state IN ('scored', 'not_applicable', 'failed') AND NOT EXISTS (
                    SELECT 1 FROM outcomes AS o
                    WHERE o.sample_id = t.trace_id AND o.metric = ? AND o.metric_version = ? AND o.judge_hash = ?
                )
                """,
                (metric.name, metric.version, metric.judge_hash),
            ).fetchone()
            finished_before[metric] = n
    db.execute("DELETE FROM plan")
    db.executemany(
        "INSERT INTO plan (name, version, judge_hash, position, finished_before) VALUES (?, ?, ?, ?, ?)",
        [
            (metric.name, metric.version, metric.judge_hash, position, finished_before[metric])
            for position, metric in enumerate(metrics)
        ],
    )
    set_sinks(db, sinks, now=now)
    _settle_times(db, now=now)


def _settle_times(db: Sql, *, now: float) -> None:
    """Make retries and leases due that are far in the future, because the clock was put back since they were stored."""
    latest = now + _LATEST_S
    db.execute("UPDATE outbox SET next_try = ? WHERE state = 'pending' AND next_try > ?", (now, latest))
    db.execute("UPDATE traces SET lease_until = ? WHERE state = 'pending' AND lease_until > ?", (now, latest))


def _count_by_value(db: Sql, metric: PlannedMetric, *, sampled: bool) -> MetricCounts:
    """Count the outcomes of a metric, by value and probability."""
    found = _count_others(db, metric, sampled=sampled)
    scores = f"""
        FROM outcomes AS o {_SAMPLED if sampled else ""}
        WHERE o.metric = ? AND o.metric_version = ? AND o.judge_hash = ? AND o.kind = 'score'
    """
    if sampled:
        pair = "o.value, t.inclusion_probability"
        for page in _pages(db, f"SELECT {pair}, count(*) {scores} GROUP BY {pair}", _key(metric)):
            found.add_scores(*zip(*page, strict=True))
        return found.checked(db)
    # Most judges give few distinct values, which the database counts fastest. Nearly every value of a continuous metric is
    # distinct. These are read twice as fast without being counted.
    values = f"SELECT o.value, count(*) {scores} GROUP BY o.value ORDER BY o.value LIMIT {_ROWS}"
    counted = db.execute(values, _key(metric)).fetchall()
    for value, n in counted:
        found.add_scores([value], [1.0], [n])
    if len(counted) == _ROWS:
        others = array("d")
        for page in _pages(db, f"SELECT o.value {scores} AND o.value > ?", (*_key(metric), counted[-1][0])):
            others.extend(itertools.chain.from_iterable(page))
        found.add_values(others)
    return found.checked(db)


def _count_by_trace(db: Sql, plan: Sequence[PlannedMetric], *, sampled: bool) -> list[MetricCounts]:
    """Count the outcomes of all planned metrics with one read of the table, because its index does not have the traces."""
    counted = {metric.name: _count_others(db, metric, sampled=sampled) for metric in plan}
    for name, trace_id, value, probability in db.execute(
        f"""
        SELECT p.name, o.sample_id, o.value, {"t.inclusion_probability" if sampled else "1.0"}
        FROM outcomes AS o CROSS JOIN plan AS p {_SAMPLED if sampled else ""}
        WHERE o.metric = p.name AND o.metric_version = p.version AND o.judge_hash = p.judge_hash AND o.kind = 'score'
        ORDER BY o.seq
        """  # noqa: S608 - its parts are written above
    ):
        found = counted[name]
        found.trace_ids.append(trace_id)
        found.values.append(value)
        found.probabilities.append(probability)
    for found in counted.values():
        found.repeats.extend(itertools.repeat(1, len(found.values)))
    return [found.checked(db) for found in counted.values()]


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
        _key(metric),
    ):
        found.add(kind, p[0] if p else 1.0, n)
    return found


def _pages(db: Sql, query: str, parameters: Sequence[object]) -> Iterator[list[Any]]:
    """Yield the rows of a query in pages."""
    rows = iter(db.execute(query, parameters))
    while page := list(itertools.islice(rows, _ROWS)):
        yield page


def _key(metric: PlannedMetric) -> tuple[str, str, str]:
    return metric.name, metric.version, metric.judge_hash


class _Counted:
    """Collects the outcomes of a metric."""

    def __init__(self, metric: PlannedMetric) -> None:
        self._key = _key(metric)
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

    def add_values(self, values: array[float]) -> None:
        """Add scores of requests that were all kept."""
        import numpy as np

        if not values:
            return
        distinct, repeats = np.unique(np.frombuffer(values), return_counts=True)
        self.values.frombytes(distinct.tobytes())
        self.repeats.frombytes(repeats.astype("q").tobytes())
        self.probabilities.extend(itertools.repeat(1.0, distinct.size))

    def checked(self, db: Sql) -> MetricCounts:
        """Verify the outcomes against their counters, and return them."""
        self._totals.add((*self._key, "score"), self.values, self.repeats)
        self._totals.check(db, *self._key)
        # The judge's name is stored only in the bodies, and is the same in all outcomes of a planned metric.
        body = db.execute(
            """
            SELECT b.body, o.outcome_id, o.value FROM outcomes AS o JOIN outcome_bodies AS b USING (seq)
            WHERE o.metric = ? AND o.metric_version = ? AND o.judge_hash = ? ORDER BY o.kind DESC LIMIT 1
            """,
            self._key,
        ).fetchone()
        return MetricCounts(
            metric=self._key[0],
            judge=to_outcome(*body).judge if body else None,
            values=self.values,
            probabilities=self.probabilities,
            repeats=self.repeats,
            n_failed=self._others["failure"],
            n_not_applicable=self._others["not_applicable"],
            is_sampled=len(self._others_p.union(self.probabilities)) > 1,
            trace_ids=self.trace_ids,
        )


def read_counter(db: Sql, name: str) -> int:
    """Return the value of a counter, or 0 if it was never increased."""
    row = db.execute("SELECT n FROM counters WHERE name = ?", (name,)).fetchone()
    return int(row[0]) if row else 0


def evidence_counters(evidence: Evidence | None) -> list[str]:
    """Return the names of the counters that a trace increases."""
    if evidence is None:
        return []
    rules = [f"rule:{part}:{getattr(evidence, part)}" for part in ("query", "contexts", "response")]
    tools = [
        f"tool:{'called' if called else 'unused'}:{name}"[:200] for name, called in evidence.declared_tools.items()
    ]
    return rules + [f"doubt:{doubt}"[:200] for doubt in evidence.doubts] + tools


def _rules(db: Sql) -> dict[str, dict[str, int]]:
    rules: dict[str, dict[str, int]] = {}
    for name, n in _counts_of(db, "rule:").items():
        part, _, rule = name.partition(":")
        rules.setdefault(part, {})[rule] = n
    return rules


def _declared_tools(db: Sql) -> dict[str, DeclaredTool]:
    tools: dict[str, DeclaredTool] = {}
    for key, n in _counts_of(db, "tool:").items():
        use, _, name = key.partition(":")
        before = tools.get(name, DeclaredTool())
        called = before.called + (n if use == "called" else 0)
        tools[name] = DeclaredTool(captured=before.captured + n, called=called)
    return dict(sorted(tools.items()))


def _erased_deliveries(db: Sql) -> dict[str, dict[str, int]]:
    by_sink: dict[str, dict[str, int]] = {}
    for name, n in _counts_of(db, ERASED_DELIVERIES).items():
        state, _, sink = name.partition(":")
        by_sink.setdefault(sink, {})[state] = n
    return by_sink


def _ignored(db: Sql) -> dict[str, IgnoredTraces]:
    examples: dict[str, str] = dict(
        db.execute("SELECT key, value FROM meta WHERE key >= ? AND key < ?", (IGNORED, IGNORED[:-1] + ";"))
    )
    return {
        reason: IgnoredTraces(n=n, example=examples.get(f"{IGNORED}{reason}"))
        for reason, n in _counts_of(db, IGNORED).items()
    }


def _counts_of(db: Sql, prefix: str) -> dict[str, int]:
    # A range and not LIKE, whose case rules differ between the databases.
    rows = db.execute(
        "SELECT name, n FROM counters WHERE name >= ? AND name < ? ORDER BY name", (prefix, prefix[:-1] + ";")
    )
    return {name.removeprefix(prefix): int(n) for name, n in rows}


def _metric_rows(db: Sql, total: LedgerRow) -> dict[str, LedgerRow]:
    kinds = count_outcome_kinds(db)
    # A pending trace may already have outcomes of some metrics.
    done_early: defaultdict[str, int] = defaultdict(
        int,
        db.execute(
            """
            SELECT p.name, count(*) FROM traces AS t CROSS JOIN plan AS p JOIN outcomes AS o
            ON o.sample_id = t.trace_id
            AND o.metric = p.name AND o.metric_version = p.version AND o.judge_hash = p.judge_hash
            WHERE t.partial = 1
            GROUP BY p.name
            """
        ).fetchall(),
    )
    return {
        name: LedgerRow(
            captured=total.captured - finished_before,
            scored=kinds[name]["score"],
            sampled_out=total.sampled_out,
            not_applicable=kinds[name]["not_applicable"],
            failed=kinds[name]["failure"],
            dropped=total.dropped,
            pending=total.pending - done_early[name],
        )
        for name, finished_before in db.execute("SELECT name, finished_before FROM plan ORDER BY position").fetchall()
    }


def _count_others_by_judge(db: Sql) -> dict[str, int]:
    """Return the number of outcomes that are not of the plan, by the name of the judge, which only the bodies have."""
    counts: Counter[str] = Counter()
    for metric, version, judge_hash, n in count_unplanned(db):
        body = db.execute(
            """
            SELECT b.body, o.outcome_id, o.value FROM outcomes AS o JOIN outcome_bodies AS b USING (seq)
            WHERE o.metric = ? AND o.metric_version = ? AND o.judge_hash = ? LIMIT 1
            """,
            (metric, version, judge_hash),
        ).fetchone()
        counts[(body and to_outcome(*body).judge) or "none"] += int(n)
    return dict(counts)


def _reasons(report: TraceReport, plan: Sequence[PlannedMetric], *, max_attempts: int, now: float) -> Iterator[str]:
    """Yield sentences that explain why a trace was or was not scored."""
    if report.state == "sampled_out":
        yield (f"Not sampled. The sampling probability of such a request is {report.inclusion_probability:g}.")
        return
    if report.state == "pending":
        yield _waiting(report, max_attempts=max_attempts, now=now)
    if report.text_removed_at is not None:
        yield f"Its text was removed by retention on {datetime.fromtimestamp(report.text_removed_at, UTC):%Y-%m-%d}."
    yield from map(_sentence, report.outcomes)
    if report.backfilled:
        yield f"Backfilled, so not evidence for an alarm: {', '.join(report.backfilled)}."
    keys = {outcome.key[1:] for outcome in report.outcomes}
    missing = [m.name for m in plan if (m.name, m.version, m.judge_hash) not in keys]
    if missing:
        why = "No outcome yet" if report.state == "pending" else "Finished before these metrics were planned"
        yield f"{why}: {', '.join(missing)}."
    elif not report.outcomes and report.state != "pending":
        yield "Finished without outcomes: no metric was planned."


def _waiting(report: TraceReport, *, max_attempts: int, now: float) -> str:
    if report.lease_until is not None and report.lease_until > now:
        return (
            f"Being scored by {report.lease_owner!r} (attempt {report.attempts} of {max_attempts}). Its lease expires in "
            f"{report.lease_until - now:.1f} s."
        )
    waiting = f"Waiting for a worker for {max(now - report.received_at, 0):.1f} s"
    if report.attempts == 0:
        return f"{waiting}, not claimed so far."
    end = "not leased now" if report.lease_owner is None else f"the lease of {report.lease_owner!r} expired"
    return f"{waiting}, claimed {report.attempts} of at most {max_attempts} times, {end}."


def _sentence(outcome: Score | NotApplicable | Failure) -> str:
    by = f" by {outcome.judge}" if outcome.judge else ""
    match outcome:
        case Score():
            why = f" Reason: {outcome.explanation}" if outcome.explanation else ""
            return f"{outcome.metric}: {outcome.value:.4g}{by} ({outcome.method}, n={outcome.n}).{why}"
        case NotApplicable():
            return f"{outcome.metric}: not applicable: {outcome.reason}"
        case Failure():
            return f"{outcome.metric}: failed{by} ({outcome.kind}): {outcome.reason}"
