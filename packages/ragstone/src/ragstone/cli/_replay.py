"""`ragstone replay`: score traces from exports of other tools."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import typer

from ragstone._util.signals import STOP_SIGNALS, handle_signals
from ragstone.capture import redact_secrets
from ragstone.cli._estimate import print_estimate
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._gate import exit_if_failed, parse_thresholds
from ragstone.cli._models import Models, models_for_store, with_cache
from ragstone.cli._options import parse_retriever_tools
from ragstone.cli._output import describe_excess, leave, ledger_lines, print_json, print_text, sanitize_for_terminal
from ragstone.cli._progress import Progress, show_progress
from ragstone.cli._settings import OF_COMMAND, arguments_of, settings_of
from ragstone.errors import DataError, StoreError
from ragstone.experiments import (
    MetricSummary,
    TableReader,
    check_source,
    format_table,
    stored_clusters,
    summarize_table,
    titles_of,
)
from ragstone.judges import is_baseline
from ragstone.metrics import resolve_metrics
from ragstone.reading import RejectedRecord
from ragstone.replay import FileReport, ReplayPlan, ReplayReport, ReplayTraceSource, areplay_traces, plan_replay
from ragstone.schema import Ledger, Outcome, Trace
from ragstone.scoring import MAX_CALLS_PER_REASON, JudgedCounts
from ragstone.settings import Analysis
from ragstone.store import MetricCounts, is_database_url, open_store, quote_store
from ragstone.worker import StorePlan, Worker, advise, read_ledger

_SHOWN = 5
_OPTIONS = re.compile(r"--(?:field|rows|separator|on-bad-row|encoding)\b")
"""Options that messages of a reader name."""


def replay_command(
    sources: list[str],
    *,
    store: str = "ragstone-replay.db",
    format_name: str = "auto",
    dry_run: bool = False,
    retriever_tool: list[str] | None = None,
    no_retriever_tool: list[str] | None = None,
    fail_under: list[str] | None = None,
    junit: Path | None = None,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Score traces that other tools have exported.

    The scores are delivered. The same command resumes an interrupted run.

    Options:
        sources: Files or directories, plain, .gz or .zst. - is standard input.
        store (STORE): The store for traces and scores.
        format_name (--format NAME): Format. auto detects it and prints the evidence.
    """
    tools = parse_retriever_tools(retriever_tool, no_retriever_tool)
    settings = settings_of(context)
    limits, analysis, reasons = settings.limits, settings.analysis, settings.scoring.reasons
    names = settings.scoring.metrics
    thresholds = parse_thresholds(fail_under, analysis, names, junit=junit)
    if dry_run:
        models = Models(settings)
        plan = plan_replay(
            sources, names, format=format_name, retriever_tools=tools, calls_per_reading=models.calls_per_reading
        )
        _print_plan(plan, models, reasons=reasons, json_output=json_output)
        return
    _, models = models_for_store(context, StorePlan.read(store), keeps_plan=True)
    if not is_database_url(store):
        models = Models(with_cache(models.settings, Path(f"{Path(store).absolute()}.cache")))
    with show_progress("scoring") as progress:
        results = _Results(names)
        n_pending = 0  # those of an earlier run
        with suppress(StoreError):
            n_pending = read_ledger(store).total.pending
        stop = _Stop(progress, results, n_pending=n_pending)
        with handle_signals(dict.fromkeys(STOP_SIGNALS, lambda *_: stop.stop())):
            report = asyncio.run(
                areplay_traces(
                    sources,
                    names,
                    store=store,
                    **models.specs(),
                    sinks=settings.scoring.sinks,
                    format=format_name,
                    retriever_tools=tools,
                    **arguments_of(context, settings, "limits", omit=OF_COMMAND),
                    reasons=reasons,
                    redact=redact_secrets if settings.redaction.redact else None,
                    ids=settings.redaction.ids,
                    started=stop.watch,
                )
            )
    stopped = stop.requested
    try:
        summaries, notes, judged = results.summarize(store, analysis)
        ledger = read_ledger(store)
    except StoreError:
        if not stopped:
            raise
        # The store was not created yet.
        typer.echo("stopped. Run the same command to resume.", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    check = None
    if thresholds and not stopped:
        check = check_source(store, thresholds, analysis, cards=[metric.card for metric in resolve_metrics(names)])
        if junit is not None:
            check.write_junit(junit)
    if json_output:
        print_json(
            {
                "files": [asdict(counts) for counts in report.files],
                "skipped": [asdict(file) for file in report.skipped],
                "stopped": stopped,
                "judge_is_baseline": is_baseline(*(named for s in summaries for named in s.judges)),
                "budget_exhausted": report.budget_exhausted,
                "stopped_early": report.stopped_early,
                "metrics": [asdict(summary) for summary in summaries],
                "notes": notes,
                "ledger": ledger.model_dump(mode="json"),
                "gate": check and check.to_dict(),
            }
        )
    else:
        print_text("\n".join([*_file_lines(report.files), *_skipped_lines(report.skipped)]), err=True)
        print_text(format_table(summaries, titles=titles_of(summary.metric for summary in summaries)))
        for note in notes:
            print_text(note)
        if check is not None:
            print_text(f"\n{check}")
        print_text("\n" + "\n".join([*ledger_lines(ledger), *_unscored(ledger, store)]), err=True)
        if any(summary.n_scored for summary in summaries):
            print_text(f"where it fails: ragstone report {quote_store(store)}", err=True)
    if stopped:
        typer.echo("stopped. Run the same command to resume.", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED)
    _exit(store, report, summaries, ledger, describe_excess(judged, limits.max_failed_share))
    exit_if_failed(check)


def _unscored(ledger: Ledger, store: str) -> Iterator[str]:
    """Yield the number of traces that were finished before a metric was planned: its row does not show them."""
    for name, row in ledger.metrics.items():
        if n := ledger.total.captured - row.captured:
            yield f"{name}: {n} traces were finished before this metric, or its judge, was planned. Score them with"
            yield f"  ragstone store backfill {quote_store(store)} --metrics {name} --since 1970-01-01"


def _exit(
    store: str, report: ReplayReport, summaries: Sequence[MetricSummary], ledger: Ledger, too_many_failures: str | None
) -> None:
    """Exit with the code of a result other than success. The last line says why."""
    if report.budget_exhausted:
        typer.echo("The budget is exhausted. Run the same command to resume with a new budget.", err=True)
        raise typer.Exit(ExitCode.BUDGET)
    if report.skipped and not report.files:
        typer.echo(f"no file could be read, {len(report.skipped)} skipped", err=True)
        raise typer.Exit(ExitCode.INFRASTRUCTURE)
    if report.is_empty:
        raise DataError(
            "these files do not contain a request that can be scored. If the detected format is wrong, set --format."
        )
    reason = None
    if report.stopped_early is not None:
        reason = (
            f"{report.stopped_early}. The other traces stay pending. Fix the cause, and run the same command to resume."
        )
    elif too_many_failures is not None:
        reason = too_many_failures
    elif any(summary.n_failed for summary in summaries) and not any(summary.n_scored for summary in summaries):
        reason = "all outcomes failed."
    elif any(counts.pending or counts.stopped for counts in ledger.outbox.values()):
        reason = "not all outcomes were delivered. Run the same command to retry."
    elif not report.is_whole:
        reason = "a file could not be read to its end."
    elif ledger.total.pending:
        # Without an outage, only requests that were stored with another plan are left.
        reason = (
            f"{' '.join(advise(store, ledger))} To score them as this command does: ragstone worker "
            f"{quote_store(store)} --until-idle --replan, with the same metrics and models."
        )
    if reason is not None:
        leave(reason)


class _Stop:
    """Stops the worker on a signal. Calls in flight are canceled, and the next run repeats them."""

    def __init__(self, progress: Progress, results: _Results, *, n_pending: int) -> None:
        self.requested = False
        self._results = results
        self._worker: Worker | None = None
        self._source: ReplayTraceSource | None = None
        self._progress = progress
        self._n_pending = n_pending

    def watch(self, source: ReplayTraceSource, worker: Worker) -> None:
        """Set the worker to stop and the source and worker whose progress is shown."""
        self._worker, self._source = worker, source
        self._progress.find_outage = lambda: worker.outage
        worker.on_outcomes = self._count

    def stop(self) -> None:
        """Ask the worker to stop."""
        if self.requested or self._worker is None:
            raise KeyboardInterrupt
        self.requested = True
        self._worker.stop()

    def _count(self, _trace: Trace, outcomes: Sequence[Outcome], is_last: bool) -> None:  # noqa: FBT001 - the worker passes it by position
        """Add the outcomes of a trace, or of a part of its metrics, to the results and to the progress."""
        self._results.add(outcomes)
        self._progress.count(outcomes)
        n_new = sum(file.n_new for file in self._source.counts) if self._source is not None else 0
        self._progress.update(self._progress.n_done + is_last, self._n_pending + n_new)


class _Results:
    """The outcomes of this run as arrays, so that its summary does not read them from the store again."""

    def __init__(self, metrics: Sequence[str]) -> None:
        self.judged = JudgedCounts()
        self._metrics, self._reader = metrics, TableReader()
        self._reader.expect(metric.card for metric in resolve_metrics(metrics))

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Add outcomes that were stored."""
        planned = [outcome for outcome in outcomes if outcome.metric in self._reader.columns]
        for outcome in planned:
            self._reader.put(outcome)
        self.judged.add(planned)

    def summarize(
        self, store: str, analysis: Analysis
    ) -> tuple[tuple[MetricSummary, ...], tuple[str, ...], JudgedCounts]:
        """Summarize all stored outcomes of the planned metrics, with notes about clusters and counts of the judged ones."""
        with open_store(store, mode="read") as opened:
            clusters, notes, counted = stored_clusters(opened, analysis.cluster)
            judged, table = self.judged, self._reader.table()
            if any(
                _states(each) != table.metrics[each.metric].counts() for each in counted if each.metric in table.metrics
            ):
                # An earlier run or another process has stored outcomes as well, also of earlier judges or versions. A
                # mean uses one judge.
                planned = {(metric.name, metric.version, metric.judge_hash) for metric in opened.plan.metrics()}
                everything = _Results(self._metrics)
                for outcome in opened.outcomes.read():
                    everything.add([outcome] if outcome.key[1:] in planned else [])
                judged, table = everything.judged, everything._reader.table()
            table = table.depend(opened.traces.inclusion_probabilities(), clusters)
            return summarize_table(table, analysis.confidence_level), notes, judged


def _states(counts: MetricCounts) -> dict[str, int]:
    """Return the numbers of stored outcomes of a metric, as `MetricScores.counts` does."""
    return {"n_scored": sum(counts.repeats), "n_failed": counts.n_failed, "n_not_applicable": counts.n_not_applicable}


def _file_lines(files: Sequence[FileReport], *, planned: bool = False) -> Iterator[str]:
    for counts in files:
        withheld = {"sampled out": counts.n_sampled_out, "erased": counts.n_erased}
        done = f"{counts.n_new} new traces, {counts.n_known - sum(withheld.values())} already stored"
        done += "".join(f", {n} {reason}" for reason, n in withheld.items() if n)
        if planned:
            repeated = f", {counts.n_known} of them repeat the id of an earlier one" if counts.n_known else ""
            done = f"{counts.n_read} records{repeated}"
        yield (
            f"{sanitize_for_terminal(counts.name)}: {counts.format} ({sanitize_for_terminal(counts.detected_by)}): {done}"
            + (f", {counts.n_rejected} records rejected" if counts.n_rejected else "")
        )
        if counts.n_clashing:
            yield f"  {counts.n_clashing} skipped: other traces have these ids. Use another --store, or unique ids."
        for rejected in counts.rejected[:_SHOWN]:
            yield f"  rejected, {sanitize_for_terminal(rejected.place)}: {sanitize_for_terminal(rejected.reason, width=500)}"
        if counts.n_rejected > _SHOWN:
            yield f"  and {counts.n_rejected - _SHOWN} more"
        if counts.damaged is not None:
            yield f"  NOT READ TO ITS END: {sanitize_for_terminal(counts.damaged, width=1000)}"
        yield from (f"  {note}" for note in counts.notes)
        texts = [*counts.notes, counts.damaged or "", *(rejected.reason for rejected in counts.rejected[:_SHOWN])]
        if options := sorted({*_OPTIONS.findall(" ".join(texts))}):
            yield f"  {', '.join(options)}: options of `ragstone evaluate`, which reads the same file. `ragstone replay` does not have them."


def _skipped_lines(skipped: Sequence[RejectedRecord]) -> Iterator[str]:
    for file in skipped:
        yield f"skipped {sanitize_for_terminal(file.place)}: {sanitize_for_terminal(file.reason)}"


def _print_plan(plan: ReplayPlan, models: Models, *, reasons: int, json_output: bool) -> None:
    if not json_output:
        print_text("\n".join([*_file_lines(plan.files, planned=True), *_skipped_lines(plan.skipped)]))
    print_estimate(
        plan.estimate,
        plan.n_scorable,
        models,
        json_output=json_output,
        heading=f"{plan.n_traces} traces, of which {plan.n_scorable} would be scored",
        facts={
            "files": [asdict(counts) for counts in plan.files],
            "skipped": [asdict(file) for file in plan.skipped],
            "n_traces": plan.n_traces,
            "n_scorable": plan.n_scorable,
        },
        reason_calls=min(MAX_CALLS_PER_REASON * reasons, plan.n_scorable),
    )
    if any(counts.damaged for counts in plan.files):
        leave("a file could not be read completely, see above.")
    if not plan.n_scorable:
        raise DataError("these files do not contain a request that can be scored.")
