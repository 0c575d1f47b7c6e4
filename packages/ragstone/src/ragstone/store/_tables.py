"""The tables of a store, from which the statements of both databases are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

APPLICATION_ID: Final = 0x52475354
"""The letters RGST, in the header of every store file and as the first key of Ragstone's advisory locks."""

Dialect = Literal["sqlite", "postgres"]

_TYPES: Final[dict[Dialect, dict[str, str]]] = {
    "sqlite": {
        "key": "INTEGER PRIMARY KEY",
        "text": "TEXT",
        "int": "INTEGER",
        "real": "REAL",
        "bool": "INTEGER",
        "body": "BLOB",
    },
    "postgres": {
        "key": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "text": 'TEXT COLLATE "C"',  # compared as bytes, so that the order is the same on all servers
        "int": "BIGINT",
        "real": "DOUBLE PRECISION",
        "bool": "BOOLEAN",
        "body": "TEXT",
    },
}
"""Types of columns."""

_METRIC: Final = {"metric": "text NOT NULL", "metric_version": "text NOT NULL", "judge_hash": "text NOT NULL"}
"""Columns that identify a metric and its judge."""

# Each column has a type and its constraints. `seq` is the order of arrival, and pages of long reads use it. Bodies are
# separate, so that counting never reads text.
TABLES: Final[dict[str, dict[str, str]]] = {
    "meta": {"key": "text PRIMARY KEY", "value": "text NOT NULL"},
    # `captured` is written only when requests arrive, so that the ledger shows a lost row.
    "counters": {"name": "text PRIMARY KEY", "n": "int NOT NULL"},
    "segments": {"name": "text PRIMARY KEY", "next_offset": "int NOT NULL"},
    "plan": {
        "name": "text PRIMARY KEY",
        "version": "text NOT NULL",
        "judge_hash": "text NOT NULL",
        "position": "int NOT NULL",
        "finished_before": "int NOT NULL",  # traces that were finished without this metric when it joined
    },
    # Settings with which requests are scored (see `_plan`). `plan` has the metrics that the last worker scores with.
    "scoring_plans": {
        "id": "text PRIMARY KEY",  # hash of the settings
        "settings": "text NOT NULL",
        "since": "real NOT NULL",
        "replaced_by": "text",  # id of the plan that applies to its requests instead
    },
    "sinks": {"name": "text PRIMARY KEY", "stopped": "text"},  # why nothing is sent until the worker starts again
    "traces": {
        "seq": "key",
        "trace_id": "text NOT NULL UNIQUE",
        "state": "text NOT NULL CHECK (state IN ('pending', 'scored', 'not_applicable', 'failed', 'sampled_out'))",
        "partial": "int NOT NULL DEFAULT 0",  # pending, with some outcomes already
        "started_at": "real NOT NULL",
        "received_at": "real NOT NULL",
        "text_removed_at": "real",  # NULL while the text is there, or if it was never captured
        "inclusion_probability": "real NOT NULL",
        "status": "text",  # NULL when sampled out
        "name": "text",
        "run_id": "text",
        "otel_trace_id": "text",
        "otel_span_id": "text",
        "otel_sampled": "bool",
        "session_id": "text",
        "user_id": "text",
        "app": "text",
        "release": "text",
        "environment": "text",
        "response_id": "text",
        "slices": "text",  # values of tags, retriever and language, as JSON
        "plan": "text",  # id of its scoring plan, NULL if it does not have its own
        "attempts": "int NOT NULL DEFAULT 0",
        "lease_owner": "text",
        "lease_until": "real NOT NULL DEFAULT 0",
        "checksum": "int NOT NULL",  # of the columns in `CHECKED_COLUMNS`
    },
    "trace_bodies": {"seq": "int PRIMARY KEY REFERENCES traces (seq)", "body": "body NOT NULL"},
    "outcomes": {
        "seq": "key",
        "outcome_id": "text NOT NULL UNIQUE",
        "sample_id": "text NOT NULL REFERENCES traces (trace_id)",
        **_METRIC,
        "kind": "text NOT NULL CHECK (kind IN ('score', 'not_applicable', 'failure'))",
        "value": "real CHECK ((value IS NULL) = (kind <> 'score'))",
        "stored_at": "real NOT NULL",
        "backfilled": "real",  # share of the requests that its backfill scored, NULL if it was scored when it arrived
    },
    "outcome_bodies": {"seq": "int PRIMARY KEY REFERENCES outcomes (seq)", "body": "body NOT NULL"},
    "outbox": {
        "seq": "key",
        "kind": "text NOT NULL CHECK (kind IN ('outcome', 'alarm'))",
        "item_id": "text NOT NULL",  # of the outcome or the alarm
        "sink": "text NOT NULL",
        "state": "text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'skipped', 'failed'))",
        "attempts": "int NOT NULL DEFAULT 0",
        "since": "real NOT NULL",  # when it was put in line, last
        "next_try": "real NOT NULL",
        "last_error": "text",
    },
    # Which outcomes a sink receives, and which of them it has (see `_deliveries`).
    "sink_ranges": {
        "sink": "text NOT NULL",
        "start": "int NOT NULL",  # `seq` of the last outcome before the range
        "stop": "int NOT NULL",  # `seq` of its last outcome, 2^62 while the sink is in the plan
        "cursor": "int NOT NULL",
        "sent": "int NOT NULL",  # sent deliveries without a row in the outbox
        "since": "real NOT NULL",  # when the range was put in line, last
    },
    "outcome_counts": {
        **_METRIC,
        "kind": "text NOT NULL",
        "n": "int NOT NULL",
        "checksum": "int NOT NULL",  # sum of those of the values
    },
    # What people say about answers. Requests are not referred to, so that a label outlives a request that is removed.
    "labels": {
        "seq": "key",
        "trace_id": "text NOT NULL",
        "author": "text NOT NULL",
        "value": "real NOT NULL CHECK (value BETWEEN 0 AND 1)",
        "labeled_at": "real NOT NULL",
        "correction": "text",
        "relevant": "text",
        "checksum": "int NOT NULL",
    },
    # Requests whose texts were written to files of cases, so that an erasure can name these files.
    "cases": {"path": "text NOT NULL", "trace_id": "text NOT NULL"},
    # Results of trials of repairs, without texts.
    "trials": {"trial_id": "text PRIMARY KEY", "body": "text NOT NULL", "checksum": "int NOT NULL"},
    "label_frame": {
        "trace_id": "text PRIMARY KEY",
        "probability": "real NOT NULL CHECK (probability > 0 AND probability <= 1)",  # of being drawn
        "position": "int UNIQUE",  # NULL if not drawn
        "checksum": "int NOT NULL",
    },
    # What users say about answers, by the id that the application knows. It may arrive before its request.
    "feedback": {
        "seq": "key",
        "request_id": "text NOT NULL",  # ours, or the OpenTelemetry trace id
        "trace_id": "text",  # NULL before the request arrives
        "value": "real NOT NULL CHECK (value BETWEEN 0 AND 1)",
        "comment": "text",
        "given_at": "real NOT NULL",
        "received_at": "real NOT NULL",
        "checksum": "int NOT NULL",
    },
    # Lines of the inbox of labels that differ from their checksum.
    "damaged_labels": {"seq": "key", "found_at": "real NOT NULL", "line": "text NOT NULL"},
    # Requests that are scored again every day, to see changes of a judge. Their texts are kept.
    "canaries": {"trace_id": "text PRIMARY KEY REFERENCES traces (trace_id)", "chosen_at": "real NOT NULL"},
    "canary_scores": {
        **_METRIC,
        "scored_at": "real NOT NULL",  # time of the round
        "trace_id": "text NOT NULL",
        "value": "real NOT NULL",
    },
    "spend": {
        "day": "text PRIMARY KEY",  # of UTC, such as 2026-11-24
        "calls": "int NOT NULL",
        "input_tokens": "int NOT NULL",
        "output_tokens": "int NOT NULL",
        "usd": "real",  # of the calls with a known cost. NULL if there are none
        "priced_calls": "int NOT NULL",
        "counted_calls": "int NOT NULL",  # of the calls with known tokens
    },
    # Outcomes of sessions that are not closed.
    "watch_queue": {
        "seq": "key",
        "trace_id": "text NOT NULL REFERENCES traces (trace_id)",
        "app": "text NOT NULL",
        "session": "text NOT NULL",  # the trace, if it does not have one
        "requested_at": "real NOT NULL",
        "probability": "real NOT NULL",
        **_METRIC,
        "value": "real",  # NULL for a failure
        "backfilled": "int NOT NULL",  # is not evidence for an alarm
    },
    "streams": {
        "id": "key",
        "app": "text NOT NULL",
        **_METRIC,
        "kind": "text NOT NULL CHECK (kind IN ('score', 'failures'))",
        "state": "text",
    },
    # Closed sessions of the last 100 days.
    "watch_units": {
        "seq": "key",
        "stream": "int NOT NULL REFERENCES streams (id)",
        "session": "text NOT NULL",
        "closed_at": "real NOT NULL",
        "value": "real",
        "weight": "real NOT NULL",
        "failed_weight": "real NOT NULL",
        "p_min": "real NOT NULL",
        "gap_s": "real",  # since the last unit of the session
        "worst_trace": "text NOT NULL",
        "worst_value": "real",
        "labels": "text",
    },
    "alarms": {
        "number": "int PRIMARY KEY",
        "state": "text NOT NULL CHECK (state IN ('open', 'recovered', 'accepted'))",
        "body": "text NOT NULL",
    },
}
"""Columns by table, in the order in which tables refer to each other."""

