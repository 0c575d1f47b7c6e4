"""PostgreSQL, whoever speaks to it: URLs that show no credentials, and text that it does not take as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import StrDumperUnknown

from ragstone.errors import ConfigurationError

__all__ = ["connection_parameters", "describe_database", "register_text_dumper", "strip_credentials"]


def connection_parameters(url: str) -> dict[str, Any]:
    """Read the URL of a database.

    Raises:
        ConfigurationError: It cannot be read; the message shows nothing of it.
    """
    # More than one `@`, or one elsewhere, puts a part of the password into another place, which messages show.
    clear = url.count("@") == _user_part(url).count("@") <= 1
    try:
        given = conninfo_to_dict(url) if clear else None
    except psycopg.Error:
        given = None
    if given is None or not re.fullmatch(r"[0-9,]*", str(given.get("port", ""))):
        # Neither the URL nor libpq's words about it: both may hold the password.
        raise ConfigurationError(
            "the URL of the database cannot be read; write 'postgresql://user:password@host:5432/database', with "
            "percent-encoding for '@', '/', ':' and '%' in user and password"
        )
    return given


def _user_part(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def describe_database(parameters: Mapping[str, Any]) -> str:
    """Which database this is, without credentials."""
    host = str(parameters.get("host") or parameters.get("hostaddr") or "localhost")
    port, database = parameters.get("port", 5432), parameters.get("dbname") or parameters.get("user") or ""
    # Control characters from a percent-encoded URL have no place in messages.
    return "".join(c if c.isprintable() else "?" for c in f"postgresql://{host}:{port}/{database}")


def strip_credentials(words: str, parameters: Mapping[str, Any]) -> str:
    """What the server or libpq said, in one line, without what is secret in the URL."""
    words = " ".join(words.split())
    for name in ("password", "sslpassword", "passfile"):
        secret = str(parameters.get(name) or "")
        if secret:
            words = words.replace(secret, "***")
    return words[:500]


def register_text_dumper(connection: psycopg.Connection[Any]) -> None:
    """Let a connection take what text PostgreSQL does not have: NUL, and half characters."""
    connection.adapters.register_dumper(str, _TextDumper)


class _TextDumper(StrDumperUnknown):
    """PostgreSQL's text has no NUL, and UTF-8 no half characters; ids and names that were captured may have both."""

    def dump(self, obj: str) -> bytes:
        return obj.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
