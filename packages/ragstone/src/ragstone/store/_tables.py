"""What the tables of a store have in common in both databases."""

from __future__ import annotations

from typing import Final

APPLICATION_ID: Final = 0x52475354
"""The letters RGST, in the header of every store file and as the first key of Ragstone's advisory locks."""

INDEXES: Final = (
    "CREATE INDEX traces_by_state ON traces (state)",
    # Nearly always empty: the rows that the ledger must count individually.
    "CREATE INDEX traces_partial ON traces (trace_id) WHERE partial = 1",
    # Reports and comparisons select by the time of the request.
    "CREATE INDEX traces_by_time ON traces (started_at)",
    "CREATE INDEX traces_by_app ON traces (app, started_at)",
    # Nearly always empty: a session is closed only if none of its traces is pending.
    "CREATE INDEX sessions_pending ON traces (session_id) WHERE state = 'pending'",
    # The requests whose text can be removed, so that those of years before are not read again.
    """
    CREATE INDEX traces_with_text ON traces (started_at)
    WHERE text_removed_at IS NULL AND state IN ('scored', 'not_applicable', 'failed')
    """,
    # Feedback knows a request by its OpenTelemetry trace id, or waits for it.
    "CREATE INDEX traces_by_otel_id ON traces (otel_trace_id) WHERE otel_trace_id IS NOT NULL",
    # A store without sampled requests is not searched for one.
    "CREATE INDEX traces_sampled ON traces (started_at) WHERE inclusion_probability < 1 AND state <> 'sampled_out'",
    "CREATE INDEX outcomes_by_metric ON outcomes (metric, metric_version, judge_hash, kind, value)",
    "CREATE INDEX outbox_by_state ON outbox (sink, state)",
    "CREATE INDEX feedback_waiting ON feedback (request_id) WHERE trace_id IS NULL",
    "CREATE INDEX feedback_by_trace ON feedback (trace_id) WHERE trace_id IS NOT NULL",
    # Feedback that has just arrived, also if much is about unknown requests.
    "CREATE INDEX feedback_waiting_by_time ON feedback (received_at) WHERE trace_id IS NULL",
    # What feedback cannot select anymore.
    "CREATE INDEX watch_queue_by_session ON watch_queue (app, session, requested_at)",
    # A large queue is folded in parts.
    "CREATE INDEX watch_queue_by_time ON watch_queue (requested_at)",
    "CREATE INDEX watch_units_by_time ON watch_units (stream, closed_at)",
    "CREATE INDEX watch_units_by_session ON watch_units (session, closed_at)",
)
"""Indexes of both databases. Each of them has a few more."""

CHECKED_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "traces": (
        "trace_id",
        "started_at",
        "received_at",
        "inclusion_probability",
        "status",
        "name",
        "run_id",
        "otel_trace_id",
        "otel_span_id",
        "otel_sampled",
        "session_id",
        "user_id",
        "app",
        "release",
        "environment",
        "slices",
    ),
    "labels": ("trace_id", "author", "value", "labeled_at"),
    "label_frame": ("trace_id", "probability", "position"),
    "feedback": ("request_id", "value", "comment", "given_at"),
}
"""Columns that the checksum of a row covers, by table. The first one is the id in messages. Bodies have their own."""
