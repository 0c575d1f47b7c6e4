"""OTLP over HTTP: protobuf and JSON in, on the disk before the answer."""

from __future__ import annotations

import json
import zlib
from typing import Final

from aiohttp import web

from ragstone.capture import Redactor, redact_secrets
from ragstone.errors import ConfigurationError, DataError, MissingExtraError, StoreError
from ragstone.ingest._intake import MAX_BYTES, SpanIntake
from ragstone.ingest._reply import rejection, trace_response
from ragstone.ingest._stage import SharedSpanBuffer

__all__ = ["OtlpReceiver"]

_RETRY_AFTER_S: Final = "5"
_PROTOBUF: Final = "application/x-protobuf"


class OtlpReceiver:
    """Takes spans at `/v1/traces` as any OpenTelemetry exporter sends them.

    Logs and metrics are accepted and left alone, so that an application whose exporters share one address is not told
    of errors. There is no authentication: listen on the loopback interface, or behind a proxy that has one.

    Args:
        stage: Where spans are kept.
        host: Address to listen at.
        port: Port; 0 takes a free one.
        redact: Text to text, applied to all that an application put into a span before it touches the disk; None keeps
            texts as they are.
    """

    def __init__(
        self,
        stage: SharedSpanBuffer,
        *,
        host: str = "127.0.0.1",
        port: int = 4318,
        redact: Redactor | None = redact_secrets,
    ) -> None:
        self._intake = SpanIntake(stage, redact)
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where exporters send to; final once it listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: The address cannot be listened at.
        """
        app = web.Application(client_max_size=MAX_BYTES)
        app.router.add_post("/v1/traces", self._traces)
        app.router.add_post("/v1/logs", self._ignored)
        app.router.add_post("/v1/metrics", self._ignored)
        # Bodies are unpacked here, where their size is watched.
        self._runner = web.AppRunner(app, access_log=None, auto_decompress=False, handle_signals=False)
        await self._runner.setup()
        try:
            site = web.TCPSite(self._runner, self._host, self._port)
            await site.start()
        except OSError as error:
            await self.aclose()
            raise ConfigurationError(
                f"cannot listen at {self._host}:{self._port}: {error.strerror or error}; name another --listen HOST:PORT"
            ) from None
        self._port = self._runner.addresses[0][1]

    async def aclose(self) -> None:
        """Answer what has come, and stop listening. Safe to call twice."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _traces(self, request: web.Request) -> web.Response:
        kind = request.content_type
        try:
            body = _unpacked(await request.read(), request.headers.get("Content-Encoding", "identity"))
            rejected = await self._intake.take(body, kind)
        except web.HTTPRequestEntityTooLarge:
            return _refused(413, f"more than {MAX_BYTES} bytes; send smaller batches")
        except MissingExtraError as error:
            return _refused(415, str(error))
        except DataError as error:
            return _refused(400, str(error))
        except StoreError:
            return _refused(503, "the disk does not take it now", {"Retry-After": _RETRY_AFTER_S})
        return _accepted(kind, rejected)

    async def _ignored(self, request: web.Request) -> web.Response:
        await request.read()
        return _accepted(request.content_type, [])


def _unpacked(body: bytes, encoding: str) -> bytes:
    if encoding in ("identity", ""):
        return body
    if encoding not in ("gzip", "deflate"):
        raise DataError(f"the content encoding {encoding[:40]!r} is not known; send gzip, or none")
    unpacker = zlib.decompressobj(wbits=47)
    try:
        unpacked = unpacker.decompress(body, MAX_BYTES + 1)
    except zlib.error as error:
        raise DataError(f"the body is no {encoding}: {error}") from None
    if len(unpacked) > MAX_BYTES:
        raise web.HTTPRequestEntityTooLarge(max_size=MAX_BYTES, actual_size=len(unpacked))
    if not unpacker.eof:
        raise DataError(f"the body ends in the middle of its {encoding}")
    return unpacked


def _accepted(kind: str, rejected: list[str]) -> web.Response:
    """The answer of the protocol, in the form of the request."""
    if kind == "application/json":
        told = {"partialSuccess": {"rejectedSpans": str(len(rejected)), "errorMessage": rejection(rejected)}}
        return web.json_response(told if rejected else {})
    return web.Response(body=trace_response(rejected), content_type=_PROTOBUF)


def _refused(status: int, words: str, headers: dict[str, str] | None = None) -> web.Response:
    # `google.rpc.Status` in JSON; exporters show the text.
    return web.Response(
        status=status, text=json.dumps({"message": words}), content_type="application/json", headers=headers
    )
