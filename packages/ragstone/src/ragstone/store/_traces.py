"""Traces: ingestion from the spool, leases, and queries."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from typing_extensions import override

from ragstone.errors import ConfigurationError, DataError
from ragstone.schema import Captured, Dropped, Failure, Feedback, Ignored, SampledOut, Trace, TraceOutline
from ragstone.store._body import DamagedRowError, checksum_of, last_key, to_body, to_outline, to_trace
from ragstone.store._completion import (
    IDS_PER_QUERY,
    PreparedCompletion,
    marks,
    prepare,
    read_keys,
    read_plan,
    store_completions,
)
from ragstone.store._counts import add_to_counters, state_counter
from ragstone.store._erased import find_erased, store_id
from ragstone.store._feedback import add_feedback, match_feedback
from ragstone.store._outcomes import IGNORED, evidence_counters, read_counter
from ragstone.store._plans import plans_of_entries, plans_of_worker
from ragstone.store._records import Claims, Completion, RequestLabel, StorePosition, TraceState
from ragstone.store._slices import slices_of
from ragstone.store._sql import LAST_SEQ, PAGE, Sql, SqlStore
from ragstone.store._tables import CHECKED_COLUMNS

R = TypeVar("R")

_logger = logging.getLogger("ragstone")

_LABEL_COLUMNS: Final = CHECKED_COLUMNS["traces"][4:]
"""Columns of a request that are not known if only its id is stored."""


class SqlTraces(SqlStore):
    """The methods of a store that ingest traces, lease them to workers and read them."""

    @override
    def segment_offsets(self) -> dict[str, int]:
        with self._database.read() as db:
            return _segment_offsets(db)

    @override
    def ingest(
        self, segment: str, next_offset: int, entries: Sequence[Captured | SampledOut | Feedback | Dropped | Ignored]
    ) -> int:
        with self._database.write() as db:
            if next_offset <= _segment_offsets(db).get(segment, -1):
                return 0
            self._order_feedback(db, is_new=any(isinstance(entry, Feedback) for entry in entries))
            new = insert_entries(db, entries, now=self._clock())
            db.execute(
                "INSERT INTO segments VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET next_offset = excluded.next_offset",
                (segment, next_offset),
            )
            return new

    @override
    def identity(self) -> str:
        with self._database.write() as db:
            return store_id(db)

    @override
    def forget_segment(self, name: str) -> None:
        with self._database.write() as db:
            db.execute("DELETE FROM segments WHERE name = ?", (name,))

    @override
    def duplicates(self) -> int:
        with self._database.read() as db:
            return read_counter(db, "duplicates")

    @override
    def claim(self, owner: str, limit: int, *, lease_s: float, plan: str | None = None, whole: bool = False) -> Claims:
        _check_lease(lease_s)
        claimed = Claims()
        partial: list[str] = []
        leases: list[tuple[str, float, int]] = []
        given_up: list[PreparedCompletion] = []
        last_seq = -1
        with self._database.write() as db:
            now = self._clock()
            # A condition for each plan, so that requests of other plans are not read.
            plans: list[tuple[str, tuple[str, ...]]] = [("", ())]
            if plan is not None:
                plans = [("AND t.plan = ?", (each,)) for each in plans_of_worker(db, plan)]
                plans.append(("AND t.plan IS NULL", ()))
            # A trace that fails here does not count, so that many of them do not look like an empty store.
            while len(claimed) < limit:
                missing = limit - len(claimed)
                rows: list[Any] = []
                for condition, values in plans:
                    rows += db.execute(
                        f"""
                        SELECT t.seq, t.trace_id, t.attempts, t.partial, b.body
                        FROM traces AS t LEFT JOIN trace_bodies AS b USING (seq)
                        WHERE t.state = 'pending' AND t.seq > ? AND t.lease_until <= ?
                              {condition} {"AND t.partial = 0" if whole else ""}
                        ORDER BY t.seq LIMIT ? {self._lock_claimed}
                        """,  # noqa: S608 - constants
                        (last_seq, now, *values, missing),
                    ).fetchall()
                if not rows:
                    break
                for last_seq, trace_id, attempts, is_partial, body in sorted(rows)[:missing]:
                    if attempts >= self._max_attempts:
                        reason = f"gave up after {attempts} attempts: each time the worker stopped."
                        given_up.append(_give_up(db, trace_id, reason, now=now))
                        continue
                    try:
                        trace = to_trace(body, trace_id)
                    except DamagedRowError as exc:
                        given_up.append(_give_up(db, trace_id, str(exc), now=now))
                        continue
                    leases.append((owner, now + lease_s, last_seq))
                    claimed.append(trace)
                    partial += [trace_id] if is_partial else []
            claimed.known = read_keys(db, partial)
            if given_up:
                store_completions(db, given_up, now=now, order=self._order_outcomes)
            db.executemany(
                "UPDATE traces SET lease_owner = ?, lease_until = ?, attempts = attempts + 1 WHERE seq = ?", leases
            )
        return claimed

    @override
    def renew(self, owner: str, trace_ids: Sequence[str], lease_s: float, *, waiting: bool = False) -> int:
        _check_lease(lease_s)
        with self._database.write() as db:
            if not trace_ids:
                return 0
            until = self._clock() + lease_s
            return db.executemany(
                """
                UPDATE traces SET lease_until = ?, attempts = attempts * ?
                WHERE trace_id = ? AND state = 'pending' AND lease_owner = ?
                """,
                [(until, 0 if waiting else 1, trace_id, owner) for trace_id in trace_ids],
            ).rowcount

    @override
    def release(self, owner: str) -> int:
        with self._database.write() as db:
            # Decrease the attempts: a worker that releases its traces has not crashed.
            return db.execute(
                """
                UPDATE traces SET lease_owner = NULL, lease_until = 0,
                                  attempts = CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END
                WHERE state = 'pending' AND lease_owner = ?
                """,
                (owner,),
            ).rowcount

    @override
    def release_all(self) -> int:
        with self._database.write() as db:
            # Keep the attempts: these workers have crashed, perhaps because of these traces.
            return db.execute(
                """
                UPDATE traces SET lease_owner = NULL, lease_until = 0
                WHERE state = 'pending' AND lease_owner IS NOT NULL
                """
            ).rowcount

    @override
    def has_other_leases(self, owner: str, *, received_by: float) -> bool:
        with self._database.read() as db:
            row = db.execute(
                """
                SELECT 1 FROM traces
                WHERE state = 'pending' AND lease_owner IS NOT NULL AND lease_owner <> ? AND received_at <= ? LIMIT 1
                """,
                (owner, received_by),
            ).fetchone()
            return row is not None

    @override
    def trace(self, trace_id: str) -> Trace | None:
        with self._database.read() as db:
            row = db.execute(
                "SELECT b.body FROM traces AS t JOIN trace_bodies AS b USING (seq) WHERE t.trace_id = ?", (trace_id,)
            ).fetchone()
            return None if row is None else to_trace(row[0], trace_id)

    @override
    def known(self, trace_ids: Sequence[str]) -> dict[str, Trace]:
        found: dict[str, Trace] = {}
        with self._database.read() as db:
            for start in range(0, len(trace_ids), IDS_PER_QUERY):
                ids = trace_ids[start : start + IDS_PER_QUERY]
                rows = db.execute(
                    f"""
                    SELECT t.trace_id, b.body FROM traces AS t JOIN trace_bodies AS b USING (seq)
                    WHERE t.trace_id IN ({marks(ids)})
                    """,  # noqa: S608 - placeholders
                    ids,
                )
                found |= {trace_id: to_trace(body, trace_id) for trace_id, body in rows}
        return found

    @override
    def position(self) -> StorePosition:
        with self._database.read() as db:
            found = [db.execute(f"SELECT max(seq) FROM {table}").fetchone()[0] for table in ("traces", "outcomes")]  # noqa: S608
        return StorePosition(*(seq or 0 for seq in found))

    @override
    def traces(
        self,
        *,
        state: TraceState | None = None,
        since: float | None = None,
        after: StorePosition | None = None,
        upto: StorePosition | None = None,
    ) -> Iterator[Trace]:
        return self._read_bodies(to_trace, state=state, since=since, after=after, upto=upto)

    @override
    def trace_outlines(
        self, *, since: float | None = None, after: StorePosition | None = None, upto: StorePosition | None = None
    ) -> Iterator[TraceOutline]:
        return self._read_bodies(to_outline, state=None, since=since, after=after, upto=upto)

    def _read_bodies(
        self,
        parse: Callable[[object, str], R],
        *,
        state: TraceState | None,
        since: float | None,
        after: StorePosition | None,
        upto: StorePosition | None,
    ) -> Iterator[R]:
        last = -1 if after is None else after.traces
        while True:
            with self._database.read() as db:
                page = db.execute(
                    """
                    SELECT t.seq, t.trace_id, b.body FROM traces AS t JOIN trace_bodies AS b USING (seq)
                    WHERE t.seq > ?1 AND (t.state = ?2 OR ?2 IS NULL) AND (t.started_at >= ?3 OR ?3 IS NULL)
                          AND t.seq <= ?4
                    ORDER BY t.seq LIMIT ?5
                    """,
                    (last, state, since, LAST_SEQ if upto is None else upto.traces, PAGE),
                ).fetchall()
                last = last_key("traces", page, last)
                found = [parse(body, trace_id) for _, trace_id, body in page]
            if not page:
                return
            yield from found

    @override
    def inclusion_probabilities(self, *, since: float | None = None, until: float | None = None) -> dict[str, float]:
        with self._database.read() as db:
            return dict(
                db.execute(
                    """
                    SELECT trace_id, inclusion_probability FROM traces
                    WHERE inclusion_probability < 1 AND state <> 'sampled_out'
                          AND (started_at >= ?1 OR ?1 IS NULL) AND (started_at < ?2 OR ?2 IS NULL)
                    """,
                    (since, until),
                ).fetchall()
            )

    @override
    def request_labels(
        self,
        key: RequestLabel,
        *,
        since: float | None = None,
        until: float | None = None,
    ) -> dict[str, str]:
        known: dict[str, str] = {}
        with self._database.read() as db:
            rows = db.execute(
                f"""
                SELECT trace_id, {key} FROM traces
                WHERE {key} IS NOT NULL AND state <> 'sampled_out'
                      AND (started_at >= ?1 OR ?1 IS NULL) AND (started_at < ?2 OR ?2 IS NULL)
                """,  # noqa: S608 - one of five names
                (since, until),
            )
            # Many requests have the same label, so each text is kept once.
            return {trace_id: known.setdefault(label, label) for trace_id, label in rows}


def insert_entries(
    db: Sql, entries: Sequence[Captured | SampledOut | Feedback | Dropped | Ignored], *, now: float
) -> int:
    """Insert the new entries within a transaction, count all of them, and return the number of new traces.

    A request that was erased before is counted as a duplicate: the ledger has counted it when it came first.
    """
    drops, ignored = Counter[str](), Counter[str]()
    examples: dict[str, str] = {}
    traces: dict[str, Captured | SampledOut] = {}
    feedback: list[Feedback] = []
    came = 0
    for entry in entries:
        if isinstance(entry, Feedback):
            feedback.append(entry)
        elif isinstance(entry, Dropped):
            drops[entry.reason] += entry.n
        elif isinstance(entry, Ignored):
            ignored[f"{IGNORED}{entry.reason}"] += entry.n
            examples[f"{IGNORED}{entry.reason}"] = entry.example
        else:
            came += 1
            traces.setdefault(entry.trace.trace_id if isinstance(entry, Captured) else entry.trace_id, entry)
    for known in (*_known(db, list(traces)), *find_erased(db, traces)):
        traces.pop(known, None)
    states = _insert(db, list(traces.values()), now=now)
    new = states.total()
    add_feedback(db, feedback, now=now)
    match_feedback(db, traces.values(), feedback)
    db.executemany(
        "INSERT INTO drops VALUES (?, ?) ON CONFLICT (reason) DO UPDATE SET n = drops.n + excluded.n",
        sorted(drops.items()),
    )
    counted = Counter(captured=new + drops.total(), duplicates=came - new) + states + ignored
    for entry in traces.values():
        if isinstance(entry, Captured):
            counted.update([f"ended:{entry.trace.status}", *evidence_counters(entry.trace.evidence)])
    add_to_counters(db, counted)
    db.executemany(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        list(examples.items()),
    )
    return new


def _segment_offsets(db: Sql) -> dict[str, int]:
    return dict(db.execute("SELECT name, next_offset FROM segments"))


def _known(db: Sql, trace_ids: Sequence[str]) -> Iterator[str]:
    """Yield the ids that are already stored."""
    for start in range(0, len(trace_ids), IDS_PER_QUERY):
        ids = trace_ids[start : start + IDS_PER_QUERY]
        for (trace_id,) in db.execute(f"SELECT trace_id FROM traces WHERE trace_id IN ({marks(ids)})", ids):  # noqa: S608
            yield trace_id


def _insert(db: Sql, entries: Sequence[Captured | SampledOut], *, now: float) -> Counter[str]:
    """Insert the traces that are not stored yet (another host may have just stored one) and count them by their counter."""
    captured = [entry for entry in entries if isinstance(entry, Captured)]
    sampled_out = [entry for entry in entries if isinstance(entry, SampledOut)]
    inserted = Counter[str]()
    plans = plans_of_entries(db, entries)
    for state, rows in (("pending", captured), ("sampled_out", sampled_out)):
        if rows:
            inserted[state_counter(state)] = db.executemany(
                f"""
                INSERT INTO traces ({", ".join(CHECKED_COLUMNS["traces"])}, checksum, state, plan)
                VALUES ({marks(CHECKED_COLUMNS["traces"])}, ?, ?, ?) ON CONFLICT (trace_id) DO NOTHING
                """,  # noqa: S608 - constant columns
                [
                    (*row, checksum_of(row), state, plans.get(str(row[0])))
                    for row in (_row(entry, now=now) for entry in rows)
                ],
            ).rowcount
    db.executemany(
        """
        INSERT INTO trace_bodies (seq, body) SELECT seq, ? FROM traces WHERE trace_id = ? AND state <> 'sampled_out'
        ON CONFLICT (seq) DO NOTHING
        """,
        [(to_body(entry.trace), entry.trace.trace_id) for entry in captured],
    )
    return inserted


def _label_values(trace: Trace) -> tuple[object, ...]:
    """Return the values of `_LABEL_COLUMNS`."""
    slices = slices_of(trace)
    values = [getattr(trace, name) for name in _LABEL_COLUMNS[:-1]]
    return (*values, json.dumps(slices, sort_keys=True) if slices else None)


def _row(entry: Captured | SampledOut, *, now: float) -> tuple[object, ...]:
    """Return the values of `CHECKED_COLUMNS`."""
    if isinstance(entry, Captured):
        return checked_columns(entry.trace, now=now)
    return (entry.trace_id, entry.started_at, now, entry.inclusion_probability, *([None] * len(_LABEL_COLUMNS)))


def checked_columns(trace: Trace, *, now: float) -> tuple[object, ...]:
    """Return the values of `CHECKED_COLUMNS` of a captured trace that arrives now (Unix seconds)."""
    return (trace.trace_id, trace.started_at, now, trace.inclusion_probability, *_label_values(trace))


def _give_up(db: Sql, trace_id: str, reason: str, *, now: float) -> PreparedCompletion:
    """Return a failure of every planned metric."""
    _logger.warning("trace %s will not be scored: %s", trace_id, reason, extra={"trace_id": trace_id})
    failures = [
        Failure(
            sample_id=trace_id,
            metric=metric.name,
            metric_version=metric.version,
            judge_hash=metric.judge_hash,
            kind="bug",
            reason=reason,
            created_at=now,
        )
        for metric in read_plan(db)
    ]
    prepared = prepare(Completion(trace_id=trace_id, outcomes=failures))
    if isinstance(prepared, DataError):
        raise prepared
    return prepared


def _check_lease(lease_s: float) -> None:
    if not lease_s > 0:
        raise ConfigurationError(f"lease_s must be positive, got {lease_s!r}.")
