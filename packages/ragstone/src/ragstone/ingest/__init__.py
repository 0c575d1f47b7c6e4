"""Ingest: OTLP receivers for applications of any language; stored first, answered after, scored in the background."""

from ragstone.ingest._grpc import OtlpGrpcReceiver as OtlpGrpcReceiver
from ragstone.ingest._receiver import OtlpReceiver as OtlpReceiver
from ragstone.ingest._stage import OtlpTraceSource as OtlpTraceSource
from ragstone.ingest._stage import SharedSpanBuffer as SharedSpanBuffer

__all__ = []
