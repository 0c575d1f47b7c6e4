"""`ragstone repair`: ask wrong answers again while what the application retrieves is changed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import typer

from ragstone._util.files import check_not_read
from ragstone._util.quantities import count
from ragstone._util.run_async import run_async
from ragstone.cli._application import default_traces, load_app
from ragstone.cli._estimate import print_estimate
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._models import Models, with_cache
from ragstone.cli._options import parse_fields
from ragstone.cli._output import leave, print_reading, print_result
from ragstone.cli._progress import show_progress
from ragstone.cli._settings import arguments_of, settings_of
from ragstone.errors import ConfigurationError
from ragstone.experiments import repair
from ragstone.judges import find_outage
from ragstone.metrics import resolve_metrics
from ragstone.reading import Choice, ReadingReport, iter_samples
from ragstone.scoring import StrideSampler, estimate_run

_MAX_ESTIMATED = 1000


def repair_command(
    file: str,
    *,
    app: str,
    hook: str | None = None,
    repeats: int = 5,
    field: list[str] | None = None,
    limit: int | None = None,
    output: Path | None = None,
    dry_run: bool = False,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    r"""Ask wrong answers again with other passages: what corrects them?

    Each wrong answer is asked for again without a change, and with fewer, more, reordered or other passages. Prints what
    share of the wrong answers each change corrects, without those that a repeat corrects by luck.

    Options:
        file: Cases or samples: JSONL, JSON, CSV, Parquet, or -
        limit (>=1 N hidden): Read only the first N rows.

    Models:
        app (MODULE:NAME): The application: a function of the question, a LangChain runnable or a LlamaIndex engine.
        hook (MODULE:NAME): The application's function that retrieves, if this is not a retriever of LangChain or
            LlamaIndex. Name the module that calls it.
        repeats (>=2 N): Calls of --app for each wrong answer.

    Output:
        output (-o): JSON file for the result. The same command resumes an interrupted trial. Default:
            FILE.APP.repair.json in the current directory.
    """
    settings = settings_of(context)
    application = load_app(app)
    if hook is not None:
        load_app(hook, option="--hook")
    if output is None:
        output = default_traces(file, app).with_suffix("").with_suffix(".repair.json")
    models = Models(with_cache(settings, Path(f"{output.absolute()}.cache")))
    check_not_read(output, file)
    if dry_run:
        _print_dry_run(file, app, repeats, models, limit, parse_fields(field), json_output=json_output)
        return
    with show_progress("scoring", find_outage=find_outage) as progress:

        def show_plan(n_wrong: int, n_calls: int) -> None:
            typer.echo(f"{count(n_wrong, 'wrong answer')}: {app} is called {n_calls:,} times at most", err=True)

        try:
            result = repair(
                file,
                settings.scoring.metrics,
                app=application,
                hook=hook,
                repeats=repeats,
                fields=parse_fields(field),
                limit=limit,
                **models.specs(),
                **arguments_of(context, settings, "limits", "analysis", omit=("call_latency_s", "deadline_s")),
                output=output,
                on_read=print_reading,
                on_plan=show_plan,
                progress=progress.update,
            )
        except KeyboardInterrupt:
            leave("stopped. What is finished is kept. Run the same command to resume.", ExitCode.INTERRUPTED)
    print_result(result.to_dict(), result, json_output=json_output)
    typer.echo(f"The result is in {shlex.quote(str(output))}", err=True)
    if result.stopped == "budget":
        raise typer.Exit(ExitCode.BUDGET)


def _print_dry_run(
    file: str, app: str, repeats: int, models: Models, limit: int | None, fields: Any, *, json_output: bool
) -> None:
    spread, reading = StrideSampler(_MAX_ESTIMATED), ReadingReport()
    for sample in iter_samples(file, [], choice=Choice(limit=limit), fields=fields, report=reading):
        spread.add(sample)
    print_reading(reading)
    if not (n := spread.n_seen):
        raise ConfigurationError(f"{file!r} does not contain valid rows")
    estimate = run_async(
        estimate_run(
            spread.samples, resolve_metrics(models.settings.scoring.metrics), calls_per_reading=models.calls_per_reading
        )
    )
    n_answers = n * (1 + repeats)
    print_estimate(
        estimate,
        n_answers,
        models,
        json_output=json_output,
        heading=f"{app} would be called at most {n * repeats:,} times, if all {count(n, 'answer')} are wrong, and at most "
        f"{count(n_answers, 'answer')} would be scored",
        facts={"n_samples": n, "n_application_calls": n * repeats, "reading": reading.to_dict()},
    )
