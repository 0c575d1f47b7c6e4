"""Erasure: removal of requests with everything that is stored about them. The ledger counts them as dropped."""

from __future__ import annotations

import hashlib
import json
import secrets
import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from ragstone.store._counters import DROPPED, add_to_counters, add_to_outcome_counts, state_counter
from ragstone.store._database import Part
from ragstone.store._deliveries import read_ranges, save_range, shorten_ranges
from ragstone.store._plan import read_plan
from ragstone.store._sql import Sql, marks, pages, read_meta, starting_with
from ragstone.store._types import ErasedRequests

ERASED: Final = "erased:"
"""Beginning of the names of the counters of erased requests, by the state that they had."""
ERASED_DELIVERIES: Final = "erased_delivery:"
"""Beginning of the names of the counters of erased deliveries in a final state. The state and the sink follow."""

_REASON: Final = "erased"
"""Why the ledger counts them as dropped."""
_GROUP: Final = 100
"""Requests of one transaction, so that others do not wait long."""
_IDENTITY: Final = "store_id"
_ERASED_ID: Final = "erased:"
"""Beginning of keys of the table `meta`. The hash of an id follows. The value is the time of the erasure (Unix
seconds)."""
_ANY_ERASED: Final = starting_with(_ERASED_ID)


class Erasure(Part):
    """Methods of `Upkeep` that erase requests."""

    def erase(self, trace_ids: Sequence[str], *, dry_run: bool = False) -> ErasedRequests:
        """Remove requests with all that is stored about them: texts, outcomes, deliveries, labels, feedback and canaries.

        Up to 100 requests are removed in one transaction. The ledger counts them as dropped, with the reason "erased".
        Values of closed sessions stay in streams, without what identifies them. What sinks have received stays there.
        Hashes of the ids are kept: a request that arrives again is a duplicate.

        Args:
            trace_ids: The requests. Ids that are not stored are ignored.
            dry_run: Only count.
        """
        total = ErasedRequests()
        ordered = sorted(set(trace_ids))
        for start in range(0, len(ordered), _GROUP):
            group = ordered[start : start + _GROUP]
            if dry_run:
                with self._database.read() as db:
                    total += _find(db, group)[0]
            else:
                with self._database.write() as db:
                    total += erase_group(db, group, lock=self._database.lock_completed, now=self._database.now())
        return total


class _Outcome(NamedTuple):
    """A row of `outcomes`."""

    seq: int
    id: str
    sample_id: str
    metric: str
    metric_version: str
    judge_hash: str
    kind: str
    value: float | None


class _Found(NamedTuple):
    """What is stored about a group of requests."""

    traces: Sequence[Any]
    """Rows: `seq`, id, state, id of the session."""
    outcomes: Sequence[_Outcome]
    ranges: Sequence[tuple[Any, int]]
    """Ranges of sinks that change, with their new number of sent outcomes."""
    deliveries: Counter[tuple[str, str]]
    """Number of deliveries in a final state, by state and sink."""


def _find(db: Sql, ids: Sequence[str], *, lock: str = "") -> tuple[ErasedRequests, _Found]:
    traces = db.execute(
        f"""
        SELECT seq, trace_id, state, COALESCE(session_id, trace_id), received_at FROM traces
        WHERE trace_id IN ({marks(ids)}) ORDER BY trace_id {lock}
        """,  # noqa: S608 - placeholders and a constant lock
        ids,
    ).fetchall()
    outcomes = [
        _Outcome(*row)
        for row in db.execute(
            f"""
            SELECT seq, outcome_id, sample_id, metric, metric_version, judge_hash, kind, value FROM outcomes
            WHERE sample_id IN ({marks(ids)}) ORDER BY seq
            """,  # noqa: S608 - placeholders
            ids,
        )
    ]
    states: dict[tuple[str, str], str] = {}
    for page in pages([outcome.id for outcome in outcomes]):
        query = f"SELECT item_id, sink, state FROM outbox WHERE kind = 'outcome' AND item_id IN ({marks(page)})"  # noqa: S608
        states |= {(item_id, sink): state for item_id, sink, state in db.execute(query, page)}
    final = Counter((state, sink) for (_, sink), state in states.items() if state != "pending")
    sent = Counter({sink: n for (state, sink), n in final.items() if state == "sent"})
    ranges = []
    for each in read_ranges(db, lock=lock):
        n = sum(each.start < o.seq <= each.cursor and (o.id, each.sink) not in states for o in outcomes)
        if n:
            sent[each.sink] += n
            final["sent", each.sink] += n
            ranges.append((each, each.sent - n))
    requests = [trace_id for _, trace_id, *_ in traces]
    labels, feedback = (
        db.execute(f"SELECT COUNT(*) FROM {table} WHERE trace_id IN ({marks(ids)})", ids).fetchone()[0]  # noqa: S608
        for table in ("labels", "feedback")
    )
    counts = ErasedRequests(
        requests=len(requests),
        outcomes=len(outcomes),
        labels=int(labels),
        feedback=int(feedback),
        sent=dict(sent),
        since=min((row[4] for row in traces), default=None),
    )
    return counts, _Found([row[:4] for row in traces], outcomes, ranges, final)