_KEYS: Final[dict[str, str]] = {
    "outcomes": "UNIQUE (sample_id, metric, metric_version, judge_hash)",
    "outbox": "UNIQUE (kind, item_id, sink)",
    "sink_ranges": "PRIMARY KEY (sink, start)",
    "outcome_counts": "PRIMARY KEY (metric, metric_version, judge_hash, kind)",
    "labels": "UNIQUE (trace_id, author)",
    "cases": "PRIMARY KEY (path, trace_id)",
    "canary_scores": "PRIMARY KEY (metric, metric_version, judge_hash, scored_at, trace_id)",
    "streams": "UNIQUE (app, metric, metric_version, judge_hash, kind)",
}
"""Keys of several columns, by table."""

_UNCHECKED: Final = {
    "traces": {"seq", "state", "partial", "text_removed_at", "plan", "attempts", "lease_owner", "lease_until"},
    "labels": {"seq"},
    "label_frame": set[str](),
    "trials": set[str](),
    "feedback": {"seq", "trace_id", "received_at"},
}
"""Columns that the checksum of a row does not cover, by table."""

CHECKED_COLUMNS: Final = {
    table: tuple(column for column in TABLES[table] if column not in unchecked | {"checksum"})
    for table, unchecked in _UNCHECKED.items()
}
"""Columns that the checksum of a row covers, by table. The first one is the id in messages. Bodies have their own."""

