"""Records that are stored or sent (traces, samples, outcomes), their version, and samples from traces."""

from ragstone.schema._base import SCHEMA_VERSION as SCHEMA_VERSION
from ragstone.schema._base import check_record as check_record
from ragstone.schema._base import check_version as check_version
from ragstone.schema._base import other_version as other_version
from ragstone.schema._entry import MAX_REQUEST_ID as MAX_REQUEST_ID
from ragstone.schema._entry import Captured as Captured
from ragstone.schema._entry import Dropped as Dropped
from ragstone.schema._entry import Feedback as Feedback
from ragstone.schema._entry import Ignored as Ignored
from ragstone.schema._entry import SampledOut as SampledOut
from ragstone.schema._entry import SpoolEntry as SpoolEntry
from ragstone.schema._entry import spool_entry_adapter as spool_entry_adapter
from ragstone.schema._evidence import ContextsRule as ContextsRule
from ragstone.schema._evidence import Evidence
from ragstone.schema._evidence import QueryRule as QueryRule
from ragstone.schema._evidence import ResponseRule as ResponseRule
from ragstone.schema._evidence import describe_doubt as describe_doubt
from ragstone.schema._json_schema import committed_json_schema, json_schema
from ragstone.schema._ledger import BrokerStatus as BrokerStatus
from ragstone.schema._ledger import DeclaredTool as DeclaredTool
from ragstone.schema._ledger import DeliveryCounts as DeliveryCounts
from ragstone.schema._ledger import FeedbackCounts as FeedbackCounts
from ragstone.schema._ledger import IgnoredTraces as IgnoredTraces
from ragstone.schema._ledger import Ledger as Ledger
from ragstone.schema._ledger import LedgerRow as LedgerRow
from ragstone.schema._ledger import ScoringPlan as ScoringPlan
from ragstone.schema._names import MESSAGE_ROLES as MESSAGE_ROLES
from ragstone.schema._names import ROW_GUESSES as ROW_GUESSES
from ragstone.schema._names import ROW_NAMES as ROW_NAMES
from ragstone.schema._names import ROW_SYNONYMS as ROW_SYNONYMS
from ragstone.schema._names import SETTING_NAMES as SETTING_NAMES
from ragstone.schema._names import TOKEN_NAMES as TOKEN_NAMES
from ragstone.schema._names import MessageRole as MessageRole
from ragstone.schema._names import field_names
from ragstone.schema._names import message_role as message_role
from ragstone.schema._outcome import AlarmDelivery as AlarmDelivery
from ragstone.schema._outcome import AnswerCause as AnswerCause
from ragstone.schema._outcome import AnswerMark as AnswerMark
from ragstone.schema._outcome import Delivery as Delivery
from ragstone.schema._outcome import Failure, Interval, NotApplicable, Outcome, Score
from ragstone.schema._outcome import FailureKind as FailureKind
from ragstone.schema._outcome import MetricScale as MetricScale
from ragstone.schema._outcome import outcome_adapter as outcome_adapter
from ragstone.schema._outline import TraceOutline as TraceOutline
from ragstone.schema._sample import Sample
from ragstone.schema._sample import derive_id as derive_id
from ragstone.schema._sample import fingerprint as fingerprint
from ragstone.schema._sample import sample_from_trace as sample_from_trace
from ragstone.schema._sample import trace_from_sample as trace_from_sample
from ragstone.schema._trace import Passage, Retrieval, Trace, TraceStatus, Turn, Usage

__all__ = [
    "Evidence",
    "Failure",
    "Interval",
    "NotApplicable",
    "Outcome",
    "Passage",
    "Retrieval",
    "Sample",
    "Score",
    "Trace",
    "TraceStatus",
    "Turn",
    "Usage",
    "committed_json_schema",
    "field_names",
    "json_schema",
]
