"""The commands. Results go to stdout, progress and notes to stderr."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ragstone.cli._cache import run_cache
from ragstone.cli._connection import (
    EXIT_BUDGET,
    AffinityHeaderOption,
    InFlightOption,
    MaxCallsOption,
    MaxTokensOption,
    MaxUsdOption,
    OutageOption,
    PricesOption,
    RequestsOption,
    TokensOption,
    connection_of,
)
from ragstone.cli._demo import run_demo
from ragstone.cli._doctor import run_doctor
from ragstone.cli._output import failure_lines, ledger_lines, print_json, progress_bar, trace_lines
from ragstone.cli._reader import AbstentionOption, DrawsOption, EstimatorOption, ReaderPromptOption, reader_of
from ragstone.cli._score import NumberTokensOption, ScoreDrawsOption, ScoreModeOption
from ragstone.cli._udcg import udcg_app
from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.experiments import Experiment, evaluate, read_samples
from ragstone.judges import Judge, Reader, judge_from, reader_from
from ragstone.metrics import bind_reader, resolve_metrics
from ragstone.monitor import Worker, read_ledger
from ragstone.schema import Failure
from ragstone.sinks import Sink, sink_from
from ragstone.store import SqliteStore

__all__ = ["app"]

app = typer.Typer(
    name="ragstone",
    help="Know how good your RAG application's retrieval and answers are, with an error bar on every number.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(udcg_app, name="udcg")

MetricsOption = Annotated[str, typer.Option("--metrics", help="Metrics or groups, with commas between.")]
JudgeOption = Annotated[
    str | None,
    typer.Option(
        "--judge", help="http://host:port/v1, openai:MODEL or lexical. Default: $RAGSTONE_JUDGE, else lexical."
    ),
]
CacheOption = Annotated[
    Path | None,
    typer.Option("--cache", help="Folder where replies are kept and found again. Default: $RAGSTONE_CACHE, else none."),
]
ReaderOption = Annotated[
    str | None,
    typer.Option(
        "--reader",
        help="The application's generator, for udcg; takes what --judge takes. Default: $RAGSTONE_READER, else the judge.",
    ),
]
SinkOption = Annotated[
    list[str] | None, typer.Option("--sink", help="jsonl:PATH, otlp, ... May be given several times.")
]
ConcurrencyOption = Annotated[int, typer.Option("--concurrency", min=1, help="Samples scored at once.")]
DeadlineOption = Annotated[
    float, typer.Option("--deadline", min=0.1, help="Seconds after which a sample's unfinished metrics fail.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def _common(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens to stderr.")] = False,
) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(message)s")


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--folder", help="Where the store and the scores go.")] = Path(
        "ragstone-demo"
    ),
    json_output: JsonOption = False,
) -> None:
    """Run the whole path on a small corpus that ships with the package: no key, no GPU, no network."""
    run_demo(folder, json_output=json_output)


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
        float | None, typer.Option("--older-than", min=0, help="Only what was kept more than so many days ago.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Print what a cache of replies holds, or clear it."""
    run_cache(folder, clear=clear, older_than_days=older_than_days, json_output=json_output)


