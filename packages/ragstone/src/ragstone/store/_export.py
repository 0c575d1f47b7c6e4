"""Reading of all outcomes with their requests, in pages, for an export."""

from __future__ import annotations

import json
from collections.abc import Iterator

from typing_extensions import override

from ragstone.schema import Delivery
from ragstone.store._deliveries import REQUEST_COLUMNS
from ragstone.store._records import ExportedOutcome
from ragstone.store._sql import PAGE, SqlStore, to_outcome, to_trace

__all__ = ["SqlExport"]


class SqlExport(SqlStore):
    """The methods of a store that export it."""

    @override
    def exported(
        self, *, since: float | None = None, until: float | None = None, include_text: bool = False
    ) -> Iterator[ExportedOutcome]:
        last = -1
        while True:
            with self._database.read() as db:
                page = db.execute(
                    f"""
                    SELECT o.seq, b.body, t.seq, t.slices, t.otel_sampled, {", ".join(REQUEST_COLUMNS.values())}
                    FROM outcomes AS o JOIN outcome_bodies AS b USING (seq) JOIN traces AS t ON t.trace_id = o.sample_id
                    WHERE o.seq > ?1 AND (t.started_at >= ?2 OR ?2 IS NULL) AND (t.started_at < ?3 OR ?3 IS NULL)
                    ORDER BY o.seq LIMIT ?4
                    """,  # noqa: S608 - constant columns
                    (last, since, until, PAGE),
                ).fetchall()
                texts = {}
                if include_text:
                    for seq in {row[2] for row in page}:
                        found = db.execute("SELECT body FROM trace_bodies WHERE seq = ?", (seq,)).fetchone()
                        texts[seq] = None if found is None else to_trace(found[0])
            if not page:
                return
            for last, body, seq, slices, otel_sampled, *columns in page:  # noqa: B007 - the next page starts after this row
                yield ExportedOutcome(
                    Delivery(
                        outcome=to_outcome(body),
                        otel_sampled=None if otel_sampled is None else bool(otel_sampled),
                        **dict(zip(REQUEST_COLUMNS, columns, strict=True)),
                    ),
                    {} if slices is None else json.loads(slices),
                    texts.get(seq),
                )
