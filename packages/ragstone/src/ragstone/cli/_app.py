"""The commands. Results go to stdout, progress and notes to stderr."""

from __future__ import annotations

import importlib.resources
import logging
from pathlib import Path
from typing import Annotated

import typer

import ragstone
from ragstone.cli._cache import run_cache
from ragstone.cli._compare import compare_command
from ragstone.cli._config import ConfigOption, apply_config
from ragstone.cli._dataset import dataset_app
from ragstone.cli._demo import run_demo
from ragstone.cli._doctor import run_doctor
from ragstone.cli._evaluate import evaluate_command
from ragstone.cli._ingest import ingest_command
from ragstone.cli._meta import topicality_command, validate_metrics_command
from ragstone.cli._metrics import metrics_command
from ragstone.cli._models import JudgeOption, ReaderOption
from ragstone.cli._options import JsonOption
from ragstone.cli._outbox import deliveries_command
from ragstone.cli._replay import replay_command
from ragstone.cli._status import status_command
from ragstone.cli._udcg import udcg_app
from ragstone.cli._worker import worker_command

__all__ = ["app"]

app = typer.Typer(
    name="ragstone",
    help="Know how good your RAG application's retrieval and answers are, with an error bar on every number.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(name="compare")(compare_command)
app.command(name="evaluate")(evaluate_command)
app.command(name="ingest")(ingest_command)
app.command(name="validate-metrics")(validate_metrics_command)
app.command(name="metrics")(metrics_command)
app.command(name="deliveries")(deliveries_command)
app.command(name="replay")(replay_command)
app.command(name="status")(status_command)
app.command(name="topicality")(topicality_command)
app.command(name="worker")(worker_command)
app.add_typer(dataset_app, name="dataset")
app.add_typer(udcg_app, name="udcg")


def _print_version(value: bool) -> None:  # noqa: FBT001 - typer calls it so
    if value:
        typer.echo(f"ragstone {ragstone.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens to stderr.")] = False,
    config: ConfigOption = None,
) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(message)s")
    apply_config(context, config)


@app.command()
def demo(
    output_dir: Annotated[Path, typer.Option("--output-dir", help="Where the store and the scores go.")] = Path(
        "ragstone-demo"
    ),
    json_output: JsonOption = False,
) -> None:
    """Run the whole path on a small corpus that ships with the package: no key, no GPU, no network."""
    run_demo(output_dir, json_output=json_output)


@app.command()
def doctor(judge: JudgeOption = None, reader: ReaderOption = None, json_output: JsonOption = False) -> None:
    """Measure what the endpoints of judge and reader can do, and say how Ragstone will use them."""
    if not run_doctor(judge, reader, json_output=json_output):
        raise typer.Exit(3)


@app.command(name="cache")
def cache_command(
    folder: Annotated[Path, typer.Argument(help="The folder that --cache or $RAGSTONE_CACHE named.")],
    clear: Annotated[bool, typer.Option("--clear", help="Remove what was kept.")] = False,
    older_than_days: Annotated[
        float | None, typer.Option("--older-than-days", min=0, help="Only what was kept more than so many days ago.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Print what a cache of replies holds, or clear it."""
    run_cache(folder, clear=clear, older_than_days=older_than_days, json_output=json_output)


@app.command(name="prometheus-rules")
def alerts_command() -> None:
    """Print alert rules for Prometheus, for the metrics of the sink `prometheus`."""
    rules = importlib.resources.files("ragstone.sinks") / "alerts" / "ragstone.rules.yml"
    typer.echo(rules.read_text(encoding="utf-8"), nl=False)
