"""`evaluate`: scores a dataset and returns an `Experiment`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from typing_extensions import override

from ragstone._util.files import open_output
from ragstone._util.plural import count
from ragstone._util.run_async import run_async
from ragstone.data import QrelsSource, RejectedRow, SampleSource, read_samples
from ragstone.errors import ConfigurationError, DataError, JudgeError, MissingExtraError
from ragstone.experiments._app.capture import AppRecorder, framework_capture
from ragstone.experiments._app.repeats import repeat_deviations
from ragstone.experiments._app.run import AppRunner
from ragstone.experiments._app.saved import SavedRuns
from ragstone.experiments._app.score import ScoredApp, score_app
from ragstone.experiments._app.summary import summarize_app
from ragstone.experiments._clusters import AUTO_CLUSTER, cluster_keys, cluster_notes, read_fields
from ragstone.experiments._deliver import causes_by_outcome, deliver
from ragstone.experiments._evaluated import Evaluated
from ragstone.experiments._outcomes import OutcomeSource
from ragstone.experiments._report import compare_with_baseline
from ragstone.experiments._score_gate import ScoreCheck, Undecided, check_scores
from ragstone.experiments._summary import MetricSummary, format_table, summarize
from ragstone.experiments._views.build import build_report, find_worst
from ragstone.experiments._views.source import Dependence, Rows
from ragstone.experiments._views.write import check_output, write_report
from ragstone.judges import Embedder, Judge, JudgeIdentity, Reader, is_any_endpoint_down, is_baseline, wait_for_outages
from ragstone.metrics import Metric, MetricCard
from ragstone.requests import RetrieverTools
from ragstone.schema import Failure, NotApplicable, Sample, Score, Trace, Usage
from ragstone.scoring import JudgedCounts, Scorer, explain_worst
from ragstone.sinks import Sink
from ragstone.views import Answers, Chart, ReportView, notebook_report
from ragstone.worker import ScoringSetup

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Experiment", "aevaluate", "evaluate"]


_NAMED: Final = 6
"""Number of metrics that `repr` names."""


_PREPARE_OUTAGE_S: Final = 10.0
"""Longest wait for a judge that is unavailable at the start, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Experiment(Evaluated):
    """The outcomes of one system on one dataset."""

    samples: tuple[Sample, ...]
    outcomes: tuple[Score | NotApplicable | Failure, ...]
    """Exactly one outcome for each sample and metric, ordered by sample, then by metric."""
    cards: tuple[MetricCard, ...]
    judge: JudgeIdentity
    usage: Usage
    wall_s: float
    """Duration of scoring, in seconds."""
    rejected: tuple[RejectedRow, ...] = field(default=())
    """Invalid rows. No other number includes them."""
    sink_errors: tuple[str, ...] = field(default=())
    """Errors of sinks, with the number of outcomes that were not delivered. `outcomes` contains all of them."""
    sink_skipped: Mapping[str, int] = field(default_factory=dict)
    """Numbers of skipped outcomes by sink, for example because a tracing tool does not have a trace of the sample."""
    traces: tuple[Trace, ...] = field(default=())
    """The captured calls of the application, if `app` was given: contexts, responses, errors, times and tokens. Ordered by
    sample, then by repeat."""
    n_repeats: int = 1
    """Number of calls of the application for each sample. Scores are means of the repeats."""
    judge_unavailable: bool = False
    """Whether a judge or reader was unavailable at the end of the run, for longer than `max_outage_s`. Answers of an
    application are kept, so that the same call resumes."""
    cluster: str | None = AUTO_CLUSTER
    """Key of the clusters of samples, "auto", or None for independent samples. See `evaluate`."""

    def summary(self) -> tuple[MetricSummary, ...]:
        """Summarize each metric: mean, confidence interval and counts.

        Means are weighted by `inclusion_probability` if the rows have it, and intervals treat whole clusters as independent.

        Raises:
            ConfigurationError: If no sample has the key of `cluster`.
            DataError: If all samples are in one cluster, or a sampling probability is invalid.
        """
        fields = read_fields(self.samples, cluster_keys(self.cluster))
        return summarize(
            self.outcomes,
            self.cards,
            clusters=fields.choose(self.cluster),
            probabilities=fields.inclusion_probabilities,
        )

    def notes(self) -> tuple[str, ...]:
        """Describe clusters of samples and their design effect, and the sampling parameters that the judge refuses."""
        fields = read_fields(self.samples, cluster_keys(self.cluster))
        scores: dict[str, dict[str, float]] = {}
        for o in self.outcomes:
            if isinstance(o, Score):
                scores.setdefault(o.metric, {})[o.sample_id] = o.value
        notes = cluster_notes(self.cluster, fields.choose(self.cluster), fields.labels, fields.sample_ids, scores)
        if refused := ", ".join(self.judge.refused_parameters):
            notes = [*notes, f"judge {self.judge.name} refuses {refused}: the settings of its server applied"]
        return tuple(notes)

    def __str__(self) -> str:
        table = format_table(self.summary(), titles={card.name: card.title for card in self.cards})
        for note in self.notes():
            table += f"\n{note}"
        for error in self.sink_errors:
            table += f"\nnot delivered to {error}"
        for sink, n_skipped in self.sink_skipped.items():
            table += f"\nskipped by {sink}: {n_skipped} of {len(self.outcomes)} outcomes"
        if self.rejected:
            table += f"\ninvalid rows, excluded from all numbers: {len(self.rejected)}"
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
                samples' metadata.

        Raises:
            ConfigurationError: If the cause does not exist, the metric was not scored, or `where` is invalid.
        """
        return Answers(find_worst(self.report_source(), n=n, cause=cause, metric=metric, where=where))

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
        """Return the report of this experiment: a verdict, causes, and the worst answers. With a path, also write it.

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
        source, compared = self.report_source(), None
        if path is not None:
            check_output(path)
        if baseline is not None:
            compared = compare_with_baseline(self, source.name, baseline)
        wanted = dict(targets or {})
        if path is None:
            return build_report(source, targets=wanted, n_worst=n_worst, by=by, compared=compared)
        return write_report(
            source, path, targets=wanted, n_worst=n_worst, by=by, max_mb=max_mb, texts=texts, compared=compared
        )

    def check(
        self, thresholds: Mapping[str, float], *, undecided: Undecided = "fail", confidence_level: float = 0.95
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
            confidence_level: One minus the probability of a wrong decision, above 0.5 and below 1.

        Raises:
            ConfigurationError: If a threshold or an option is invalid, or a metric is not scored.

        Examples:
            >>> import ragstone
            >>> rows = [{"id": str(i), "query": "Why?", "contexts": ["Rain."], "response": "Rain."} for i in range(20)]
            >>> ragstone.evaluate(rows, ["ccrs.cc"], judge="lexical").check({"ccrs.cc": 0.8}).ok
            True
        """
        return check_scores(self.report_source(), thresholds, undecided=undecided, confidence_level=confidence_level)

    def plot(self, metric: str) -> Chart:
        """Return mean, interval and distribution of a metric as a chart for notebooks, with its data in `.data`.

        Raises:
            ConfigurationError: If the metric was not scored.
        """
        rows = {row.name: row for row in self.report().metrics}
        if metric not in rows:
            raise ConfigurationError(f"{metric!r} was not scored. Scored metrics: {', '.join(sorted(rows))}")
        return Chart(rows[metric])

    def _repr_html_(self) -> str:
        return notebook_report(self.report())

    @override
    def report_source(self, name: str | None = None) -> Rows:
        """Return what views of this experiment are built from."""
        fields = read_fields(self.samples, cluster_keys(self.cluster))
        rejected = f"{len(self.rejected)} invalid rows are not included in any number."
        return Rows(
            name or "experiment",
            lambda: self.outcomes,
            self.samples,
            cards={card.name: card for card in self.cards},
            dependence=lambda: Dependence(fields.inclusion_probabilities, fields.labels),
            cluster=self.cluster,
            times={trace.trace_id: trace.started_at for trace in self.traces},
            notes=[rejected] if self.rejected else [],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values for JSON."""
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
            "sink_errors": list(self.sink_errors),
            "sink_skipped": dict(self.sink_skipped),
            "usage": self.usage.model_dump(exclude={"schema_version"}),
            "wall_s": self.wall_s,
            "metrics": [s.to_dict() for s in summaries],
            "notes": list(self.notes()),
            "application": self._application() if self.traces else None,
        }

    def _application(self) -> dict[str, Any]:
        return {
            **summarize_app(self.traces).to_dict(),
            "n_repeats": self.n_repeats,
            "repeat_standard_deviations": repeat_deviations(self.outcomes),
        }

    def to_jsonl(self, path: str | Path) -> None:
        """Write the outcomes to a file, one JSON object per line.

        A line also has the labels of the sample's clusters (`session_id`, `user_id`, `document_id` and the key of `cluster`)
        and its `inclusion_probability`, if the row has them, so that `compare` and `validate_metrics` can use them.
        """
        fields = read_fields(self.samples, cluster_keys(self.cluster))
        about: dict[str, dict[str, Any]] = {}
        for sample in self.samples:
            own = {key: by[sample.id] for key, by in fields.labels.items() if sample.id in by}
            about[sample.id] = {"clusters": own} if own else {}
            if fields.inclusion_probabilities:
                about[sample.id]["inclusion_probability"] = fields.inclusion_probabilities.get(sample.id, 1.0)
        with open_output(path) as file:
            file.writelines(
                json.dumps(o.model_dump(mode="json") | about.get(o.sample_id, {}), ensure_ascii=False) + "\n"
                for o in self.outcomes
            )

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per sample and metric: the outcome and the sample's texts.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError(feature="to_pandas()", package="pandas", extra="ragstone[pandas]") from error

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


