"""The durable home of traces, outcomes and the books: the `Store` Protocol, and `SqliteStore`."""

from ragstone.store._factory import is_database_url, open_store, settled, shown
from ragstone.store._protocol import Store
from ragstone.store._records import (
    DeliveryState,
    OutboxRow,
    PlannedMetric,
    ScoredTrace,
    TraceReport,
    TraceState,
)
from ragstone.store._sqlite import SqliteStore

__all__ = [
    "DeliveryState",
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
