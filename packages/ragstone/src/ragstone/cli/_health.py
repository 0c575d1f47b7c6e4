"""Health checks, metrics and the watchdog of commands that run unattended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ragstone._util.http_server import HttpServer
from ragstone._util.systemd import notify, watchdog_interval_s
from ragstone.cli._logs import announce
from ragstone.schema import Delivery, Outcome, Trace
from ragstone.sinks import PrometheusSink
from ragstone.worker import ScoringSetup, Worker, WorkerState, add_health_routes

if TYPE_CHECKING:
    from aiohttp import web
    from prometheus_client import CollectorRegistry


class HealthPage:
    """`/healthz`, `/readyz`, and `/metrics` with the metrics of `PrometheusSink`, from the start of the command."""

    def __init__(self, host: str = "", port: int = 0) -> None:
        self._host, self._port = host, port
        self._registry: CollectorRegistry | None = None
        self._sinks: list[PrometheusSink] = []
        with suppress(ImportError):
            from prometheus_client import CollectorRegistry, ProcessCollector

            self._registry = CollectorRegistry()
            ProcessCollector(registry=self._registry)
            self._sinks = [PrometheusSink(self._registry)]

    def count(self, trace: Trace, outcomes: Sequence[Outcome]) -> None:
        """Count outcomes for `/metrics`, when they are stored."""
        for sink in self._sinks:
            sink.count(
                Delivery(
                    outcome=outcome,
                    trace_id=trace.trace_id,
                    otel_trace_id=trace.otel_trace_id,
                    otel_sampled=trace.otel_sampled,
                    app=trace.app,
                    name=trace.name,
                )
                for outcome in outcomes
            )

    def follow(self, worker: Worker) -> None:
        """Show on `/metrics` what a worker stores."""
        worker.on_outcomes = lambda trace, outcomes, _last: self.count(trace, outcomes)
        worker.status_sinks += self._sinks

    def add_to(self, app: web.Application, state: Callable[[], WorkerState]) -> None:
        """Add the routes to another server."""
        add_health_routes(app, state, self._registry)

    @asynccontextmanager
    async def serve(self, state: Callable[[], WorkerState]) -> AsyncIterator[str]:
        """Serve the routes, and yield the base URL."""
        from aiohttp import web

        app = web.Application(client_max_size=1024)
        self.add_to(app, state)
        server = HttpServer(app, host=self._host, port=self._port, title="ragstone worker")
        await server.start()
        try:
            yield server.url
        finally:
            await server.aclose()


def announce_ready(activity: str, setup: ScoringSetup) -> None:
    """Say what a service has begun to do and with which judge, also to systemd."""
    judge = f", judge {setup.judge.identity.name}" if "judge.url" in setup.plan else ""
    announce(f"{activity}{judge}")
    notify("READY=1")


@asynccontextmanager
async def watchdog(state: Callable[[], WorkerState]) -> AsyncIterator[None]:
    """Report to systemd's watchdog that the worker is alive, if the unit has one."""
    interval_s = watchdog_interval_s()
    if interval_s is None:
        yield
        return

    async def report() -> None:
        while True:
            if state().is_alive:
                notify("WATCHDOG=1")
            await asyncio.sleep(interval_s)

    reporting = asyncio.create_task(report())
    try:
        yield
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
