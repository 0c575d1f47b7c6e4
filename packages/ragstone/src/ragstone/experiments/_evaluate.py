"""`evaluate`: scores a dataset and returns an `Experiment`."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from ragstone._util.abstains import own_refusals
from ragstone._util.files import check_not_read
from ragstone._util.quantities import count
from ragstone._util.run_async import synchronous
from ragstone.errors import ConfigurationError, DataError, SinkError, SinkNoTargetError, SinkRejectedError
from ragstone.experiments._app.saved import SavedRuns
from ragstone.experiments._app.score import Progress, ScoredApp, score_app
from ragstone.experiments._clusters import AUTO_CLUSTER
from ragstone.experiments._experiment import Experiment
from ragstone.experiments._kept import KeptOutcomes, RunIdentity, count_kept, digest_samples
from ragstone.experiments._spill import (
    OutcomeRows,
    SampleRows,
    SamplesOnDisk,
    count_failures,
    read_fields,
    replace_outcomes,
)
from ragstone.experiments._summary import CONFIDENCE_LEVEL, check_level
from ragstone.judges import EmbedderSpec, JudgeSpec, ReaderSpec, is_any_endpoint_down, wait_for_outages
from ragstone.metrics import Metric, own_prompts
from ragstone.reading import Choice, ReadingReport, RejectedRow, SampleSource, iter_samples
from ragstone.schema import Outcome, Sample
from ragstone.scoring import Scorer, diagnose, explain_lowest_scores
from ragstone.settings import RUN_KEYS, Limits, takes_settings
from ragstone.sinks import Delivery, Sink
from ragstone.worker import open_setup

if TYPE_CHECKING:
    from ragstone.experiments._looks import Looks
    from ragstone.reading import QrelsSource
    from ragstone.requests import RetrieverTools


_PREPARE_OUTAGE_S: Final = 10.0
"""Longest wait for a judge that is unavailable at the start, in seconds."""
_OUTAGE: Final = ("unavailable", "timeout")
_BATCH: Final = 200
_REASONS_SHOWN: Final = 3


@takes_settings(**RUN_KEYS)
async def aevaluate(
    data: SampleSource,
    metrics: Sequence[str | Metric] | str = ("ccrs",),
    *,
    app: object | None = None,
    judge: JudgeSpec = None,
    reader: ReaderSpec = None,
    embedder: EmbedderSpec = None,
    sinks: Sequence[str | Sink] = (),
    fields: Mapping[str, str] | None = None,
    references: Mapping[str, Sequence[str] | Sample] | None = None,
    qrels: QrelsSource | None = None,
    on_bad_row: Literal["raise", "skip"] = "raise",
    rows: str | None = None,
    limit: int | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    concurrency: int = 16,
    deadline_s: float | None = None,
    max_outage_s: float = 300.0,
    repeats: int = 1,
    app_concurrency: int = 8,
    app_timeout_s: float = 120.0,
    retriever_tools: Iterable[str] | RetrieverTools = (),
    traces: str | os.PathLike[str] | None = None,
    stop_early: bool = True,
    reasons: int = 0,
    processes: int = 1,
    refusals: Sequence[str] = (),
    prompts: Mapping[str, str] | None = None,
    cluster: str | None = AUTO_CLUSTER,
    confidence_level: float = CONFIDENCE_LEVEL,
    output: str | os.PathLike[str] | None = None,
    test_set: str | None = None,
    on_read: Callable[[ReadingReport], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    on_outcomes: Callable[[Sequence[Outcome]], None] | None = None,
) -> Experiment:
    """Score a dataset. Every sample and metric results in exactly one outcome.

    Args:
        data: A path or URL of a file of rows (JSON lines, JSON, CSV, Excel, Parquet, Arrow, a TREC run) or traces, a
            store, "-" for standard input, rows with field names of common libraries, samples, traces, or a table of
            pandas, Polars, Arrow or Hugging Face.
        metrics: Names, groups or metric objects.
        app: The application to evaluate: a function of the question (or of the sample, if its first parameter is named
            `row` or annotated as `Sample`), a LangChain runnable or graph, or a LlamaIndex query or chat engine. It is
            called for each sample, and what it retrieves and answers is scored instead of the contexts and responses of the data.
        judge: "http://host:port/v1", "openai:MODEL", "lexical" or a `Judge`. Default: `RAGSTONE_JUDGE`.
        reader: The application's generator, for metrics that need it ("udcg"): the forms of `judge`, or a `Reader`
            (a `ChatReader` with the application's own prompt). Default: `RAGSTONE_READER`, otherwise the judge's model.
        embedder: The embedding model, for metrics that need it ("cosine"): "http://host:port/v1", "openai:MODEL",
            "local:MODEL" or an `Embedder`. Default: `RAGSTONE_EMBEDDER`.
        sinks: Destinations for the outcomes, in addition to the returned `Experiment`.
        fields: The data's column names by Ragstone's field names, for unknown column names.
        references: References by sample id, for samples without a reference. Instead of the texts, a sample that has
            them, whose question must be the same.
        qrels: Relevance by sample id, for ranking metrics: path of TREC or BEIR qrels, or a mapping.
        on_bad_row: "raise" stops at an invalid row before any model call. "skip" skips and counts invalid rows.
        rows: Dotted path of the list in a document with several ("results.results"), or the name of a sheet.
        limit: Number of rows that are read: the first ones, which are not a random sample.
        separator: Separator of the passages in a cell, such as "|" or a line break.
        encoding: Encoding of a text file, such as "cp1252". UTF-8 and UTF-16 are detected.
        concurrency: Number of samples scored concurrently.
        deadline_s: Seconds until a sample's open metrics fail as "timeout", without outages. Default: 120 after the
            last call.
        max_outage_s: Seconds for which requests wait for a judge or reader that has answered and is now unavailable.
            Then the outcomes that need it fail with kind "unavailable". It replaces the `max_outage_s` of the models.
        repeats: Number of calls of the application for each sample. Scores are means of the repeats.
        app_concurrency: Number of concurrent calls of the application.
        app_timeout_s: Seconds after which a call of the application fails.
        retriever_tools: Names of the application's tools whose text results are passages, or a mapping from names to
            the separator between passages.
        traces: JSONL file for the captured calls of the application. If a run is interrupted, the next run with the
            same file asks only for the missing answers.
        stop_early: Stop if the application fails on each of the first 10 samples, or the judge fails systematically: no
            score, and 20 failures over 10 samples with kind "rejected" or "truncated".
        reasons: Number of the worst answers for which the judge explains its lowest score, after scoring. Scores do not
            change. The reasons are `Score.explanation`.
        processes: Number of processes that score. With more than 1, judge, reader and embedder are names or tables, and
            metrics can be pickled. The processes share the limits and the budget.
        refusals: The application's own phrases of refusal. An answer that begins with one of them declines. Refusals in 17 languages are detected without them.
        prompts: Your own prompts in place of built-in ones, as in the table `[prompts]`: by metric, or by METRIC.NAME.
        cluster: Column of the rows whose equal values make a cluster, such as "session_id": samples of one cluster
            resemble each other, so intervals treat whole clusters as independent. "auto" uses `session_id` if at least
            5% of the rows share one. None or "none" treats rows as independent.
        confidence_level: Confidence level of the intervals in the experiment's summary and report, and of its gates, in (0, 1).
        output: JSONL file for the outcomes, as `Experiment.to_jsonl` writes it. Until the run ends, complete samples
            are in `OUTPUT.partial`. If the run is interrupted, the same call scores only the others.
        test_set: The metric that decides if the application is better than at the last accepted look at `data`, a test
            set whose looks are written to DATA.looks. `Experiment.look` has the verdict, whose error rate holds over all looks.
        on_read: Called with the report of what was read, before the first call of a model or of the application.
        progress: Called with (finished samples, all samples) when scoring starts, and after each sample. Each repeat counts.
        on_outcomes: Called with the outcomes of each sample when they are complete, before `progress`.

    Raises:
        ConfigurationError: If a metric, judge, sink or file does not exist, or a metric needs a model that is not named.
        DataError: If rows are invalid or missing.
        ApplicationError: If the application fails on each of the first 10 samples.
        StoreError: If outcomes cannot be kept in a file.
        OSError: If `output` cannot be written.
        JudgeError: If the judge is unavailable, or fails systematically. No score was computed.

    Errors of sinks are reported in `Experiment.sink_errors` and do not lose scores.

    Examples:
        >>> import ragstone
        >>> rows = [{"query": "Why?", "contexts": ["Because."], "response": "Because.", "reference": "Because."}]
        >>> ragstone.evaluate(rows, ["ccrs.qr"], judge="lexical").summary()[0].n_scored
        1
    """
    check_level(confidence_level)
    check_not_read(output, data, references, qrels)
    kept = KeptOutcomes(output)
    rejected: list[RejectedRow] = []
    read = SampleRows()
    reading = ReadingReport()
    choice = Choice(rows=rows, limit=limit, separator=separator, encoding=encoding)
    for sample in iter_samples(
        data,
        rejected,
        fields=fields,
        references=references,
        qrels=qrels,
        on_bad_row=on_bad_row,
        choice=choice,
        report=reading,
        with_app=app is not None,
    ):
        read.add(sample)
    samples = read.finish()
    if on_read is not None:
        on_read(reading)
    if not samples:
        raise DataError(
            f"the data does not contain valid samples ({count(len(rejected), 'row')} rejected). Give rows with at "
            "least a query, and for most metrics contexts and a response"
        )
    read_fields(samples, cluster).choose(cluster)
    if app is None and (repeats != 1 or traces is not None):
        raise ConfigurationError("repeats and traces belong to an application. Pass it as app (--app)")
    if reasons and repeats > 1:
        raise ConfigurationError(
            f"a reason explains one answer, and with repeats={repeats} a score is the mean of several. Set repeats=1 "
            "or reasons=0"
        )
    with own_refusals(refusals or ()), own_prompts(prompts or {}):
        setup = open_setup(
            metrics,
            judge=judge,
            reader=reader,
            embedder=embedder,
            sinks=sinks,
            limits=Limits(concurrency=concurrency, deadline_s=deadline_s, processes=processes),
            reasons=reasons,
        )
    looks: Looks | None = None
    if test_set is not None:
        from ragstone.experiments._looks import Looks

        if app is None or output is not None or sinks or reasons:
            raise ConfigurationError(
                "a test set shows one verdict on an application, because it wears out if scores are selected by. Give "
                "the application (--app), and omit output, sinks and reasons"
            )
        looks = Looks(data, test_set, [metric.card for metric in setup.metrics])
    saved, runner = SavedRuns(traces), None
    if app is not None:
        # Imported for applications only, because nothing else in `evaluate` needs capture.
        from ragstone.experiments._app.capture import AppRecorder, framework_capture
        from ragstone.experiments._app.run import AppRunner

        recorder = AppRecorder(retriever_tools)
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
    report = Progress(len(samples) * repeats, progress, on_outcomes, stop_early=stop_early)
    async with setup:
        # An unavailable judge is an error soon, because its address may be wrong.
        with wait_for_outages(min(max_outage_s, _PREPARE_OUTAGE_S)):
            await setup.scorer.prepare()
        with closing(kept), looks or nullcontext():
            app_name = "" if runner is None else runner.app_name
            if output is not None:
                kept.open(run_identity(setup.scorer, samples, app_name, repeats))
            if looks is not None:
                resumes = traces is not None and count_kept(traces, n_heads=0) > 0
                looks.open(run_identity(setup.scorer, samples, app_name, repeats), len(samples), resumes=resumes)
            report.show()
            with wait_for_outages(max_outage_s):
                if runner is None:
                    scored = await score_rows(setup.scorer, samples, kept, report)
                else:
                    with framework_capture(recorder, app):
                        async with runner:
                            scored = await score_app(runner, setup.scorer, samples, kept, report)
            failures = count_failures(scored.outcomes)
            judge_unavailable = any(kind in _OUTAGE for kind in failures) and is_any_endpoint_down()
            explained = await explain_lowest_scores(
                setup.scorer, scored.samples, scored.outcomes, reasons, concurrency=concurrency
            )
            outcomes = replace_outcomes(scored.outcomes, explained)
            delivered = [(sink.name, *await deliver(sink, scored.samples, outcomes)) for sink in setup.sinks]
            experiment = Experiment(
                samples=scored.samples,
                outcomes=outcomes,
                cards=tuple(m.card for m in setup.metrics),
                judge=setup.judge.identity,
                usage=setup.scorer.usage,
                wall_s=time.monotonic() - started,
                rejected=tuple(rejected),
                reading=reading,
                sink_errors=tuple(error for _, errors, _ in delivered for error in errors),
                sink_skipped={name: n_skipped for name, _, n_skipped in delivered if n_skipped},
                traces=scored.traces,
                n_repeats=repeats,
                cluster=cluster,
                confidence_level=confidence_level,
                judge_unavailable=judge_unavailable,
                n_resumed=report.n_resumed,
                n_cut=kept.n_cut,
            )
            if output is not None:
                experiment.to_jsonl(output)
            is_stopped = judge_unavailable or (looks is not None and failures["budget"] > 0)
            if not is_stopped:
                saved.write(scored.traces)
                if not failures["budget"]:
                    kept.finish()
            if looks is not None:
                return replace(
                    experiment, look=looks.stop() if is_stopped else looks.decide(outcomes, samples, cluster)
                )
        return experiment


def run_identity(scorer: Scorer, samples: Iterable[Sample], app: str, repeats: int) -> RunIdentity:
    """Return what the outcomes of a run depend on. The scorer is prepared."""
    metrics = []
    for metric in scorer.metrics:
        judge = scorer.judged_by(metric)
        metrics.append((metric.card.name, metric.card.version, "" if judge is None else judge.hash))
    return RunIdentity(metrics, scorer.judge.identity.name, app, repeats, digest_samples(samples))


async def score_rows(scorer: Scorer, samples: Sequence[Sample], kept: KeptOutcomes, report: Progress) -> ScoredApp:
    """Score rows that hold contexts and responses."""
    cards = [metric.card for metric in scorer.metrics]
    results = OutcomeRows(cards, len(samples), on_disk=isinstance(samples, SamplesOnDisk))
    scored_now: dict[str, int] = {}
    """Numbers of the rows that are being scored, by id."""

    def rows() -> Iterator[Sample]:
        for number, sample in enumerate(samples):
            if (known := kept.find(sample)) is not None:
                results.put(number, known)
                report.resume()
            else:
                scored_now[sample.id] = number
                yield sample

    # Closed here, so that no call is sent after `report` has stopped the run.
    async with aclosing(scorer.score_many(rows())) as scoring:
        async for sample, outcomes in scoring:
            kept.add(sample, outcomes)
            results.put(scored_now.pop(sample.id), outcomes)
            report.add(outcomes)
    return ScoredApp(samples, results.finish(), ())


evaluate = takes_settings(**RUN_KEYS)(synchronous(aevaluate, name="evaluate"))
"""Score a dataset. The synchronous form of `aevaluate`, with the same arguments and errors.

Inside a running event loop, such as a notebook, the work runs on a separate thread.
"""


async def deliver(sink: Sink, samples: Iterable[Sample], outcomes: Sequence[Outcome]) -> tuple[list[str], int]:
    """Write all outcomes to one sink, without retries after an error. Never raises.

    Outcomes are ordered by sample as `samples` are. The last of each sample is sent with the cause of a wrong answer.
    Return the most frequent errors with counts, and the number of outcomes that the sink skipped.
    """
    n, n_answered, n_skipped = len(outcomes), 0, 0
    failed: Counter[str] = Counter()
    deliveries = _deliveries(samples, outcomes)
    waiting: list[list[Delivery]] = []
    errors: Mapping[str, SinkError]
    while batch := waiting.pop() if waiting else list(itertools.islice(deliveries, _BATCH)):
        try:
            errors = await sink.write(batch) or {}
        except SinkRejectedError as error:
            if len(batch) > 1:
                # Split the batch until only the rejected row remains, so that the other rows arrive.
                middle = len(batch) // 2
                waiting += [batch[middle:], batch[:middle]]
                continue
            errors = {batch[0].outcome.id: error}
        except Exception as error:  # noqa: BLE001  an error in a third-party sink must not lose the scores
            kind = "" if isinstance(error, SinkError) else f"{type(error).__name__}: "
            failed[f"{kind}{error}"] += n - n_answered
            break
        n_answered += len(batch)
        n_skipped += sum(isinstance(error, SinkNoTargetError) for error in errors.values())
        failed.update(str(error) for error in errors.values() if not isinstance(error, SinkNoTargetError))
    shown, others = failed.most_common()[:_REASONS_SHOWN], failed.most_common()[_REASONS_SHOWN:]
    lines = [f"{sink.name}: {message} ({k} of {n} outcomes)" for message, k in shown]
    if others:
        lines.append(f"{sink.name}: {len(others)} other reasons ({sum(k for _, k in others)} of {n} outcomes)")
    return lines, n_skipped


def _deliveries(samples: Iterable[Sample], outcomes: Iterable[Outcome]) -> Iterator[Delivery]:
    by_sample = itertools.groupby(outcomes, key=lambda outcome: outcome.sample_id)
    for sample, (sample_id, group) in zip(samples, by_sample, strict=True):
        *others, last = own = list(group)
        for outcome in others:
            yield Delivery(outcome=outcome, trace_id=sample_id)
        yield Delivery(outcome=last, trace_id=sample_id, cause=diagnose(sample, own))
