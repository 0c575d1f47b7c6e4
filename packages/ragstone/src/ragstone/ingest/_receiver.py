"""OTLP over HTTP: receives protobuf and JSON, and writes spans to disk before it responds."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Final

from aiohttp import web

from ragstone.capture import Redactor, redact_secrets
from ragstone.errors import ConfigurationError, DataError, MissingExtraError, StoreError
from ragstone.ingest._intake import MAX_BYTES, SpanIntake
from ragstone.ingest._reply import rejection, trace_response
from ragstone.ingest._span_buffer import SharedSpanBuffer

__all__ = ["OtlpReceiver"]

_RETRY_AFTER_S: Final = "5"
_PROTOBUF: Final = "application/x-protobuf"


class OtlpReceiver:
    """Receives spans of any OpenTelemetry exporter at `/v1/traces`.

    Logs and metrics are accepted and discarded, so that exporters that share one endpoint do not report errors. The
    receiver does not authenticate clients: listen on the loopback interface, or behind an authenticating proxy.

    Args:
        buffer: Buffer for the spans.
        host: Address to listen on.
        port: Port. 0 selects a free port.
        redact: Function from text to text, applied to all text of a span before it is written. None keeps texts
            unchanged.
        add_routes: Adds further routes to the server.
    """

    def __init__(
        self,
        buffer: SharedSpanBuffer,
        *,
        host: str = "127.0.0.1",
        port: int = 4318,
        redact: Redactor | None = redact_secrets,
        add_routes: Callable[[web.Application], None] | None = None,
    ) -> None:
        self._add_routes = add_routes
        self._intake = SpanIntake(buffer, redact)
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Base URL for exporters. Final after `start`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Start to listen.

        Raises:
            ConfigurationError: If the address is not available.
        """
        app = web.Application(client_max_size=MAX_BYTES)
        app.router.add_post("/v1/traces", self._traces)
        app.router.add_post("/v1/logs", self._ignored)
        app.router.add_post("/v1/metrics", self._ignored)
        if self._add_routes is not None:
            self._add_routes(app)
        # `_decompress` decompresses bodies, because it limits their size.
        self._runner = web.AppRunner(app, access_log=None, auto_decompress=False, handle_signals=False)
        await self._runner.setup()
        try:
            site = web.TCPSite(self._runner, self._host, self._port)
            await site.start()
        except OSError as error:
            await self.aclose()
            raise ConfigurationError(
                f"cannot listen on {self._host}:{self._port}: {error.strerror or error}. Set another --listen HOST:PORT."
            ) from None
        self._port = self._runner.addresses[0][1]

    async def aclose(self) -> None:
        """Finish open requests and stop listening. Can be called twice."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _traces(self, request: web.Request) -> web.Response:
        kind = request.content_type
        try:
            body = _decompress(await request.read(), request.headers.get("Content-Encoding", "identity"))
            rejected = await self._intake.take(body, kind)
        except web.HTTPRequestEntityTooLarge:
            return _error_response(413, f"the body has more than {MAX_BYTES} bytes. Send smaller batches.")
        except MissingExtraError as error:
            return _error_response(415, str(error))
        except DataError as error:
            return _error_response(400, str(error))
        except StoreError:
            return _error_response(503, "the disk is unavailable", {"Retry-After": _RETRY_AFTER_S})
        return _success_response(kind, rejected)

    async def _ignored(self, request: web.Request) -> web.Response:
        await request.read()
        return _success_response(request.content_type, [])


def _decompress(body: bytes, encoding: str) -> bytes:
    if encoding in ("identity", ""):
        return body
    if encoding not in ("gzip", "deflate"):
        raise DataError(f"unknown content encoding {encoding[:40]!r}. Send gzip, or uncompressed data.")
    decompressor = zlib.decompressobj(wbits=47)
    try:
        content = decompressor.decompress(body, MAX_BYTES + 1)
    except zlib.error as error:
        raise DataError(f"the body is not valid {encoding}: {error}") from None
    if len(content) > MAX_BYTES:
        raise web.HTTPRequestEntityTooLarge(max_size=MAX_BYTES, actual_size=len(content))
    if not decompressor.eof:
        raise DataError(f"the body's {encoding} data is incomplete")
    return content


def _success_response(kind: str, rejected: list[str]) -> web.Response:
    """Return the protocol's response in the format of the request."""
    if kind == "application/json":
        partial = {"partialSuccess": {"rejectedSpans": str(len(rejected)), "errorMessage": rejection(rejected)}}
        return web.json_response(partial if rejected else {})
    return web.Response(body=trace_response(rejected), content_type=_PROTOBUF)


def _error_response(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    # `google.rpc.Status` as JSON. Exporters show the text.
    return web.Response(
        status=status, text=json.dumps({"message": message}), content_type="application/json", headers=headers
    )
