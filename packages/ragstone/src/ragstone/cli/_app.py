"""The commands. Results are printed to stdout, progress and notes to stderr."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import ragstone
from ragstone.cli._cache import run_cache
from ragstone.cli._compare import compare_command
from ragstone.cli._config import ConfigOption, apply_config
from ragstone.cli._dataset import dataset_app
from ragstone.cli._deliveries import deliveries_command
from ragstone.cli._demo import run_demo
from ragstone.cli._doctor import run_doctor
from ragstone.cli._evaluate import evaluate_command
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._ingest import ingest_command
from ragstone.cli._judge_card import judge_card_command
from ragstone.cli._labels import labels_app
from ragstone.cli._logs import LogFormat, configure_logging
from ragstone.cli._metrics import metrics_command
from ragstone.cli._models import EndpointsOptions, takes_models
from ragstone.cli._options import JsonOption, NoRetrieverToolOption
from ragstone.cli._prometheus_rules import prometheus_rules_command
from ragstone.cli._replay import replay_command
from ragstone.cli._report import report_command
from ragstone.cli._status import status_command
from ragstone.cli._store import store_app
from ragstone.cli._traces import traces_command
from ragstone.cli._udcg import udcg_app
from ragstone.cli._validate_metrics import topicality_command, validate_metrics_command
from ragstone.cli._view import view_command
from ragstone.cli._watch import watch_command
from ragstone.cli._worker import worker_command

__all__ = ["app"]


class _Commands(TyperGroup):
    """All commands. Typer turns Ctrl-C into exit code 130 without a message, so they print it."""

    def make_context(self, info_name: Any, args: list[str], *more: Any, **options: Any) -> Any:
        if "--help" in args:
            # Imported only here: most commands do not print help.
            from typer import rich_utils

            from ragstone.cli._help import HelpTable

            rich_utils.Table = HelpTable  # type: ignore[attr-defined]
        return super().make_context(info_name, args, *more, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("ragstone: interrupted. Stored results are kept.", err=True)
            raise typer.Exit(ExitCode.INTERRUPTED) from None


app = typer.Typer(
    name="ragstone",
    cls=_Commands,
    help="Measure the quality of a RAG application's retrieval and answers, with a confidence interval for every mean.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(name="compare")(compare_command)
app.command(name="evaluate")(evaluate_command)
app.command(name="ingest")(ingest_command)
app.command(name="judge-card")(judge_card_command)
app.command(name="validate-metrics")(validate_metrics_command)
app.command(name="metrics")(metrics_command)
app.command(name="deliveries")(deliveries_command)
app.command(name="prometheus-rules")(prometheus_rules_command)
app.command(name="replay")(replay_command)
app.command(name="report")(report_command)
app.command(name="status")(status_command)
app.command(name="traces")(traces_command)
app.command(name="topicality")(topicality_command)
app.command(name="view")(view_command)
app.command(name="watch")(watch_command)
app.command(name="worker")(worker_command)
app.add_typer(dataset_app, name="dataset")
app.add_typer(labels_app, name="labels")
app.add_typer(store_app, name="store")
app.add_typer(udcg_app, name="udcg")


def _print_version(value: bool) -> None:  # noqa: FBT001 - typer passes it by position
    if value:
        typer.echo(f"ragstone {ragstone.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print log messages to stderr.")] = False,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Format of log messages: text, or json for log collectors.")
    ] = "text",
    config: ConfigOption = None,
) -> None:
    configure_logging(logging.INFO if verbose else logging.WARNING, log_format)
    apply_config(context, config)


@app.command()
def demo(
    output_dir: Annotated[Path, typer.Option("--output-dir", help="Directory for the store and the scores.")] = Path(
        "ragstone-demo"
    ),
    json_output: JsonOption = False,
) -> None:
    """Run capture, scoring and reporting on a small bundled corpus, without API key, GPU or network."""
    run_demo(output_dir, json_output=json_output)


@app.command()
@takes_models
def doctor(
    store: Annotated[str | None, typer.Option("--store", help="A store: names the tools to declare.")] = None,
    no_retriever_tool: NoRetrieverToolOption = None,
    json_output: JsonOption = False,
    *,
    models: EndpointsOptions,
) -> None:
    """Measure the capabilities of the endpoints of judge, reader and embedder, and explain how Ragstone uses them."""
    if not run_doctor(*models.models(), store=store, other_tools=no_retriever_tool or (), json_output=json_output):
        raise typer.Exit(ExitCode.INFRASTRUCTURE)


@app.command(name="cache")
def cache_command(
    folder: Annotated[Path, typer.Argument(help="The cache directory (--cache or $RAGSTONE_CACHE).")],
    clear: Annotated[bool, typer.Option("--clear", help="Remove cached replies.")] = False,
    older_than_days: Annotated[
        float | None, typer.Option("--older-than-days", min=0, help="Only replies older than this number of days.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Summarize or clear a reply cache."""
    run_cache(folder, clear=clear, older_than_days=older_than_days, json_output=json_output)