def erase_group(
    db: Sql, ids: Sequence[str], *, lock: str, now: float | None = None, reason: str = _REASON
) -> ErasedRequests:
    """Remove some requests with all that is stored about them.

    `now` is given (Unix seconds) if they must not be stored again when they arrive once more. The ledger counts them as
    dropped with the reason.
    """
    # Traces are locked first, as by workers that store outcomes, then the ranges, as by workers that deliver.
    counts, (traces, outcomes, ranges, deliveries) = _find(db, ids, lock=lock)
    for each, n in ranges:
        save_range(db, each._replace(sent=n))
    _correct_plan(db, traces, outcomes)
    for table in ("watch_queue", "canaries", "canary_scores", "labels", "cases", "label_frame", "feedback"):
        db.executemany(f"DELETE FROM {table} WHERE trace_id = ?", [(id_,) for id_ in ids])  # noqa: S608 - constant
    # Also feedback about a request that never came. That of a stored request does not wait, whichever id it names.
    db.executemany("DELETE FROM feedback WHERE trace_id IS NULL AND request_id = ?", [(id_,) for id_ in ids])
    _forget_sessions(db, traces)
    _forget_in_alarms(db, ids)
    _forget_damaged_labels(db, ids)
    db.executemany("DELETE FROM outbox WHERE kind = 'outcome' AND item_id = ?", [(o.id,) for o in outcomes])
    for table in ("outcome_bodies", "outcomes"):
        db.executemany(f"DELETE FROM {table} WHERE seq = ?", [(o.seq,) for o in outcomes])  # noqa: S608 - constant
    if outcomes:
        shorten_ranges(db)
    for table in ("trace_bodies", "traces"):
        db.executemany(f"DELETE FROM {table} WHERE seq = ?", [(seq,) for seq, *_ in traces])  # noqa: S608 - constant
    add_to_outcome_counts(db, [((o.metric, o.metric_version, o.judge_hash, o.kind), o.value) for o in outcomes], n=-1)
    states = Counter(state for _, _, state, *_ in traces)
    # `+` of counters would drop negative ones.
    changes = Counter({f"{DROPPED}{reason}": len(traces)})
    changes.update({f"{ERASED}{state}": n for state, n in states.items()})
    changes.update({state_counter(state): -n for state, n in states.items()})
    changes.update({f"{ERASED_DELIVERIES}{state}:{sink}": n for (state, sink), n in deliveries.items()})
    add_to_counters(db, changes)
    if now is not None:
        remember_erased(db, [trace_id for _, trace_id, *_ in traces], now=now)
    return counts


def _correct_plan(db: Sql, traces: Sequence[Any], outcomes: Sequence[_Outcome]) -> None:
    """Count requests that were finished before a metric was planned in its row too, where they are now dropped."""
    finished = {trace_id for _, trace_id, state, *_ in traces if state not in ("pending", "sampled_out")}
    for metric in read_plan(db):
        scored = {o.sample_id for o in outcomes if (o.metric, o.metric_version, o.judge_hash) == metric}
        db.execute(
            """
            UPDATE plan SET finished_before = CASE WHEN finished_before > ?1 THEN finished_before - ?1 ELSE 0 END
            WHERE name = ?2 AND version = ?3 AND judge_hash = ?4
            """,
            (len(finished - scored), *metric),
        )


def _forget_sessions(db: Sql, traces: Sequence[Any]) -> None:
    """Replace what identifies a request in the units of streams, whose values stay."""
    for _, trace_id, _, session in traces:
        db.execute("UPDATE watch_units SET worst_trace = '' WHERE session = ? AND worst_trace = ?", (session, trace_id))
    db.executemany(
        "UPDATE watch_units SET session = ? WHERE session = ?",
        [(f"erased-{secrets.token_hex(8)}", session) for session in sorted({row[3] for row in traces})],
    )


def _forget_in_alarms(db: Sql, ids: Sequence[str]) -> None:
    for number, body in db.execute("SELECT number, body FROM alarms").fetchall():
        if any(id_ in body for id_ in ids):
            record = json.loads(body)
            record["traces"] = [trace_id for trace_id in record.get("traces", ()) if trace_id not in ids]
            db.execute("UPDATE alarms SET body = ? WHERE number = ?", (json.dumps(record), number))


def _forget_damaged_labels(db: Sql, ids: Sequence[str]) -> None:
    for seq, line in db.execute("SELECT seq, line FROM damaged_labels").fetchall():
        if any(id_ in line for id_ in ids):
            db.execute("DELETE FROM damaged_labels WHERE seq = ?", (seq,))


def store_id(db: Sql) -> str:
    """Return the id of the store, which its first use creates. It is the salt of the hashes."""
    db.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO NOTHING", (_IDENTITY, uuid.uuid4().hex))
    return str(read_meta(db, _IDENTITY))


def remember_erased(db: Sql, trace_ids: Sequence[str], *, now: float) -> None:
    """Store the hashes of erased requests. `db` is the transaction that erases them."""
    salt = store_id(db)
    db.executemany(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO NOTHING",
        [(_key(salt, trace_id), f"{now:.0f}") for trace_id in sorted(trace_ids)],
    )


def find_erased(db: Sql, trace_ids: Collection[str]) -> set[str]:
    """Return those of some ids whose requests were erased."""
    # Most stores have none, and this is asked for each batch of new requests.
    any_key = "SELECT 1 FROM meta WHERE key >= ? AND key < ? LIMIT 1"
    if not trace_ids or db.execute(any_key, _ANY_ERASED).fetchone() is None:
        return set()
    salt = store_id(db)
    by_key = {_key(salt, trace_id): trace_id for trace_id in trace_ids}
    found = set()
    for page in pages(list(by_key)):
        rows = db.execute(f"SELECT key FROM meta WHERE key IN ({marks(page)})", page)  # noqa: S608 - placeholders
        found |= {by_key[key] for (key,) in rows}
    return found


def _key(salt: str, trace_id: str) -> str:
    digest = hashlib.sha256(f"{salt} {trace_id}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_ERASED_ID}{digest[:32]}"
