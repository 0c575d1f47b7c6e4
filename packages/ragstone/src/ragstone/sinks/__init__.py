"""Sinks: where outcomes go, at least once."""

from ragstone.sinks._protocol import Delivery, Sink

__all__ = ["Delivery", "Sink"]
