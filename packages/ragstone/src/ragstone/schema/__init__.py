"""Records that cross a disk or a network: traces, samples, outcomes; their version and their projection."""

from ragstone.schema._base import SCHEMA_VERSION, migrate
from ragstone.schema._entry import Captured, Dropped, SampledOut, SpoolEntry, spool_entry_adapter
from ragstone.schema._json_schema import committed_json_schema, json_schema
from ragstone.schema._ledger import Ledger, LedgerRow, SinkBooks
from ragstone.schema._outcome import (
    Delivery,
    Failure,
    FailureKind,
    Interval,
    NotApplicable,
    Outcome,
    Score,
    outcome_adapter,
)
from ragstone.schema._rows import FIELD_ALIASES, sample_from_row
from ragstone.schema._sample import Sample, sample_from_trace, trace_from_sample
from ragstone.schema._trace import Passage, Search, Trace, TraceStatus, Usage

__all__ = [
    "FIELD_ALIASES",
    "SCHEMA_VERSION",
    "Captured",
    "Delivery",
    "Dropped",
    "Failure",
    "FailureKind",
    "Interval",
    "Ledger",
    "LedgerRow",
    "NotApplicable",
    "Outcome",
    "Passage",
    "Sample",
    "SampledOut",
    "Score",
    "Search",
    "SinkBooks",
    "SpoolEntry",
    "Trace",
    "TraceStatus",
    "Usage",
    "committed_json_schema",
    "json_schema",
    "migrate",
    "outcome_adapter",
    "sample_from_row",
    "sample_from_trace",
    "spool_entry_adapter",
    "trace_from_sample",
]
