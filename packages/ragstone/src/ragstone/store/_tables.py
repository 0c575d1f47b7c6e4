"""What the tables of a store have in common in both databases."""

from __future__ import annotations

from typing import Final

__all__ = ["APPLICATION_ID", "CHECKED_COLUMNS", "TEXTS_INDEX", "VERSION_8_INDEXES", "VERSION_9_INDEXES"]

APPLICATION_ID: Final = 0x52475354
"""The letters RGST, in the header of every store file and as the first key of Ragstone's advisory locks."""

TEXTS_INDEX: Final = """
    CREATE INDEX traces_with_text ON traces (started_at)
    WHERE text_removed_at IS NULL AND state IN ('scored', 'not_applicable', 'failed')
"""
"""Index of the requests whose text can be removed, so that those of years before are not read again."""

VERSION_8_INDEXES: Final = (
    # Feedback knows a request by its OpenTelemetry trace id, or waits for it.
    "CREATE INDEX traces_by_otel_id ON traces (otel_trace_id) WHERE otel_trace_id IS NOT NULL",
    "CREATE INDEX feedback_waiting ON feedback (request_id) WHERE trace_id IS NULL",
    "CREATE INDEX feedback_by_trace ON feedback (trace_id) WHERE trace_id IS NOT NULL",
    # A store without sampled requests is not searched for one.
    "CREATE INDEX traces_sampled ON traces (started_at) WHERE inclusion_probability < 1 AND state <> 'sampled_out'",
)
"""Indexes of both databases since version 8 of a file and version 7 of a database."""

VERSION_9_INDEXES: Final = (
    # What feedback cannot select anymore.
    "CREATE INDEX feedback_rates_by_time ON feedback_rates (until)",
    # Feedback that has just arrived, also if much is about unknown requests.
    "CREATE INDEX feedback_waiting_by_time ON feedback (received_at) WHERE trace_id IS NULL",
    # A large queue is folded in parts.
    "CREATE INDEX watch_queue_by_time ON watch_queue (requested_at)",
)
"""Indexes of both databases since version 9 of a file and version 8 of a database."""

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
