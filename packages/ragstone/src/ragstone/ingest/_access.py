"""Who may send to a receiver."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ragstone._util.addresses import allowed_hosts, is_equal, is_loopback, name_in
from ragstone.errors import ConfigurationError

_MIN_TOKEN_CHARS: Final = 16


class Access:
    """Refuses messages of clients that do not have the token, or that ask for another host.

    - With a token, each message must have it in its header `Authorization`, after `Bearer`.
    - Without one, on an address that only this machine can reach, the header `Host` must name this machine. Otherwise a
      web site could let its own name point here, and send spans through a visitor's browser (DNS rebinding).

    Args:
        token: The token, at least 16 characters. None if the address, or a proxy in front of it, decides.
        hosts: Further names of this machine.
    """

    def __init__(self, token: str | None = None, hosts: Collection[str] = ()) -> None:
        if token is not None and len(token) < _MIN_TOKEN_CHARS:
            raise ConfigurationError(
                f"a token must have at least {_MIN_TOKEN_CHARS} characters, got {len(token)}. "
                "This makes one: python3 -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
            raise ConfigurationError("a token must have only printable ASCII characters, and no spaces.")
        self._token = token
        self._hosts = tuple(hosts)

    def check_address(self, host: str, option: str) -> None:
        """Check that clients of other machines need the token.

        Raise ConfigurationError if other machines can reach the address, and the token is missing.
        """
        if self._token is None and not is_loopback(host):
            raise ConfigurationError(
                f"other machines can reach {option} {host}, so `ragstone ingest` needs a token: set "
                "RAGSTONE_INGEST_TOKEN or --token. Write --token none if a proxy or the network decides who may send."
            )

    def refusal(self, listens_on: str, host: str, authorization: str) -> str | None:
        """Return why a message is refused, or None if it is accepted."""
        if self._token is not None:
            scheme, _, given = authorization.partition(" ")
            if scheme.lower() == "bearer" and is_equal(given.strip(), self._token):
                return None
            return "this receiver needs its token, in the header: Authorization: Bearer TOKEN"
        if is_loopback(listens_on) and name_in(host).lower() not in allowed_hosts(listens_on, self._hosts):
            return "this receiver does not accept the message's header Host. Allow it with: --allow-host NAME"
        return None
