"""The part `traces` of a store: batches of spool segments, and queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from ragstone.schema import (
    Captured,
    Dropped,
    Failure,
    Feedback,
    Ignored,
    NotApplicable,
    Outcome,
    SampledOut,
    Score,
    Trace,
    TraceOutline,
)
from ragstone.store._bodies import to_outcome, to_outline, to_trace
from ragstone.store._database import Lock, Part
from ragstone.store._feedback import feedback_of
from ragstone.store._ingest import insert_entries
from ragstone.store._plan import read_plan
from ragstone.store._sql import LAST_SEQ, Sql, marks, pages
from ragstone.store._types import PlannedMetric, RequestLabel, StoredAnswer, StorePosition, TraceReport

R = TypeVar("R")

_NOT_COLUMNS: Final = ("reasons", "trace", "outcomes", "backfilled", "feedback")
_REPORTED: Final = tuple(each.name for each in fields(TraceReport) if each.name not in _NOT_COLUMNS)
"""Columns of a request that have the name of a field of a `TraceReport`."""


RUN_SEGMENT: Final = "run:"
"""Beginning of the name of the segment with which a run is stored. Its offset is the time of the run in
milliseconds."""


class Traces(Part):
    """Stores traces and other entries of spool segments, and reads them."""

    def segment_offsets(self) -> dict[str, int]:
        """Return the offset up to which each spool segment is stored."""
        with self._database.read() as db:
            return _segment_offsets(db)

    def run_times(self) -> dict[str, float]:
        """Return the times of runs of `evaluate --store` (Unix seconds) by name, the first one first."""
        offsets = {name: at for name, at in self.segment_offsets().items() if name.startswith(RUN_SEGMENT)}
        return {name.removeprefix(RUN_SEGMENT): at / 1000 for name, at in sorted(offsets.items(), key=lambda x: x[1])}

    def ingest(
        self, segment: str, next_offset: int, entries: Sequence[Captured | SampledOut | Feedback | Dropped | Ignored]
    ) -> int:
        """Store a batch of a segment's entries, and in the same transaction the new offset of the segment.

        A batch that does not exceed the stored offset was stored before and is ignored. A trace id that is already
        stored (from another segment) is ignored. Returned is the number of new traces, including sampled-out ones.
        """
        with self._database.write() as db:
            if next_offset <= _segment_offsets(db).get(segment, -1):
                return 0
            self._database.lock(db, Lock.FEEDBACK, shared=not any(isinstance(entry, Feedback) for entry in entries))
            new = insert_entries(db, entries, now=self._database.now())
            db.execute(
                "INSERT INTO segments VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET next_offset = excluded.next_offset",
                (segment, next_offset),
            )
            return new

    def forget_segment(self, name: str) -> None:
        """Delete the offset of a segment whose file was removed. Do not call it earlier: its drops would count again.

        A power loss (unlike a killed process) can undo everything after the last `checkpoint`. Remove the file of a
        segment only after a `checkpoint` that returned True.
        """
        with self._database.write() as db:
            db.execute("DELETE FROM segments WHERE name = ?", (name,))

    def get(self, trace_id: str) -> Trace | None:
        """Return one trace, or None if it is not found, was sampled out or its text was removed."""
        return self.get_many([trace_id]).get(trace_id)

    def get_many(self, trace_ids: Sequence[str]) -> dict[str, Trace]:
        """Return what `get` returns for each of these ids, without those for which it returns None."""
        found: dict[str, Trace] = {}
        with self._database.read() as db:
            for ids in pages(trace_ids):
                rows = db.execute(
                    f"""
                    SELECT t.trace_id, b.body FROM traces AS t JOIN trace_bodies AS b USING (seq)
                    WHERE t.trace_id IN ({marks(ids)})
                    """,  # noqa: S608 - placeholders
                    ids,
                )
                found |= {trace_id: to_trace(body, trace_id) for trace_id, body in rows}
        return found

    def read(self, *, since: float | None = None) -> Iterator[Trace]:
        """Yield traces in order of arrival, without those whose text was removed. `since` selects as in `read_outlines`."""
        return self._read_bodies(to_trace, since=since)

    def read_outlines(
        self, *, since: float | None = None, after: StorePosition | None = None, upto: StorePosition | None = None
    ) -> Iterator[TraceOutline]:
        """Yield the outlines of traces, whose other fields are not validated, in the order of `read`.

        Their requests started at `since` (Unix seconds) or later, and they were stored after the position `after` and
        up to `upto`. In a shared store, transactions may end in another order than they began, so a trace may be
        missed.
        """
        return self._read_bodies(to_outline, since=since, after=after, upto=upto)

    def _read_bodies(
        self,
        parse: Callable[[object, str], R],
        *,
        since: float | None,
        after: StorePosition | None = None,
        upto: StorePosition | None = None,
    ) -> Iterator[R]:
        return self._read_pages(
            "traces",
            """
            SELECT t.seq, t.trace_id, b.body FROM traces AS t JOIN trace_bodies AS b USING (seq)
            WHERE t.seq > ?1 AND (t.started_at >= ?3 OR ?3 IS NULL) AND t.seq <= ?4
            ORDER BY t.seq LIMIT ?2
            """,
            (since, LAST_SEQ if upto is None else upto.traces),
            lambda _, page: (parse(body, trace_id) for _, trace_id, body in page),
            last=-1 if after is None else after.traces,
        )

    def inclusion_probabilities(self, *, since: float | None = None, until: float | None = None) -> dict[str, float]:
        """Return the sampling probabilities below 1, by trace id. `since` and `until` select as in `outcomes`."""
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

    def request_labels(
        self, key: RequestLabel, *, since: float | None = None, until: float | None = None
    ) -> dict[str, str]:
        """Return the value of a label of requests that have one, by trace id. `since` and `until` select as in `outcomes`."""
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

    def answers(self, trace_ids: Sequence[str]) -> dict[str, StoredAnswer]:
        """Return traces with their outcomes, by id. An id that is not found is missing.

        Raise StoreCorruptError if one of them cannot be read.
        """
        found: dict[str, StoredAnswer] = {}
        for page in pages(trace_ids):
            with self._database.read() as db:
                rows = db.execute(
                    f"""
                    SELECT t.trace_id, t.state, t.started_at, b.body
                    FROM traces AS t LEFT JOIN trace_bodies AS b USING (seq) WHERE t.trace_id IN ({marks(page)})
                    """,  # noqa: S608 - placeholders
                    page,
                ).fetchall()
                outcomes = defaultdict[str, list[Outcome]](list)
                for trace_id, outcome, _ in _outcomes_of(db, page):
                    outcomes[trace_id].append(outcome)
                for trace_id, state, started_at, body in rows:
                    trace = None if body is None else to_trace(body, trace_id)
                    found[trace_id] = StoredAnswer(
                        state=state, started_at=started_at, trace=trace, outcomes=tuple(outcomes[trace_id])
                    )
        return found

    def explain(self, trace_id: str) -> TraceReport | None:
        """Return all stored data about one trace, and why it was or was not scored. None if it is not found."""
        with self._database.read() as db:
            row = db.execute(
                f"""
                SELECT b.body, {", ".join(f"t.{column}" for column in _REPORTED)}
                FROM traces AS t LEFT JOIN trace_bodies AS b USING (seq) WHERE t.trace_id = ?
                """,  # noqa: S608 - constant columns
                (trace_id,),
            ).fetchone()
            if row is None:
                return None
            body, *columns = row
            known: dict[str, Any] = dict(zip(_REPORTED, columns, strict=True))
            if known["lease_owner"] is None:
                known["lease_until"] = None
            outcomes = list(_outcomes_of(db, [trace_id]))
            report = TraceReport(
                reasons=(),
                trace=None if body is None else to_trace(body, trace_id),
                outcomes=tuple(outcome for _, outcome, _ in outcomes),
                backfilled=tuple(outcome.metric for _, outcome, share in outcomes if share is not None),
                feedback=tuple(feedback_of(db, trace_id)),
                **known,
            )
            reasons = _explain_state(
                report, read_plan(db), max_attempts=self._database.max_attempts, now=self._database.now()
            )
            return replace(report, reasons=tuple(reasons))

    def find(
        self, *, users: Collection[str] = (), sessions: Collection[str] = (), ids: Collection[str] = ()
    ) -> list[str]:
        """Return the trace ids of the requests of these users, of these sessions, and with these ids, in order of arrival.

        Users and sessions are ids or the stored hashes of ids. Trace ids are those of Ragstone or OpenTelemetry.
        """
        wanted = {"user_id": users, "session_id": sessions, "trace_id": ids, "otel_trace_id": ids}
        conditions, values = list[str](), list[str]()
        for column, chosen in wanted.items():
            # Numbered, because one statement has both kinds of places.
            places = [f"?{len(values) + place}" for place in range(3, 3 + len(chosen))]
            conditions += [f"{column} IN ({', '.join(places)})"] if chosen else []
            values += chosen
        if not values:
            return []
        query = f"SELECT seq, trace_id FROM traces WHERE seq > ?1 AND ({' OR '.join(conditions)}) ORDER BY seq LIMIT ?2"  # noqa: S608
        return list(self._read_pages("traces", query, values, lambda _, page: (trace_id for _, trace_id in page)))


def _outcomes_of(db: Sql, trace_ids: Sequence[str]) -> Iterator[tuple[str, Outcome, float | None]]:
    """Yield the outcomes of some traces with the id of the trace and the share that a backfill scored, oldest first."""
    for trace_id, outcome_id, value, body, backfilled in db.execute(
        f"""
        SELECT o.sample_id, o.outcome_id, o.value, b.body, o.backfilled
        FROM outcomes AS o LEFT JOIN outcome_bodies AS b USING (seq) WHERE o.sample_id IN ({marks(trace_ids)}) ORDER BY o.seq
        """,  # noqa: S608 - placeholders
        trace_ids,
    ):
        yield trace_id, to_outcome(body, outcome_id, value, trace_id), backfilled


def _segment_offsets(db: Sql) -> dict[str, int]:
    return dict(db.execute("SELECT name, next_offset FROM segments"))


def _explain_state(
    report: TraceReport, plan: Sequence[PlannedMetric], *, max_attempts: int, now: float
) -> Iterator[str]:
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
    missing = [m.name for m in plan if m not in keys]
    if missing:
        why = "No outcome yet" if report.state == "pending" else "Finished before these metrics were planned"
        yield f"{why}: {', '.join(missing)}."
    elif not report.outcomes and report.state != "pending":
        yield "Finished without outcomes: no metric was planned."


def _waiting(report: TraceReport, *, max_attempts: int, now: float) -> str:
    if report.lease_until is not None and report.lease_until > now:
        return (
            f"Being scored by {report.lease_owner!r} (attempt {report.attempts} of {max_attempts}). Its lease expires "
            f"in {report.lease_until - now:.1f} s."
        )
    waiting = f"Waiting for a worker for {max(now - report.received_at, 0):.1f} s"
    if report.attempts == 0:
        return f"{waiting}, not claimed so far."
    end = "not leased now" if report.lease_owner is None else f"the lease of {report.lease_owner!r} expired"
    return f"{waiting}, claimed {report.attempts} of at most {max_attempts} times, {end}."


def _sentence(outcome: Outcome) -> str:
    by = f" by {outcome.judge}" if outcome.judge else ""
    match outcome:
        case Score():
            why = f" Reason: {outcome.explanation}" if outcome.explanation else ""
            return f"{outcome.metric}: {outcome.value:.4g}{by} ({outcome.method}, n={outcome.n}).{why}"
        case NotApplicable():
            return f"{outcome.metric}: not applicable: {outcome.reason}"
        case Failure():
            return f"{outcome.metric}: failed{by} ({outcome.kind}): {outcome.reason}"
