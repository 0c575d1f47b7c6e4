"""Repair of a store: damaged rows move to the table `damaged_rows`, where nothing reads them and nothing is lost."""

from __future__ import annotations

import base64
import json
from typing import Final

from ragstone.store._body import DamagedRowError, checksum_of, to_trace
from ragstone.store._ranges import shorten_ranges
from ragstone.store._sql import Sql
from ragstone.store._tables import CHECKED_COLUMNS
from ragstone.store._traces import checked_columns

_KEYS: Final = {"label_frame": "trace_id"}
"""Columns by which rows are found, if it is not `seq`."""
_KEPT: Final = ("streams", "alarms")
"""Tables whose rows others refer to, or which cannot be made again. Only a backup restores them."""


def repair_row(db: Sql, table: str, key: int | str, problem: str, *, now: float) -> int:
    """Move a damaged row aside, with the rows that do not make sense without it. Return 0 if it cannot be repaired.

    Args:
        db: A transaction.
        table: Table that was verified.
        key: `seq` of the row, or the id of a request of the frame.
        problem: What is wrong.
        now: Unix seconds.
    """
    if table in _KEPT:
        return 0
    if table == "traces":
        return _repair_trace(db, int(key), problem, now=now)
    if table == "outbox":
        return _repair_delivery(db, int(key), problem, now=now)
    if table == "outcomes":
        _move(db, "outcome_bodies", key, problem, now=now)
        # Only a row that is not older than the cursor of its sink makes the delivery pending. All of it ends here.
        db.execute(
            "DELETE FROM outbox WHERE kind = 'outcome' AND item_id = (SELECT outcome_id FROM outcomes WHERE seq = ?)",
            (key,),
        )
    _move(db, table, key, problem, now=now)
    if table == "outcomes":
        shorten_ranges(db)
    return 1


def _repair_trace(db: Sql, seq: int, problem: str, *, now: float) -> int:
    state, received_at, body, trace_id = db.execute(
        """
        SELECT t.state, t.received_at, b.body, t.trace_id
        FROM traces AS t LEFT JOIN trace_bodies AS b ON b.seq = t.seq WHERE t.seq = ?
        """,
        (seq,),
    ).fetchone()
    try:
        trace = to_trace(body, trace_id)
    except DamagedRowError:
        # A pending request without a body fails when a worker claims it.
        _move(db, "trace_bodies", seq, problem, now=now)
        if state not in ("pending", "sampled_out"):
            db.execute("UPDATE traces SET text_removed_at = ? WHERE seq = ? AND text_removed_at IS NULL", (now, seq))
        return 1
    columns = checked_columns(trace, now=received_at)
    names = CHECKED_COLUMNS["traces"]
    _copy(db, "traces", seq, problem, now=now)
    db.execute(
        f"UPDATE traces SET {', '.join(f'{name} = ?' for name in names)}, checksum = ? WHERE seq = ?",  # noqa: S608 - constant columns
        (*columns, checksum_of(columns), seq),
    )
    return 1


def _repair_delivery(db: Sql, seq: int, problem: str, *, now: float) -> int:
    """Make a delivery pending, because a sink can receive an outcome twice. One of a missing row is moved aside."""
    _copy(db, "outbox", seq, problem, now=now)
    repaired = db.execute(
        """
        UPDATE outbox SET state = 'pending', attempts = 0, since = ?1, next_try = ?1
        WHERE seq = ?2 AND (kind = 'alarm' OR item_id IN (SELECT outcome_id FROM outcomes))
        """,
        (now, seq),
    )
    if not repaired.rowcount:
        db.execute("DELETE FROM outbox WHERE seq = ?", (seq,))
    return 1


def _copy(db: Sql, table: str, key: int | str, problem: str, *, now: float) -> None:
    rows = db.execute(f"SELECT * FROM {table} WHERE {_KEYS.get(table, 'seq')} = ?", (key,)).fetchall()  # noqa: S608 - constant names
    db.executemany(
        "INSERT INTO damaged_rows (found_at, place, problem, content) VALUES (?, ?, ?, ?)",
        [(now, table, problem, json.dumps([_plain(value) for value in row])) for row in rows],
    )


def _move(db: Sql, table: str, key: int | str, problem: str, *, now: float) -> None:
    _copy(db, table, key, problem, now=now)
    db.execute(f"DELETE FROM {table} WHERE {_KEYS.get(table, 'seq')} = ?", (key,))  # noqa: S608 - constant names


def _plain(value: object) -> object:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
