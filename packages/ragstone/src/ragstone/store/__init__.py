"""Database of traces, outcomes and deliveries: the `Store` Protocol, and `SqliteStore`."""

from ragstone.store._factory import describe_store, is_database_url, open_store, resolve_store
from ragstone.store._protocol import (
    DeliveryState,
    MetricCounts,
    OutboxRow,
    PlannedMetric,
    ScoredTrace,
    Store,
    TraceReport,
    TraceState,
)
from ragstone.store.sqlite import SqliteStore

__all__ = [
    "DeliveryState",
    "MetricCounts",
    "OutboxRow",
    "PlannedMetric",
    "ScoredTrace",
    "SqliteStore",
    "Store",
    "TraceReport",
    "TraceState",
    "describe_store",
    "is_database_url",
    "open_store",
    "resolve_store",
]
