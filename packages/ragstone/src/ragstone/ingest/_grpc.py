"""OTLP over gRPC: written to the disk before the reply, as over HTTP."""

from __future__ import annotations

from typing import Any, Final

from ragstone.capture import Redactor, redact_secrets
from ragstone.errors import ConfigurationError, DataError, MissingExtraError, StoreError
from ragstone.ingest._intake import MAX_BYTES, SpanIntake
from ragstone.ingest._reply import trace_response
from ragstone.ingest._span_buffer import SharedSpanBuffer

__all__ = ["OtlpGrpcReceiver"]

_PROTOBUF: Final = "application/x-protobuf"
_SERVICE: Final = "/opentelemetry.proto.collector.{0}.v1.{1}Service/Export"
_TRACES: Final = _SERVICE.format("trace", "Trace")
_IGNORED: Final = frozenset({_SERVICE.format("logs", "Logs"), _SERVICE.format("metrics", "Metrics")})


class OtlpGrpcReceiver:
    """Receives spans of OTLP exporters over gRPC, without TLS and authentication.

    Logs and metrics are accepted and not stored.

    Args:
        buffer: The buffer for the spans.
        host: Address to listen on.
        port: Port. 0 selects a free port.
        redact: As for `OtlpReceiver`.

    Raises:
        MissingExtraError: If grpcio or the protobuf messages of OTLP are not installed.
    """

    def __init__(
        self,
        buffer: SharedSpanBuffer,
        *,
        host: str = "127.0.0.1",
        port: int = 4317,
        redact: Redactor | None = redact_secrets,
    ) -> None:
        try:
            import grpc.aio
            import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(feature="OTLP over gRPC", package="grpcio", extra="ragstone[grpc]") from error
        self._grpc: Any = grpc
        self._intake = SpanIntake(buffer, redact)
        self._host = host
        self._port = port
        self._server: Any = None

    @property
    def url(self) -> str:
        """Endpoint for exporters. Final after `start`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: If the address is not available.
        """
        grpc = self._grpc
        options = (("grpc.max_receive_message_length", MAX_BYTES), ("grpc.so_reuseport", 0))
        self._server = grpc.aio.server(handlers=[_handlers(grpc, self)], options=options)
        try:
            self._port = self._server.add_insecure_port(self.url.removeprefix("http://"))
        except RuntimeError as error:
            self._server = None
            raise ConfigurationError(
                f"cannot listen on {self._host}:{self._port}: {error}. Set another --listen-grpc HOST:PORT."
            ) from None
        await self._server.start()

    async def aclose(self) -> None:
        """Finish open requests and stop listening. Can be called twice."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace=5.0)

    async def traces(self, message: bytes, context: Any) -> bytes:
        """Handle a message of spans."""
        code = self._grpc.StatusCode
        try:
            rejected = await self._intake.take(message, _PROTOBUF)
        except DataError as error:
            await context.abort(code.INVALID_ARGUMENT, str(error))
        except StoreError:
            # Exporters retry after this code.
            await context.abort(code.UNAVAILABLE, "the disk is unavailable")
        return trace_response(rejected)

    async def ignored(self, message: bytes, context: Any) -> bytes:  # noqa: ARG002 - gRPC's signature
        """Accept a message of logs or metrics."""
        return b""


def _handlers(grpc: Any, receiver: OtlpGrpcReceiver) -> Any:
    """Return the handlers of the services, which get and return the bytes of messages."""

    class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            if details.method == _TRACES:
                return grpc.unary_unary_rpc_method_handler(receiver.traces)
            return grpc.unary_unary_rpc_method_handler(receiver.ignored) if details.method in _IGNORED else None

    return Handlers()
