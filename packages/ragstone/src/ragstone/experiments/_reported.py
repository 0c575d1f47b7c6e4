"""What an `Experiment` and the requests of a store show of themselves: reports, the worst answers, charts and gates."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from ragstone._util.files import check_output
from ragstone.errors import ConfigurationError
from ragstone.experiments._summary import check_level
from ragstone.experiments._views.source import EXPERIMENT, Evaluated, Reportable
from ragstone.settings import Analysis

if TYPE_CHECKING:
    from ragstone.experiments._gates import ScoreCheck, Undecided

    # Methods import what makes reports and gates: a run without them is faster to import.
    from ragstone.experiments._outcomes import OutcomeSource
    from ragstone.views import Answers, Chart, ReportView


class Reported(Reportable):
    """Base class of outcomes with reports."""

    __slots__ = ()

    @property
    def _source(self) -> OutcomeSource:
        return self  # type: ignore[return-value]  # an experiment or a period

    def worst(
        self, n: int = 5, *, cause: str | None = None, metric: str | None = None, where: str | None = None
    ) -> Answers:
        """Return the worst answers with their evidence, worst first.

        Wrong answers come before others, and among these the mean of all scores decides, each on its metric's range.

        Args:
            n: Maximum number of answers.
            cause: If given, only answers with this cause ("no_relevant_passage").
            metric: If given, the answers with the worst scores of this metric.
            where: If given, only answers with these labels and scores: "topic=fares and ccrs.ac<0.5". Labels are the
                samples' metadata. Without a metric, answers without scores follow those with scores.

        Raises:
            ConfigurationError: If the cause does not exist, the metric was not scored, or `where` is invalid.
        """
        from ragstone.experiments._report import find_worst
        from ragstone.views import Answers

        return Answers(find_worst(self._source, n=n, cause=cause, metric=metric, where=where))

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        targets: Mapping[str, float] | None = None,
        n_worst: int = 5,
        by: Sequence[str] = (),
        max_mb: float = 1.5,
        texts: bool = True,
        baseline: OutcomeSource | None = None,
    ) -> ReportView:
        """Return the report of these outcomes: a verdict, causes, and the worst answers. With a path, also write it.

        Args:
            path: File to write: a page that needs no network (`report.html`), or a summary for pull requests (`report.md`).
            targets: The mean that each metric should reach, by metric.
            n_worst: Maximum number of answers that are shown.
            by: Labels (metadata of the samples) whose values are compared. Empty: those with 2 to 12 values of at least 20
                answers each.
            max_mb: Size limit of a page, in MB. Answers that do not fit are listed without their texts.
            texts: Whether the file contains texts of questions, answers and passages.
            baseline: An experiment, a file of outcomes or a store to compare with. The report then shows the differences
                with their intervals, and the questions that were gained and lost.

        Raises:
            ConfigurationError: If the path, a target or the size limit is invalid, or scores are from different judges.
            DataError: If the baseline does not have common samples.
            StoreError: If the store of the baseline cannot be read.
        """
        from ragstone.experiments._report import REPORT_FORMATS, build_report

        if path is not None:
            check_output(path, REPORT_FORMATS)
        compared = None
        if baseline is not None:
            from ragstone.experiments._compare.compare import compare_last
            from ragstone.experiments._outcomes import names_of

            # A file is named by its path.
            name = EXPERIMENT if isinstance(self, Evaluated) else names_of([self._source])[0]
            other = "baseline" if isinstance(baseline, Evaluated) else names_of([baseline])[0]
            other = "baseline" if other == name else other
            compared = compare_last({other: baseline, name: self._source}, other, self.analysis)
        return build_report(
            self._source, path, targets=targets, n_worst=n_worst, by=by, compared=compared, max_mb=max_mb, texts=texts
        )

    def check(
        self, thresholds: Mapping[str, float], *, undecided: Undecided = "fail", confidence_level: float | None = None
    ) -> ScoreCheck:
        """Check if the mean of each metric reaches a threshold: `check = result.check(...)`, then `assert check.ok, check`.

        A one-sided confidence limit decides. If the true mean equals the threshold, a metric passes with a probability of
        at most 1 - `confidence_level`, because too few samples are undecided and fail. The scores of failed samples may be
        anything in the metric's range. All metrics must pass, so their number does not need a correction.

        Args:
            thresholds: Thresholds by metric or group, strictly inside the metric's range: the smallest acceptable mean, or
                the largest if lower values are better.
            undecided: Whether a metric fails or passes if the data show neither that its mean reaches the threshold nor that
                it misses it. With "pass", a metric fails only if it is shown to be worse.
            confidence_level: One minus the probability of a wrong decision, above 0.5 and below 1. None: the level of this
                experiment (0.95).

        Raises:
            ConfigurationError: If a threshold or an option is invalid, or a metric is not scored.

        Examples:
            >>> import ragstone
            >>> rows = [{"id": str(i), "query": "Why?", "contexts": ["Rain."], "response": "Rain."} for i in range(20)]
            >>> ragstone.evaluate(rows, ["ccrs.cc"], judge="lexical").check({"ccrs.cc": 0.8}).ok
            True
        """
        from ragstone.experiments._gates import Undecided, check_source

        level = self.analysis.confidence_level if confidence_level is None else confidence_level
        check_level(level, decides_gate=True)
        if undecided not in get_args(Undecided):
            raise ConfigurationError(f'undecided must be "fail" or "pass", got {undecided!r}')
        return check_source(self._source, thresholds, Analysis(confidence_level=level, undecided=undecided))

    def plot(self, metric: str) -> Chart:
        """Return mean, interval, distribution and trend of a metric as a chart for notebooks, with its numbers in `.data`.

        Raises:
            ConfigurationError: If the metric was not scored.
        """
        from ragstone.views import metric_chart

        report = self.report()
        rows = {row.name: row for row in report.metrics}
        if metric not in rows:
            raise ConfigurationError(f"{metric!r} was not scored. Scored metrics: {', '.join(sorted(rows))}")
        return metric_chart(rows[metric], report.trend)

    def _repr_html_(self) -> str:
        from ragstone.views import notebook_report

        return notebook_report(self.report())
