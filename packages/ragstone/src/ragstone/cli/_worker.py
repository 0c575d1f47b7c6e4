"""`ragstone worker`: own a store, score what applications captured, deliver it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ragstone.cli._models import ModelOptions, takes_models
from ragstone.cli._options import ConcurrencyOption, DeadlineOption, MetricsOption, SinkOption, names_in
from ragstone.errors import StoreError
from ragstone.judges import Judge, Reader, reader_from
from ragstone.metrics import bind_reader, resolve_metrics
from ragstone.sinks import Sink, sink_from
from ragstone.store import is_database_url, settled, shown
from ragstone.worker import Worker

__all__ = ["worker_command"]


@takes_models
def worker_command(
    store: Annotated[
        str, typer.Argument(help="The store that the application's monitors were given: a file, or postgresql://...")
    ],
    metrics: MetricsOption = "ccrs",
    sink: SinkOption = None,
    concurrency: ConcurrencyOption = 16,
    deadline_s: DeadlineOption = 120.0,
    outage_patience_s: Annotated[
        float,
        typer.Option("--outage-patience", min=0, help="Seconds a trace waits for a judge that answers nobody."),
    ] = 3600.0,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Stop when nothing is left to do.")] = False,
    *,
    models: ModelOptions,
) -> None:
    """Own a store: drain what applications captured, score it, deliver it. Stops cleanly on SIGTERM or Ctrl-C."""
    if not is_database_url(store) and not Path(store).absolute().parent.is_dir():
        raise StoreError(f"the folder of the store {store!r} does not exist")
    chair, named = models.models()
    chosen, lector = bind_reader(resolve_metrics(names_in(metrics)), lambda: reader_from(named, judge=chair))
    destinations = [sink_from(s) for s in sink or ()]
    owner = Worker(
        settled(store),
        metrics=chosen,
        judge=chair,
        sinks=destinations,
        concurrency=concurrency,
        deadline_s=deadline_s,
        outage_patience_s=outage_patience_s,
    )
    asyncio.run(_work(owner, chair, lector, destinations, f"owning {shown(store)}", until_idle=until_idle))


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
