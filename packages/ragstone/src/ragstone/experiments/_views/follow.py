"""The report of a store that changes: reads what was added, and builds the report again."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ragstone.errors import DataError
from ragstone.experiments._outcomes import Period, StoredRequests
from ragstone.experiments._report import explain_answer
from ragstone.experiments._table import MetricScores, ScoreTable
from ragstone.experiments._views.reading import Reading
from ragstone.experiments._views.slices import SliceLabels
from ragstone.schema import Ledger
from ragstone.settings import Analysis
from ragstone.stats import Estimate
from ragstone.store import StorePosition, is_database_url, open_store
from ragstone.views import AnswerView, ReportView
from ragstone.watch import Alarm, all_alarms

_PAST_S: Final = 14 * 86_400.0
"""How long a closed alarm is shown."""
_LATEST: Final = 6
"""Number of the latest wrong answers."""


class FollowedReport:
    """The report of a store that is being written. `refresh` brings it up to date.

    Of a file, only what was added is read. Of a shared store, everything is read again: transactions of several workers
    may end in another order than they began.
    """

    def __init__(
        self, period: Period, *, targets: Mapping[str, float], n_worst: int = 5, by: Sequence[str] = ()
    ) -> None:
        self.period = period
        """The requests that are reported."""
        self._targets = targets
        self._n_worst = n_worst
        self._by = by
        self._mark: tuple[StorePosition, object, object] | None = None
        """Position, plan with identity and runs, and labels with trials of the store when it was last read."""
        self.alarms: tuple[Alarm, ...] = ()
        """The open alarms, and those that were closed in the last 14 days."""
        self._source: StoredRequests | None = None
        self._reading: Reading | None = None
        self.view: ReportView | None = None
        """The report, or None if nothing is scored yet."""
        self.labels: Mapping[str, Sequence[str]] = {}
        """Keys of the labels of all requests, each with its values if they are few."""
        self._estimated: tuple[ReportView, ScoreTable, Mapping[str, bool]] | None = None
        """The report with its scores, and which answers are wrong."""
        self.latest: tuple[AnswerView, ...] = ()
        """The latest wrong answers, the newest first."""
        self.notes: tuple[str, ...] = ()
        """Notes about a store without scores: pending requests and the command that scores them."""
        self.ledger = Ledger.model_validate({"total": {}})
        """The states of all requests of the store."""

    def refresh(self) -> bool:
        """Read what was added to the store, and return whether anything was."""
        with open_store(self.period.store, mode="read") as store:
            made = tuple(store.plan.metrics()), self._identity(), tuple(store.traces.run_times())
            mark = store.position(), made, (tuple(store.labels.read()), tuple(store.labels.trials()))
            with store.watch.read() as tables:
                alarms, since = self.alarms, time.time() - _PAST_S
                self.alarms = tuple(alarm for alarm in all_alarms(tables) if (alarm.closed_at or math.inf) >= since)
            if mark == self._mark:
                return alarms != self.alarms
            ledger, is_shared = store.ledger(), store.is_shared
        previous, self._mark = self._mark, None
        if not (previous and self._reading and not is_shared and previous[1] == mark[1] and previous[0] <= mark[0]):
            self._source = StoredRequests(self.period, None, Analysis())
            self._reading = Reading(self._source, slices=SliceLabels(self._by), keeps_questions=True, keeps_labels=True)
            previous = None
        assert self._source is not None  # noqa: S101
        assert self._reading is not None  # noqa: S101
        reading, self._reading = self._reading, None  # if reading fails in between, everything is read again
        self._source.after, self._source.upto = previous[0] if previous else None, mark[0]
        try:
            reading.read()
        except DataError:
            if reading.has_outcomes:
                raise
            self.view, self.latest, self.notes = None, (), tuple(self._source.notes())
        else:
            self.view = reading.report(self._targets, self._n_worst)
            self.latest = reading.latest_wrong(_LATEST)
            self.labels, self._estimated = reading.label_values(), (self.view, reading.table, reading.wrong)
        self._reading, self._mark, self.ledger = reading, mark, ledger
        return True

    def estimate(self, view: ReportView, rows: Sequence[int]) -> list[tuple[str, Estimate | None, Estimate | None]]:
        """Estimate the share of wrong answers and the mean of each metric, of some questions of a view and of all.

        Return the name of each number with both estimates, which are None without a value. Empty if the view is not the
        current one.
        """
        import numpy as np

        if self._estimated is None or self._estimated[0] is not view:
            return []
        _, table, wrong = self._estimated
        level = view.provenance.confidence_level

        def share(numbers: Sequence[int]) -> Estimate | None:
            judged = [n for n in numbers if view.questions[n].id in wrong]
            flags = [float(wrong[view.questions[n].id]) for n in judged]
            return table.estimate(flags, judged, confidence_level=level)

        def mean(metric: MetricScores) -> Estimate | None:
            values = metric.values[list(rows), 0]
            scored = np.flatnonzero(~np.isnan(values))
            return table.estimate(
                values[scored],
                [rows[n] for n in scored.tolist()],
                low=metric.low,
                high=metric.high,
                confidence_level=level,
            )

        means = [(row.title, mean(table.metrics[row.name]), row.estimate) for row in view.metrics if row.n_scored]
        return [(view.wrong.capitalize(), share(rows), share(range(len(view.questions)))), *means]

    def answer(self, sample_id: str) -> AnswerView | None:
        """Return one answer with its evidence, or None if the store does not contain it."""
        return explain_answer(self.period, sample_id)

    def _identity(self) -> int:
        """Return a number that changes if the file is replaced."""
        store = self.period.store
        return 0 if is_database_url(store) else Path(os.fspath(store)).stat().st_ino