@app.command(name="evaluate")
def evaluate_command(
    file: Annotated[Path, typer.Argument(help="Samples: JSONL, JSON, CSV or Parquet, any library's field names.")],
    metrics: MetricsOption = "ccrs",
    judge: JudgeOption = None,
    score_mode: ScoreModeOption = "single",
    score_draws: ScoreDrawsOption = 5,
    number_tokens: NumberTokensOption = None,
    reader: ReaderOption = None,
    reader_prompt: ReaderPromptOption = None,
    abstention: AbstentionOption = None,
    estimator: EstimatorOption = "auto",
    draws: DrawsOption = None,
    cache: CacheOption = None,
    in_flight: InFlightOption = None,
    requests_per_minute: RequestsOption = None,
    tokens_per_minute: TokensOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    max_usd: MaxUsdOption = None,
    prices: PricesOption = None,
    outage_s: OutageOption = None,
    affinity_header: AffinityHeaderOption = None,
    reference: Annotated[
        Path | None, typer.Option("--reference", help="A file of correct answers, joined to the samples by id.")
    ] = None,
    field: Annotated[
        list[str] | None, typer.Option("--field", help="OURS=THEIRS, where the known names do not fit (query=Frage).")
    ] = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave out (and count) rows that cannot be read.")
    ] = False,
    sink: SinkOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write one outcome a line (JSONL).")] = None,
    concurrency: ConcurrencyOption = 16,
    deadline_s: DeadlineOption = 120.0,
    json_output: JsonOption = False,
) -> None:
    """Score a file of samples and print mean, 95 % interval and denominators of each metric."""
    if output is not None and not output.absolute().parent.is_dir():
        msg = f"the folder of --output {str(output)!r} does not exist; make it, or give another path"
        raise ConfigurationError(msg)
    if output is not None and output.is_dir():
        msg = f"--output {str(output)!r} is a folder; give the path of a file"
        raise ConfigurationError(msg)
    _keep_replies(cache)
    connection = connection_of(
        in_flight=in_flight,
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        max_calls=max_calls,
        max_tokens=max_tokens,
        max_usd=max_usd,
        prices=prices,
        outage_s=outage_s,
        affinity_header=affinity_header,
    )
    chair = judge_from(
        judge, score_mode=score_mode, draws=score_draws, number_max_tokens=number_tokens, connection=connection
    )
    lector = reader_of(
        reader,
        judge=chair,
        prompt=reader_prompt,
        abstention=abstention,
        estimator=estimator,
        draws=draws,
        connection=connection,
    )
    with progress_bar("scoring") as progress:
        result = evaluate(
            str(file),
            _names(metrics),
            judge=chair,
            reader=lector,
            sinks=sink or (),
            fields=_fields(field or []),
            references=_references(reference),
            on_bad_row="skip" if skip_bad_rows else "raise",
            concurrency=concurrency,
            sample_deadline_s=deadline_s,
            progress=progress,
        )
    if output is not None:
        result.to_jsonl(output)
    for rejection in result.rejected[:5]:
        typer.echo(f"left out: {rejection.reason}", err=True)
    if json_output:
        print_json(result.to_dict())
    else:
        typer.echo(str(result))
        typer.echo(_spent(result), err=True)
    for line in failure_lines(result.outcomes):
        typer.echo(line, err=True)
    n_unpaid = sum(isinstance(o, Failure) and o.kind == "budget" for o in result.outcomes)
    if n_unpaid:
        typer.echo(
            f"the spend cap was reached: {n_unpaid} of {len(result.outcomes)} outcomes were not asked for", err=True
        )
    if result.sink_errors or (_nothing_worked(result) and not n_unpaid):
        raise typer.Exit(3)
    if n_unpaid:
        raise typer.Exit(EXIT_BUDGET)


