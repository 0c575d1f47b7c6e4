"""Ingest: OTLP receivers that write spans to disk before they respond. Requests are scored in the background."""

from ragstone.ingest._access import Access
from ragstone.ingest._feedback import FeedbackRoute
from ragstone.ingest._grpc import OtlpGrpcReceiver
from ragstone.ingest._receiver import OtlpReceiver
from ragstone.ingest._span_buffer import OtlpTraceSource, SharedSpanBuffer

__all__ = []
