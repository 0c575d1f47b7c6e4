"""HTTP routes that show whether a worker runs: `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ragstone.worker import _times

if TYPE_CHECKING:
    from aiohttp import web
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """What a worker is doing. The defaults are the state before the first worker."""

    owns_store: bool = False
    """Whether it has opened the store for writing."""
    since_poll_s: float = 0.0
    """Seconds since it last looked for work."""
    store_errors: tuple[str, ...] = ()
    """What it cannot do at present with the store or the spool, and why."""
    judge_error: str | None = None
    """Why judge or reader cannot be used at present. Requests stay pending meanwhile."""
    over_daily_budget: str | None = None
    """Why requests stay pending until the next day of UTC, or None."""

    @property
    def is_alive(self) -> bool:
        """Whether the event loop and the worker run."""
        return self.since_poll_s <= _times.ALIVE_S

    @property
    def is_ready(self) -> bool:
        """Whether captured requests are stored. A judge that is down does not change that."""
        return self.is_alive and self.owns_store and not self.store_errors


def add_health_routes(
    app: web.Application, state: Callable[[], WorkerState], registry: CollectorRegistry | None
) -> None:
    """Add the routes to an application.

    `/healthz` is 200 while the worker runs, else 503: restart it. `/readyz` is 200 while captured requests are stored,
    else 503. Both return the state as JSON, without captured text. `/metrics` is the page for Prometheus. `registry` is
    None if the extra `prometheus` is not installed.
    """
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        current = state()
        name, is_good = ("alive", current.is_alive) if request.path == "/healthz" else ("ready", current.is_ready)
        return web.json_response({name: is_good} | asdict(current), status=200 if is_good else 503)

    async def metrics(request: web.Request) -> web.Response:
        if registry is None:
            return web.Response(status=501, text="install the metrics with: pip install ragstone[prometheus]\n")
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    for path, handler in (("/healthz", answer), ("/readyz", answer), ("/metrics", metrics)):
        app.router.add_get(path, handler)
