"""Insertion of captured requests and other entries of spool segments, within the transaction of their batch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from ragstone.schema import Captured, Dropped, Feedback, Ignored, SampledOut, Trace
from ragstone.store._bodies import to_body
from ragstone.store._checksums import checksum_of
from ragstone.store._counters import DROPPED, IGNORED, add_to_counters, evidence_counters, state_counter
from ragstone.store._erasure import find_erased
from ragstone.store._feedback import add_feedback, match_feedback
from ragstone.store._plan import plans_of_entries
from ragstone.store._sql import Sql, marks, pages, save_meta
from ragstone.store._tables import CHECKED_COLUMNS

_LABEL_COLUMNS: Final = CHECKED_COLUMNS["traces"][4:]
"""Columns of a request that are not known if only its id is stored."""
_MAX_SLICES: Final = 30
_MAX_LENGTH: Final = 100
"""Longest name and value in characters. Longer values are cut."""


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
    counted = Counter(captured=new + drops.total(), duplicates=came - new) + states + ignored
    counted.update({f"{DROPPED}{reason}": n for reason, n in drops.items()})
    for entry in traces.values():
        if isinstance(entry, Captured):
            counted.update([f"ended:{entry.trace.status}", *evidence_counters(entry.trace.evidence)])
    add_to_counters(db, counted)
    for key, example in examples.items():
        save_meta(db, key, example)
    return new


def _known(db: Sql, trace_ids: Sequence[str]) -> Iterator[str]:
    """Yield the ids that are already stored."""
    for ids in pages(trace_ids):
        for (trace_id,) in db.execute(f"SELECT trace_id FROM traces WHERE trace_id IN ({marks(ids)})", ids):  # noqa: S608
            yield trace_id


def _insert(db: Sql, entries: Sequence[Captured | SampledOut], *, now: float) -> Counter[str]:
    """Insert the traces that are not stored yet (another host may have stored one) and count them by their counter."""
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


def _row(entry: Captured | SampledOut, *, now: float) -> tuple[object, ...]:
    """Return the values of `CHECKED_COLUMNS` of an entry that arrives now (Unix seconds)."""
    if isinstance(entry, SampledOut):
        return (entry.trace_id, entry.started_at, now, entry.inclusion_probability, *([None] * len(_LABEL_COLUMNS)))
    trace, slices = entry.trace, slices_of(entry.trace)
    labels = [getattr(trace, name) for name in _LABEL_COLUMNS[:-1]]
    text = json.dumps(slices, sort_keys=True) if slices else None
    return (trace.trace_id, trace.started_at, now, trace.inclusion_probability, *labels, text)


def slices_of(trace: Trace) -> dict[str, str]:
    """Return the values of a request by slice, at most 30.

    A tag `topic:billing` or `topic=billing` is the value "billing" of `tag:topic`. A tag without value is "yes".
    `language` is the value of the tag `language`, `retriever` the name of the first retrieval.
    """
    found: dict[str, str] = {}
    for tag in trace.tags:
        cut = min((i for i in (tag.find(":"), tag.find("=")) if i > 0), default=len(tag))
        name, value = tag[:cut].strip(), tag[cut + 1 :].strip() or "yes"
        if name and len(name) <= _MAX_LENGTH and len(found) < _MAX_SLICES - 2:
            found.setdefault(f"tag:{name}", value[:_MAX_LENGTH])
    retriever = next((r.name for r in trace.retrievals if r.name), None)
    language = found.get("tag:language")
    return found | {
        name: value[:_MAX_LENGTH] for name, value in (("retriever", retriever), ("language", language)) if value
    }