async def aevaluate(
    data: SampleSource,
    metrics: Sequence[str | Metric] | str = ("ccrs",),
    *,
    app: object | None = None,
    judge: str | Judge | None = None,
    reader: str | Reader | None = None,
    embedder: str | Embedder | None = None,
    sinks: Sequence[str | Sink] = (),
    fields: Mapping[str, str] | None = None,
    references: Mapping[str, Sequence[str]] | None = None,
    qrels: QrelsSource | None = None,
    on_bad_row: Literal["raise", "skip"] = "raise",
    concurrency: int = 16,
    deadline_s: float = 120.0,
    max_outage_s: float = 300.0,
    repeats: int = 1,
    app_concurrency: int = 8,
    app_timeout_s: float = 120.0,
    retriever_tools: Iterable[str] | RetrieverTools = (),
    traces: str | os.PathLike[str] | None = None,
    stop_early: bool = True,
    reasons: int = 0,
    cluster: str | None = AUTO_CLUSTER,
    progress: Callable[[int, int], None] | None = None,
    on_outcomes: Callable[[Sequence[Score | NotApplicable | Failure]], None] | None = None,
) -> Experiment:
    """Score a dataset. Every sample and metric results in exactly one outcome.

    Args:
        data: A path (JSONL, JSON, CSV, Parquet, a TREC run), rows with field names of common libraries, samples, or a data
            frame.
        metrics: Names, groups or metric objects.
        app: The application to evaluate: a function of the question (or of the sample, if its first parameter is named `row`
            or annotated as `Sample`), a LangChain runnable or graph, or a LlamaIndex query or chat engine. It is called for
            each sample, and what it retrieves and answers is scored instead of the contexts and responses of the data.
        judge: "http://host:port/v1", "openai:MODEL", "lexical" or a `Judge`. Default: `RAGSTONE_JUDGE`, otherwise "lexical".
        reader: The application's generator, for metrics that need it ("udcg"): the forms of `judge`, or a `Reader`
            (a `ChatReader` with the application's own prompt). Default: `RAGSTONE_READER`, otherwise the judge's model.
        embedder: The embedding model, for metrics that need it ("cosine"): "http://host:port/v1", "openai:MODEL",
            "local:MODEL" or an `Embedder`. Default: `RAGSTONE_EMBEDDER`, otherwise "lexical".
        sinks: Destinations for the outcomes, in addition to the returned `Experiment`.
        fields: The data's column names by Ragstone's field names, for unknown column names.
        references: References by sample id, for samples without a reference.
        qrels: Relevance by sample id, for ranking metrics: path of TREC or BEIR qrels, or a mapping.
        on_bad_row: "raise" stops at an invalid row before any model call. "skip" skips and counts invalid rows.
        concurrency: Number of samples scored concurrently.
        deadline_s: Seconds after which a sample's unfinished metrics fail with kind "timeout". Outages do not count.
        max_outage_s: Seconds for which requests wait for a judge or reader that has answered and is now unavailable. Then
            the outcomes that need it fail with kind "unavailable". It replaces the `max_outage_s` of the models.
        repeats: Number of calls of the application for each sample. Scores are means of the repeats.
        app_concurrency: Number of concurrent calls of the application.
        app_timeout_s: Seconds after which a call of the application fails.
        retriever_tools: Names of the application's tools whose text results are passages, or a mapping from names to the
            separator between passages.
        traces: JSONL file for the captured calls of the application. If a run is interrupted, the next run with the same
            file asks only for the missing answers.
        stop_early: Stop if the application fails on each of the first 10 samples, or the judge fails systematically: no
            score, and 20 failures over 10 samples with kind "rejected" or "truncated".
        reasons: Number of the worst answers for which the judge explains its lowest score, after scoring. Scores do not
            change. The reasons are `Score.explanation`.
        cluster: Column of the rows whose equal values make a cluster, such as "session_id": samples of one cluster resemble
            each other, so intervals treat whole clusters as independent. "auto" uses `session_id` if at least 5% of the rows
            share one. None or "none" treats rows as independent.
        progress: Called with (finished samples, all samples) after each sample. Each repeat counts.
        on_outcomes: Called with the outcomes of each sample when they are complete, before `progress`.

    Raises:
        ConfigurationError: If a metric, judge, sink or file does not exist.
        DataError: If rows are invalid or missing.
        ApplicationError: If the application fails on each of the first 10 samples.
        JudgeError: If the judge is unavailable, or fails systematically. No score was computed.

    Errors of sinks are reported in `Experiment.sink_errors` and do not lose scores.

    Examples:
        >>> import ragstone
        >>> rows = [{"query": "Why?", "contexts": ["Because."], "response": "Because.", "reference": "Because."}]
        >>> ragstone.evaluate(rows, ["ccrs.qr"], judge="lexical").summary()[0].n_scored
        1
    """
    samples, rejected = read_samples(data, fields=fields, references=references, qrels=qrels, on_bad_row=on_bad_row)
    if not samples:
        raise DataError(
            f"the data does not contain valid samples ({count(len(rejected), 'row')} rejected). Give rows with at least a query, "
            "and for most metrics contexts and a response"
        )
    read_fields(samples, cluster_keys(cluster)).choose(cluster)
    if app is None and (repeats != 1 or traces is not None):
        raise ConfigurationError("repeats and traces belong to an application. Pass it as app (--app)")
    if reasons and repeats > 1:
        raise ConfigurationError(
            f"a reason explains one answer, and with repeats={repeats} a score is the mean of several. Set repeats=1 or "
            "reasons=0"
        )
    setup = ScoringSetup(
        metrics,
        judge=judge,
        reader=reader,
        embedder=embedder,
        sinks=sinks,
        concurrency=concurrency,
        deadline_s=deadline_s,
        reasons=reasons,
    )
    saved, recorder = SavedRuns(traces), AppRecorder(retriever_tools)
    runner = None
    if app is not None:
        runner = AppRunner(
            app,
            samples,
            recorder=recorder,
            saved=saved,
            repeats=repeats,
            concurrency=app_concurrency,
            timeout_s=app_timeout_s,
            stop_early=stop_early,
        )
    started = time.monotonic()
    report = _reporter(len(samples) * repeats, progress, on_outcomes, stop_early=stop_early)
    async with setup:
        # An unavailable judge is an error soon, because its address may be wrong.
        with wait_for_outages(min(max_outage_s, _PREPARE_OUTAGE_S)):
            await setup.scorer.prepare()
        with wait_for_outages(max_outage_s):
            if runner is None:
                scored = await _score_rows(setup.scorer, samples, report)
            else:
                with framework_capture(recorder, app):
                    async with runner:
                        scored = await score_app(runner, setup.scorer, samples, report)
        unavailable = any(isinstance(o, Failure) and o.kind in ("unavailable", "timeout") for o in scored.outcomes)
        judge_unavailable = unavailable and is_any_endpoint_down()
        outcomes = await explain_worst(setup.scorer, scored.samples, scored.outcomes, reasons, concurrency=concurrency)
        causes = causes_by_outcome(scored.samples, outcomes) if setup.sinks else {}
        delivered = [await deliver(sink, outcomes, causes) for sink in setup.sinks]
        if not judge_unavailable:
            saved.finish(scored.traces)
        return Experiment(
            samples=scored.samples,
            outcomes=outcomes,
            cards=tuple(m.card for m in setup.metrics),
            judge=setup.judge.identity,
            usage=setup.scorer.usage,
            wall_s=time.monotonic() - started,
            rejected=tuple(rejected),
            sink_errors=tuple(error for at in delivered for error in at.errors()),
            sink_skipped={at.sink: at.skipped for at in delivered if at.skipped},
            traces=scored.traces,
            n_repeats=repeats,
            cluster=cluster,
            judge_unavailable=judge_unavailable,
        )


