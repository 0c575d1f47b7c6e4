"""OpenTelemetry's spans: the containers they come in, and the conventions that put RAG requests into them."""

from ragstone.replay.otlp._format import OtlpFormat, conventions_in, requests_of
from ragstone.replay.otlp._mlflow import fill_mlflow
from ragstone.replay.otlp._requests import spans_of_request, traces_of
from ragstone.replay.otlp._span import OtelSpan

__all__ = [
    "OtelSpan",
    "OtlpFormat",
    "conventions_in",
    "fill_mlflow",
    "requests_of",
    "spans_of_request",
    "traces_of",
]
