"""`ragstone ingest`: receive spans from instrumented applications, score their requests, deliver the scores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragstone._util.listener import default_max_connections
from ragstone._util.signals import stopped_by_signals
from ragstone._util.waiting import wait_up_to
from ragstone.capture import Capture, redact_secrets
from ragstone.cli._health import HealthPage, announce_ready, watchdog
from ragstone.cli._logs import announce
from ragstone.cli._models import models_for_store, setup_options, worker_options
from ragstone.cli._options import parse_address, parse_retriever_tools, resolve_new_store
from ragstone.cli._settings import settings_of
from ragstone.errors import JudgeError, StoreOwnedError, StoreUnavailableError
from ragstone.spool import SpoolWriter
from ragstone.store import is_database_url
from ragstone.worker import ScoringSetup, StorePlan, Worker, WorkerState, claim_spool, id_hasher, spool_directory

if TYPE_CHECKING:
    from aiohttp import web

    from ragstone.ingest import OtlpGrpcReceiver, OtlpReceiver

_RETRY_S = 5.0
_OPEN = "none"
"""Value of `--token` with which no token is needed."""


def ingest_command(
    store: str,
    *,
    listen: str = "127.0.0.1:4318",
    listen_grpc: str | None = None,
    replan: bool = False,
    retriever_tool: list[str] | None = None,
    no_retriever_tool: list[str] | None = None,
    token: str | None = None,
    allow_host: list[str] | None = None,
    context: typer.Context,
) -> None:
    """Receive OTLP from applications, and score their requests.

    SIGTERM or Ctrl-C stops it cleanly.

    Options:
        store: The store: a file or postgresql://...
        listen_grpc (HOST:PORT): Receive OTLP over gRPC too, such as at 127.0.0.1:4317.
        token ($RAGSTONE_INGEST_TOKEN): Text that exporters must send, at least 16 characters. none: a proxy controls access.
        allow_host (NAME): Name of this server, for example behind a proxy. Repeatable.
    """
    # Imported here, because no other command needs the server.
    from ragstone.ingest import Access, FeedbackRoute, OtlpGrpcReceiver, OtlpReceiver, OtlpTraceSource, SharedSpanBuffer

    host, port = parse_address(listen)
    grpc_address = None if listen_grpc is None else parse_address(listen_grpc, "--listen-grpc")
    is_open = token == _OPEN
    access = Access(None if is_open else token, allow_host or ())
    if not is_open:
        access.check_address(host, "--listen")
        if grpc_address is not None:
            access.check_address(grpc_address[0], "--listen-grpc")
    health = HealthPage()
    # What can be refused comes before the first file is created, and before the store is read.
    retriever_tools = parse_retriever_tools(retriever_tool, no_retriever_tool)
    buffer_path = _buffer_path(store)
    hash_id = id_hasher(store, settings_of(context).redaction.ids)
    spool = claim_spool(store)  # that of the store, which the worker below reads
    try:
        plan = StorePlan.read(store, replan=replan)
    except StoreUnavailableError:
        plan = StorePlan(store=store, plan=None, replan=replan)  # spans are received while the database is down
    names, models = models_for_store(context, plan)
    settings, receiver = models.settings, models.settings.receiver
    setup = ScoringSetup(names, **setup_options(models))
    plan.check(setup)
    buffer = SharedSpanBuffer(buffer_path)
    redact = redact_secrets if settings.redaction.redact else None
    source = OtlpTraceSource(
        buffer,
        idle_timeout_s=receiver.idle_timeout_s,
        rootless_timeout_s=receiver.rootless_timeout_s,
        retriever_tools=retriever_tools,
        redact=redact,
        hash_id=hash_id,
    )
    workers: list[Worker] = []
    """The current worker, or none before the first."""
    waits_for: list[str] = []
    """Why no worker runs now."""

    def make_worker() -> Worker:
        worker = Worker(store, setup, intakes=[source], **worker_options(settings), replan=replan)
        health.follow(worker)
        workers[:] = [worker]
        return worker

    def state() -> WorkerState:
        current = workers[0].state if workers else WorkerState()
        return replace(current, store_errors=(*current.store_errors, *waits_for))

    feedback = Capture(partial(SpoolWriter, spool), durability="sync", redact=redact)

    def add_routes(app: web.Application) -> None:
        health.add_to(app, state)
        FeedbackRoute(feedback).add_to(app)

    shared: dict[str, Any] = {
        "redact": redact,
        "access": access,
        "max_bytes": receiver.max_message_mib * 2**20,
        "max_connections": None if grpc_address is None else default_max_connections(4),
    }
    try:
        receivers: list[OtlpReceiver | OtlpGrpcReceiver] = [
            OtlpReceiver(buffer, host=host, port=port, add_routes=add_routes, **shared)
        ]
        if grpc_address is not None:
            receivers.append(OtlpGrpcReceiver(buffer, host=grpc_address[0], port=grpc_address[1], **shared))
        asyncio.run(_serve(receivers, setup, make_worker, state, waits_for))
    finally:
        feedback.close()
        buffer.close()


def _buffer_path(store: str) -> Path:
    if is_database_url(store):
        directory = spool_directory(store)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return directory / "spans.db"
    path = Path(resolve_new_store(store))
    return path.with_name(path.name + ".spans")


async def _serve(
    receivers: Sequence[OtlpReceiver | OtlpGrpcReceiver],
    setup: ScoringSetup,
    make_worker: Callable[[], Worker],
    state: Callable[[], WorkerState],
    waits_for: list[str],
) -> None:
    """Receive spans until the process is stopped, and score them while store and judge are available."""
    stopping = asyncio.Event()
    worker: Worker | None = None

    def stop() -> None:
        stopping.set()
        if worker is not None:
            worker.stop()

    with stopped_by_signals(asyncio.get_running_loop(), stop):
        try:
            for receiver in receivers:
                await receiver.start()
            places = " and ".join(
                [f"{receivers[0].url}/v1/traces", *(f"{other.url} (gRPC)" for other in receivers[1:])]
            )
            announce_ready(f"listening at {places}", setup)
            async with watchdog(state):
                while not stopping.is_set():
                    worker = make_worker()
                    try:
                        await worker.run(on_owned=waits_for.clear)
                    except (JudgeError, StoreOwnedError, StoreUnavailableError) as error:
                        # The receiver keeps spans until the judge or the database is available, or the store's other
                        # owner has stopped.
                        if [str(error)] != waits_for:
                            announce(f"cannot score now, spans are kept: {error} (next attempt in {_RETRY_S:.0f} s)")
                        if not isinstance(error, JudgeError):
                            waits_for[:] = [str(error)]
                        await wait_up_to(_RETRY_S, stopping.wait())
        finally:
            for receiver in receivers:
                await receiver.aclose()
            await setup.aclose()
