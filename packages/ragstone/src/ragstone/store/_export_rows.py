"""Rows of an export: outcomes with their requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from ragstone.schema import Delivery, Trace
from ragstone.store._checksums import check_row, to_outcome, to_trace
from ragstone.store._deliveries import REQUEST_COLUMNS
from ragstone.store._sql import Sql
from ragstone.store._tables import CHECKED_COLUMNS
from ragstone.store._types import ExportedOutcome

EXPORTED_ROWS: Final = f"""
    SELECT o.seq, o.outcome_id, o.value, b.body, t.seq, t.checksum,
           {", ".join(f"t.{column}" for column in CHECKED_COLUMNS["traces"])}
    FROM outcomes AS o LEFT JOIN outcome_bodies AS b USING (seq) JOIN traces AS t ON t.trace_id = o.sample_id
    WHERE o.seq > ?1 AND (t.started_at >= ?3 OR ?3 IS NULL) AND (t.started_at < ?4 OR ?4 IS NULL)
    ORDER BY o.seq LIMIT ?2
"""  # noqa: S608 - constant columns
"""Query for the rows of a page."""


def exported_outcome(db: Sql, row: Sequence[Any], texts: dict[int, Trace | None] | None) -> ExportedOutcome:
    """Verify a row, and return its outcome.

    Args:
        db: The transaction.
        row: Its columns.
        texts: The requests of the page that were read so far. None if they are not wanted.
    """
    _, outcome_id, value, body, seq, checksum, *columns = row
    check_row("traces", checksum, columns)
    request = dict(zip(CHECKED_COLUMNS["traces"], columns, strict=True))
    if texts is not None and seq not in texts:
        text = db.execute("SELECT body FROM trace_bodies WHERE seq = ?", (seq,)).fetchone()
        texts[seq] = None if text is None else to_trace(text[0], request["trace_id"])
    otel_sampled, slices = request["otel_sampled"], request["slices"]
    delivery = Delivery(
        outcome=to_outcome(body, outcome_id, value),
        otel_sampled=None if otel_sampled is None else bool(otel_sampled),
        **{field: request[column.removeprefix("t.")] for field, column in REQUEST_COLUMNS.items()},
    )
    return ExportedOutcome(delivery, {} if slices is None else json.loads(slices), (texts or {}).get(seq))
