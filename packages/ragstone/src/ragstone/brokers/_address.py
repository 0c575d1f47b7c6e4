"""URLs of message brokers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from ragstone.errors import BrokerError, ConfigurationError

_SCHEMES: Final = ("redis", "rediss")
_PORT: Final = 6379
_TLS_FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_OPTIONS: Final = {
    "redis": ("db", "accept_loss", "max_entries"),
    "rediss": ("db", "accept_loss", "max_entries", *_TLS_FILES),
}
_APP: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_MAX_ENTRIES: Final = 100_000
_PASSWORD: Final = "RAGSTONE_BROKER_PASSWORD"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """A parsed URL of a message broker, such as "redis://user:password@host:6379/app"."""

    scheme: str
    host: str
    port: int
    app: str
    """Name of the queue: letters, digits, "_" and "-"."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    db: int = 0
    """Number of the Redis database."""
    accepts_loss: bool = False
    """Whether a broker that may lose entries is accepted."""
    max_entries: int = _MAX_ENTRIES
    """Number of entries from which applications keep requests in their spools."""
    tls_files: Mapping[str, str] = field(default_factory=dict)
    """Files of certificates: ssl_ca_certs, ssl_certfile, ssl_keyfile."""

    @property
    def name(self) -> str:
        """The URL without credentials and options."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}/{self.app}"

    def hide_password(self, text: str) -> str:
        """Return a text of the broker or its client in one line, without the password."""
        text = " ".join(text.split())
        return (text.replace(self.password, "***") if self.password else text)[:500]

    def full_error(self) -> BrokerError:
        """Return the error of an application whose queue is full."""
        return BrokerError(
            f"{self.name} has {self.max_entries} entries or more that no worker has stored. "
            f"Start a worker: ragstone worker STORE --judge JUDGE --from {self.name}"
        )

    def other_store_error(self, remedy: str) -> ConfigurationError:
        """Return the error of a worker whose store is not the one of the queue."""
        return ConfigurationError(
            f"the entries of {self.name} belong to another store. Choose another name in the path of the URL, for "
            "applications and workers. If that store does not exist anymore, give its entries to this one with: "
            f"{remedy}"
        )


def is_broker_url(store: str | os.PathLike[str]) -> bool:
    """Return whether a store is the URL of a message broker."""
    return os.fspath(store).startswith(tuple(f"{scheme}://" for scheme in _SCHEMES))


def describe_broker(url: str) -> str:
    """Return the URL of a message broker without credentials, also if it is invalid."""
    scheme, _, rest = url.partition("://")
    # Everything before the last `@` may be a password, in any notation.
    return f"{scheme}://" + "".join(c if c.isprintable() else "?" for c in rest.rpartition("@")[2].partition("?")[0])


def parse_broker_url(url: str) -> BrokerAddress:
    """Parse the URL of a message broker. A password that it does not contain is read from `RAGSTONE_BROKER_PASSWORD`.

    Raise ConfigurationError if it is invalid. The message does not quote credentials.
    """
    shown = describe_broker(url)
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
        username, password = parts.username, parts.password
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise _invalid(shown, "it cannot be parsed") from None
    if scheme not in _SCHEMES:
        raise _invalid(shown, f"its scheme is not one of {', '.join(_SCHEMES)}")
    if not host or parts.fragment or "@" in (host + parts.path):
        raise _invalid(shown, "it does not have a host")
    app = unquote(parts.path.removeprefix("/"))
    if not _APP.fullmatch(app):
        database = "?db=" + app if app.isdigit() else ""
        hint = f". The number of a database is an option: {scheme}://{host}/NAME{database}" if database else ""
        raise _invalid(shown, f"its path {app!r} is not a name of up to 64 letters, digits, '_' and '-'{hint}")
    unknown = sorted(set(options) - set(_OPTIONS[scheme]))
    if unknown:
        raise _invalid(shown, f"unknown option {unknown[0]!r}. {scheme} has {', '.join(_OPTIONS[scheme])}")
    return BrokerAddress(
        scheme=scheme,
        host=host,
        port=_PORT if port is None else port,
        app=app,
        username=None if username is None else unquote(username),
        password=unquote(password) if password else os.environ.get(_PASSWORD) or None,
        db=_number(options, "db", 0, least=0, shown=shown),
        accepts_loss=bool(_number(options, "accept_loss", 0, least=0, most=1, shown=shown)),
        max_entries=_number(options, "max_entries", _MAX_ENTRIES, least=1, shown=shown),
        tls_files={name: options[name] for name in _TLS_FILES if name in options},
    )


def _number(options: Mapping[str, str], name: str, default: int, *, least: int, shown: str, most: int = 10**9) -> int:
    if name not in options:
        return default
    text = options[name]
    if not re.fullmatch(r"[0-9]{1,10}", text) or not least <= int(text) <= most:
        raise _invalid(shown, f"{name} must be an integer from {least} to {most}, got {text!r}")
    return int(text)


def _invalid(shown: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the URL of the message broker {shown!r} is invalid: {why}. Write 'redis://host:6379/NAME', "
        "with percent-encoding for '@', '/', ':' and '%' in user and password"
    )
