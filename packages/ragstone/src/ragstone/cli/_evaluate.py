"""`ragstone evaluate`: score a file of samples, and print means with confidence intervals."""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import typer

from ragstone._util.files import check_not_read
from ragstone._util.quantities import count
from ragstone._util.run_async import run_async
from ragstone.cli._application import default_traces, load_app
from ragstone.cli._estimate import print_estimate
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._gate import exit_if_failed, parse_thresholds
from ragstone.cli._models import Models, with_cache
from ragstone.cli._options import parse_fields, parse_retriever_tools, reading_options, resolve_new_store
from ragstone.cli._output import (
    describe_excess,
    failure_lines,
    leave,
    print_json,
    print_result,
    print_text,
    reason_lines,
)
from ragstone.cli._progress import Progress, show_progress
from ragstone.cli._settings import OF_COMMAND, arguments_of, settings_of
from ragstone.errors import ConfigurationError, DataError, JudgeError
from ragstone.experiments import Experiment, check_run, count_kept, describe_looks, evaluate, save_run
from ragstone.judges import find_outage
from ragstone.metrics import resolve_metrics
from ragstone.reading import Choice, ReadingReport, RejectedRow, iter_samples, read_samples
from ragstone.schema import Failure, Sample
from ragstone.scoring import JudgedCounts, StrideSampler, estimate_run
from ragstone.store import quote_store

_MAX_ESTIMATED = 1000
"""Maximum number of samples for the estimate of a dry run, evenly spaced over all samples."""


