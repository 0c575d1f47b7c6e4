"""Deliveries of outcomes and alarms to sinks.

An alarm has a row in the outbox for each sink. An outcome has one only if its delivery was retried, skipped or failed.

A range has the outcomes whose `seq` is above `start` and at most `stop`. One of them that has a row in the outbox is as
the row says. Of the others, those up to `cursor` were sent, and those above it are pending. This needs outcomes to be
committed in the order of `seq` (see `Lock.ORDER`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from ragstone.schema import AlarmDelivery, Delivery, DeliveryCounts
from ragstone.store._bodies import to_outcome
from ragstone.store._database import Part
from ragstone.store._sql import LAST_SEQ, Sql, marks, pages
from ragstone.store._types import DeliveryKind, DeliveryState, OutboxRow

HAS_ROW: Final = (
    "EXISTS (SELECT 1 FROM outbox AS x WHERE x.kind = 'outcome' AND x.item_id = o.outcome_id AND x.sink = r.sink)"
)
"""Whether the outbox has a row for the outcome `o` and the sink of the range `r`."""

SINCE: Final = "CASE WHEN r.since > o.stored_at THEN r.since ELSE o.stored_at END"
"""When the outcome `o` was put in line for the range `r`."""

_WITHOUT_ROW: Final = f"""
    FROM sink_ranges AS r JOIN outcomes AS o ON o.seq > ? AND o.seq <= ?
    WHERE r.sink = ? AND r.start = ? AND NOT {HAS_ROW}
