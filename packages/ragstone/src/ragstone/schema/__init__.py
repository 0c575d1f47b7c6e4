"""Records that are stored or sent (traces, samples, outcomes), their version, and samples from traces."""

from ragstone.schema._base import SCHEMA_VERSION, check_record, check_version, other_version
from ragstone.schema._entry import (
    MAX_REQUEST_ID,
    Captured,
    Dropped,
    Feedback,
    Ignored,
    SampledOut,
    SpoolEntry,
    spool_entry_adapter,
)
from ragstone.schema._evidence import ContextsRule, Evidence, QueryRule, ResponseRule, describe_doubt
from ragstone.schema._json_schema import committed_json_schema, json_schema
from ragstone.schema._ledger import (
    BrokerStatus,
    DeclaredTool,
    DeliveryCounts,
    FeedbackCounts,
    IgnoredTraces,
    Ledger,
    LedgerRow,
    ScoringPlan,
)
from ragstone.schema._names import (
    MESSAGE_ROLES,
    ROW_GUESSES,
    ROW_NAMES,
    ROW_SYNONYMS,
    SETTING_NAMES,
    TOKEN_NAMES,
    MessageRole,
    field_names,
    message_role,
)
from ragstone.schema._outcome import (
    AlarmDelivery,
    AnswerCause,
    AnswerMark,
    Delivery,
    Failure,
    FailureKind,
    Interval,
    MetricScale,
    NotApplicable,
    Outcome,
    Score,
    outcome_adapter,
)
from ragstone.schema._outline import TraceOutline
from ragstone.schema._sample import (
    RowProbabilities,
    Sample,
    derive_id,
    fingerprint,
    has_derived_id,
    sample_from_trace,
    trace_from_sample,
)
from ragstone.schema._trace import Passage, Retrieval, Trace, TraceStatus, Turn, Usage, get_skip_reason

__all__ = [
    "Evidence", "Failure", "Interval", "NotApplicable", "Outcome", "Passage", "Retrieval", "Sample", "Score", "Trace",
    "TraceStatus", "Turn", "Usage", "committed_json_schema", "field_names", "json_schema",
]  # fmt: skip
