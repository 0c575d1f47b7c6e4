"""Ingest: OTLP receivers that write spans to disk before they respond. Requests are scored in the background."""

from ragstone.ingest._access import Access as Access
from ragstone.ingest._feedback import FeedbackRoute as FeedbackRoute
from ragstone.ingest._grpc import OtlpGrpcReceiver as OtlpGrpcReceiver
from ragstone.ingest._receiver import OtlpReceiver as OtlpReceiver
from ragstone.ingest._span_buffer import OtlpTraceSource as OtlpTraceSource
from ragstone.ingest._span_buffer import SharedSpanBuffer as SharedSpanBuffer

__all__ = []
