"""`ragstone report`: what the scores of one system say, where it fails, and its worst answers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from ragstone._util.files import check_output
from ragstone.cli._gate import exit_if_failed, parse_metric_values, parse_thresholds
from ragstone.cli._models import Models
from ragstone.cli._options import parse_fields, parse_named_file, parse_time_range, read_sources, reading_options
from ragstone.cli._output import print_json, print_lines, print_text, terminal_options
from ragstone.cli._settings import arguments_of, settings_of
from ragstone.errors import ConfigurationError
from ragstone.experiments import REPORT_FORMATS, OutcomeSource, build_report, check_source, compare_last, store_of
from ragstone.reading import ReadingReport, build_rows_error, read_samples
from ragstone.schema import Sample
from ragstone.store import describe_store, is_database_url
from ragstone.views import ReportText, ReportView
from ragstone.worker import StorePlan


def report_command(
    sources: list[str],
    *,
    baseline: str | None = None,
    data: list[str] | None = None,
    field: list[str] | None = None,
    rows: str | None = None,
    target: list[str] | None = None,
    by: list[str] | None = None,
    worst: int = 5,
    fail_under: list[str] | None = None,
    junit: Path | None = None,
    output: Path | None = None,
    texts: bool = True,
    json_output: bool = False,
    full: bool = False,
    context: typer.Context,
) -> None:
    """Print a verdict, the causes of wrong answers, and the worst.

    Options:
        sources (SOURCE...): Stores (STORE@-7d.., STORE@RUN) or outcomes. NAME=SOURCE names one. The last is reported.
        baseline (NAME): The source that the last is compared with. Default: the first.
        data: The evaluated file, for texts and clusters: once, or for each source.
        worst (>=0): Number of answers to show.

    Output:
        output (-o): Write a page (report.html) or a summary for pull requests (report.md).
        texts (--texts/--no-texts): Include texts.
    """
    settings = settings_of(context)
    analysis = arguments_of(context, settings, "analysis")
    systems = _read_systems(sources, baseline)
    if settings.scoring.reasons and (store := store_of(systems.reported)) is not None and not settings.judge.url:
        settings = settings_of(context, plan=StorePlan.read(store).complete_model("judge"))
    files, reading = _data_of(systems, data or []), reading_options(rows, field)
    repeated = "".join(f" --data {each}" for each in data or ()) + (reading if data else "")
    stated = settings.analysis.stated.items()
    repeated += "".join(f" --set analysis.{name}={value}" for name, value in stated if name in analysis)
    samples = read_texts(files.get(systems.name), rows, field)
    options: dict[str, Any] = {
        "name": systems.name,
        "samples": samples,
        "targets": parse_metric_values("--target", target or []),
        "n_worst": worst,
        "by": by or (),
        "compared": None,
        "reasons": settings.scoring.reasons,
        "judge": Models(settings).build_judge() if settings.scoring.reasons else None,
        "analysis": settings.analysis,
    }
    thresholds = parse_thresholds(fail_under, settings.analysis, junit=junit)
    if output is not None:
        check_output(output, REPORT_FORMATS)
    if systems.others and systems.name is not None and systems.baseline is not None:
        known = {systems.name: samples, systems.baseline: read_texts(files.get(systems.baseline), rows, field)}
        compared = {**systems.others, systems.name: systems.reported}
        options["compared"] = compare_last(compared, systems.baseline, settings.analysis, known)
    check = None
    if thresholds:
        check = check_source(systems.reported, thresholds, settings.analysis, samples=samples)
    if check is not None and junit is not None:
        check.write_junit(junit)
    gate, shown = ({}, "") if check is None else ({"gate": check.to_dict()}, f"\n{check}")
    if output is not None:
        command = _command(sources, baseline, repeated, target or [], worst)
        view = build_report(
            systems.reported, output, max_mb=settings.limits.max_page_mb, texts=texts, command=command, **options
        )
        if check is not None and output.suffix.lower() == ".md":
            with output.open("a", encoding="utf-8") as file:
                file.write(f"\n{check.to_markdown()}")
        if not json_output:
            print_text("\n".join([*(statement.text for statement in view.verdict), *filter(None, [shown])]))
            typer.echo(f"written: {output} ({output.stat().st_size / 1e3:,.0f} kB)", err=True)
    else:
        view = build_report(systems.reported, **options)
        if not json_output:
            given = f" --data {files[systems.name]}{reading}" if systems.name in files else ""
            steps = _next_steps(sources, baseline, repeated, view, systems, given)
            print_lines(ReportText(view, **terminal_options()).lines(next_steps=steps))
            if shown:
                print_text(shown)
    if json_output:
        print_json(view.to_dict() | gate, full=full)
    exit_if_failed(check)


@dataclass(frozen=True, slots=True)
class _Systems:
    """The reported system and those that it is compared with."""

    reported: OutcomeSource
    name: str | None
    others: Mapping[str, OutcomeSource]
    baseline: str | None
    order: tuple[str | None, ...]
    """Names as given."""


def _read_systems(sources: Sequence[str], baseline: str | None) -> _Systems:
    """Choose the reported system: the last one that is not the baseline, which is the first one by default."""
    if len(sources) == 1 and baseline is None:
        named = parse_named_file(sources[0])
        return _Systems(parse_time_range(named[1]), named[0], {}, None, (named[0],))
    by_name = read_sources(sources)
    if baseline is None:
        baseline = next(iter(by_name))
    elif baseline not in by_name:
        name, path = parse_named_file(baseline)
        given = parse_time_range(path)
        if isinstance(given, str) and not is_database_url(given) and not Path(given).is_file():
            raise ConfigurationError(
                f"unknown baseline {baseline!r}. Give one of the sources ({', '.join(map(repr, by_name))}), or another file or store"
            )
        if name in by_name:
            raise ConfigurationError(
                f"two systems have the name {name!r}. Write NAME=SOURCE with a unique name for each"
            )
        by_name = read_sources([baseline, *sources])
        baseline = next(iter(by_name))
    others = dict(by_name)
    candidates = [name for name in by_name if name != baseline]
    if not candidates:
        raise ConfigurationError(f"the baseline {baseline!r} is the only source. Give the source to report as well")
    return _Systems(others.pop(candidates[-1]), candidates[-1], others, baseline, tuple(by_name))


def _data_of(systems: _Systems, data: Sequence[str]) -> dict[str | None, str]:
    """Return the evaluated file of each system, as far as it is given."""
    if len(data) <= 1:
        return {systems.name: data[0]} if data else {}
    if len(data) != len(systems.order):
        raise ConfigurationError(
            f"--data is given {len(data)} times for {len(systems.order)} sources. Give it once for each source, in the "
            f"same order ({', '.join(map(repr, systems.order))}), or once for the reported one"
        )
    return dict(zip(systems.order, data, strict=True))


def _command(sources: Sequence[str], baseline: str | None, options: str, targets: list[str], worst: int) -> str:
    """Return the command for the page, without the password of a database."""
    parts = ["ragstone report", *map(_describe, sources)]
    parts += [f"--baseline {_describe(baseline)}"] if baseline else []
    parts += [options.strip()] if options else []
    parts += [f"--target {target}" for target in targets]
    return " ".join([*parts, f"--worst {worst}"])


def _describe(source: str) -> str:
    """Return a source without the password of a database."""
    name, path = parse_named_file(source)
    return f"{name}={describe_store(path)}" if name else describe_store(path)


def read_texts(data: str | None, rows: str | None = None, field: Sequence[str] | None = None) -> list[Sample]:
    """Read the samples of `--data`, with `--rows` and `--field`. Invalid rows are skipped, as `evaluate` may have done."""
    if data is None:
        return []
    report = ReadingReport()
    samples, rejected = read_samples(data, rows=rows, fields=parse_fields(field), report=report, on_bad_row="skip")
    if not samples and rejected:
        raise build_rows_error(rejected, 0, "Name the file that was evaluated")
    print_text(report, err=True)
    return samples


def _next_steps(
    sources: Sequence[str], baseline: str | None, options: str, view: ReportView, systems: _Systems, texts: str
) -> list[tuple[str, str]]:
    """Return commands that show more. `options` are those of all sources, `texts` those of the reported one."""
    # A baseline that is not one of the sources comes first in the order.
    _, path = parse_named_file(sources[systems.order.index(systems.name) - (len(systems.order) - len(sources))])
    shown = "STORE" if is_database_url(path) else shlex.quote(path)
    steps = []
    if view.worst:
        steps.append(("one answer", f"ragstone traces {shown} {view.worst[0].id}{texts}"))
        cause = next((row for row in view.causes if row.is_wrong), None)
        if cause is not None:
            what = f"all {cause.n:,} of a cause" if cause.n > 1 else "one cause"
            steps.append((what, f"ragstone traces {shown} --cause {cause.cause}{texts}"))
            if store := view.provenance.store:
                cases = f"ragstone labels cases {store} --where cause={cause.cause} -o cases.jsonl"
                steps += [("as test cases", cases), ("try repairs", "ragstone repair cases.jsonl --app MODULE:NAME")]
    listed = " ".join(map(_describe, sources)) if len(sources) > 1 else shown
    against = f" --baseline {_describe(baseline)}" if baseline else ""
    steps.append(("as a page", f"ragstone report {listed}{against}{options} -o report.html"))
    steps.append(("what a metric means", f"ragstone metrics {view.metrics[0].name}"))
    return steps
