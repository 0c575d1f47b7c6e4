"""The report of a store that changes: reads what was added, and builds the report again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ragstone.errors import DataError
from ragstone.experiments._outcomes import Period, StoredRequests
from ragstone.experiments._report import explain_answer
from ragstone.experiments._views.reading import Reading
from ragstone.experiments._views.slices import SliceLabels
from ragstone.schema import Ledger
from ragstone.settings import Analysis
from ragstone.store import StorePosition, is_database_url, open_store
from ragstone.views import AnswerView, ReportView
from ragstone.watch import Alarm, open_alarms

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
        """The open alarms."""
        self._source: StoredRequests | None = None
        self._reading: Reading | None = None
        self.view: ReportView | None = None
        """The report, or None if nothing is scored yet."""
        self.latest: tuple[AnswerView, ...] = ()
        """The latest wrong answers, the newest first."""
        self.notes: tuple[str, ...] = ()
        """Notes about a store without scores: pending requests and the command that scores them."""
        self.ledger = Ledger.model_validate({"total": {}})
        """The states of all requests of the store."""

    def refresh(self) -> bool:
        """Read what was added to the store, and return whether anything was.

        Raises:
            ConfigurationError: If a target is not a value of a scored metric, or no sample has a label of `by`.
            DataError: If an outcome cannot be read.
            StoreError: If the store cannot be read.
        """
        with open_store(self.period.store, mode="read") as store:
            made = tuple(store.plan.metrics()), self._identity(), tuple(store.traces.run_times())
            mark = store.position(), made, (tuple(store.labels.read()), tuple(store.labels.trials()))
            with store.watch.read() as tables:
                alarms, self.alarms = self.alarms, tuple(open_alarms(tables))
            if mark == self._mark:
                return alarms != self.alarms
            ledger, is_shared = store.ledger(), store.is_shared
        previous, self._mark = self._mark, None
        if not (previous and self._reading and not is_shared and previous[1] == mark[1] and previous[0] <= mark[0]):
            self._source = StoredRequests(self.period, None, Analysis())
            self._reading = Reading(self._source, slices=SliceLabels(self._by), keeps_questions=True)
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
        self._reading, self._mark, self.ledger = reading, mark, ledger
        return True

    def answer(self, sample_id: str) -> AnswerView | None:
        """Return one answer with its evidence, or None if the store does not contain it.

        Raises:
            StoreError: If the store cannot be read.
        """
        return explain_answer(self.period, sample_id)

    def _identity(self) -> int:
        """Return a number that changes if the file is replaced."""
        store = self.period.store
        return 0 if is_database_url(store) else Path(os.fspath(store)).stat().st_ino
