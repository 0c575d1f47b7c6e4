"""Erasure of the requests of users and sessions, from the store and its spool."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragstone._util.files import remove_partials, write_output
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
    cases: Mapping[str, int | None] = field(default_factory=dict)
    """Files of cases with these requests, as far as the store knows them, and the number of rows that were removed (or
    would be). None: the file is not on this machine, or cannot be written."""


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
    Ragstone or OpenTelemetry. `opened` can be written, or also only read with `dry_run`, which only counts. Raise
    StoreError if the store or its spool cannot be read or written.
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
    # Before the requests are erased: with them, the store forgets which files contain them.
    return Erasure(
        cases=_erase_cases(opened, {*found, *ids}, dry_run=dry_run),
        # Also ids that were not found: feedback about them may wait.
        stored=opened.upkeep.erase([*found, *ids], dry_run=dry_run),
        waiting=waiting,
        live_segments=sum(segment.live for segment in reader.segments()),
        partial_files=remove_partials(spool_directory(store).parent, dry_run=dry_run),
    )


def _erase_cases(store: Store, ids: Collection[str], *, dry_run: bool) -> dict[str, int | None]:
    """Remove requests from the files of cases that contain them, and return the number of removed rows by file."""
    removed: dict[str, int | None] = {}
    for path in sorted({case.path for case in store.labels.cases() if case.trace_id in ids}):
        try:
            lines = Path(path).read_text("utf-8").split("\n")
            kept = [line for line in lines if not _is_case_of(line, ids)]
            if not dry_run and len(kept) < len(lines):
                write_output(path, "\n".join(kept))
            removed[path] = len(lines) - len(kept)
        except (OSError, UnicodeDecodeError):
            removed[path] = None
    return removed


def _is_case_of(line: str, ids: Collection[str]) -> bool:
    try:
        return json.loads(line)["trace_id"] in ids
    except (ValueError, LookupError, TypeError):  # the user has changed the file
        return any(id_ in line for id_ in ids)


def _is_of(trace: Trace, users: Collection[str], sessions: Collection[str], ids: Collection[str]) -> bool:
    return trace.user_id in users or trace.session_id in sessions or trace.trace_id in ids or trace.otel_trace_id in ids
