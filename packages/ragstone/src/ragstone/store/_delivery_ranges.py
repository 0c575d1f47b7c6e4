"""Ranges: the outcomes that a sink receives, without a row in the outbox for each.

A range has the outcomes whose `seq` is above `start` and at most `stop`. One of them that has a row in the outbox is as
the row says. Of the others, those up to `cursor` were sent, and those above it are pending. This needs outcomes to be
committed in the order of `seq` (see `Lock.ORDER`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from ragstone.store._sql import LAST_SEQ, Sql

HAS_ROW: Final = (
    "EXISTS (SELECT 1 FROM outbox AS x WHERE x.kind = 'outcome' AND x.item_id = o.outcome_id AND x.sink = r.sink)"
)
"""Whether the outbox has a row for the outcome `o` and the sink of the range `r`."""

SINCE: Final = "CASE WHEN r.since > o.stored_at THEN r.since ELSE o.stored_at END"
"""When the outcome `o` was put in line for the range `r`."""

_IN_RANGE: Final = "FROM sink_ranges AS r JOIN outcomes AS o ON o.seq > r.{after} AND o.seq <= r.{upto}"


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
        f"""
        SELECT o.seq, o.outcome_id FROM sink_ranges AS r JOIN outcomes AS o ON o.seq > ? AND o.seq <= ?
        WHERE r.sink = ? AND r.start = ? AND NOT {HAS_ROW} ORDER BY o.seq LIMIT ?
        """,  # noqa: S608 - a constant condition
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
    if queue.cursor >= queue.stop:
        return 0, None
    key = (queue.cursor, queue.stop, queue.sink, queue.start)
    source = "FROM sink_ranges AS r JOIN outcomes AS o ON o.seq > ? AND o.seq <= ? WHERE r.sink = ? AND r.start = ?"
    (n,) = db.execute(f"SELECT COUNT(*) {source} AND NOT {HAS_ROW}", key).fetchone()
    if not n:
        return 0, None
    first = f"SELECT {SINCE} {source} AND NOT {HAS_ROW} ORDER BY o.seq LIMIT 1"
    return int(n), float(db.execute(first, key).fetchone()[0])


def count_sent(db: Sql) -> Iterator[tuple[Range, int]]:
    """Yield each range with the number of its sent deliveries without a row in the outbox, from the outcomes."""
    for each in read_ranges(db):
        (n,) = db.execute(
            f"""
            SELECT COUNT(*) {_IN_RANGE.format(after="start", upto="cursor")}
            WHERE r.sink = ? AND r.start = ? AND NOT {HAS_ROW}
            """,
            (each.sink, each.start),
        ).fetchone()
        yield each, int(n)