def evaluate_command(
    file: str,
    *,
    app: str | None = None,
    repeats: int = 1,
    retriever_tool: list[str] | None = None,
    no_retriever_tool: list[str] | None = None,
    traces: Path | None = None,
    references: Path | None = None,
    qrels: Path | None = None,
    field: list[str] | None = None,
    rows: str | None = None,
    limit: int | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    on_bad_row: Literal["raise", "skip"] = "raise",
    output: Path | None = None,
    store: str | None = None,
    run: str | None = None,
    dry_run: bool = False,
    test_set: str | None = None,
    fail_under: list[str] | None = None,
    junit: Path | None = None,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    r"""Score a file of samples, or the answers of an application.

    Prints the mean of each metric with its confidence interval, and counts.

    Options:
        file: Samples: JSONL, JSON, CSV, Parquet, TREC, or -
        references: File with references, joined by id.
        qrels (hidden): Relevance by sample id and passage id, in TREC or BEIR format.
        limit (>=1 N hidden): Read only the first N rows.
        separator (TEXT hidden): Separator in cells: '|', '\n', 'reference=;'.
        encoding (NAME hidden): Encoding of the file: cp1252. UTF-16 is detected.
        on_bad_row: At an invalid row: stop, or skip and count it.

    Models:
        app (MODULE:NAME): The application: a function, a LangChain runnable or a LlamaIndex engine.
        repeats (>=1 N): Calls of --app for each question.
        traces (hidden): Captured calls, with which a run resumes. Default: FILE.APP.traces.jsonl.
        test_set (METRIC): Exit with 1 unless METRIC improved since the last accepted look (FILE.looks).

    Output:
        output (-o): JSONL of the outcomes. Repeat to resume a run.
        store (STORE): Store of runs that keeps this one, for `report`.
        run (NAME): Name of the run in --store. Default: the time.
    """
    settings = settings_of(context)
    limits, analysis, reasons = settings.limits, settings.analysis, settings.scoring.reasons
    models = Models(settings)
    names, fields = settings.scoring.metrics, parse_fields(field)
    thresholds = parse_thresholds(fail_under, analysis, names, junit=junit)
    application: Any = None
    if test_set is not None:
        if fail_under:
            raise ConfigurationError("a test set shows one verdict. Give --test-set without --fail-under")
        typer.echo(describe_looks(file), err=True)
    if app is None and (retriever_tool or no_retriever_tool):
        raise ConfigurationError(
            "--retriever-tool and --no-retriever-tool are about the calls of --app, and do not change what is read "
            "from a file. Add --app, or read exported traces: ragstone replay FILE --retriever-tool NAME"
        )
    if app is not None:
        application, traces = load_app(app), traces or default_traces(file, app)
        cache = Path(f"{traces.absolute()}.cache")
        models = Models(with_cache(settings, cache))
    check_not_read(output, file, references)
    if run is not None and store is None:
        raise ConfigurationError("--run names a run in a store of runs. Add --store runs.db")
    run = run or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if store is not None and not dry_run:
        check_run(resolve_new_store(store), run)
    read: dict[str, Any] = {
        "fields": fields,
        "references": _references(references),
        "qrels": qrels,
        "on_bad_row": on_bad_row,
    }
    choice: dict[str, Any] = {"rows": rows, "limit": limit, "separator": separator, "encoding": encoding}
    if dry_run:
        spread, rejected, reading = StrideSampler(_MAX_ESTIMATED), list[RejectedRow](), ReadingReport()
        asked = iter_samples(file, rejected, choice=Choice(**choice), report=reading, with_app=app is not None, **read)
        for sample in asked:
            spread.add(sample)
        print_text(reading, err=True)
        if not spread.n_seen:
            raise DataError("the data does not contain valid samples. Give rows with a query, contexts and a response")
        if app is not None:
            # Contexts and responses, which most calls depend on, are known only after a run.
            n_calls = spread.n_seen * repeats
            text = f"{app} would be called {n_calls:,} times ({count(spread.n_seen, 'sample')}). The calls of a judge are not known"
            facts = {"n_samples": spread.n_seen, "n_application_calls": n_calls, "reading": reading.to_dict()}
            print_result(facts, text, json_output=json_output)
            return
        work = estimate_run(spread.samples, resolve_metrics(names), calls_per_reading=models.calls_per_reading)
        print_estimate(
            estimate := run_async(work),
            spread.n_seen,
            models,
            json_output=json_output,
            heading=f"{count(spread.n_seen, 'sample')} would be scored",
            facts={"n_samples": spread.n_seen, "n_rejected": reading.n_rejected, "reading": reading.to_dict()},
            reason_calls=min(reasons, spread.n_seen),
        )
        remedies = reading.remedies(reading.guesses)
        if remedies and any(not metric.n_applicable for metric in estimate.metrics):
            print_text(f"0 applicable: if these columns are the missing fields: {' '.join(remedies)}", err=True)
        return
    specs = models.specs()
    with (
        show_progress("scoring", find_outage=find_outage) as progress,
        _resumable(traces if app else None, output, progress),
    ):

        def show(n_done: int, total: int) -> None:
            if n_done == 0 and output is None and test_set is None and not json_output:
                # Before the first call is paid for, because the outcomes cannot be kept afterwards.
                typer.echo(
                    "Only the means will be printed. To see which answers are wrong, and why: add --output outcomes.jsonl",
                    err=True,
                )
            progress.update(n_done, total)

        result = evaluate(
            file,
            names,
            app=application,
            repeats=repeats,
            retriever_tools=parse_retriever_tools(retriever_tool, no_retriever_tool),
            traces=traces,
            **specs,
            sinks=settings.scoring.sinks,
            **read,
            **choice,
            **arguments_of(context, settings, "limits", "analysis", omit=("undecided", *OF_COMMAND)),
            reasons=reasons,
            output=output,
            test_set=test_set,
            on_read=lambda reading: print_text(reading, err=True),
            progress=show,
            on_outcomes=progress.count,
        )
    if app is not None and not result.judge_unavailable:
        # It lets a run resume. A later run may find another model at the same URL.
        shutil.rmtree(cache, ignore_errors=True)
    look = result.look
    check = result.check(thresholds, undecided=analysis.undecided) if thresholds else None
    if check is not None and junit is not None:
        check.write_junit(junit)
    if store is not None:
        save_run(resolve_new_store(store), run, result, result.traces)
        typer.echo(f"stored as run {run!r}. All runs: ragstone report {quote_store(store)}", err=True)
    if json_output:
        print_json(result.to_dict() | {"gate": check and check.to_dict()})
    else:
        verdict = [f"{look}\n"] if look is not None and look.is_shown else []
        print_text("\n".join([*verdict, str(result), *reason_lines(result.outcomes)]))
        if check is not None:
            print_text(f"\n{check}")
        n = count(len(result.samples), "sample")
        typer.echo(f"{n} in {result.wall_s:.1f} s, judge {result.judge.name}: {result.usage}", err=True)
        if output is not None and app is None and str(file) != "-":
            shown, about = f" --data {shlex.quote(str(file))}{reading_options(rows, field)}", ""
            if encoding or separator:  # which `report` does not have
                shown, about = "", " (with their texts: --data and the same rows as JSONL)"
            command = f"ragstone report {shlex.quote(str(output))}{shown}"
            typer.echo(f"To see which answers are wrong, and why{about}: {command}", err=True)
    for line in failure_lines(result.outcomes):
        typer.echo(line, err=True)
    _exit(result, limits.max_failed_share)
    exit_if_failed(check)
    if look is not None and look.verdict == "not shown":
        raise typer.Exit(ExitCode.GATE)


def _exit(result: Experiment, max_failed_share: float) -> None:
    """Exit with the code of a result other than success. The last line says why."""
    if result.sink_errors:
        leave("not all outcomes were delivered, see above.")
    if n_over_budget := sum(isinstance(o, Failure) and o.kind == "budget" for o in result.outcomes):
        typer.echo(
            f"The budget is exhausted. {n_over_budget} of {len(result.outcomes)} outcomes were not computed.", err=True
        )
        raise typer.Exit(ExitCode.BUDGET)
    counts = JudgedCounts()
    counts.add(result.outcomes)
    if result.judge_unavailable:
        reason: str | None = (
            f"the judge or reader did not answer for longer than limits.max_outage_s, {counts.n_failed} of {counts.n} judged outcomes "
            "failed. When it is available, run the same command again. With --output or --set cache=DIR it does not repeat calls."
        )
    elif (reason := describe_excess(counts, max_failed_share)) is None:
        summaries = result.summary()
        if any(s.n_failed for s in summaries) and not any(s.n_scored for s in summaries):
            reason = "all outcomes failed."
        elif unusable := result.unusable():
            reason = f"{unusable} Use another judge."
    if reason is not None:
        leave(reason)


@contextmanager
def _resumable(traces: Path | None, output: Path | None, progress: Progress) -> Iterator[None]:
    """If the run ends early, say what is kept: outcomes of complete samples, and answers of the application."""
    try:
        yield
    except (KeyboardInterrupt, JudgeError) as error:
        kept = []
        if output is not None and (n := count_kept(output)):
            of = f" of {progress.total}" if progress.total is not None else ""
            kept.append(f"The outcomes of {n}{of} samples are kept in '{output}.partial'")
        if traces is not None and (n := count_kept(traces, n_heads=0)):
            kept.append(f"{n} answers are kept")
        how = "No sample was complete." if output else "With --output FILE, an interrupted run can be resumed."
        hint = f"Nothing is kept. {how}"
        if kept:
            hint = f"{'. '.join(kept)}. Run the same command to resume."
        if isinstance(error, JudgeError):
            if not kept:
                raise
            raise JudgeError(f"{error}. {hint}", kind=error.kind) from None
        typer.echo(f"stopped. {hint}", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _references(file: Path | None) -> dict[str, Sample] | None:
    if file is None:
        return None
    samples, _ = read_samples(str(file))
    references = {sample.id: sample for sample in samples if sample.reference}
    if not references:
        raise DataError(
            f"no row of --references {str(file)!r} has a reference under a known name (reference, ground_truth, ...)"
        )
    return references
