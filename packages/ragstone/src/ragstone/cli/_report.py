"""`ragstone report`: what the scores of one system say, where it fails, and its worst answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragstone.cli._options import JsonOption, parse_time_range
from ragstone.cli._output import print_json, print_lines, print_text, terminal_options
from ragstone.cli._panels import OUTPUT
from ragstone.data import read_samples
from ragstone.errors import ConfigurationError
from ragstone.experiments import build_report, write_report
from ragstone.schema import Sample
from ragstone.store import describe_store, is_database_url
from ragstone.views import ReportText, ReportView

__all__ = ["DataOption", "SourceArgument", "read_texts", "report_command"]

SourceArgument = Annotated[
    str,
    typer.Argument(
        help="A store (a file or postgresql://...), requests of a period (STORE@-7d.., STORE@2026-11-01..2026-11-08), or a "
        "file of outcomes (evaluate --output)."
    ),
]
DataOption = Annotated[
    str | None,
    typer.Option("--data", help="The evaluated file, for the texts of a file of outcomes, which has only their ids."),
]


def report_command(
    source: SourceArgument,
    data: DataOption = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="METRIC=MEAN that you want to reach, such as ccrs.ac=0.8. Repeatable."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", help="Label whose values are compared, such as topic. Repeatable. Default: all with few values."
        ),
    ] = None,
    worst: Annotated[int, typer.Option("--worst", min=0, help="Number of answers to show.")] = 5,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            rich_help_panel=OUTPUT,
            help="Write a page (report.html, one file without network requests) or a summary for pull requests (report.md).",
        ),
    ] = None,
    max_mb: Annotated[
        float, typer.Option("--max-mb", min=0.1, rich_help_panel=OUTPUT, help="Size limit of a page, in MB.")
    ] = 1.5,
    texts: Annotated[
        bool,
        typer.Option(
            "--texts/--no-texts", rich_help_panel=OUTPUT, help="Include texts of questions, answers and passages."
        ),
    ] = True,
    json_output: JsonOption = False,
) -> None:
    """Print a verdict, each metric with its interval, the causes of wrong answers, and the worst answers."""
    opened = parse_time_range(source)
    if output is not None:
        view = write_report(
            opened,
            output,
            samples=read_texts(data),
            targets=_targets(target or []),
            n_worst=worst,
            by=by or (),
            max_mb=max_mb,
            texts=texts,
            command=_command(source, data, target or [], worst),
        )
        if json_output:
            print_json(view.to_dict())
        else:
            print_text("\n".join(statement.text for statement in view.verdict))
            typer.echo(f"written: {output} ({output.stat().st_size / 1e6:.2f} MB)", err=True)
        return
    view = build_report(opened, samples=read_texts(data), targets=_targets(target or []), n_worst=worst, by=by or ())
    if json_output:
        print_json(view.to_dict())
        return
    print_lines(ReportText(view, **terminal_options()).lines(next_steps=_next_steps(source, data, view)))


def _command(source: str, data: str | None, targets: list[str], worst: int) -> str:
    """Return the command for the page, without the password of a database."""
    parts = ["ragstone report", describe_store(source)]
    parts += [f"--data {data}"] if data else []
    parts += [f"--target {target}" for target in targets]
    return " ".join([*parts, f"--worst {worst}"])


def read_texts(data: str | None) -> list[Sample]:
    """Read the samples of `--data`."""
    return [] if data is None else read_samples(data)[0]


def _targets(texts: list[str]) -> dict[str, float]:
    targets = {}
    for text in texts:
        metric, separator, value = text.partition("=")
        try:
            targets[metric.strip()] = float(value)
        except ValueError:
            separator = ""
        if not separator or not metric.strip():
            raise ConfigurationError(f"--target must be METRIC=MEAN, got {text!r}. Example: --target ccrs.ac=0.8")
    return targets


def _next_steps(source: str, data: str | None, view: ReportView) -> list[tuple[str, str]]:
    """Return commands that show more of the same source."""
    shown = source if not is_database_url(source) else "STORE"
    texts = "" if data is None else f" --data {data}"
    steps = []
    if view.worst:
        steps.append(("one answer", f"ragstone traces {shown} {view.worst[0].id}{texts}"))
        cause = next((row for row in view.causes if row.is_wrong), None)
        if cause is not None:
            steps.append((f"all {cause.n} of a cause", f"ragstone traces {shown} --cause {cause.cause}{texts}"))
    steps.append(("as a page", f"ragstone report {shown}{texts} -o report.html"))
    steps.append(("what a metric means", f"ragstone metrics {view.metrics[0].name}"))
    return steps
