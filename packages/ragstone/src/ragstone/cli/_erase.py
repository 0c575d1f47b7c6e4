"""`ragstone store erase`: remove all that is stored about a user, a session or a request."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from ragstone._util.quantities import count
from ragstone.cli._output import print_result, sanitize_for_terminal
from ragstone.cli._store import open_owned
from ragstone.errors import ConfigurationError
from ragstone.judges import ReplyCache
from ragstone.store import open_store
from ragstone.worker import Erasure, erase_requests


def erase_command(
    store: str,
    *,
    users: list[str] | None = None,
    sessions: list[str] | None = None,
    ids: list[str] | None = None,
    cache: Path | None = None,
    dry_run: bool = False,
    json_output: bool = False,
) -> None:
    """Remove all that is stored about a user or a request.

    Also about a session, from the store, its spool and a cache. The ledger counts what was erased.

    Options:
        users (--user ID): All requests of this user. Repeatable.
        sessions (--session ID): All requests of this session. Repeatable.
        ids (--trace ID): The request with this id, or this OpenTelemetry id. Repeatable.
        cache (DIR): Cache whose replies since these requests are removed too (default: $RAGSTONE_CACHE).
        dry_run: Only count. A worker may run.
    """
    if not (users or sessions or ids):
        raise ConfigurationError("--user, --session or --trace must say what is erased. Give at least one of them.")
    folder = cache or (Path(variable) if (variable := os.environ.get("RAGSTONE_CACHE")) else None)
    with open_store(store, mode="read") if dry_run else open_owned(store) as opened:
        found = erase_requests(
            store, opened, users=users or (), sessions=sessions or (), ids=ids or (), dry_run=dry_run
        )
    replies = None
    if folder is not None and found.stored.since is not None and not dry_run:
        cached = ReplyCache(folder)
        replies = cached.clear(since=found.stored.since) if cached.path.exists() else 0
    values = {"erased": not dry_run, **asdict(found), "replies": replies}
    print_result(values, "\n".join(_lines(found, folder, replies, dry_run=dry_run)), json_output=json_output)


def _lines(found: Erasure, folder: Path | None, replies: int | None, *, dry_run: bool) -> list[str]:
    stored = found.stored
    parts = [count(stored.outcomes, "outcome"), count(stored.labels, "label"), f"{stored.feedback:,} feedback"]
    what = f"{count(stored.requests, 'request')} ({', '.join(parts)})"
    lines = [f"{what} would be erased." if dry_run else f"{what} erased."]
    if found.waiting:
        lines.append(f"{count(found.waiting, 'request')} in the spool would be erased too.")
    if stored.sent:
        lines.append("Sinks keep what they have received. Erase it there, by the ids of these requests:")
        lines += [f"  {sanitize_for_terminal(sink)}: {count(n, 'outcome')}" for sink, n in stored.sent.items()]
    if found.live_segments:
        lines.append(
            f"{count(found.live_segments, 'file')} of the spool belong to running processes and keep texts until the process ends or the file is full."
        )
    done = "would be removed" if dry_run else "removed"
    if found.partial_files:
        lines.append(f"{count(found.partial_files, 'partial file')} of killed commands next to the store {done}.")
    for path, n in found.cases.items():
        shown = sanitize_for_terminal(path)
        if n is None:
            lines.append(
                f"The file of cases {shown} contains some of them and cannot be read or written here. Remove its rows."
            )
        elif n:
            lines.append(f"{count(n, 'row')} of the file of cases {shown} {done}.")
    if replies is not None:
        lines.append(f"{replies:,} replies removed from the cache {folder}: all since the first of these requests.")
    elif dry_run and folder is not None:
        lines.append(f"Replies in the cache {folder} since the first of these requests would be removed.")
    lines.append(
        "Backups, brokers, other hosts' spools, copies of files of cases and caches that were not named keep their copies."
    )
    return lines
