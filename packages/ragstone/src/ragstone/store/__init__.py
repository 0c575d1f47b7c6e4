"""The database of traces, outcomes and deliveries: the `Store` Protocol, and `SqliteStore`."""

from ragstone.store._factory import is_database_url, open_store, settled, shown
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
    "is_database_url",
    "open_store",
    "settled",
    "shown",
]
