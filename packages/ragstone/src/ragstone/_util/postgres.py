"""PostgreSQL helpers for stores: URLs without credentials, text that it accepts, servers that do not answer."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import StrDumperUnknown
from typing_extensions import override

from ragstone.errors import ConfigurationError

T = TypeVar("T")


class LimitedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed if the server does not answer in time.

    A server whose process is frozen still acknowledges packets, so that neither keepalives nor its own timeouts end the
    wait.
    """

    limit_s: float | None = None
    """Longest wait for the answer to one statement in seconds. None: no limit."""

    @override
    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        if self.limit_s is None:
            return super().wait(gen, *args, **kwargs)
        try:
            return super().wait(_limited(gen, self.limit_s), *args, **kwargs)
        except _SilentError:
            self.close()
            raise


class _SilentError(psycopg.OperationalError):
    """The server did not answer in time."""


def _limited(gen: Generator[Any, Any, T], limit_s: float) -> Generator[Any, Any, T]:
    """Yield what psycopg's generator yields, until it has taken too long. psycopg resumes it ten times a second."""
    end = time.monotonic() + limit_s
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > end:
                raise _SilentError(f"the server did not answer within {limit_s:.0f} s")
            wanted = gen.send(ready)
    except StopIteration as done:
        result: T = done.value
        return result


def is_denied(error: psycopg.Error) -> bool:
    """Return whether the server denies access. Errors while connecting have only a text, not a code."""
    state = error.sqlstate or ""
    refused = state == "42501" or state.startswith("28")
    return refused or (not state and ("authentication failed" in str(error) or "no pg_hba.conf entry" in str(error)))


def connection_parameters(url: str) -> dict[str, Any]:
    """Parse the URL of a database. Raise ConfigurationError if the URL is invalid. The message does not quote it."""
    # With more than one `@`, or one in another part, a piece of the password is parsed as a part that messages show.
    clear = url.count("@") == _user_part(url).count("@") <= 1
    try:
        parameters = conninfo_to_dict(url) if clear else None
    except psycopg.Error:
        parameters = None
    if parameters is None or not re.fullmatch(r"[0-9,]*", str(parameters.get("port", ""))):
        # The message quotes neither the URL nor libpq's error, because both may contain the password.
        raise ConfigurationError(
            "the URL of the database is invalid. Write 'postgresql://user:password@host:5432/database', with "
            "percent-encoding for '@', '/', ':' and '%' in user and password"
        )
    return parameters


def _user_part(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def describe_database(parameters: Mapping[str, Any]) -> str:
    """Return the URL of the database without credentials."""
    host = str(parameters.get("host") or parameters.get("hostaddr") or "localhost")
    port, database = parameters.get("port", 5432), parameters.get("dbname") or parameters.get("user") or ""
    # A percent-encoded URL may contain control characters, which must not be in messages.
    return "".join(c if c.isprintable() else "?" for c in f"postgresql://{host}:{port}/{database}")


def strip_credentials(message: str, parameters: Mapping[str, Any]) -> str:
    """Return a message of the server or of libpq in one line, without the secrets of the URL."""
    message = " ".join(message.split())
    for name in ("password", "sslpassword", "passfile"):
        secret = str(parameters.get(name) or "")
        if secret:
            message = message.replace(secret, "***")
    return message[:500]


def register_text_dumper(connection: psycopg.Connection[Any]) -> None:
    """Make a connection accept text that PostgreSQL cannot store, by replacing NUL and lone surrogates."""
    connection.adapters.register_dumper(str, _TextDumper)


class _TextDumper(StrDumperUnknown):
    """Replaces NUL and lone surrogates, which PostgreSQL cannot store. Captured ids and names may contain them."""

    def dump(self, obj: str) -> bytes:
        return obj.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
