"""Sinks: where outcomes go, at least once."""

from ragstone.sinks._factory import sink_from
from ragstone.sinks._protocol import Delivery, Sink, WatchingSink
from ragstone.sinks.jsonl import JsonlSink
from ragstone.sinks.otlp import OtlpSink

__all__ = ["Delivery", "JsonlSink", "OtlpSink", "Sink", "WatchingSink", "sink_from"]
