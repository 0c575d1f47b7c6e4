"""OTLP over gRPC: written to the disk before the reply, as over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from ragstone._util.lazy import needs_extra
from ragstone._util.limited_log import LimitedLog
from ragstone._util.listener import IDLE_S, Connection, Listener, default_max_connections
from ragstone.capture import Redactor, redact_secrets
from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.ingest._access import Access
from ragstone.ingest._body import BodyReader, BusyError, decompress
from ragstone.ingest._intake import DEFAULT_MAX_BYTES, FORBIDDEN, INVALID, LOST, SpanIntake, logger, trace_response
from ragstone.ingest._span_buffer import SharedSpanBuffer
from ragstone.reading.otlp import OversizedMessageError

_MAX_CALLS: Final = 100
"""Calls at once of one connection."""
_CLOSING: Final = 16
"""Connections that made room for others, and that gRPC has not closed yet."""
_DESCRIPTORS: Final = 4
"""Files that two connections open, one of a receiver for HTTP and one of that for gRPC with its relay."""
_PROTOBUF: Final = "application/x-protobuf"
_SERVICE: Final = "/opentelemetry.proto.collector.{0}.v1.{1}Service/Export"
_TRACES: Final = _SERVICE.format("trace", "Trace")
_LOGS: Final = _SERVICE.format("logs", "Logs")
_METRICS: Final = _SERVICE.format("metrics", "Metrics")


class OtlpGrpcReceiver(Listener):
    """Receives spans, and log records of model calls, of OTLP exporters over gRPC, without TLS.

    The listener of gRPC does not limit connections, so it listens at a port of 127.0.0.1 only, and this class passes on
    the bytes of the connections that it admits.

    Other logs and metrics are accepted and not stored. The arguments are those of `OtlpReceiver`. Raise MissingExtraError if
    grpcio or the protobuf messages of OTLP are not installed.
    """

    def __init__(
        self,
        buffer: SharedSpanBuffer,
        *,
        host: str = "127.0.0.1",
        port: int = 4317,
        redact: Redactor | None = redact_secrets,
        access: Access | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_connections: int | None = None,
    ) -> None:
        with needs_extra("grpc", "grpcio", "OTLP over gRPC"):
            import grpc.aio
            import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401
        self._grpc: Any = grpc
        self._intake = SpanIntake(buffer, redact, max_bytes=max_bytes)
        self._bodies = BodyReader(max_bytes)
        self._access = access or Access()
        self._server: Any = None
        self._max_connections = max_connections or default_max_connections(_DESCRIPTORS)
        super().__init__(
            host=host,
            port=port,
            title="ragstone ingest (gRPC)",
            log=LimitedLog(logger),
            max_connections=self._max_connections,
        )

    async def start(self) -> None:
        """Listen. Raise ConfigurationError if the address is not available."""
        grpc = self._grpc
        options = (
            ("grpc.max_receive_message_length", self._intake.max_bytes),
            ("grpc.max_metadata_size", 16384),
            ("grpc.so_reuseport", 0),
            ("grpc.max_concurrent_streams", _MAX_CALLS),
            ("grpc.max_allowed_incoming_connections", self._max_connections + _CLOSING),
            ("grpc.max_connection_idle_ms", int(IDLE_S * 1000)),
        )
        self._server = grpc.aio.server(handlers=[_handlers(grpc, self)], options=options)
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        try:
            await self.listen(lambda connection: _Relay(connection, port), option="--listen-grpc")
        except ConfigurationError:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Finish open requests and stop listening. Can be called twice."""
        self.close()
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace=5.0)

    async def take(self, messages: AsyncIterator[bytes], context: Any, *, is_logs: bool = False) -> bytes:
        """Handle a call with a message of spans or log records. Its token is checked before the message is read."""
        code = self._grpc.StatusCode
        await self._check_access(context)
        try:
            with await self._bodies.read_message(messages) as body:
                rejected = await self._intake.take(partial(decompress, body.content, ""), _PROTOBUF, is_logs=is_logs)
        except OversizedMessageError as error:
            self.report(LOST, f": {error}")
            await context.abort(code.RESOURCE_EXHAUSTED, str(error))
        except DataError as error:
            self.report(INVALID)
            await context.abort(code.INVALID_ARGUMENT, str(error))
        except TimeoutError:
            await context.abort(code.DEADLINE_EXCEEDED, "the message did not arrive in time")
        except BusyError:
            await context.abort(code.UNAVAILABLE, "too many messages at once. Send it again.")
        except StoreError:
            # Exporters retry after this code.
            await context.abort(code.UNAVAILABLE, "the disk is unavailable")
        return trace_response(rejected)

    async def ignored(self, _messages: AsyncIterator[bytes], context: Any) -> bytes:
        """Accept a call with metrics, without reading it."""
        await self._check_access(context)
        return b""

    async def _check_access(self, context: Any) -> None:
        """End the call if its client may not send."""
        headers = dict(context.invocation_metadata() or ())
        # gRPC does not show the name that a client asked for. Browsers cannot call gRPC, so no web site can send either.
        refusal = self._access.refusal(self._host, self._host, str(headers.get("authorization", "")))
        if refusal is not None:
            self.report(FORBIDDEN)
            await context.abort(self._grpc.StatusCode.UNAUTHENTICATED, refusal)


def _handlers(grpc: Any, receiver: OtlpGrpcReceiver) -> Any:
    """Return the handlers of the services, for bytes of messages. gRPC calls those of streams before a message arrives."""

    class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            methods = {_TRACES: receiver.take, _LOGS: partial(receiver.take, is_logs=True), _METRICS: receiver.ignored}
            method = methods.get(details.method)
            return None if method is None else grpc.stream_unary_rpc_method_handler(method)

    return Handlers()


class _End(asyncio.Protocol):
    """An end of a relayed connection. What arrives at it is written to the other one, as fast as that is read."""

    def __init__(self, other: asyncio.Transport | None = None) -> None:
        self.other = other

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a method of all protocols
        if self.other is not None:
            self.other.close()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume_reading()


class _Relay(_End):
    """The handler of an admitted connection. Its first bytes connect it with a port of 127.0.0.1."""

    def __init__(self, connection: Connection, port: int) -> None:
        super().__init__()
        self._connection = connection
        self._port = port
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        pass

    async def _connect(self, data: bytes) -> None:
        client = self._connection.transport
        loop = asyncio.get_running_loop()
        try:
            self.other, _ = await loop.create_connection(lambda: _End(client), "127.0.0.1", self._port)
        except OSError:
            client.abort()
        else:
            self.other.write(data)
            client.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._connection.is_alive()
        if self._connecting is None:
            self._connection.transport.pause_reading()
            self._connecting = asyncio.create_task(self._connect(data))
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        super().connection_lost(exc)
