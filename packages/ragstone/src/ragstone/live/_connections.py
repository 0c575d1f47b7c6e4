"""Limits on the connections of the live page, so that slow or silent clients cannot block it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from ragstone._util.limited_log import LimitedLog

_MAX_CONNECTIONS: Final = 128
"""Largest number of connections. A tab needs one for changes, and a second one while it fetches a part."""
_REQUEST_S: Final = 10.0
"""Seconds in which a client must send a complete request."""
_READ_S: Final = 60.0
"""Seconds in which a client must read what was written to it."""


def bounded_protocol(
    *, max_connections: int = _MAX_CONNECTIONS, request_s: float = _REQUEST_S, read_s: float = _READ_S
) -> type[H11Protocol]:
    """Make the protocol of one server, for `uvicorn.Config(http=...)`.

    A connection is closed if its client does not send a complete request, or does not read a response. When all connections
    are in use, a new one takes the place of the one that has waited longest for a request, or else of the oldest one: a
    browser that waits for changes connects again.

    Args:
        max_connections: Largest number of connections.
        request_s: Seconds in which a client must send a complete request.
        read_s: Seconds in which a client must read what was written to it.
    """
    log = LimitedLog(logging.getLogger("ragstone"))
    opened: dict[_Bounded, None] = {}
    waiting: dict[_Bounded, None] = {}
    """Connections without a complete request, in the order in which they began to wait."""

    class _Bounded(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None
        _read_deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.logger = _RequestLog(log)
            if len(opened) >= max_connections:
                log.log(logging.WARNING, "full", f"live page: all {max_connections} connections are in use")
                oldest = next(iter(waiting or opened))
                oldest.forget()
                oldest.transport.abort()
            opened[self] = None
            self._check_request()

        def connection_lost(self, exc: Exception | None) -> None:
            self.forget()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._check_request()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._check_request()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._read_deadline = self.loop.call_later(read_s, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._read_deadline is not None:
                self._read_deadline.cancel()

        def forget(self) -> None:
            """Stop counting this connection."""
            opened.pop(self, None)
            self._stop_waiting()
            if self._read_deadline is not None:
                self._read_deadline.cancel()

        def _check_request(self) -> None:
            """Start the deadline if a request is incomplete. Single bytes do not extend it."""
            cycle: RequestResponseCycle | None = self.cycle
            if cycle is not None and not cycle.more_body and not cycle.response_complete:
                self._stop_waiting()
            elif self._deadline is None and self in opened:
                waiting[self] = None
                self._deadline = self.loop.call_later(request_s, self._give_up)

        def _stop_waiting(self) -> None:
            waiting.pop(self, None)
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _give_up(self) -> None:
            # A response may still be on its way to a slow reader.
            self.transport.close()
            self._read_deadline = self.loop.call_later(read_s, self.transport.abort)

    return _Bounded


class _RequestLog(logging.Logger):
    """Counts the warnings of uvicorn, all of which are about malformed requests, and logs them once a minute."""

    def __init__(self, log: LimitedLog) -> None:
        super().__init__("uvicorn.error", logging.WARNING)
        self.parent = logging.getLogger("uvicorn.error")
        self._limited = log

    def warning(self, *_: object, **__: object) -> None:
        self._limited.log(logging.WARNING, "malformed", "live page: a request was malformed")
