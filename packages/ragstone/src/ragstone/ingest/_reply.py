"""The reply to a message of spans, as protobuf."""

from __future__ import annotations


def rejection(reasons: list[str]) -> str:
    """Return the reasons of the first rejected spans."""
    return "; ".join(reasons[:3])


def trace_response(rejected: list[str]) -> bytes:
    """Return an `ExportTraceServiceResponse`, with the number of rejected spans and why.

    Args:
        rejected: The reason of each rejected span.
    """
    if not rejected:
        return b""  # a message without fields
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTracePartialSuccess,
        ExportTraceServiceResponse,
    )

    success = ExportTracePartialSuccess(rejected_spans=len(rejected), error_message=rejection(rejected))
    body: bytes = ExportTraceServiceResponse(partial_success=success).SerializeToString()
    return body
