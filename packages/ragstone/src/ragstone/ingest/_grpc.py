"""OTLP over gRPC: written to the disk before the reply, as over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ragstone._util.addresses import listen_error
from ragstone._util.lazy import needs_extra
from ragstone.capture import Redactor, redact_secrets
from ragstone.errors import DataError, StoreError
from ragstone.ingest._access import Access
from ragstone.ingest._body import BusyError, decompress
from ragstone.ingest._intake import DEFAULT_MAX_BYTES, SpanIntake, trace_response
from ragstone.ingest._span_buffer import SharedSpanBuffer
from ragstone.reading.otlp import OversizedMessageError

_MAX_CALLS: Final = 16
"""Calls at once. Each may hold a message of the largest size."""
_PROTOBUF: Final = "application/x-protobuf"
_SERVICE: Final = "/opentelemetry.proto.collector.{0}.v1.{1}Service/Export"
_TRACES: Final = _SERVICE.format("trace", "Trace")
_IGNORED: Final = frozenset({_SERVICE.format("logs", "Logs"), _SERVICE.format("metrics", "Metrics")})


class OtlpGrpcReceiver:
    """Receives spans of OTLP exporters over gRPC, without TLS.

    Logs and metrics are accepted and not stored. The arguments are those of `OtlpReceiver`. Raise MissingExtraError if
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
    ) -> None:
        with needs_extra("grpc", "grpcio", "OTLP over gRPC"):
            import grpc.aio
            import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401
        self._grpc: Any = grpc
        self._intake = SpanIntake(buffer, redact, max_bytes=max_bytes)
        self._access = access or Access()
        self._host = host
        self._port = port
        self._server: Any = None

    @property
    def url(self) -> str:
        """Endpoint for exporters. Final after `start`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Listen. Raise ConfigurationError if the address is not available."""
        grpc = self._grpc
        options = (
            ("grpc.max_receive_message_length", self._intake.max_bytes),
            ("grpc.max_metadata_size", 16384),
            ("grpc.so_reuseport", 0),
        )
        self._server = grpc.aio.server(
            handlers=[_handlers(grpc, self)], options=options, maximum_concurrent_rpcs=_MAX_CALLS
        )
        try:
            self._port = self._server.add_insecure_port(self.url.removeprefix("http://"))
        except RuntimeError as error:
            self._server = None
            raise listen_error(self._host, self._port, error, option="--listen-grpc") from None
        await self._server.start()

    async def aclose(self) -> None:
        """Finish open requests and stop listening. Can be called twice."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace=5.0)

    async def traces(self, message: bytes, context: Any) -> bytes:
        """Handle a message of spans."""
        code = self._grpc.StatusCode
        await self._check_access(context)
        try:
            rejected = await self._intake.take(partial(decompress, message, ""), _PROTOBUF)
        except OversizedMessageError as error:
            self._intake.report_loss(error)
            await context.abort(code.RESOURCE_EXHAUSTED, str(error))
        except DataError as error:
            await context.abort(code.INVALID_ARGUMENT, str(error))
        except BusyError:
            await context.abort(code.UNAVAILABLE, "too many messages at once. Send it again.")
        except StoreError:
            # Exporters retry after this code.
            await context.abort(code.UNAVAILABLE, "the disk is unavailable")
        return trace_response(rejected)

    async def ignored(self, message: bytes, context: Any) -> bytes:  # noqa: ARG002 - a handler's signature
        """Accept a message of logs or metrics."""
        await self._check_access(context)
        return b""

    async def _check_access(self, context: Any) -> None:
        """End the call if its client may not send."""
        headers = dict(context.invocation_metadata() or ())
        # gRPC does not show the name that a client asked for. Browsers cannot call gRPC, so no web site can send either.
        refusal = self._access.refusal(self._host, self._host, str(headers.get("authorization", "")))
        if refusal is not None:
            await context.abort(self._grpc.StatusCode.UNAUTHENTICATED, refusal)


def _handlers(grpc: Any, receiver: OtlpGrpcReceiver) -> Any:
    """Return the handlers of the services, which get and return the bytes of messages."""

    class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            if details.method == _TRACES:
                return grpc.unary_unary_rpc_method_handler(receiver.traces)
            return grpc.unary_unary_rpc_method_handler(receiver.ignored) if details.method in _IGNORED else None

    return Handlers()
