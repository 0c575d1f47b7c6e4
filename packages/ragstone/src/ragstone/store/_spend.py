"""What model calls cost on each day of UTC, over all workers of a store."""

from __future__ import annotations

from datetime import UTC, datetime

from ragstone.schema import Usage
from ragstone.store._sql import Sql


def add_spend(db: Sql, usage: Usage, *, now: float) -> None:
    """Add to the usage of the current day."""
    db.execute(
        """
        INSERT INTO spend (day, calls, input_tokens, output_tokens, usd) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (day) DO UPDATE SET
            calls = spend.calls + excluded.calls,
            input_tokens = spend.input_tokens + excluded.input_tokens,
            output_tokens = spend.output_tokens + excluded.output_tokens,
            usd = spend.usd + excluded.usd
        """,
        (_day(now), usage.calls, usage.input_tokens, usage.output_tokens, usage.cost_usd or 0.0),
    )


def read_spend(db: Sql, *, now: float) -> Usage:
    """Return the usage of the current day."""
    row = db.execute("SELECT calls, input_tokens, output_tokens, usd FROM spend WHERE day = ?", (_day(now),)).fetchone()
    if row is None:
        return Usage()
    calls, input_tokens, output_tokens, usd = row
    return Usage(calls=calls, input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=usd or None)


def _day(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")
