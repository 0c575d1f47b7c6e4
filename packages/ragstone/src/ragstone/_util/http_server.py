"""A small HTTP server for routes of aiohttp that slow or hostile clients cannot block."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from ragstone._util.limited_log import LimitedLog
from ragstone._util.listener import HEAD_S, IDLE_S, READ_S, Listener, default_max_connections

if TYPE_CHECKING:
    from aiohttp import web

logger = logging.getLogger("ragstone")

_SHUTDOWN_S: Final = 5.0
"""Seconds that open requests have when the server stops."""


class HttpServer(Listener):
    """Serves an application, with limits on connections and on the time until a request is complete.

    Malformed requests get a response with status 400, and the log counts them once a minute. `port` 0 selects a free
    port. The default of `max_connections` is 512, or what the limit of file descriptors allows. A new client must send
    the first line and the headers of a request in `head_s` seconds. All must read what was written to them in `read_s`.
    Clients of `replaceable` connect again, so their responses may end.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        host: str,
        port: int,
        title: str,
        max_connections: int | None = None,
        head_s: float = HEAD_S,
        read_s: float = READ_S,
        replaceable: str | None = None,
    ) -> None:
        super().__init__(
            host=host,
            port=port,
            title=title,
            log=LimitedLog(logger),
            max_connections=max_connections or default_max_connections(),
            head_s=head_s,
            read_s=read_s,
            replaceable=replaceable,
        )
        self._app = app
        app.middlewares.insert(0, self._middleware())
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Start to listen. Raise ConfigurationError if the address is not available."""
        from aiohttp import web

        # Bodies are decompressed by their handlers, which limit the size.
        self._runner = web.AppRunner(
            self._app,
            access_log=None,
            auto_decompress=False,
            handle_signals=False,
            keepalive_timeout=IDLE_S,
            shutdown_timeout=_SHUTDOWN_S,
            logger=_ServerLog(self._log, self._title),
        )
        await self._runner.setup()
        make_handler = cast("web.Server", self._runner.server)  # `setup` makes it
        try:
            await self.listen(lambda _: make_handler())
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Finish open requests and stop listening. Can be called twice."""
        self.close()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _middleware(self) -> Any:
        """Return the middleware of aiohttp that notes which connections have a request."""
        from aiohttp import web

        @web.middleware
        async def note(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            connection = self.connections.find(request.transport)
            if connection is None:
                return await handler(request)
            connection.complete()
            connection.request = request
            try:
                return await handler(request)
            finally:
                connection.request = None
                self.connections.move_to_end(connection)

        return note


class _ServerLog(logging.Logger):
    """What aiohttp logs: malformed requests without their bytes and without a traceback, each kind once a minute."""

    def __init__(self, log: LimitedLog, title: str) -> None:
        super().__init__("ragstone", logging.WARNING)
        self._limited = log
        self._title = title

    def exception(self, msg: object, *args: object, **options: Any) -> None:
        from aiohttp import ClientConnectionResetError
        from aiohttp.http_exceptions import HttpProcessingError

        error = options.get("exc_info")
        if isinstance(error, ClientConnectionResetError):
            return  # the client has gone, or was closed for a new one, before the response began
        if isinstance(error, HttpProcessingError):
            self._limited.log(logging.WARNING, "malformed", f"{self._title}: a client sent a malformed HTTP request")
        else:
            shown = error if isinstance(error, BaseException) else None
            with suppress(TypeError, ValueError):
                msg = str(msg) % args
            self._limited.log(logging.ERROR, "failed", f"{self._title}: {msg}", exc_info=shown)