@app.command()
def status(
    store: Annotated[Path, typer.Argument(help="The store: what Monitor(store=...) was given.")],
    trace: Annotated[str | None, typer.Option("--trace", help="Say why this trace was or was not scored.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Print the ledger: where every captured request stands."""
    if trace is None:
        ledger = read_ledger(store)
        if json_output:
            print_json(ledger.model_dump(mode="json") | {"balanced": ledger.total.balanced})
        else:
            typer.echo("\n".join(ledger_lines(ledger)))
        return
    with SqliteStore.open(store, mode="read") as opened:
        report = opened.explain(trace)
    if report is None:
        msg = f"the store {str(store)!r} has no trace {trace!r}; if it is quite new, it may still be in the spool"
        raise DataError(msg)
    lines = trace_lines(report)
    if json_output:
        print_json(lines.as_dict())
    else:
        typer.echo("\n".join(lines.as_text()))


@app.command()
def worker(
    store: Annotated[Path, typer.Argument(help="The store that the application's monitors were given.")],
    metrics: MetricsOption = "ccrs",
    judge: JudgeOption = None,
    score_mode: ScoreModeOption = "single",
    score_draws: ScoreDrawsOption = 5,
    number_tokens: NumberTokensOption = None,
    reader: ReaderOption = None,
    reader_prompt: ReaderPromptOption = None,
    abstention: AbstentionOption = None,
    estimator: EstimatorOption = "auto",
    draws: DrawsOption = None,
    cache: CacheOption = None,
    in_flight: InFlightOption = None,
    requests_per_minute: RequestsOption = None,
    tokens_per_minute: TokensOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    max_usd: MaxUsdOption = None,
    prices: PricesOption = None,
    outage_s: OutageOption = None,
    affinity_header: AffinityHeaderOption = None,
    sink: SinkOption = None,
    concurrency: ConcurrencyOption = 16,
    deadline_s: DeadlineOption = 120.0,
    outage_patience_s: Annotated[
        float,
        typer.Option("--outage-patience", min=0, help="Seconds a trace waits for a judge that answers nobody."),
    ] = 3600.0,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Stop when nothing is left to do.")] = False,
) -> None:
    """Own a store: drain what applications captured, score it, deliver it. Stops cleanly on SIGTERM or Ctrl-C."""
    if not store.absolute().parent.is_dir():
        msg = f"the folder of the store {str(store)!r} does not exist"
        raise StoreError(msg)
    _keep_replies(cache)
    connection = connection_of(
        in_flight=in_flight,
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        max_calls=max_calls,
        max_tokens=max_tokens,
        max_usd=max_usd,
        prices=prices,
        outage_s=outage_s,
        affinity_header=affinity_header,
    )
    chair = judge_from(
        judge, score_mode=score_mode, draws=score_draws, number_max_tokens=number_tokens, connection=connection
    )
    named = reader_of(
        reader,
        judge=chair,
        prompt=reader_prompt,
        abstention=abstention,
        estimator=estimator,
        draws=draws,
        connection=connection,
    )
    chosen, lector = bind_reader(resolve_metrics(_names(metrics)), lambda: reader_from(named, judge=chair))
    destinations = [sink_from(s) for s in sink or ()]
    owner = Worker(
        store.absolute(),
        metrics=chosen,
        judge=chair,
        sinks=destinations,
        concurrency=concurrency,
        trace_deadline_s=deadline_s,
        outage_patience_s=outage_patience_s,
    )
    asyncio.run(_work(owner, chair, lector, destinations, f"owning {store}", until_idle=until_idle))


async def _work(
    owner: Worker, chair: Judge, lector: Reader | None, destinations: Sequence[Sink], what: str, *, until_idle: bool
) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, owner.stop)
    try:
        await owner.run(
            until_idle=until_idle,
            on_owned=lambda: typer.echo(f"{what}, judge {chair.identity.name}", err=True),
        )
    finally:
        for destination in destinations:
            await destination.aclose()
        await chair.aclose()
        if lector is not None:
            await lector.aclose()


def _keep_replies(cache: Path | None) -> None:
    """Let all models of this process keep their replies in a folder: the judge's, and the reader's if it has its own."""
    if cache is not None:
        os.environ["RAGSTONE_CACHE"] = str(cache)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _fields(pairs: list[str]) -> dict[str, str]:
    fields = {}
    for pair in pairs:
        ours, separator, theirs = pair.partition("=")
        if not (separator and ours and theirs):
            msg = f"--field must be OURS=THEIRS, got {pair!r}; for example --field query=Frage"
            raise ConfigurationError(msg)
        fields[ours] = theirs
    return fields


def _references(file: Path | None) -> dict[str, tuple[str, ...]] | None:
    if file is None:
        return None
    samples, _ = read_samples(str(file))
    references = {s.id: s.reference for s in samples if s.reference}
    if not references:
        msg = f"no row of --reference {str(file)!r} has a correct answer under a known name (reference, ground_truth, ...)"
        raise DataError(msg)
    return references


def _nothing_worked(result: Experiment) -> bool:
    summaries = result.summary()
    return any(s.n_failed for s in summaries) and not any(s.n_scored for s in summaries)


def _spent(result: Experiment) -> str:
    usage: dict[str, Any] = json.loads(result.usage.model_dump_json())
    return (
        f"{len(result.samples)} samples in {result.wall_s:.1f} s, judge {result.judge.name}: {usage['calls']} calls, "
        f"{usage['input_tokens']} + {usage['output_tokens']} tokens"
        + (f", {usage['cached']} replies from the cache" if usage["cached"] else "")
    )
