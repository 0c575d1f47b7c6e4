"""Outcomes as Prometheus metrics, on a separate port or in the application's registry."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError, MissingExtraError, SinkUnavailableError
from ragstone.schema import Delivery, Ledger
from ragstone.sinks._protocol import StreamStatus

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry

    from ragstone.sinks._prometheus_families import Families

_PORT: Final = 9464
_HOST: Final = "127.0.0.1"
_BUCKETS: Final = tuple(tenths / 10 for tenths in range(1, 11))
_ADDRESS: Final = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\[\]:/@\s]+):)?(?P<port>\d{1,5})")


class PrometheusSink:
    """Exposes counts of outcomes and the store's ledger to Prometheus.

    The process that owns the store opens the port at the first outcome or ledger. Other processes of the same application
    do not open it. Sinks of one process with the same port share it.

    A repeated outcome is not counted twice if it is among the last 20,000. Counts of outcomes start at 0 in each process,
    as usual for Prometheus counters. Values from the ledger (`ragstone_captures_total`, `ragstone_sink_deliveries_total`
    and the gauges) are those of the store.

    Args:
        port: Port of `/metrics`. 0 selects a free port. None does not serve, and requires a `registry`.
        host: Address to listen on. Default: this machine only.
        registry: Registry for the metrics, such as the application's. Default: a separate registry.
        buckets: Upper bounds of the buckets of `ragstone_score`. Default: tenths up to 1. Values above the last bound
            count in the sum, but quantiles show only that they exceed it.
        max_apps: Maximum number of values of the labels `app` and `operation`, each. Further values share "other".
        operations: Add the label `operation`, the name of the trace (of a chain, a query engine or a block), to scores and
            outcomes.

    Raises:
        ConfigurationError: If the port or the buckets are invalid.
        MissingExtraError: If the extra `prometheus` is not installed.
    """

    def __init__(
        self,
        port: int | None = _PORT,
        host: str = _HOST,
        *,
        registry: CollectorRegistry | None = None,
        buckets: Sequence[float] = _BUCKETS,
        max_apps: int = 20,
        operations: bool = False,
    ) -> None:
        if port is None and registry is None:
            raise ConfigurationError(
                "a PrometheusSink without a port needs a registry that the application serves. Set registry= or port=."
            )
        if port is not None and not 0 <= port <= 65535:
            raise ConfigurationError(f"port must be from 0 to 65535, got {port!r}")
        if not buckets or list(buckets) != sorted(set(buckets)):
            raise ConfigurationError(f"buckets must be increasing numbers, got {list(buckets)!r}")
        self._name = "prometheus" if port is None else f"prometheus:{_in_address(host)}:{port}"
        self._page = _page(port, host, registry, buckets=tuple(buckets), max_apps=max_apps, operations=operations)
        self._page.users.add(id(self))
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = False) -> PrometheusSink:
        """Create the sink from the argument of `"prometheus"`, `"prometheus:PORT"` or `"prometheus:HOST:PORT"`.

        Raises:
            ConfigurationError: If the address is invalid, or text is requested, which metrics cannot contain.
            MissingExtraError: If the extra `prometheus` is not installed.
        """
        if include_text:
            raise ConfigurationError("the sink 'prometheus' does not support +text. Write 'prometheus:PORT'.")
        match = _ADDRESS.fullmatch(argument or str(_PORT))
        if match is None or int(match["port"]) > 65535:
            raise ConfigurationError(
                f"the sink 'prometheus' needs a port. Write 'prometheus:{_PORT}' or 'prometheus:HOST:PORT'."
            )
        return cls(int(match["port"]), (match["host"] or _HOST).strip("[]"))

    @property
    def name(self) -> str:
        """Name of the sink: `prometheus:` with the address, or `prometheus` without a port."""
        return self._name

    @property
    def port(self) -> int | None:
        """The open port, or None."""
        return self._page.port

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Count the new outcomes of `batch`.

        Raises:
            SinkUnavailableError: If the port cannot be opened or the sink is closed.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        self._page.serve()
        self.count(batch)

    def count(self, batch: Iterable[Delivery]) -> None:
        """Count the new outcomes of `batch`, except backfilled ones, without opening the port."""
        for delivery in batch:
            # Its request is of another time than the scrape.
            if not delivery.is_backfilled:
                self._page.families.count(delivery)

    def update_status(self, ledger: Ledger) -> None:
        """Expose the current ledger."""
        if self._closed:
            return
        self._page.families.ledgers.put(id(self), (ledger, time.monotonic()))
        try:
            self._page.serve()
        except SinkUnavailableError:
            # The next delivery raises the same error, which the worker stores and logs.
            return

    def update_streams(self, streams: Sequence[StreamStatus]) -> None:
        """Expose the watched streams."""
        if not self._closed:
            self._page.families.streams.put(id(self), streams)

    async def aclose(self) -> None:
        """Close the port, unless another sink of this process uses it."""
        if not self._closed:
            self._closed = True
            self._page.leave(id(self))


class _Page:
    """The metrics, and the server that serves them (optional)."""

    _registry: CollectorRegistry
    _server: WSGIServer | None
    _thread: threading.Thread | None

    def __init__(
        self,
        port: int | None,
        host: str,
        registry: CollectorRegistry | None,
        *,
        buckets: tuple[float, ...],
        max_apps: int,
        operations: bool,
    ) -> None:
        self.requested_port, self.host, self._external_registry = port, host, registry
        self._buckets, self._max_apps, self._operations = buckets, max_apps, operations
        self.users: set[int] = set()
        self._reset()
        after_fork_in_child(self._after_fork)

    @property
    def port(self) -> int | None:
        """The open port, or None."""
        return None if self._server is None else self._server.server_port

    def serve(self) -> None:
        """Open the port if one is set and not yet open."""
        from prometheus_client import start_http_server

        with self._lock:
            if self.requested_port is None or self._server is not None:
                return
            try:
                self._server, self._thread = start_http_server(self.requested_port, self.host, self._registry)
            except OSError as error:
                raise SinkUnavailableError(
                    f"cannot listen on {self.host}:{self.requested_port} ({error.strerror or error}). If another program uses "
                    "this port, choose another: 'prometheus:PORT'."
                ) from error

    def leave(self, user: int) -> None:
        """Remove a user, and close the port if it was the last."""
        with self._lock:
            self.users.discard(user)
            self.families.ledgers.remove(user)
            self.families.streams.remove(user)
            if self.users:
                return
            for key in [key for key, page in _pages.items() if page is self]:
                del _pages[key]
            self.families.unregister(self._registry)
            server, thread = self._server, self._thread
            self._server = self._thread = None
        if server is not None and thread is not None:
            server.shutdown()
            server.server_close()
            thread.join()

    def _reset(self) -> None:
        from prometheus_client import CollectorRegistry

        from ragstone.sinks._prometheus_families import Families

        self._lock = threading.Lock()
        self._server = self._thread = None
        self._registry = CollectorRegistry() if self._external_registry is None else self._external_registry
        self.families: Families = Families(
            self._registry, buckets=self._buckets, max_apps=self._max_apps, operations=self._operations
        )

    def _after_fork(self) -> None:
        """Reset the child process: it does not have the server's thread, and the parent may have held locks."""
        if self._server is not None:
            self._server.socket.close()
        if self._external_registry is None:
            self._reset()
        else:
            # The metrics stay in the application's registry, where they cannot be registered twice.
            self._lock = threading.Lock()
            self._server = self._thread = None


_pages: Final[dict[object, _Page]] = {}
"""Pages of this process, by address or by the application's registry."""


def _page(port: int | None, host: str, registry: CollectorRegistry | None, **settings: Any) -> _Page:
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            feature="the sink 'prometheus'", package="prometheus-client", extra="ragstone[prometheus]"
        ) from error
    key: object = (host, port) if registry is None else registry
    page = _pages.get(key)
    if page is None:
        page = _Page(port, host, registry, **settings)
        if port != 0:  # sinks with a free port do not share it
            _pages[key] = page
    elif (page.requested_port, page.host) != (port, host):
        raise ConfigurationError(
            f"this registry is already served on port {page.requested_port!r} of {page.host!r} by another PrometheusSink"
        )
    return page


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
