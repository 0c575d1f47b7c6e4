"""OTLP over HTTP: receives protobuf and JSON, and writes spans to disk before it responds."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from aiohttp import web

from ragstone._util.http_server import HttpServer
from ragstone.capture import Redactor, redact_secrets
from ragstone.errors import DataError, MissingExtraError, StoreError
from ragstone.ingest._access import Access
from ragstone.ingest._body import BodyReader, BusyError, decompress
from ragstone.ingest._intake import DEFAULT_MAX_BYTES, FORBIDDEN, INVALID, LOST, SpanIntake, rejection, trace_response
from ragstone.ingest._span_buffer import SharedSpanBuffer
from ragstone.reading.otlp import OversizedMessageError

RETRY_AFTER_S: Final = "5"
_LOGS_PATH: Final = "/v1/logs"
_PROTOBUF: Final = "application/x-protobuf"


class OtlpReceiver(HttpServer):
    """Receives spans of any OpenTelemetry exporter at `/v1/traces`, and log records of model calls at `/v1/logs`.

    Other logs and metrics are accepted and discarded, so that exporters that share one endpoint do not report errors. `port`
    0 selects a free port. `redact` is applied to all text of a span before it is written, and None keeps texts
    unchanged. `access` None admits everybody who can reach the address. It also protects routes of `add_routes` below
    `/v1/`. `max_bytes` limits a message, compressed and uncompressed.
    """

    def __init__(
        self,
        buffer: SharedSpanBuffer,
        *,
        host: str = "127.0.0.1",
        port: int = 4318,
        redact: Redactor | None = redact_secrets,
        access: Access | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_connections: int | None = None,
        add_routes: Callable[[web.Application], None] | None = None,
    ) -> None:
        self._intake = SpanIntake(buffer, redact, max_bytes=max_bytes)
        self._bodies = BodyReader(max_bytes)
        self._access = access or Access()
        app = web.Application(client_max_size=max_bytes, middlewares=[self._check_access()])
        app.router.add_post("/v1/traces", self._traces)
        app.router.add_post(_LOGS_PATH, self._traces)
        app.router.add_post("/v1/metrics", self._ignored)
        if add_routes is not None:
            add_routes(app)
        super().__init__(app, host=host, port=port, title="ragstone ingest", max_connections=max_connections)

    def _check_access(self) -> Any:
        @web.middleware
        async def check(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            if request.path.startswith("/v1/"):
                headers = request.headers
                refusal = self._access.refusal(self._host, headers.get("Host", ""), headers.get("Authorization", ""))
                if refusal is not None:
                    self.report(FORBIDDEN)
                    return last_response(401 if "token" in refusal else 403, refusal)
            return await handler(request)

        return check

    async def _traces(self, request: web.Request) -> web.Response:
        kind, is_logs = request.content_type, request.path == _LOGS_PATH
        encoding = request.headers.get("Content-Encoding", "identity")
        try:
            with await self._bodies.read(request) as body:
                rejected = await self._intake.take(partial(decompress, body.content, encoding), kind, is_logs=is_logs)
        except OversizedMessageError as error:
            self.report(LOST, f": {error}")
            return last_response(413, str(error))
        except (BusyError, TimeoutError) as error:
            return unread_response(error)
        except MissingExtraError as error:
            return error_response(415, str(error))
        except DataError as error:
            self.report(INVALID)
            return error_response(400, str(error))
        except StoreError:
            return error_response(503, "the disk is unavailable", {"Retry-After": RETRY_AFTER_S})
        return _success_response(kind, rejected, "rejectedLogRecords" if is_logs else "rejectedSpans")

    async def _ignored(self, request: web.Request) -> web.Response:
        # aiohttp discards the body after the response.
        return _success_response(request.content_type, [])


def _success_response(kind: str, rejected: list[str], count: str = "") -> web.Response:
    """Return the protocol's response in the format of the request."""
    if kind == "application/json":
        partial = {"partialSuccess": {count: str(len(rejected)), "errorMessage": rejection(rejected)}}
        return web.json_response(partial if rejected else {})
    return web.Response(body=trace_response(rejected), content_type=_PROTOBUF)


def unread_response(error: BusyError | TimeoutError) -> web.Response:
    """Return the response to a request whose body was not read."""
    if isinstance(error, TimeoutError):
        return last_response(408, "the body did not arrive in time")
    return last_response(503, "too many messages at once. Send it again.", {"Retry-After": RETRY_AFTER_S})


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """Return `google.rpc.Status` as JSON. Exporters show the text."""
    return web.Response(
        status=status, text=json.dumps({"message": message}), content_type="application/json", headers=headers
    )


def last_response(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """Return a response that ends the connection, because the rest of the request was not read."""
    response = error_response(status, message, headers)
    response.force_close()
    return response
