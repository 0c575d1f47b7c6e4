"""Names and addresses of a server, and tokens of its clients."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Collection
from typing import Final

_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address to listen on."""
    return host == "localhost" or (is_ip_address(host) and ipaddress.ip_address(host).is_loopback)


def is_ip_address(name: str) -> bool:
    """Return whether a name is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def allowed_hosts(host: str, others: Collection[str]) -> frozenset[str]:
    """Return the names under which a client may ask for a server that listens on `host`, in lower case."""
    names = {host.lower(), *_LOOPBACK_NAMES, *(name.lower() for name in others)}
    if not is_loopback(host):
        names.add(socket.gethostname().lower())
    return frozenset(names)


def name_in(host: str) -> str:
    """Return the name in a header `Host`, without the port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def is_equal(given: str, known: str) -> bool:
    """Compare secrets, in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode("utf-8", "replace"))