"""
"""Outcomes between two numbers that have no row in the outbox for the range of a sink with a start."""


class Range(NamedTuple):
    """A row of `sink_ranges`."""

    sink: str
    start: int
    stop: int
    """`LAST_SEQ` while the sink is in the plan."""
    cursor: int
    sent: int
    """Number of sent deliveries without a row in the outbox."""
    since: float
    """When its pending outcomes were put in line, if that was after they were stored (Unix seconds)."""


def read_ranges(db: Sql, sink: str | None = None, *, lock: str = "") -> list[Range]:
    """Return the ranges of a sink, or of all, oldest first."""
    rows = db.execute(
        f"""
        SELECT sink, start, stop, cursor, sent, since FROM sink_ranges
        WHERE (sink = ?1 OR ?1 IS NULL) ORDER BY sink, start {lock}
        """,  # noqa: S608 - one of two constant locks
        (sink,),
    )
    return [Range(*row) for row in rows]


def set_sinks(db: Sql, sinks: Sequence[str], *, now: float) -> None:
    """Replace the sinks of the plan. An added one gets the outcomes from now on, and a removed one those until now."""
    names = list(dict.fromkeys(sinks))
    (newest,) = db.execute("SELECT COALESCE(MAX(seq), 0) FROM outcomes").fetchone()
    ranges = read_ranges(db)
    open_ranges = {each.sink: each for each in ranges if each.stop == LAST_SEQ}
    # A sink that comes back before anything else was stored continues.
    latest = {each.sink: each for each in ranges if each.stop == newest}
    for name, each in open_ranges.items():
        if name not in names:
            save_range(db, each._replace(stop=newest))
    for name in names:
        if name in latest and name not in open_ranges:
            save_range(db, latest[name]._replace(stop=LAST_SEQ))
    db.executemany(
        "INSERT INTO sink_ranges (sink, start, stop, cursor, sent, since) VALUES (?, ?, ?, ?, 0, ?)",
        [(name, newest, LAST_SEQ, newest, now) for name in names if name not in open_ranges and name not in latest],
    )
    db.execute("DELETE FROM sinks")
    db.executemany("INSERT INTO sinks (name) VALUES (?)", [(name,) for name in names])


def advance(db: Sql, queue: Range, sent: Collection[str], *, upto: int = 0) -> tuple[Range, set[str]]:
    """Return a range with its cursor after all that has a row in the outbox or was sent now.

    Also returns which of the ids that were sent now the cursor counts as sent. Those that are elsewhere do not matter.
    `upto` is the largest `seq` of the outcomes of the range that have a row since now.
    """
    rows = db.execute(
        f"SELECT o.seq, o.outcome_id {_WITHOUT_ROW} ORDER BY o.seq LIMIT ?",
        (queue.cursor, queue.stop, queue.sink, queue.start, len(sent) + 1),
    ).fetchall()
    passed: set[str] = set()
    cursor = max(upto, queue.cursor)
    for seq, outcome_id in rows:
        if outcome_id not in sent:
            cursor = seq - 1
            break
        cursor = max(seq, cursor)
        passed.add(outcome_id)
    return queue._replace(cursor=cursor, sent=queue.sent + len(passed)), passed


def save_range(db: Sql, queue: Range) -> None:
    """Store a changed range."""
    db.execute(
        "UPDATE sink_ranges SET stop = ?, cursor = ?, sent = ?, since = ? WHERE sink = ? AND start = ?",
        (queue.stop, queue.cursor, queue.sent, queue.since, queue.sink, queue.start),
    )


def shorten_ranges(db: Sql) -> None:
    """Let no range begin or end after the last outcome. A file gives the `seq` of removed rows to later ones."""
    (newest,) = db.execute("SELECT COALESCE(MAX(seq), 0) FROM outcomes").fetchone()
    for each in read_ranges(db):
        is_open = each.stop == LAST_SEQ
        key = (each.sink, each.start)
        if not is_open and min(each.stop, newest) <= each.start:
            db.execute("DELETE FROM sink_ranges WHERE sink = ? AND start = ?", key)
        elif max(each.start, each.cursor) > newest or newest < each.stop < LAST_SEQ:
            stop = LAST_SEQ if is_open else min(each.stop, newest)
            db.execute(
                "UPDATE sink_ranges SET start = ?, stop = ?, cursor = ? WHERE sink = ? AND start = ?",
                (min(each.start, newest), stop, min(each.cursor, newest), *key),
            )


def count_pending(db: Sql, queue: Range) -> tuple[int, float | None]:
    """Return the number of pending outcomes of a range without a row in the outbox, and since when the first one is."""
    key = (queue.cursor, queue.stop, queue.sink, queue.start)
    (n,) = db.execute(f"SELECT COUNT(*) {_WITHOUT_ROW}", key).fetchone()
    if not n:
        return 0, None
    first = db.execute(f"SELECT {SINCE} {_WITHOUT_ROW} ORDER BY o.seq LIMIT 1", key).fetchone()
    return int(n), float(first[0])


def count_sent(db: Sql) -> Iterator[tuple[Range, int]]:
    """Yield each range with the number of its sent deliveries without a row in the outbox, from the outcomes."""
    for each in read_ranges(db):
        key = (each.start, each.cursor, each.sink, each.start)
        yield each, int(db.execute(f"SELECT COUNT(*) {_WITHOUT_ROW}", key).fetchone()[0])


_OTHER_FIELDS: Final = ("outcome", "otel_sampled", "is_backfilled", "attempts", "since", "cause")
REQUEST_COLUMNS: Final = {
    name: "t.started_at" if name == "requested_at" else f"t.{name}"
    for name in (each.name for each in fields(Delivery))
    if name not in _OTHER_FIELDS
}
"""Fields of a `Delivery` that are read from a column of its request without conversion, with this column."""

DELIVERY_FIELDS: Final = (
    f"o.outcome_id, o.value, b.body, t.otel_sampled, o.backfilled, {', '.join(REQUEST_COLUMNS.values())}"
)
_REQUESTS: Final = "LEFT JOIN outcome_bodies AS b ON b.seq = o.seq JOIN traces AS t ON t.trace_id = o.sample_id"


def to_delivery(fields: Sequence[Any], *, attempts: int = 0, since: float | None = None) -> Delivery:
    """Return a delivery from the values of `DELIVERY_FIELDS`."""
    outcome_id, value, body, otel_sampled, backfilled, *columns = fields
    return Delivery(
        outcome=to_outcome(body, outcome_id, value, columns[0]),
        otel_sampled=None if otel_sampled is None else bool(otel_sampled),
        is_backfilled=backfilled is not None,
        attempts=attempts,
        since=since,
        **dict(zip(REQUEST_COLUMNS, columns, strict=True)),
    )


class Deliveries(Part):
    """Deliveries of outcomes and alarms to sinks."""

    def due(self, sink: str, *, limit: int, now: float | None = None) -> list[Delivery]:
        """Return up to `limit` deliveries to `sink` that are due at `now` (Unix seconds, default: the current time)."""
        if not self._database.delivers(sink):
            return []  # another worker does
        limit = max(limit, 0)
        with self._database.read() as db:
            retried = db.execute(
                f"""
                SELECT x.next_try, x.attempts, x.since, {DELIVERY_FIELDS}
                FROM outbox AS x JOIN outcomes AS o ON o.outcome_id = x.item_id {_REQUESTS}
                WHERE x.kind = 'outcome' AND x.sink = ? AND x.state = 'pending' AND x.next_try <= ?
                ORDER BY x.next_try, x.seq LIMIT ?
                """,  # noqa: S608 - constant columns
                (sink, self._database.now() if now is None else now, limit),
            ).fetchall()
            first: list[Any] = []
            for queue in read_ranges(db, sink):
                if queue.cursor < queue.stop and len(first) < limit:
                    first += db.execute(
                        f"""
                        SELECT o.since, 0, o.since, {DELIVERY_FIELDS} FROM (
                            SELECT {SINCE} AS since, o.seq, o.outcome_id, o.value, o.sample_id, o.backfilled
                            {_WITHOUT_ROW} ORDER BY o.seq LIMIT ?
                        ) AS o {_REQUESTS} ORDER BY o.seq
                        """,  # noqa: S608 - constant columns and conditions
                        (queue.cursor, queue.stop, sink, queue.start, limit - len(first)),
                    ).fetchall()
            # By age, so that neither retries nor new outcomes wait for all of the others.
            return [
                to_delivery(fields, attempts=attempts, since=since)
                for _, attempts, since, *fields in islice(merge(retried, first, key=itemgetter(0)), limit)
            ]

    def due_alarms(self, sink: str, *, limit: int, now: float | None = None) -> list[AlarmDelivery]:
        """Return up to `limit` deliveries of alarms to `sink` that are due at `now` (Unix seconds, default: the current time)."""
        if not self._database.delivers(sink):
            return []
        with self._database.read() as db:
            rows = db.execute(
                """
                SELECT item_id, attempts, since FROM outbox
                WHERE kind = 'alarm' AND sink = ? AND state = 'pending' AND next_try <= ? ORDER BY next_try, seq LIMIT ?
                """,
                (sink, self._database.now() if now is None else now, max(limit, 0)),
            ).fetchall()
            found = []
            for item_id, attempts, since in rows:
                number, _, event = item_id.partition(":")
                (body,) = db.execute("SELECT body FROM alarms WHERE number = ?", (int(number),)).fetchone()
                found.append(
                    AlarmDelivery(id=item_id, event=event, alarm=json.loads(body), attempts=attempts, since=since)
                )
            return found

    def mark(
        self,
        sink: str,
        ids: Sequence[str],
        state: DeliveryState,
        *,
        error: str | None = None,
        next_try: float | None = None,
        kind: DeliveryKind = "outcome",
    ) -> None:
        """Store what became of deliveries.

        "skipped" means that the sink does not store such outcomes, "failed" that only `requeue` retries them, and
        "pending" that they are due again at `next_try` (Unix seconds). `error` says why they were not sent.
        """
        result = _Result(state, error, next_try)
        changes = "state <> 'sent'" if state == "sent" else "state = 'pending'"
        with self._database.write() as db:
            if kind == "outcome":
                ids = _mark_outcomes(db, sink, ids, result, lock=self._database.lock_completed)
            db.executemany(
                f"""
                UPDATE outbox SET state = ?, attempts = attempts + 1, next_try = COALESCE(?, next_try), last_error = ?
                WHERE kind = ? AND item_id = ? AND sink = ? AND {changes}
                """,  # noqa: S608 - one of two constant conditions
                [(state, next_try, error, kind, id_, sink) for id_ in ids],
            )

    def requeue(self, *, sink: str | None = None, state: DeliveryState = "failed") -> int:
        """Make deliveries in a state pending again, for one sink or all, and return their number."""
        now = self._database.now()
        with self._database.write() as db:
            n = 0
            for queue in read_ranges(db, sink, lock=self._database.lock_completed):
                if state == "sent":
                    n += queue.sent
                    save_range(db, queue._replace(cursor=queue.start, sent=0, since=now))
                elif state == "pending":
                    n += count_pending(db, queue)[0]
                    save_range(db, queue._replace(since=now))
            again = """
                UPDATE outbox SET state = 'pending', attempts = 0, since = ?1, next_try = ?1
                WHERE state = ?2 AND (sink = ?3 OR ?3 IS NULL)
            """
            return n + db.execute(again, (now, state, sink)).rowcount

    def read(self, *, sink: str | None = None, state: DeliveryState | None = None, limit: int = 100) -> list[OutboxRow]:
        """Return the state of single deliveries, in the order in which they were queued."""
        limit = max(limit, 0)
        with self._database.read() as db:
            rows = db.execute(
                """
                SELECT x.since, COALESCE(o.seq, 0), x.kind, x.item_id, o.sample_id, o.metric, x.sink, x.state, x.attempts,
                       x.next_try, x.last_error
                FROM outbox AS x LEFT JOIN outcomes AS o ON x.kind = 'outcome' AND o.outcome_id = x.item_id
                WHERE (x.sink = ?1 OR ?1 IS NULL) AND (x.state = ?2 OR ?2 IS NULL) ORDER BY x.seq LIMIT ?3
                """,
                (sink, state, limit),
            ).fetchall()
            for queue in read_ranges(db, sink):
                for found, after, upto in (("sent", queue.start, queue.cursor), ("pending", queue.cursor, queue.stop)):
                    if after < upto and state in (None, found):
                        rows += db.execute(
                            f"""
                            SELECT {SINCE}, o.seq, 'outcome', o.outcome_id, o.sample_id, o.metric, r.sink, ?, ?, {SINCE}, NULL
                            {_WITHOUT_ROW} ORDER BY o.seq LIMIT ?
                            """,
                            (found, int(found == "sent"), after, upto, queue.sink, queue.start, limit),
                        ).fetchall()
        return [OutboxRow(*columns) for _, _, *columns in sorted(rows, key=itemgetter(0, 1))[:limit]]

    def stop_sink(self, sink: str, *, reason: str) -> None:
        """Record why delivery to a sink is paused. The next `Plan.set` deletes the reason, so a new worker retries."""
        # Another worker may deliver to the sink instead: its credentials may be valid.
        with self._database.write() as db:
            db.execute("UPDATE sinks SET stopped = ? WHERE name = ?", (reason, sink))
        self._database.stop_delivering(sink)


class _Result(NamedTuple):
    """What became of deliveries."""

    state: DeliveryState
    error: str | None = None
    next_try: float | None = None
    """Unix seconds, if they are retried."""


def _mark_outcomes(db: Sql, sink: str, ids: Sequence[str], result: _Result, *, lock: str) -> list[str]:
    """Store the result of deliveries without a row in the outbox, and return the ids of those with a row to change.

    A retried delivery that is sent loses its row. A delivery that was sent before keeps its state.
    """
    # Locked first: another worker may deliver to the sink if this one has lost its connection.
    queues = read_ranges(db, sink, lock=lock)
    left = dict.fromkeys(ids)
    if result.state == "sent":
        # Nearly always all of them: they were read from here, in this order.
        for place, queue in enumerate(queues):
            if left and queue.cursor < queue.stop:
                queues[place], passed = advance(db, queue, left.keys())
                save_range(db, queues[place])
                left = {id_: None for id_ in left if id_ not in passed}
    found = _find(db, sink, list(left))
    for queue in queues:
        here = {id_: each for id_, each in found.items() if queue.start < each.seq <= queue.stop}
        first = {id_: each for id_, each in here.items() if each.state is None and each.seq > queue.cursor}
        moved = queue
        if first:
            # After one that is not handled, so that it is before the cursor later.
            _insert_rows(db, queue, first, result)
            moved, _ = advance(db, queue, (), upto=max(each.seq for each in first.values()))
        if result.state == "sent":
            retried = [
                id_ for id_, each in here.items() if each.state not in (None, "sent") and each.seq <= moved.cursor
            ]
            db.executemany(
                "DELETE FROM outbox WHERE kind = 'outcome' AND item_id = ? AND sink = ?",
                [(id_, sink) for id_ in retried],
            )
            moved = moved._replace(sent=moved.sent + len(retried))
        if moved != queue:
            save_range(db, moved)
    return [id_ for id_, each in found.items() if each.state is not None]


class _Found(NamedTuple):
    """An outcome, and its delivery to a sink."""

    seq: int
    stored_at: float
    state: DeliveryState | None
    """State of its row in the outbox, or None without one."""


def _find(db: Sql, sink: str, ids: Sequence[str]) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for page in pages(ids):
        rows = db.execute(
            f"""
            SELECT o.outcome_id, o.seq, o.stored_at, x.state FROM outcomes AS o
            LEFT JOIN outbox AS x ON x.kind = 'outcome' AND x.item_id = o.outcome_id AND x.sink = ?
            WHERE o.outcome_id IN ({marks(page)})
            """,  # noqa: S608 - placeholders
            (sink, *page),
        )
        found |= {outcome_id: _Found(*row) for outcome_id, *row in rows}
    return found


def _insert_rows(db: Sql, queue: Range, outcomes: Mapping[str, _Found], result: _Result) -> None:
    db.executemany(
        """
        INSERT INTO outbox (kind, item_id, sink, state, attempts, since, next_try, last_error)
        VALUES ('outcome', ?, ?, ?, 1, ?, ?, ?)
        """,
        [
            (id_, queue.sink, result.state, since, since if result.next_try is None else result.next_try, result.error)
            for id_, each in outcomes.items()
            for since in [max(each.stored_at, queue.since)]
        ],
    )


def count_deliveries(db: Sql, *, now: float) -> dict[str, DeliveryCounts]:
    """Count the deliveries to each sink. A sink that is no longer in the plan stays visible."""
    stopped: dict[str, str | None] = dict(db.execute("SELECT name, stopped FROM sinks ORDER BY name"))
    states: dict[str, Counter[str]] = {name: Counter() for name in stopped}
    oldest: dict[str, list[float]] = defaultdict(list)
    for queue in read_ranges(db):
        n, since = count_pending(db, queue)
        states.setdefault(queue.sink, Counter()).update(sent=queue.sent, pending=n)
        oldest[queue.sink] += [] if since is None else [since]
    for sink, state, n in db.execute("SELECT sink, state, count(*) FROM outbox GROUP BY sink, state"):
        states.setdefault(sink, Counter())[state] += n
    counts = {}
    for sink, by_state in states.items():
        # Rows are queued in the order of `seq`, so the first pending one is the oldest.
        row, error = (
            db.execute(
                f"SELECT {column} FROM outbox WHERE sink = ? AND state = 'pending' ORDER BY {order} LIMIT 1",  # noqa: S608 - constants
                (sink,),
            ).fetchone()
            for column, order in (("since", "seq"), ("last_error", "next_try"))
        )
        since_all = [*oldest[sink], *(row or ())]
        counts[sink] = DeliveryCounts(
            **by_state,
            oldest_pending_s=max(now - min(since_all), 0.0) if since_all else None,
            last_error=None if error is None else error[0],
            stopped=stopped.get(sink),
        )
    return counts
