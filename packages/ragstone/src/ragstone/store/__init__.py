"""Database of traces, outcomes and deliveries: `Store`, and `SqliteStore`."""

from ragstone.store._backup import backup_store as backup_store
from ragstone.store._backup import restore_store as restore_store
from ragstone.store._checksums import way_out as way_out
from ragstone.store._location import describe_store as describe_store
from ragstone.store._location import has_spool as has_spool
from ragstone.store._location import is_database_url as is_database_url
from ragstone.store._location import quote_store as quote_store
from ragstone.store._location import resolve_store as resolve_store
from ragstone.store._open_store import is_owned as is_owned
from ragstone.store._open_store import open_for_labels as open_for_labels
from ragstone.store._open_store import open_store as open_store
from ragstone.store._open_store import settle_labels as settle_labels
from ragstone.store._plan import applies_since as applies_since
from ragstone.store._plan import plan_differences as plan_differences
from ragstone.store._store import Store as Store
from ragstone.store._types import BackfillCounts as BackfillCounts
from ragstone.store._types import Claims as Claims
from ragstone.store._types import Completion as Completion
from ragstone.store._types import DeliveryKind as DeliveryKind
from ragstone.store._types import DeliveryState as DeliveryState
from ragstone.store._types import DrawnRequest as DrawnRequest
from ragstone.store._types import ErasedRequests as ErasedRequests
from ragstone.store._types import MetricCounts as MetricCounts
from ragstone.store._types import PlannedMetric as PlannedMetric
from ragstone.store._types import RetentionCounts as RetentionCounts
from ragstone.store._types import StoredAnswer as StoredAnswer
from ragstone.store._types import StoredLabel as StoredLabel
from ragstone.store._types import StorePosition as StorePosition
from ragstone.store._types import TraceReport as TraceReport
from ragstone.store._types import UnscoredTrace as UnscoredTrace
from ragstone.store._watch import WatchTables as WatchTables
from ragstone.store._watch_types import FEEDBACK_STREAM as FEEDBACK_STREAM
from ragstone.store._watch_types import AlarmRow as AlarmRow
from ragstone.store._watch_types import CanaryScore as CanaryScore
from ragstone.store._watch_types import StreamKey as StreamKey
from ragstone.store._watch_types import StreamKind as StreamKind
from ragstone.store._watch_types import StreamRow as StreamRow
from ragstone.store._watch_types import Unit as Unit
from ragstone.store._watch_types import UnitAmounts as UnitAmounts
from ragstone.store._watch_types import WatchedOutcome as WatchedOutcome
from ragstone.store.sqlite import SqliteStore

__all__ = ["SqliteStore"]
