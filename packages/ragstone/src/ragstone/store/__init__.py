"""Database of traces, outcomes and deliveries: `Store`, and `SqliteStore`."""

from ragstone.store._backup import backup_store, restore_store
from ragstone.store._checksums import way_out
from ragstone.store._location import describe_store, has_spool, is_database_url, quote_store, resolve_store
from ragstone.store._open_store import is_owned, open_for_labels, open_store, settle_labels
from ragstone.store._plan import applies_since, plan_differences
from ragstone.store._store import Store
from ragstone.store._traces import RUN_SEGMENT
from ragstone.store._types import (
    BackfillCounts,
    Claims,
    Completion,
    DeliveryKind,
    DeliveryState,
    DrawnRequest,
    ErasedRequests,
    MetricCounts,
    PlannedMetric,
    RetentionCounts,
    StoredAnswer,
    StoredCase,
    StoredLabel,
    StoredTrial,
    StorePosition,
    TraceReport,
    UnscoredTrace,
)
from ragstone.store._watch import WatchTables
from ragstone.store._watch_types import (
    FEEDBACK_STREAM,
    AlarmRow,
    CanaryScore,
    StreamKey,
    StreamKind,
    StreamRow,
    Unit,
    UnitAmounts,
    WatchedOutcome,
)
from ragstone.store.sqlite import SqliteStore

__all__ = ["SqliteStore"]
