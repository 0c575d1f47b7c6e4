"""The part `outcomes` of a store: what metrics said about traces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.schema import Outcome, Trace
from ragstone.store._backfill import Backfills
from ragstone.store._bodies import to_outcome, to_trace
from ragstone.store._checksums import DamagedRowError, check_row
from ragstone.store._deliveries import DELIVERY_FIELDS, to_delivery
from ragstone.store._metric_counts import count_outcomes
from ragstone.store._save_outcomes import prepare, store_completions
from ragstone.store._sql import LAST_SEQ, Sql
from ragstone.store._tables import CHECKED_COLUMNS
from ragstone.store._types import Completion, ExportedOutcome, MetricCounts, StorePosition

_REQUEST: Final = CHECKED_COLUMNS["traces"]
# No checksum covers this column, and no export shows it.
_FIELDS: Final = DELIVERY_FIELDS.replace("o.backfilled", "NULL")
_EXPORTED_ROWS: Final = f"""
    SELECT o.seq, t.seq, t.checksum, {", ".join(f"t.{column}" for column in _REQUEST)}, {_FIELDS}
    FROM outcomes AS o LEFT JOIN outcome_bodies AS b USING (seq) JOIN traces AS t ON t.trace_id = o.sample_id
    WHERE o.seq > ?1 AND (t.started_at >= ?3 OR ?3 IS NULL) AND (t.started_at < ?4 OR ?4 IS NULL)
    ORDER BY o.seq LIMIT ?2
"""  # noqa: S608 - constant columns
"""Query for the rows of a page of an export."""


class Outcomes(Backfills):
    """Stores the outcomes of traces and reads them, also those that a backfill adds later."""

    def complete_many(self, completions: Sequence[Completion]) -> list[bool | DataError]:
        """Store the outcomes of several traces in one transaction, in their order, and the new states of the traces.

        The outcomes are then pending for each sink. A trace is finished if every planned metric has an outcome.
        Otherwise it stays pending, and its lease ends if it belongs to the `owner`. An outcome with a stored key is ignored.

        Returns:
            For each completion: True. False, and nothing is stored, if the trace was not pending: another worker
            completed it after the lease expired, or it was sampled out. Or a `DataError` if the trace is not found, or
            an outcome has another sample id or cannot be written as JSON. Such a completion does not prevent others.
        """
        # Checked and serialized before the transaction, which is then short and cannot fail because of one of them.
        prepared = [prepare(completion) for completion in completions]
        valid = [each for each in prepared if not isinstance(each, DataError)]
        with self._database.write() as db:
            stored = iter(store_completions(db, self._database, valid))
        return [each if isinstance(each, DataError) else next(stored) for each in prepared]

    def read(
        self,
        *,
        metric: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: StorePosition | None = None,
        upto: StorePosition | None = None,
    ) -> Iterator[Outcome]:
        """Yield outcomes in the order they were stored, of one metric if it is given.

        Their requests started at `since` or later, and before `until` (Unix seconds). They were stored after the
        position `after`, with the limit described in `Traces.read`, and up to the position `upto`.
        """
        return self._read_pages(
            "outcomes",
            """
            SELECT o.seq, o.outcome_id, o.value, b.body
            FROM outcomes AS o LEFT JOIN outcome_bodies AS b USING (seq) JOIN traces AS t ON t.trace_id = o.sample_id
            WHERE o.seq > ?1 AND (o.metric = ?3 OR ?3 IS NULL) AND o.seq <= ?6
                  AND (t.started_at >= ?4 OR ?4 IS NULL) AND (t.started_at < ?5 OR ?5 IS NULL)
            ORDER BY o.seq LIMIT ?2
            """,
            (metric, since, until, LAST_SEQ if upto is None else upto.outcomes),
            lambda _, page: (to_outcome(body, outcome_id, value) for _, outcome_id, value, body in page),
            last=-1 if after is None else after.outcomes,
        )

    def count(self, *, by_trace: bool = False) -> list[MetricCounts]:
        """Count the outcomes of each planned metric, in the order of the plan. `by_trace` adds the trace of each score.

        Reads an index only, without any text, and the table of outcomes if `by_trace`. Traces are read only if some
        were sampled.
        """
        with self._database.read() as db:
            return count_outcomes(db, by_trace=by_trace)

    def export(
        self,
        *,
        since: float | None = None,
        until: float | None = None,
        include_text: bool = False,
        damaged: list[str] | None = None,
    ) -> Iterator[ExportedOutcome]:
        """Yield all outcomes with their requests, in the order they were stored. `since` and `until` select as in `read`.

        Args:
            since: Earliest start of a request,
            until: and the time before which it starts, in Unix seconds.
            include_text: Also read the requests.
            damaged: Gets a message for each row that is damaged, and left out. None: the first one raises an error.

        Raises:
            StoreCorruptError: If rows cannot be read.
        """

        def read(db: Sql, page: Sequence[Any]) -> Iterator[ExportedOutcome]:
            texts: dict[int, Trace | None] | None = {} if include_text else None
            for row in page:
                try:
                    yield _exported(db, row, texts)
                except DamagedRowError as error:
                    if damaged is None:
                        raise
                    damaged.append(str(error))

        return self._read_pages("outcomes", _EXPORTED_ROWS, (since, until), read)


def _exported(db: Sql, row: Sequence[Any], texts: dict[int, Trace | None] | None) -> ExportedOutcome:
    """Verify a row of an export, and return its outcome. `texts` are the requests of the page so far, if wanted."""
    _, seq, checksum, *columns = row
    request, fields = columns[: len(_REQUEST)], columns[len(_REQUEST) :]
    check_row("traces", checksum, request)
    if texts is not None and seq not in texts:
        text = db.execute("SELECT body FROM trace_bodies WHERE seq = ?", (seq,)).fetchone()
        texts[seq] = None if text is None else to_trace(text[0], request[0])
    slices = request[_REQUEST.index("slices")]
    return ExportedOutcome(to_delivery(fields), {} if slices is None else json.loads(slices), (texts or {}).get(seq))