_PENDING: Final = "WHERE state = 'pending'"
_INDEXES: Final[dict[str, str]] = {
    # Without finished requests: nearly all have these states, so that a search by state would read all of them.
    "traces_by_state": "traces (state) WHERE state = 'pending' OR state = 'sampled_out'",
    # Nearly always empty: the rows that the ledger must count individually.
    "traces_partial": "traces (trace_id) WHERE partial = 1",
    # Reports and comparisons select by the time of the request.
    "traces_by_time": "traces (started_at)",
    # Nearly always empty: a session is closed only if none of its traces is pending.
    "sessions_pending": f"traces (session_id) {_PENDING}",
    # The requests whose text can be removed, so that those of years before are not read again.
    "traces_with_text": (
        "traces (started_at) WHERE text_removed_at IS NULL AND state IN ('scored', 'not_applicable', 'failed')"
    ),
    # Feedback knows a request by its OpenTelemetry trace id, or waits for it.
    "traces_by_otel_id": "traces (otel_trace_id) WHERE otel_trace_id IS NOT NULL",
    # A store without sampled requests is not searched for one.
    "traces_sampled": "traces (started_at) WHERE inclusion_probability < 1 AND state <> 'sampled_out'",
    "outcomes_by_metric": "outcomes (metric, metric_version, judge_hash, kind, value)",
    "outbox_by_state": "outbox (sink, state)",
    "feedback_waiting": "feedback (request_id) WHERE trace_id IS NULL",
    "feedback_by_trace": "feedback (trace_id) WHERE trace_id IS NOT NULL",
    # Feedback that has just arrived, also if much is about unknown requests.
    "feedback_waiting_by_time": "feedback (received_at) WHERE trace_id IS NULL",
    # Sessions are folded as a whole.
    "watch_queue_by_session": "watch_queue (app, session, requested_at)",
    # A large queue is folded in parts.
    "watch_queue_by_time": "watch_queue (requested_at)",
    "watch_units_by_time": "watch_units (stream, closed_at)",
    "watch_units_by_session": "watch_units (session, closed_at)",
}
"""Indexes of both databases: table, columns and condition by name."""

_MORE_INDEXES: Final[dict[Dialect, dict[str, str]]] = {
    # Claims read the pending traces in order of arrival with the indexes by state and by plan, which end with `seq`.
    "sqlite": {"due_deliveries": f"outbox (sink, next_try) {_PENDING}", "traces_by_plan": f"traces (plan) {_PENDING}"},
    # Claims skip the many finished traces, and those of other plans.
    "postgres": {
        "due_deliveries": f"outbox (sink, next_try, seq) {_PENDING}",
        "traces_by_plan": f"traces (plan, seq) {_PENDING}",
        "traces_pending": f"traces (seq) {_PENDING}",
        "traces_leased": f"traces (lease_owner) {_PENDING} AND lease_owner IS NOT NULL",
    },
}


def create_statements(dialect: Dialect) -> Iterator[str]:
    """Yield the statements that create the tables and their indexes."""
    for table, columns in TABLES.items():
        yield _create_table(table, columns, dialect)
    for name, columns_and_condition in (_INDEXES | _MORE_INDEXES[dialect]).items():
        yield f"CREATE INDEX {name} ON {columns_and_condition}"


def _create_table(table: str, columns: Mapping[str, str], dialect: Dialect) -> str:
    parts = []
    for name, definition in columns.items():
        kind, _, constraints = definition.partition(" ")
        parts.append(f"{name} {_TYPES[dialect][kind]} {constraints}".rstrip())
    parts += [_KEYS[table]] if table in _KEYS else []
    # Rows of a table whose key is a text are stored in the tree of this key.
    has_text_key = next(iter(columns.values())).startswith("text")
    return (
        f"CREATE TABLE {table} ({', '.join(parts)}){' WITHOUT ROWID' if dialect == 'sqlite' and has_text_key else ''}"
    )
