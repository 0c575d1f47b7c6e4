"""The commands. Results are printed to stdout, progress and notes to stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

import ragstone
from ragstone.cli._config import ConfigOption, apply_config
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._help import HELP_NAMES, add_help_all, use_layout, wants_help
from ragstone.cli._logs import LogFormat, configure_logging
from ragstone.cli._signals import end_at_once

_COMMANDS: Final = {
    "compare": (
        "_compare.compare_command",
        "Compare systems on the same samples, or traffic of two periods, and print the significant differences.",
    ),
    "evaluate": (
        "_evaluate.evaluate_command",
        "Score a file of samples, and print each metric's mean, confidence interval and counts.",
    ),
    "ingest": (
        "_ingest.ingest_command",
        "Receive OTLP from instrumented applications, and score their requests. SIGTERM or Ctrl-C stops it cleanly.",
    ),
    "judge-card": (
        "_judge_card.judge_card_command",
        "Measure from human labels how far judges can be trusted: agreement, bias, wording, order, repeats and cost.",
    ),
    "validate-metrics": (
        "_validate_metrics.validate_metrics_command",
        "Evaluate the metrics themselves: distributions, ties, correlations, power, judge flips and human agreement.",
    ),
    "metrics": (
        "_metrics.metrics_command",
        "List all metrics with required fields and model calls, or explain one with a worked example.",
    ),
    "deliveries": (
        "_deliveries.deliveries_command",
        "List failed, pending, sent or skipped deliveries with their last errors, or retry them.",
    ),
    "prometheus-rules": (
        "_prometheus_rules.prometheus_rules_command",
        "Print Prometheus alert rules for the metrics of the `prometheus` sink.",
    ),
    "replay": (
        "_replay.replay_command",
        "Score exported traces of other tools, and deliver the scores. The same command resumes an interrupted run.",
    ),
    "report": (
        "_report.report_command",
        "Print a verdict, each metric with its interval, the causes of wrong answers, and the worst answers.",
    ),
    "status": (
        "_status.status_command",
        "Print the mean of each metric and the ledger: the state of every captured request.",
    ),
    "traces": ("_traces.traces_command", "List the worst answers, or show one answer with its evidence."),
    "topicality": (
        "_validate_metrics.topicality_command",
        "Check if a repository is about a domain, from in-domain and out-of-domain queries.",
    ),
    "view": (
        "_view.view_command",
        "Serve the report of a store as a page that updates itself. SIGTERM or Ctrl-C stops it.",
    ),
    "watch": ("_watch.watch_command", "Show which metrics are watched, what each can find, and the open alarms."),
    "worker": (
        "_worker.worker_command",
        "Own a store: score captured requests and deliver the outcomes. SIGTERM or Ctrl-C stops it cleanly.",
    ),
    "demo": (
        "_demo.demo_command",
        "Run capture, scoring and reporting on a small bundled corpus, without API key, GPU or network.",
    ),
    "samples": (
        "_samples.samples_command",
        "Print a small sample file, to try other commands with: `ragstone samples > samples.jsonl`.",
    ),
    "doctor": (
        "_doctor.doctor_command",
        "Measure the capabilities of the endpoints of judge, reader and embedder, and explain how Ragstone uses them.",
    ),
    "cache": ("_cache.cache_command", "Summarize or clear a reply cache."),
    "dataset": (
        "_dataset.dataset_app",
        "Build a dataset or unrelated queries from your own documents, and apply your review.",
    ),
    "labels": ("_labels.labels_app", "Compare the metrics with people: draw requests to label, and add labels."),
    "store": (
        "_store.store_app",
        "Maintain a store: verify, back up, export, merge, backfill metrics, remove texts, erase users, check counters.",
    ),
    "udcg": (
        "_udcg.udcg_app",
        "UDCG: fit its weights, correlate it with graded answers, rank passages by utility, repeat its experiments.",
    ),
}
"""Commands and groups in the order of the help: place of each in this package, and the first sentence of its own help."""


class _LazyCommands(Mapping[str, Any]):
    """Commands by name. A command's module is imported when the command is first looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            module, _, attribute = _COMMANDS[name][0].partition(".")
            with end_at_once():
                found = getattr(import_module(f"ragstone.cli.{module}"), attribute)
            whole = typer.Typer(add_completion=False)
            if isinstance(found, typer.Typer):
                whole.add_typer(found, name=name)
            else:
                whole.command(name)(found)
            command = typer.main.get_group(whole).commands[name]
            add_help_all(command)
            self._loaded[name] = command
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


_EXPECTED: Final = {
    "greater_than_equal": "a number of at least {ge}",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}",
    "less_than": "a number below {lt}",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "int_type": "an integer",
    "float_parsing": "a number",
    "float_type": "a number",
}


def _describe_value(error: typer.BadParameter) -> str:
    """Return the message for an invalid value of an option. Typer validates with pydantic, whose text omits the value."""
    from pydantic import ValidationError

    if isinstance(error.__cause__, ValidationError):
        (first, *_) = error.__cause__.errors(include_url=False)
        if (expected := _EXPECTED.get(first["type"])) is not None:
            return f"got {first['input']!r}. Write {expected.format(**first.get('ctx', {}))}."
    return error.message.removeprefix("Value error, ")


def _configured(error: typer.BadParameter) -> Path | None:
    """Return the configuration file, if it sets the invalid value."""
    if error.ctx is None or error.param is None:
        return None
    source = error.ctx.get_parameter_source(error.param.name)
    return error.ctx.find_root().params["config"] if source is not None and source.name == "DEFAULT_MAP" else None


class _Commands(TyperGroup):
    """All commands. Typer turns Ctrl-C into exit code 130 without a message, so they print it."""

    commands: Any

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _LazyCommands()

    def make_context(self, info_name: Any, args: list[str], *more: Any, **options: Any) -> Any:
        if wants_help(args):
            use_layout()
        return super().make_context(info_name, args, *more, **options)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._listed():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._listed():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _listed(self) -> Iterator[None]:
        """List commands in the block without their modules, whose import takes a second."""
        loading, self.commands = self.commands, {n: TyperCommand(n, help=text) for n, (_, text) in _COMMANDS.items()}
        try:
            yield
        finally:
            self.commands = loading

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _describe_value(error)
            if (path := _configured(error)) is not None:
                error.message += f" The value is from {str(path)!r}."
            raise
        except KeyboardInterrupt:
            typer.echo("ragstone: interrupted. Stored results are kept.", err=True)
            raise typer.Exit(ExitCode.INTERRUPTED) from None


app = typer.Typer(
    name="ragstone",
    cls=_Commands,
    help="Measure the quality of a RAG application's retrieval and answers, with a confidence interval for every mean.",
    no_args_is_help=True,
    context_settings={"help_option_names": HELP_NAMES},
    pretty_exceptions_enable=False,
)


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
