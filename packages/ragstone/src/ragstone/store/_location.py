"""What a store is called: the path of a file, or a URL (`"postgresql://…"`)."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from ragstone.errors import ConfigurationError

_SCHEMES = ("postgresql://", "postgres://")


def is_database_url(store: str | os.PathLike[str]) -> bool:
    """Return whether a store is a database on a server, which several hosts may share, and not a file."""
    return os.fspath(store).startswith(_SCHEMES)


def resolve_store(store: str | os.PathLike[str]) -> str:
    """Return the store so that it is independent of the working directory: a URL, or the absolute path of a file.

    All names of a file have the same path, also if they are symbolic links. Raise ConfigurationError if it is a URL of
    something else.
    """
    if is_database_url(store):
        return os.fspath(store)
    check_path(store)
    return str(real_path(store).absolute())


def check_path(store: str | os.PathLike[str]) -> None:
    """Check that a store which is not a database is not another URL, of which a file would be made."""
    scheme, separator, rest = os.fspath(store).partition("://")
    if separator and re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
        shown = "".join(c if c.isprintable() else "?" for c in rest.rpartition("@")[2].partition("?")[0])
        raise ConfigurationError(
            f"'{scheme}://{shown}' is not a store. A store is a file or a URL postgresql://HOST/DATABASE. A worker "
            "reads a message broker into a store with: ragstone worker STORE --from redis://HOST/NAME"
        )


def describe_store(store: str | os.PathLike[str]) -> str:
    """Return the store for messages and logs. For a URL these are the host and the database, without a password.

    The user is shown only if no password follows it.
    """
    if not is_database_url(store):
        return os.fspath(store)
    # Everything before the last `@` may be a password, in any notation.
    user, at, rest = os.fspath(store).partition("://")[2].rpartition("@")
    shown = user + at if re.fullmatch(r"[\w.-]+", user) else ""
    return f"postgresql://{shown}" + "".join(c if c.isprintable() else "?" for c in rest.partition("?")[0])


def quote_store(store: str | os.PathLike[str]) -> str:
    """Return the store as an argument of a printed command, quoted for a shell. Credentials of a URL are left out."""
    return shlex.quote(describe_store(store))


def real_path(store: str | os.PathLike[str]) -> Path:
    """Return the path of a store file without symbolic links, so that all its names lead to one lock and one spool.

    A path without links is returned as it is.
    """
    given, real = Path(store), Path(os.path.realpath(store))
    return given if given.absolute() == real else real


def has_spool(store: str | os.PathLike[str]) -> bool:
    """Whether applications captured requests for a store file, which does not have to exist."""
    return Path(f"{real_path(store)}.spool").is_dir()
