"""`ragstone store cache`: summarize or clear a reply cache."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragstone._util.plural import count
from ragstone._util.table import text_table
from ragstone.cli._output import print_json, print_text, sanitize_for_terminal
from ragstone.judges import CacheSummary, ReplyCache


def cache_command(
    folder: Path, *, clear: bool = False, older_than_days: float | None = None, json_output: bool = False
) -> None:
    """Summarize or clear a reply cache.

    Options:
        folder: The cache directory (--cache or $RAGSTONE_CACHE).
        clear: Remove cached replies.
        older_than_days (>=0): Only replies older than this number of days.
    """
    cache = ReplyCache(folder)
    n_removed = cache.clear(older_than_days=older_than_days) if clear else None
    # After clearing, summarize the remaining replies.
    summary = cache.summary(older_than_days=None if clear else older_than_days)
    if json_output:
        removed: dict[str, Any] = {} if n_removed is None else {"n_removed": n_removed}
        print_json(removed | _as_dict(summary))
        return
    if n_removed is not None:
        print(f"removed {count(n_removed, 'reply', 'replies')}")
    print_text("\n".join(_lines(summary)))


def _as_dict(summary: CacheSummary) -> dict[str, Any]:
    return {
        "path": str(summary.path),
        "n_replies": summary.n_replies,
        "n_bytes": summary.n_bytes,
        "oldest": summary.oldest,
        "newest": summary.newest,
        "models": dict(summary.n_by_model),
    }


def _lines(summary: CacheSummary) -> list[str]:
    lines = [f"{summary.path}: {count(summary.n_replies, 'reply', 'replies')}, {summary.n_bytes / 1e6:.1f} MB"]
    if summary.oldest is not None and summary.newest is not None:
        lines.append(f"cached between {_day(summary.oldest)} and {_day(summary.newest)}")
    if summary.n_by_model:
        rows = [
            ("replies", "model"),
            *((str(n), sanitize_for_terminal(model)) for model, n in summary.n_by_model.items()),
        ]
        lines.append(text_table(rows, align="r"))
    return lines


def _day(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, tz=UTC):%Y-%m-%d %H:%M} UTC"
