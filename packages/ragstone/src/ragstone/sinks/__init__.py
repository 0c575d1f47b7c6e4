"""Sinks: where outcomes go, at least once."""

from ragstone.sinks._factory import sink_from
from ragstone.sinks._protocol import Delivery, Sink, WatchingSink
from ragstone.sinks.jsonl import JsonlSink
from ragstone.sinks.mlflow import MlflowSink
from ragstone.sinks.otlp import OtlpSink
from ragstone.sinks.phoenix import PhoenixSink

__all__ = ["Delivery", "JsonlSink", "MlflowSink", "OtlpSink", "PhoenixSink", "Sink", "WatchingSink", "sink_from"]
