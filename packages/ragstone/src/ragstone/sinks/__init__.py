"""Sinks: destinations for outcomes, with at-least-once delivery."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names
from ragstone.schema import Delivery

if TYPE_CHECKING:
    from ragstone.sinks._alarms import AlarmSink, alarm_sink_from
    from ragstone.sinks._export_file import check_export_path, export_row, write_export
    from ragstone.sinks._protocol import Sink, StatusSink, StreamStatus, check_names, sink_from
    from ragstone.sinks.jsonl import JsonlSink
    from ragstone.sinks.langfuse import LangfuseSink
    from ragstone.sinks.langsmith import LangsmithSink
    from ragstone.sinks.mlflow import MlflowSink
    from ragstone.sinks.otlp import OtlpSink
    from ragstone.sinks.phoenix import PhoenixSink
    from ragstone.sinks.prometheus import PrometheusSink
    from ragstone.sinks.webhook import WebhookSink

__all__ = [
    "Delivery", "JsonlSink", "LangfuseSink", "LangsmithSink", "MlflowSink", "OtlpSink", "PhoenixSink",
    "PrometheusSink", "Sink", "WebhookSink",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_alarms": "AlarmSink alarm_sink_from",
            "_export_file": "check_export_path export_row write_export",
            "_protocol": "Sink StatusSink StreamStatus check_names sink_from",
            "jsonl": "JsonlSink",
            "langfuse": "LangfuseSink",
            "langsmith": "LangsmithSink",
            "mlflow": "MlflowSink",
            "otlp": "OtlpSink",
            "phoenix": "PhoenixSink",
            "prometheus": "PrometheusSink",
            "webhook": "WebhookSink",
        },
    )
