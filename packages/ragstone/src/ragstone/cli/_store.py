"""`ragstone store`: score old requests of a store with new metrics, and remove their texts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ragstone.cli._backfill import backfill_command
from ragstone.cli._export import export_command
from ragstone.cli._options import JsonOption
from ragstone.cli._output import print_json, print_text
from ragstone.errors import ConfigurationError, StoreOwnedError
from ragstone.store import RetentionCounts, Store, is_database_url, open_store
from ragstone.worker import parse_age

__all__ = ["store_app"]

store_app = typer.Typer(
    help="Look after a store: export it, score old requests with new metrics, remove texts.", no_args_is_help=True
)


store_app.command("backfill")(backfill_command)
store_app.command("export")(export_command)


@store_app.command()
def prune(
    store: Annotated[str, typer.Argument(help="The store: a file or postgresql://...")],
    bodies_older_than: Annotated[
        str,
        typer.Option(
            "--bodies-older-than", metavar="AGE", help="Age of the requests whose text is removed: 30d, 12h or 90m."
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the requests.")] = False,
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink", help="Also write the file again without free space. Needs as much free disk space as the store."
        ),
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Remove the texts of old requests that are scored and delivered. Scores and all counts stay."""
    if shrink and dry_run:
        raise ConfigurationError("--shrink writes the file, and --dry-run changes nothing. Give one of them.")
    before = time.time() - parse_age(bodies_older_than, name="--bodies-older-than")
    if dry_run:
        with open_store(store, mode="read") as opened:
            kept, n = opened.count_texts(before=before), 0
    else:
        with _owned(store) as opened:
            n = sum(iter(lambda: opened.remove_texts(before=before), 0))
            if shrink:
                opened.shrink()
            kept = opened.count_texts(before=before)
    if json_output:
        print_json({"removed": n, **kept._asdict()})
        return
    print_text("\n".join(_lines(n, kept, dry_run=dry_run)))
    if n and not shrink and not is_database_url(store):
        print_text("The file keeps its size, and new requests use the space. --shrink gives it back to the disk.")


def _owned(store: str) -> Store:
    if not is_database_url(store) and not Path(store).exists():
        return open_store(store, mode="read")  # says that it does not exist, and does not create it
    try:
        return open_store(store, mode="own")
    except StoreOwnedError as error:
        raise StoreOwnedError(
            f"{error} Or let its owner remove old texts: set bodies_older_than in the table [retention] of its "
            "configuration."
        ) from None


def _lines(n: int, kept: RetentionCounts, *, dry_run: bool) -> list[str]:
    """Describe how many texts were removed, and why others were kept."""
    done = f"{kept.removable:,} texts would be removed" if dry_run else f"{n:,} texts removed"
    reasons = {
        "not scored yet": kept.pending,
        "an outcome waits for a sink": kept.undelivered,
        "labeled, drawn to be labeled, or a canary": kept.labeled,
    }
    return [done, *(f"{count:,} kept: {reason}" for reason, count in reasons.items() if count)]