def _reporter(
    total: int,
    progress: Callable[[int, int], None] | None,
    on_outcomes: Callable[[Sequence[Score | NotApplicable | Failure]], None] | None,
    *,
    stop_early: bool,
) -> Callable[[Sequence[Score | NotApplicable | Failure]], None]:
    """Make a function that takes the outcomes of one sample and calls the user's functions.

    It raises `JudgeError` if the judge fails systematically.
    """
    n_done = 0
    counts = JudgedCounts()

    def report(outcomes: Sequence[Score | NotApplicable | Failure]) -> None:
        nonlocal n_done
        n_done += 1
        if on_outcomes is not None:
            on_outcomes(outcomes)
        if progress is not None:
            progress(n_done, total)
        counts.add(outcomes)
        if stop_early and (failure := counts.systematic):
            raise JudgeError(
                f"the run was stopped after {n_done} of {count(total, 'sample')}. {counts.describe_systematic()}. Fix the cause, or run "
                "all samples with stop_early=False (--no-stop-early)",
                kind=failure.kind,
            )

    return report


async def _score_rows(
    scorer: Scorer, samples: Sequence[Sample], report: Callable[[Sequence[Score | NotApplicable | Failure]], None]
) -> ScoredApp:
    """Score rows that hold contexts and responses."""
    done: dict[str, tuple[Score | NotApplicable | Failure, ...]] = {}
    # Closed here, so that no call is sent after `report` has stopped the run.
    async with aclosing(scorer.score_many(samples)) as scoring:
        async for sample, outcomes in scoring:
            done[sample.id] = outcomes
            report(outcomes)
    return ScoredApp(tuple(samples), tuple(outcome for sample in samples for outcome in done[sample.id]), ())


