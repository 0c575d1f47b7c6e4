"""`ragstone ingest`: receive spans of any instrumented application, score the requests in them, deliver the scores."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.capture import redact_secrets
from ragstone.cli._models import ModelOptions, takes_models
from ragstone.cli._options import (
    ConcurrencyOption,
    DeadlineOption,
    MetricsOption,
    NoRedactOption,
    SinkOption,
    parse_names,
)
from ragstone.cli._panels import LIMITS
from ragstone.errors import ConfigurationError, JudgeError, StoreError, StoreOwnedError
from ragstone.store import is_database_url
from ragstone.worker import ScoringSetup, Worker, spool_directory

if TYPE_CHECKING:
    from ragstone.ingest import OtlpReceiver

__all__ = ["ingest_command"]

_RETRY_S = 5.0


@takes_models
def ingest_command(
    store: Annotated[str, typer.Argument(help="Where requests and scores are kept.")],
    listen: Annotated[
        str, typer.Option("--listen", help="HOST:PORT to listen at for OTLP over HTTP.")
    ] = "127.0.0.1:4318",
    metrics: MetricsOption = "ccrs",
    sink: SinkOption = None,
    idle_timeout_s: Annotated[
        float,
        typer.Option(
            "--idle-timeout", min=0, help="Seconds without a new span after which a trace with its root is whole."
        ),
    ] = 10.0,
    rootless_timeout_s: Annotated[
        float, typer.Option("--rootless-timeout", min=0, help="Seconds without a new span after which any trace is.")
    ] = 300.0,
    concurrency: ConcurrencyOption = 16,
    deadline_s: DeadlineOption = 120.0,
    max_outage_s: Annotated[
        float,
        typer.Option(
            "--max-outage",
            min=0,
            rich_help_panel=LIMITS,
            help="Seconds a trace waits for a judge that answers nobody.",
        ),
    ] = 3600.0,
    no_redact: NoRedactOption = False,
    *,
    models: ModelOptions,
) -> None:
    """Receive OTLP/HTTP from any instrumented application, in any language; stops cleanly on SIGTERM or Ctrl-C."""
    # A server that no other command needs.
    from ragstone.ingest import OtlpReceiver, OtlpTraceSource, SharedSpanBuffer

    host, port = _address(listen)
    judge, reader = models.models()
    setup = ScoringSetup(
        parse_names(metrics),
        judge=judge,
        reader=reader,
        sinks=sink or (),
        concurrency=concurrency,
        deadline_s=deadline_s,
        closes_models=True,
    )
    stage = SharedSpanBuffer(_stage_path(store))
    intake = OtlpTraceSource(stage, idle_timeout_s=idle_timeout_s, rootless_timeout_s=rootless_timeout_s)
    try:
        asyncio.run(
            _serve(
                OtlpReceiver(stage, host=host, port=port, redact=None if no_redact else redact_secrets),
                setup,
                lambda: Worker(store, setup, intakes=[intake], max_outage_s=max_outage_s),
            )
        )
    finally:
        stage.close()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(f"--listen must be HOST:PORT, such as 127.0.0.1:4318, got {text!r}")
    return host.strip("[]"), int(port)


def _stage_path(store: str) -> Path:
    if is_database_url(store):
        folder = spool_directory(store)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / "spans.db"
    path = Path(store).absolute()
    if not path.parent.is_dir():
        raise StoreError(f"the folder of the store {store!r} does not exist")
    return path.with_name(path.name + ".spans")


async def _serve(receiver: OtlpReceiver, setup: ScoringSetup, make_worker: Callable[[], Worker]) -> None:
    stopping = asyncio.Event()
    workers: list[Worker] = []

    def stop() -> None:
        stopping.set()
        for worker in workers:
            worker.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    await receiver.start()
    typer.echo(f"listening at {receiver.url}/v1/traces, judge {setup.judge.identity.name}", err=True)
    try:
        while not stopping.is_set():
            workers[:] = [make_worker()]
            try:
                await workers[0].run()
            except (JudgeError, StoreOwnedError) as error:
                # Spans are kept meanwhile; who is not there now may come.
                typer.echo(f"cannot score now, spans are kept: {error}; trying again in {_RETRY_S:.0f} s", err=True)
                with_in = asyncio.create_task(stopping.wait())
                await asyncio.wait([with_in], timeout=_RETRY_S)
                with_in.cancel()
    finally:
        await receiver.aclose()
        await setup.aclose()
