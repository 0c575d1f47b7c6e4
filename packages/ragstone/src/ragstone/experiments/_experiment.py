"""`Experiment`, the result of `evaluate`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, get_args

from typing_extensions import override

from ragstone._util.files import check_output, open_output
from ragstone._util.lazy import needs_extra
from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError
from ragstone.experiments._app.repeats import repeat_deviations, summarize_app
from ragstone.experiments._checks import find_unusable
from ragstone.experiments._clusters import AUTO_CLUSTER, NO_CLUSTER, SampleFields, cluster_notes
from ragstone.experiments._spill import OutcomesOnDisk, SamplesOnDisk, read_fields
from ragstone.experiments._summary import CONFIDENCE_LEVEL, MetricSummary, format_table, summarize_table
from ragstone.experiments._table import ScoreTable, TableReader, describe_unjudged
from ragstone.experiments._views.source import EXPERIMENT, Dependence, Evaluated, Reportable, Rows, Source
from ragstone.judges import JudgeIdentity, is_baseline
from ragstone.metrics import MetricCard
from ragstone.reading import ReadingReport, RejectedRow
from ragstone.schema import Failure, Outcome, Sample, Score, Trace, Usage
from ragstone.settings import Analysis

if TYPE_CHECKING:
    import pandas as pd

    from ragstone.experiments._cases import CaseComparison

    # Methods import what makes reports and gates: a run without them is faster to import.
    from ragstone.experiments._gates import ScoreCheck, Undecided
    from ragstone.experiments._looks import Look
    from ragstone.experiments._outcomes import OutcomeSource
    from ragstone.experiments._spent import Spent
    from ragstone.views import Answers, Chart, ReportView

_NAMED: Final = 6
"""Number of metrics that `repr` names."""


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
            by: Labels (metadata of the samples) whose values are compared. Empty: those with 2 to 12 values of at least
                20 answers each.
            max_mb: Size limit of a page, in MB. Answers that do not fit are listed without their texts.
            texts: Whether the file contains texts of questions, answers and passages.
            baseline: An experiment, a file of outcomes or a store to compare with. The report then shows the
                differences with their intervals, and the questions that were gained and lost.

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

        A one-sided confidence limit decides. If the true mean equals the threshold, a metric passes with a probability
        of at most 1 - `confidence_level`, because too few samples are undecided and fail. The scores of failed samples
        may be anything in the metric's range. All metrics must pass, so their number does not need a correction.

        Args:
            thresholds: Thresholds by metric or group, strictly inside the metric's range: the smallest acceptable mean,
                or the largest if lower values are better.
            undecided: Whether a metric fails or passes if the data show neither that its mean reaches the threshold nor
                that it misses it. With "pass", a metric fails only if it is shown to be worse.
            confidence_level: One minus the probability of a wrong decision, above 0.5 and below 1. None: the level of
                this experiment (0.95).

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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Experiment(Reported, Evaluated):
    """The outcomes of one system on one dataset.

    From 10,000 samples, or 64 MB of texts, `samples` and `outcomes` are sequences over temporary files, which are
    removed when the experiment is closed or no longer used. They have a length and indexes and equal tuples, but keep
    little in memory.
    """

    samples: Sequence[Sample]
    outcomes: Sequence[Outcome]
    """Exactly one outcome for each sample and metric, ordered by sample, then by metric."""
    cards: tuple[MetricCard, ...]
    judge: JudgeIdentity
    usage: Usage
    wall_s: float
    """Duration of scoring, in seconds."""
    rejected: tuple[RejectedRow, ...] = field(default=())
    """Invalid rows. No other number includes them."""
    reading: ReadingReport | None = None
    """Format, columns, missing and empty values of the data, and columns that were not used."""
    sink_errors: tuple[str, ...] = field(default=())
    """Errors of sinks, with the number of outcomes that were not delivered. `outcomes` contains all of them."""
    sink_skipped: Mapping[str, int] = field(default_factory=dict)
    """Numbers of skipped outcomes by sink, for example because a tracing tool does not have a trace of the sample."""
    traces: tuple[Trace, ...] = field(default=())
    """The captured calls of the application, if `app` was given: contexts, responses, errors, times and tokens. Ordered
    by sample, then by repeat."""
    n_repeats: int = 1
    """Number of calls of the application for each sample. Scores are means of the repeats."""
    judge_unavailable: bool = False
    """Whether a judge or reader was unavailable at the end of the run, for longer than `max_outage_s`. Answers of an
    application are kept, so that the same call resumes."""
    n_resumed: int = 0
    """Number of samples (with repeats: calls of the application) whose outcomes are from an interrupted run. `usage`
    does not contain their cost."""
    n_cut: int = 0
    """Number of lines of the interrupted run that were cut or damaged. Their samples were scored again."""
    cluster: str | None = AUTO_CLUSTER
    """Key of the clusters of samples, "auto", or None for independent samples. See `evaluate`."""
    confidence_level: float = CONFIDENCE_LEVEL
    """Confidence level of the intervals in summaries, reports and gates."""
    look: Look | None = None
    """The verdict on a test set (`evaluate(test_set=...)`). Unless it is a baseline or accepted, text and JSON of this
    experiment do not contain scores: a set wears out if changes are selected by them."""

    def summary(self) -> tuple[MetricSummary, ...]:
        """Summarize each metric: mean, confidence interval and counts.

        Means are weighted by `inclusion_probability` if the rows have it, and intervals treat whole clusters as independent.

        Raises:
            ConfigurationError: If no sample has the key of `cluster`.
            DataError: If all samples are in one cluster, or a sampling probability is invalid.
        """
        fields = read_fields(self.samples, self.cluster)
        return summarize_table(self._table(fields), self.confidence_level)

    def _table(self, fields: SampleFields) -> ScoreTable:
        """Return the scores, with the weights and clusters of these fields."""
        reader, ids = TableReader(), None
        if isinstance(self.outcomes, OutcomesOnDisk):
            reader, ids = self.outcomes.scores, fields.sample_ids
        else:
            reader.expect(self.cards)
            for outcome in self.outcomes:
                reader.put(outcome)
        return reader.table(fields.inclusion_probabilities, fields.choose(self.cluster), ids=ids)

    def close(self) -> None:
        """Remove the temporary files of a large experiment. Then only its summary can be read. Safe to call twice."""
        for rows in (self.samples, self.outcomes):
            if isinstance(rows, SamplesOnDisk | OutcomesOnDisk):
                rows.close()

    def notes(self) -> tuple[str, ...]:
        """Describe clusters of samples and their design effect, and the sampling parameters that the judge refuses."""
        fields = read_fields(self.samples, self.cluster)
        scores: dict[str, dict[str, float]] = {}
        is_labeled, is_ranked = any(fields.labels.values()), any(card.group == "ranking" for card in self.cards)
        table = self._table(fields) if is_labeled or is_ranked else None
        if table is not None and is_labeled:  # clusters are described by labels only
            scores = {metric: table.by_sample(metric) for metric in table.metrics}
        notes = cluster_notes(self.cluster, fields.choose(self.cluster), fields.labels, fields.sample_ids, scores)
        if table is not None and (text := describe_unjudged(table)):
            notes = [*notes, text]
        if refused := ", ".join(self.judge.refused_parameters):
            notes = [*notes, f"judge {self.judge.name} refuses {refused}: the settings of its server applied"]
        return tuple(notes)

    def unusable(self) -> str | None:
        """Return why no rating of the judge can be used, or None if nothing indicates that.

        The judge gives one value for all ratings (at least 20), or rates from 0 to 1 instead of 0 to 100.
        """
        return find_unusable(self._table(read_fields(self.samples, self.cluster)))

    def __str__(self) -> str:
        if self.look is not None and not self.look.is_shown:
            return str(self.look)
        summaries = self.summary()
        table = format_table(summaries, titles={card.name: card.title for card in self.cards})
        missing = {name for s in summaries for name in s.missing} if self.reading else set()
        if self.reading and (remedies := self.reading.remedies(sorted(missing))):
            table += f"\nif these columns are the missing fields: {' '.join(remedies)}"
        lines = [*self.notes(), *(f"not delivered to {error}" for error in self.sink_errors)]
        lines += [f"skipped by {sink}: {n} of {len(self.outcomes)} outcomes" for sink, n in self.sink_skipped.items()]
        table += "".join(f"\n{line}" for line in lines)
        if self.n_resumed or self.n_cut:
            cut = f". {count(self.n_cut, 'cut line')} of it, scored again" if self.n_cut else ""
            table += f"\noutcomes from an interrupted run: {count(self.n_resumed, 'sample')}{cut}"
        if self.rejected:
            table += f"\ninvalid rows, excluded from all numbers: {len(self.rejected)}"
        if (cases := self._cases()) is not None:
            table += f"\n\n{cases}"
        if self.traces:
            table += f"\n{summarize_app(self.traces)}"
        if self.n_repeats > 1:
            deviations = repeat_deviations(self.outcomes)
            listed = ", ".join(f"{metric} {deviation:.3f}" for metric, deviation in deviations.items())
            table += (
                f"\nscores are means of {self.n_repeats} repeats; standard deviation between repeats of a sample: "
                f"{listed or 'unknown'}"
            )
        return table

    def __repr__(self) -> str:
        metrics = ", ".join(card.name for card in self.cards[:_NAMED])
        more = f" and {len(self.cards) - _NAMED} more" if len(self.cards) > _NAMED else ""
        return (
            f"<Experiment: {count(len(self.samples), 'sample')}, {metrics}{more}, judge {self.judge.name}. print(result) shows the "
            "means, result.worst() the worst answers, result.report('report.html') writes a page>"
        )

    @property
    @override
    def analysis(self) -> Analysis:
        """Clusters of samples, and confidence level of intervals."""
        return Analysis(
            cluster=NO_CLUSTER if self.cluster is None else self.cluster, confidence_level=self.confidence_level
        )

    @override
    def source(self, name: str | None = None, analysis: Analysis | None = None) -> Source:
        """Return what views and comparisons of this experiment are built from."""
        analysis = analysis or self.analysis
        fields = read_fields(self.samples, analysis.cluster)
        rejected = f"{len(self.rejected)} invalid rows are not included in any number."
        return Rows(
            name or EXPERIMENT,
            self.outcomes,
            self.samples,
            analysis,
            cards={card.name: card for card in self.cards},
            dependence=Dependence(fields.inclusion_probabilities, fields.labels),
            times={trace.trace_id: trace.started_at for trace in self.traces},
            spent=self._spent(),
            notes=[rejected] if self.rejected else [],
        )

    def _spent(self) -> dict[str, Spent]:
        n, calls = self.n_repeats, self.traces
        if not calls:
            return {}
        from ragstone.experiments._spent import spent_of

        return {s.id: spent_of(calls[at * n : (at + 1) * n]) for at, s in enumerate(self.samples)}

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values for JSON."""
        if self.look is not None and not self.look.is_shown:
            return {"test_set": asdict(self.look), "n_samples": len(self.samples), "usage": self.usage.model_dump()}
        summaries = self.summary()
        return {
            "judge_is_baseline": is_baseline(*(judge for s in summaries for judge in s.judges)),
            "judge": {
                "name": self.judge.name,
                "hash": self.judge.hash,
                "is_baseline": self.judge.is_baseline,
                "refused_parameters": list(self.judge.refused_parameters),
            },
            "n_samples": len(self.samples),
            "n_rejected": len(self.rejected),
            "reading": self.reading and self.reading.to_dict(),
            "n_resumed": self.n_resumed,
            "n_cut": self.n_cut,
            "sink_errors": list(self.sink_errors),
            "sink_skipped": dict(self.sink_skipped),
            "usage": self.usage.model_dump(),
            "wall_s": self.wall_s,
            "metrics": [s.to_dict() for s in summaries],
            "notes": list(self.notes()),
            "application": self._application() if self.traces else None,
            "cases": None if (cases := self._cases()) is None else cases.to_dict(),
            "test_set": self.look and asdict(self.look),
        }

    def _cases(self) -> CaseComparison | None:
        from ragstone.reading import case_of

        if not self.samples or case_of(self.samples[0]) is None:
            return None
        from ragstone.experiments._cases import compare_cases

        return compare_cases(self, is_asked=bool(self.traces))

    def _application(self) -> dict[str, Any]:
        return {
            **summarize_app(self.traces).to_dict(),
            "n_repeats": self.n_repeats,
            "repeat_standard_deviations": repeat_deviations(self.outcomes),
        }

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write the outcomes to a file, one JSON object per line.

        If the row has them, a line also has its `inclusion_probability` and the labels of its clusters (`session_id`,
        `user_id`, `document_id` and the key of `cluster`), and what the `application` needed for its answer:
        `latency_s`, `tokens` and `cost_usd`, as far as they are known, and `n_calls` if these are several.
        `compare` and `validate_metrics` use them.
        """
        fields, spent = read_fields(self.samples, self.cluster), self._spent()

        def about(id_: str) -> dict[str, Any]:
            own = {key: by[id_] for key, by in fields.labels.items() if id_ in by}
            weighted = fields.inclusion_probabilities
            probability = {"inclusion_probability": weighted.get(id_, 1.0)} if weighted else {}
            needed = spent[id_]._asdict() if spent else {}
            known = {name: each for name, each in needed.items() if each is not None and (name, each) != ("n_calls", 1)}
            return ({"clusters": own} if own else {}) | probability | ({"application": known} if known else {})

        with open_output(path) as file:
            file.writelines(
                json.dumps(o.model_dump(mode="json") | about(o.sample_id), ensure_ascii=False) + "\n"
                for o in self.outcomes
            )

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per sample and metric: the outcome and the sample's texts.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        with needs_extra("pandas", "pandas", "to_pandas()"):
            import pandas as pd

        samples = {s.id: s for s in self.samples}
        rows = []
        for o in self.outcomes:
            sample = samples[o.sample_id]
            rows.append(
                {
                    "id": o.sample_id,
                    "metric": o.metric,
                    "outcome": o.outcome,
                    "value": o.value if isinstance(o, Score) else None,
                    "reason": o.explanation if isinstance(o, Score) else o.reason,
                    "kind": o.kind if isinstance(o, Failure) else None,
                    "query": sample.query,
                    "response": sample.response,
                    "reference": list(sample.reference),
                    "contexts": None if sample.contexts is None else [p.text for p in sample.contexts],
                }
            )
        return pd.DataFrame(rows)
