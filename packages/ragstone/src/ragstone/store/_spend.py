"""What model calls cost on each day of UTC, over all workers of a store."""

from __future__ import annotations

from datetime import UTC, datetime

from ragstone.schema import Usage
from ragstone.store._sql import Sql


def add_spend(db: Sql, usage: Usage, *, now: float) -> None:
    """Add to the usage of the current day."""
    db.execute(
        """
        INSERT INTO spend (day, calls, input_tokens, output_tokens, usd, priced_calls, counted_calls)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (day) DO UPDATE SET
            calls = spend.calls + excluded.calls,
            input_tokens = spend.input_tokens + excluded.input_tokens,
            output_tokens = spend.output_tokens + excluded.output_tokens,
            usd = COALESCE(spend.usd + excluded.usd, spend.usd, excluded.usd),
            priced_calls = spend.priced_calls + excluded.priced_calls,
            counted_calls = spend.counted_calls + excluded.counted_calls
        """,
        (
            *(_day(now), usage.calls, usage.input_tokens, usage.output_tokens, usage.cost_usd),
            *(usage.priced_calls, usage.counted_calls),
        ),
    )


def read_spend(db: Sql, *, now: float) -> Usage:
    """Return the usage of the current day."""
    names = ("input_tokens", "output_tokens", "calls", "cost_usd", "priced_calls", "counted_calls")
    row = db.execute(
        "SELECT input_tokens, output_tokens, calls, usd, priced_calls, counted_calls FROM spend WHERE day = ?",
        (_day(now),),
    ).fetchone()
    return Usage() if row is None else Usage(**dict(zip(names, row, strict=True)))


def _day(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")
