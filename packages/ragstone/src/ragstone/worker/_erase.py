"""Erasure of the requests of users and sessions, from the store and its spool."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from ragstone._util.files import remove_partials
from ragstone.schema import Captured, Trace
from ragstone.spool import SpoolReader
from ragstone.store import ErasedRequests, Store
from ragstone.worker._id_key import stored_ids
from ragstone.worker._intake import SpoolTraceSource, StepErrors, spool_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What was erased, or would be."""

    stored: ErasedRequests
    waiting: int = 0
    """Requests that wait in the spool. An erasure stores them first, so only one that counts has some."""
    live_segments: int = 0
    """Files of the spool that a running process still writes to. They keep the text of requests that were stored."""
    partial_files: int = 0
    """Hidden files next to the store, which killed commands have left behind."""


def erase_requests(
    store: str | os.PathLike[str],
    opened: Store,
    *,
    users: Collection[str] = (),
    sessions: Collection[str] = (),
    ids: Collection[str] = (),
    dry_run: bool = False,
) -> Erasure:
    """Erase the requests of users and sessions, and single ones.

    Ids of users and sessions are as the application gives them or as they are stored, and `ids` are trace ids of
    Ragstone or OpenTelemetry. `opened` can be written, or also only read with `dry_run`, which only counts.

    Raises:
        StoreError: If the store or its spool cannot be read or written.
    """
    users, sessions = stored_ids(store, "user", users), stored_ids(store, "session", sessions)
    reader = SpoolReader(spool_directory(store))
    waiting = 0
    if dry_run:
        waiting = sum(
            isinstance(entry, Captured) and _is_of(entry.trace, users, sessions, ids)
            for batch in reader.batches(opened.traces.segment_offsets())
            for entry in batch.entries
        )
    else:
        source, errors = SpoolTraceSource(spool_directory(store)), StepErrors()
        while source.transfer_batch(opened, errors):
            pass
        errors.raise_first()
    found = opened.traces.find(users=users, sessions=sessions, ids=ids)
    return Erasure(
        # Also ids that were not found: feedback about them may wait.
        stored=opened.upkeep.erase([*found, *ids], dry_run=dry_run),
        waiting=waiting,
        live_segments=sum(segment.live for segment in reader.segments()),
        partial_files=remove_partials(spool_directory(store).parent, dry_run=dry_run),
    )


def _is_of(trace: Trace, users: Collection[str], sessions: Collection[str], ids: Collection[str]) -> bool:
    return trace.user_id in users or trace.session_id in sessions or trace.trace_id in ids or trace.otel_trace_id in ids
