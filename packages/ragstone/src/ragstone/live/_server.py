"""The server of the live page."""

from __future__ import annotations

import asyncio
import getpass
import secrets
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import quote

from ragstone._util.addresses import allowed_hosts, is_loopback
from ragstone._util.signals import stopped_by_signals
from ragstone.errors import ConfigurationError, StoreNotReadyError
from ragstone.experiments import FollowedReport, TimeRange
from ragstone.store import describe_store, quote_store, settle_labels

_MIN_TOKEN_CHARS: Final = 16
_AUTO: Final = "auto"
_MAX_CONNECTIONS: Final = 128
"""Largest number of connections. A tab needs one for changes, and a second one while it fetches a part."""


def serve(
    store: TimeRange,
    *,
    host: str = "127.0.0.1",
    port: int = 8484,
    token: str | None = None,
    hosts: Collection[str] = (),
    targets: Mapping[str, float] | None = None,
    by: Sequence[str] = (),
    on_ready: Callable[[str], None],
) -> None:
    """Serve the live page of a store until SIGINT, SIGTERM or SIGHUP.

    `port` 0 selects a free port. The first request of a browser must have `token`: at least 16 characters, or "auto" to
    make one. It is needed if other machines can reach `host`. `hosts` are further names of this machine, for example
    behind a proxy. `targets` are means that metrics should reach, and `by` labels whose values are compared. `on_ready`
    gets the address of the page. Raise ConfigurationError if the address is not available, or the token is missing or
    too short. Raise StoreError if the store cannot be read.
    """
    from ragstone._util.http_server import HttpServer
    from ragstone.live._app import EVENTS, make_app
    from ragstone.live._board import Board
    from ragstone.live._guard import Guard
    from ragstone.live._labels import LabelDesk

    token = secrets.token_urlsafe(24) if token == _AUTO else token
    _check_token(token, host, is_local=is_loopback(host))
    report = FollowedReport(store, targets=targets or {}, by=by)
    with suppress(StoreNotReadyError):  # the page says so, until the store's owner has made the tables
        report.refresh()
    title = describe_store(store.store) if store.since is store.until is None else store.name

    async def run() -> None:
        stopping = asyncio.Event()
        board = Board(report, title=f"{title}, live", command=f"ragstone view {quote_store(store.store)}")
        desk = LabelDesk(store.store, report, title=title, author=_user())
        guard = Guard(hosts=allowed_hosts(host, hosts), any_address=not is_loopback(host), token=token)
        app = guard.protect(make_app(board, desk, stopping=stopping))
        server = HttpServer(
            app, host=host, port=port, title="live page", max_connections=_MAX_CONNECTIONS, replaceable=EVENTS
        )
        following = asyncio.create_task(board.run())
        try:
            with stopped_by_signals(asyncio.get_running_loop(), stopping.set):
                await server.start()
                on_ready(_address(host, server.port, token))
                await stopping.wait()
                await server.aclose()
        finally:
            following.cancel()

    asyncio.run(run())
    settle_labels(store.store)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        return ""


def _check_token(token: str | None, host: str, *, is_local: bool) -> None:
    if token is None and not is_local:
        raise ConfigurationError(
            f"other machines can reach {host!r}, so the page needs a token: add --token auto. The page shows the texts "
            "of requests. Without --listen, only this machine can reach it."
        )
    if token is not None and len(token) < _MIN_TOKEN_CHARS:
        raise ConfigurationError(
            f"a token must have at least {_MIN_TOKEN_CHARS} characters, got {len(token)}. --token auto makes one."
        )


def _address(host: str, port: int, token: str | None) -> str:
    """Return the address that a person opens."""
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)  # noqa: S104
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}/" + ("" if token is None else f"?token={quote(token, safe='')}")
