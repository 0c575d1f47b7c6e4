"""Outcomes as rows of a table in PostgreSQL."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ragstone._util.daemon_thread import DaemonThread
from ragstone._util.lazy import needs_extra
from ragstone.errors import (
    ConfigurationError,
    SinkDeniedError,
    SinkRejectedError,
    SinkUnavailableError,
)
from ragstone.schema import Delivery

if TYPE_CHECKING:
    import psycopg

_COLUMNS: Final = {
    "id": ("UUID PRIMARY KEY", "outcome.id"),
    "trace_id": ("TEXT NOT NULL", "trace_id"),
    "run_id": ("TEXT", "run_id"),
    "otel_trace_id": ("TEXT", "otel_trace_id"),
    "otel_span_id": ("TEXT", "otel_span_id"),
    "session_id": ("TEXT", "session_id"),
    "user_id": ("TEXT", "user_id"),
    "app": ("TEXT", "app"),
    "release": ("TEXT", "release"),
    "environment": ("TEXT", "environment"),
    "operation": ("TEXT", "name"),
    "metric": ("TEXT NOT NULL", "outcome.metric"),
    "metric_version": ("TEXT NOT NULL", "outcome.metric_version"),
    "outcome": ("TEXT NOT NULL", "outcome.outcome"),
    "value": ("DOUBLE PRECISION", "outcome.value"),
    "interval_low": ("DOUBLE PRECISION", "outcome.interval.low"),
    "interval_high": ("DOUBLE PRECISION", "outcome.interval.high"),
    "interval_level": ("DOUBLE PRECISION", "outcome.interval.confidence_level"),
    "method": ("TEXT", "outcome.method"),
    "n": ("BIGINT", "outcome.n"),
    "kind": ("TEXT", "outcome.kind"),
    "judge": ("TEXT", "outcome.judge"),
    "judge_hash": ("TEXT NOT NULL", "outcome.judge_hash"),
    "prompt_hash": ("TEXT", "outcome.prompt_hash"),
    "input_tokens": ("BIGINT", "outcome.usage.input_tokens"),
    "output_tokens": ("BIGINT", "outcome.usage.output_tokens"),
    "calls": ("BIGINT", "outcome.usage.calls"),
    "cost_usd": ("DOUBLE PRECISION", "outcome.usage.cost_usd"),
    "priced_calls": ("BIGINT", "outcome.usage.priced_calls"),
    "counted_calls": ("BIGINT", "outcome.usage.counted_calls"),
    "duration_s": ("DOUBLE PRECISION", "outcome.duration_s"),
    "inclusion_probability": ("DOUBLE PRECISION NOT NULL", "inclusion_probability"),
    "requested_at": ("TIMESTAMPTZ", "requested_at"),
    "scored_at": ("TIMESTAMPTZ", "outcome.created_at"),
    "cause": ("TEXT", "cause.name"),
    "explanation": ("TEXT", "outcome.explanation"),
    "reason": ("TEXT", "outcome.reason"),
}
"""Type of each column in the documented order, and the place of its value in a delivery."""
_TEXTS: Final = ("explanation", "reason")
"""Columns that may quote captured text."""
_TABLE: Final = "ragstone_outcomes"
_CREATE: Final = f"CREATE TABLE IF NOT EXISTS {_TABLE} ({', '.join(f'{n} {t}' for n, (t, _) in _COLUMNS.items())})"
_VALUES: Final = ", ".join("to_timestamp(%s)" if t == "TIMESTAMPTZ" else "%s" for t, _ in _COLUMNS.values())
_INSERT: Final = f"INSERT INTO {_TABLE} ({', '.join(_COLUMNS)}) VALUES ({_VALUES}) ON CONFLICT (id) DO NOTHING"  # noqa: S608
_LOCK: Final = 0x52475354
"""Key of the advisory lock for creating the table (the letters RGST): concurrent creation would fail."""
_MARGIN_S: Final = 5.0
"""Seconds for which an answer may be late after the server has canceled its statement."""
_CLOSE_S: Final = 2.0
"""Longest wait for the end of a write, in seconds."""


class PostgresqlSink:
    """Inserts one row per outcome into the table `ragstone_outcomes`, and creates the table if missing.

    A batch is one transaction, and the outcome's id is the primary key: a repeated delivery changes nothing. Ragstone
    never changes or deletes rows.

    Args:
        url: `postgresql://user:password@host/database` with parameters of libpq, such as `options` for another
            `search_path`. The password can also come from `PGPASSWORD` or a password file.
        include_text: Also write explanations and reasons, which may quote captured text.
        timeout_s: Timeout of the connection and of one statement, in seconds.

    Raises:
        ConfigurationError: If the URL is invalid.
        MissingExtraError: If the extra `postgres` is not installed.
    """

    def __init__(self, url: str, *, include_text: bool = False, timeout_s: float = 30.0) -> None:
        with needs_extra("postgres", "psycopg", "the sink 'postgresql'"):
            from ragstone._util.postgres import connection_parameters, describe_database
        self._parameters = connection_parameters(url)
        self._name = describe_database(self._parameters)
        self._include_text = include_text
        self._timeout_s = timeout_s
        self._connection: psycopg.Connection[Any] | None = None
        # Not the thread pool of the loop, whose end would wait for a server that does not answer.
        self._thread = DaemonThread("ragstone-postgresql")
        self._pid = os.getpid()
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = False) -> PostgresqlSink:
        """Create the sink from the argument of `"postgresql://user:password@host/database"`.

        Raises:
            ConfigurationError: If the URL is invalid.
            MissingExtraError: If the extra `postgres` is not installed.
        """
        if not argument.startswith("//"):
            raise ConfigurationError(
                "the sink 'postgresql' needs the URL of a database: 'postgresql://user:password@host:5432/database'"
            )
        return cls(f"postgresql:{argument}", include_text=include_text)

    @property
    def name(self) -> str:
        """Name of the sink: the URL without credentials and parameters."""
        return self._name

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Insert the new rows of `batch` in one transaction.

        Raises:
            SinkUnavailableError: If the server is unavailable or fails, or the table lacks a column.
            SinkDeniedError: If the credentials are rejected or the user may not write to the table.
            SinkRejectedError: If the server rejects the rows.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        if batch:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._write, batch)

    async def aclose(self) -> None:
        """Close the connection."""
        self._closed = True
        if self._pid == os.getpid():
            closing = asyncio.get_running_loop().run_in_executor(self._thread, self._drop)
            self._thread.shutdown()
            await asyncio.wait([closing], timeout=_CLOSE_S)

    def _write(self, batch: Sequence[Delivery]) -> None:
        import psycopg

        from ragstone._util.postgres import is_denied, strip_credentials

        rows = [_row(delivery, include_text=self._include_text) for delivery in batch]
        try:
            connection = self._connected()
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(_INSERT.encode(), rows)
        except psycopg.Error as error:
            message = f"{self._name}: {strip_credentials(str(error), self._parameters)}"
            denied = is_denied(error)
            # The next write opens a new connection, which creates a missing table and reads new passwords.
            self._drop()
            if denied:
                raise SinkDeniedError(f"{message}. Check user, password and permissions of this sink.") from None
            if isinstance(error, (psycopg.DataError, psycopg.IntegrityError)):
                raise SinkRejectedError(message) from None
            raise SinkUnavailableError(message) from None

    def _connected(self) -> psycopg.Connection[Any]:
        from ragstone._util.postgres import LimitedConnection, register_text_dumper

        if self._pid != os.getpid():
            # The connection belongs to the parent process. Closing it here would end the parent's session.
            self._connection, self._pid = None, os.getpid()
        if self._connection is None:
            parameters = {"connect_timeout": max(2, round(self._timeout_s)), **self._parameters}
            connection = LimitedConnection.connect(**parameters, autocommit=True)
            connection.limit_s = self._timeout_s + _MARGIN_S
            try:
                register_text_dumper(connection)
                connection.execute(f"SET statement_timeout TO {round(self._timeout_s * 1000)}".encode())
                if connection.execute("SELECT to_regclass(%s)", (_TABLE,)).fetchone() == (None,):
                    with connection.transaction():
                        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                        connection.execute(_CREATE.encode())
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _row(delivery: Delivery, *, include_text: bool) -> list[object]:
    return [
        None if name in _TEXTS and not include_text else _value_at(delivery, place)
        for name, (_, place) in _COLUMNS.items()
    ]


def _value_at(record: object, place: str) -> object:
    """Return the value of a dotted attribute, or None if a part is missing, as those of other kinds of outcomes are."""
    for name in place.split("."):
        record = getattr(record, name, None)
    return record
