"""`ragstone store`: look after a store."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import typer

from ragstone._util.quantities import count, parse_age
from ragstone._util.table import text_table
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._output import print_json, print_result, print_text, sanitize_for_terminal
from ragstone.errors import ConfigurationError, StoreOwnedError
from ragstone.spool import SpoolReader
from ragstone.store import (
    RetentionCounts,
    Store,
    backup_store,
    describe_store,
    is_database_url,
    open_store,
    restore_store,
    way_out,
)
from ragstone.worker import spool_directory

_SHOWN: Final = 20
"""Damaged rows that `verify` prints."""
_OWNED_HINT: Final = " Or let its owner remove them: set bodies_older_than or requests_older_than in the table [retention] of its configuration."


def open_owned(store: str, hint: str = "") -> Store:
    """Open a store that exists for writing. `hint` says what else a user can do if another process owns it."""
    if not is_database_url(store) and not Path(store).exists():
        return open_store(store, mode="read")  # says that it does not exist, and does not create it
    try:
        return open_store(store, mode="own")
    except StoreOwnedError as error:
        raise StoreOwnedError(f"{error}{hint}") from None


def prune_command(
    store: str,
    *,
    bodies_older_than: str | None = None,
    requests_older_than: str | None = None,
    dry_run: bool = False,
    shrink: bool = False,
    json_output: bool = False,
) -> None:
    """Remove old texts or old requests. All counts stay.

    Requests that are not yet scored or delivered are kept, and texts of labeled ones.

    Options:
        bodies_older_than (AGE): Age from which texts are removed: 30d, 12h or 90m.
        requests_older_than (AGE): Age from which requests are removed with all that is stored, also labels.
        dry_run: Only count the requests.
        shrink: Also write the file again without free space.
    """
    if shrink and dry_run:
        raise ConfigurationError("--shrink writes the file, and --dry-run changes nothing. Give one of them.")
    if bodies_older_than is None and requests_older_than is None:
        raise ConfigurationError(
            "give the age from which to remove: --bodies-older-than, --requests-older-than or both."
        )
    ages = (("--bodies-older-than", bodies_older_than), ("--requests-older-than", requests_older_than))
    before, oldest = (None if age is None else time.time() - parse_age(age, name=name) for name, age in ages)
    n, n_requests, kept, kept_requests = 0, 0, None, None
    with open_store(store, mode="read") if dry_run else open_owned(store, _OWNED_HINT) as opened:
        if oldest is not None:
            kept_requests = opened.upkeep.count_requests(before=oldest)
            n_requests = kept_requests.removable
            if not dry_run:
                n_requests = sum(iter(lambda: opened.upkeep.remove_requests(before=oldest), 0))
        if before is not None and not dry_run:
            n = sum(iter(lambda: opened.upkeep.remove_texts(before=before), 0))
            while opened.upkeep.forget_unknown_feedback():
                pass
        if shrink:
            opened.upkeep.shrink()
        if before is not None:
            kept = opened.upkeep.count_texts(before=before)
    if json_output:
        values = {} if kept is None else {"removed": n, "removable": kept.removable, **_reasons(kept)}
        if kept_requests is not None:
            values |= {"requests": n_requests, "labels": kept_requests.labels}
            values["requests_kept"] = _reasons(kept_requests, "canaries")
        print_json(values)
        return
    if kept_requests is not None:
        labels = f" and {count(kept_requests.labels, 'label')} of people" if kept_requests.labels else ""
        print_text(f"{count(n_requests, 'request')} {'would be ' if dry_run else ''}removed with their scores{labels}")
        if labels and dry_run:
            print_text("`ragstone labels cases` writes requests with their labels to a file. Do this before.")
        _print_kept(kept_requests, "canaries")
    if kept is not None:
        print_text(f"{kept.removable:,} texts would be removed" if dry_run else f"{n:,} texts removed")
        _print_kept(kept)
    if (n or n_requests) and not shrink and not dry_run and not is_database_url(store):
        print_text("The file keeps its size, and new requests use the space. --shrink gives it back to the disk.")


def verify_command(store: str, *, json_output: bool = False) -> None:
    """Read all rows of a store, and find damage.

    Checks checksums, references, the counters of `ragstone status`, the file and its spool.
    """
    with open_store(store, mode="read") as opened:
        found = opened.upkeep.verify()
    n_entries, n_corrupt = _verify_spool(store)
    values = {
        **asdict(found),
        "rows": [each._asdict() for each in found.rows],
        "spool": {"entries": n_entries, "damaged": n_corrupt},
        "ok": found.ok and not n_corrupt,
    }
    table = [("table", "rows", "damaged")]
    table += [(name, f"{n:,}", f"{found.damaged.get(name, 0):,}") for name, n in found.checked.items()]
    table.append(("spool", f"{n_entries:,}", f"{n_corrupt:,}"))
    problems = [f"{each.table}: {each.problem}" for each in found.rows[:_SHOWN]]
    problems += [f"counter {text}" for text in found.counters] + [f"file: {text}" for text in found.file]
    lines = [text_table(table, align="lrr"), *map(sanitize_for_terminal, problems)]
    if len(found.rows) > _SHOWN:
        lines.append(f"The first {_SHOWN} damaged rows are listed. --json lists up to 1,000.")
    n_problems = found.n_problems + n_corrupt
    lines.append(f"{n_problems:,} problems. {way_out(describe_store(store))}" if n_problems else "No damage found.")
    print_result(values, "\n".join(lines), json_output=json_output)
    if n_corrupt or not found.ok:
        raise typer.Exit(ExitCode.GATE)


def backup_command(store: str, file: Path) -> None:
    """Copy a store file while its worker runs.

    The copy is verified.

    Options:
        store: The store file. Its worker may run.
        file: The backup. It must not exist.
    """
    found = backup_store(store, file)
    print_text(f"{found.checked['traces']:,} requests and {found.checked['outcomes']:,} outcomes saved in {file}.")


def restore_command(file: Path, store: str, *, replace: bool = False) -> None:
    """Verify a backup, and make it a store.

    Options:
        file: The backup.
        store: The store file to create.
        replace: Replace a store that exists. No process may own it.
    """
    found = restore_store(file, store, replace=replace)
    print_text(f"{found.checked['traces']:,} requests and {found.checked['outcomes']:,} outcomes restored in {store}.")


def _verify_spool(store: str) -> tuple[int, int]:
    """Return the number of entries that wait in the spool of a store, and how many of them are damaged."""
    n_entries = n_corrupt = 0
    for batch in SpoolReader(spool_directory(store)).batches({}):
        n_entries += len(batch.entries)
        n_corrupt += batch.corrupt
    return n_entries, n_corrupt


def _print_kept(kept: RetentionCounts, labeled: str = "labeled") -> None:
    texts = {
        "pending": "not scored yet",
        "undelivered": "an outcome waits for a sink",
        "labeled": "labeled, drawn to be labeled, or a canary",
        "canaries": "a canary",
    }
    for reason, n in _reasons(kept, labeled).items():
        if n:
            print_text(f"{n:,} kept: {texts[reason]}")


def _reasons(kept: RetentionCounts, labeled: str = "labeled") -> dict[str, Any]:
    return {"pending": kept.pending, "undelivered": kept.undelivered, labeled: kept.labeled}