def evaluate(
    data: SampleSource,
    metrics: Sequence[str | Metric] | str = ("ccrs",),
    *,
    app: object | None = None,
    judge: str | Judge | None = None,
    reader: str | Reader | None = None,
    embedder: str | Embedder | None = None,
    sinks: Sequence[str | Sink] = (),
    fields: Mapping[str, str] | None = None,
    references: Mapping[str, Sequence[str]] | None = None,
    qrels: QrelsSource | None = None,
    on_bad_row: Literal["raise", "skip"] = "raise",
    concurrency: int = 16,
    deadline_s: float = 120.0,
    max_outage_s: float = 300.0,
    repeats: int = 1,
    app_concurrency: int = 8,
    app_timeout_s: float = 120.0,
    retriever_tools: Iterable[str] | RetrieverTools = (),
    traces: str | os.PathLike[str] | None = None,
    stop_early: bool = True,
    reasons: int = 0,
    cluster: str | None = AUTO_CLUSTER,
    progress: Callable[[int, int], None] | None = None,
    on_outcomes: Callable[[Sequence[Score | NotApplicable | Failure]], None] | None = None,
) -> Experiment:
    """Score a dataset. The synchronous form of `aevaluate`, with the same arguments and errors.

    Inside a running event loop, such as a notebook, the work runs on a separate thread.
    """
    return run_async(
        aevaluate(
            data,
            metrics,
            app=app,
            judge=judge,
            reader=reader,
            embedder=embedder,
            sinks=sinks,
            fields=fields,
            references=references,
            qrels=qrels,
            on_bad_row=on_bad_row,
            concurrency=concurrency,
            deadline_s=deadline_s,
            max_outage_s=max_outage_s,
            repeats=repeats,
            app_concurrency=app_concurrency,
            app_timeout_s=app_timeout_s,
            retriever_tools=retriever_tools,
            traces=traces,
            stop_early=stop_early,
            reasons=reasons,
            cluster=cluster,
            progress=progress,
            on_outcomes=on_outcomes,
        )
    )
