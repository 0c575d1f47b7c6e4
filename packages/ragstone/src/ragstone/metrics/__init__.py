"""Metrics: cards, the registry, and one file a family."""

from ragstone.metrics._card import Metric, MetricCard

__all__ = ["Metric", "MetricCard"]
