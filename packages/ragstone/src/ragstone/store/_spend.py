"""What model calls have cost on each day of UTC, and records of what the last worker was started with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from typing_extensions import override

from ragstone.schema import Usage
from ragstone.store._sql import Sql, SqlStore


class SqlSpend(SqlStore):
    """The methods of a store that count what models cost."""

    @override
    def add_spend(self, usage: Usage) -> None:
        with self._database.write() as db:
            db.execute(
                """
                INSERT INTO spend (day, calls, input_tokens, output_tokens, usd) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (day) DO UPDATE SET
                    calls = spend.calls + excluded.calls,
                    input_tokens = spend.input_tokens + excluded.input_tokens,
                    output_tokens = spend.output_tokens + excluded.output_tokens,
                    usd = spend.usd + excluded.usd
                """,
                (
                    _day(self._clock()),
                    usage.calls,
                    usage.input_tokens,
                    usage.output_tokens,
                    usage.cost_usd or 0.0,
                ),
            )

    @override
    def spent_today(self) -> Usage:
        with self._database.read() as db:
            return read_spend(db, now=self._clock())

    @override
    def set_record(self, name: Literal["daily_budget"], values: Mapping[str, Any]) -> None:
        with self._database.write() as db:
            db.execute(
                "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (name, json.dumps(dict(values))),
            )


def read_spend(db: Sql, *, now: float) -> Usage:
    """Return the usage of the current day of UTC."""
    row = db.execute("SELECT calls, input_tokens, output_tokens, usd FROM spend WHERE day = ?", (_day(now),)).fetchone()
    if row is None:
        return Usage()
    calls, input_tokens, output_tokens, usd = row
    return Usage(calls=calls, input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=usd or None)


def read_record(db: Sql, name: str) -> dict[str, Any]:
    """Return what `set_record` has stored under this name."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (name,)).fetchone()
    return {} if row is None else dict(json.loads(row[0]))


def _day(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")
