"""`ragstone repair`: ask wrong answers again while what the application retrieves is changed."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from ragstone._util.files import check_not_read
from ragstone._util.quantities import count
from ragstone.cli._application import default_traces, load_app
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._models import Models, with_cache
from ragstone.cli._options import parse_fields
from ragstone.cli._output import leave, print_json, print_result, print_text
from ragstone.cli._progress import show_progress
from ragstone.cli._settings import arguments_of, settings_of
from ragstone.experiments import repair
from ragstone.judges import find_outage
from ragstone.reading import Choice, ReadingReport, iter_samples


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
    r"""Find out which change of retrieval corrects wrong answers.

    Asks again with fewer, more, reordered or other passages. Subtracts what a repeat corrects by luck.

    Options:
        file: Cases or samples: JSONL, JSON, CSV, Parquet, or -
        limit (>=1 N hidden): Read only the first N rows.

    Models:
        app (MODULE:NAME): The application: a function, a LangChain runnable or a LlamaIndex engine.
        hook (MODULE:NAME): The function that retrieves, if no retriever of LangChain or LlamaIndex does. MODULE calls it.
        repeats (>=2 N): Calls of --app for each wrong answer.

    Output:
        output (-o): JSON file of the result, with which a trial resumes. Default: FILE.APP.repair.json.
    """
    settings = settings_of(context)
    application = load_app(app)
    if hook is not None:
        load_app(hook, option="--hook")
    if output is None:
        output = default_traces(file, app).with_suffix("").with_suffix(".repair.json")
    models = Models(with_cache(settings, Path(f"{output.absolute()}.cache")))
    check_not_read(output, file)
    reading = ReadingReport()
    samples = list(iter_samples(file, [], choice=Choice(limit=limit), fields=parse_fields(field), report=reading))
    print_text(reading, err=True)
    if dry_run:
        # What the application answers, on which the calls of a judge depend, is known only after a run.
        n_calls = len(samples) * repeats
        text = f"{app} would be called {n_calls:,} times at most, if all {count(len(samples), 'answer')} are wrong"
        facts = {"n_samples": len(samples), "n_application_calls": n_calls, "reading": reading.to_dict()}
        print_result(facts, f"{text}. The calls of a judge are not known", json_output=json_output)
        return
    with show_progress("scoring", find_outage=find_outage) as progress:

        def show_plan(n_wrong: int, n_calls: int) -> None:
            typer.echo(f"{count(n_wrong, 'wrong answer')}: {app} is called {n_calls:,} times at most", err=True)

        try:
            result = repair(
                samples,
                settings.scoring.metrics,
                app=application,
                hook=hook,
                repeats=repeats,
                **models.specs(),
                **arguments_of(context, settings, "limits", "analysis"),
                output=output,
                on_plan=show_plan,
                progress=progress.update,
            )
        except KeyboardInterrupt:
            leave("stopped. What is finished is kept. Run the same command to resume.", ExitCode.INTERRUPTED)
    if json_output:
        print_json(result.to_dict(), full=False, everything=f"in {str(output)!r}")
    else:
        print_text(result)
    typer.echo(f"The result is in {shlex.quote(str(output))}", err=True)
    if result.stopped == "budget":
        raise typer.Exit(ExitCode.BUDGET)
