"""Outcomes as Prometheus metrics, on a port of their own or in the application's registry."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError, MissingExtraError, SinkUnavailableError
from ragstone.schema import Delivery, Ledger

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry

    from ragstone.sinks._prometheus_families import Families

__all__ = ["PrometheusSink"]

_PORT: Final = 9464
_HOST: Final = "127.0.0.1"
_BUCKETS: Final = tuple(tenths / 10 for tenths in range(1, 11))
_ADDRESS: Final = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\[\]:/@\s]+):)?(?P<port>\d{1,5})")


class PrometheusSink:
    """Counts outcomes, and shows them and the books of the store to Prometheus.

    The port is opened when the first outcome or ledger comes, by the process that owns the store: other processes of the
    same application do not need it. Sinks of one process that name the same port share it.

    An outcome that comes again is not counted again, as long as it is among the last 20,000. Counts of outcomes begin
    anew with each process, as counters of Prometheus do; what comes from the books (`ragstone_captures_total`,
    `ragstone_sink_deliveries_total`, the gauges) is the store's.

    Args:
        port: Where `/metrics` is served; 0 takes a free one. None serves nothing, which needs a `registry`.
        host: The address to listen on: this machine only, unless you say otherwise.
        registry: Where to put the metrics, such as your application's; by default a registry of its own, which leaves
            the application's alone.
        buckets: Upper bounds of the buckets of `ragstone_score`: by default tenths up to 1. Values beyond the last bound
            count in full in the sum, and only as "more" in a quantile.
        max_apps: So many names of traces become values of the label `app`; the rest share "other".

    Raises:
        ConfigurationError: The port or the buckets cannot work.
        MissingExtraError: The extra `prometheus` is not installed.
    """

    def __init__(
        self,
        port: int | None = _PORT,
        host: str = _HOST,
        *,
        registry: CollectorRegistry | None = None,
        buckets: Sequence[float] = _BUCKETS,
        max_apps: int = 20,
    ) -> None:
        if port is None and registry is None:
            raise ConfigurationError(
                "a PrometheusSink without a port needs a registry that somebody else serves: give registry= or port="
            )
        if port is not None and not 0 <= port <= 65535:
            raise ConfigurationError(f"port must be from 0 to 65535, got {port!r}")
        if not buckets or list(buckets) != sorted(set(buckets)):
            raise ConfigurationError(f"buckets must be numbers that grow, got {list(buckets)!r}")
        self._name = "prometheus" if port is None else f"prometheus:{_in_address(host)}:{port}"
        self._page = _page(port, host, registry, buckets=tuple(buckets), max_apps=max_apps)
        self._page.users.add(id(self))
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = False) -> PrometheusSink:
        """Make the sink of `"prometheus"`, `"prometheus:PORT"` or `"prometheus:HOST:PORT"` from its part after the colon.

        Raises:
            ConfigurationError: That is no address, or text is asked for, which has no place in metrics.
            MissingExtraError: The extra `prometheus` is not installed.
        """
        if include_text:
            raise ConfigurationError("the sink 'prometheus' has no place for text; write 'prometheus:PORT'")
        found = _ADDRESS.fullmatch(argument or str(_PORT))
        if found is None or int(found["port"]) > 65535:
            raise ConfigurationError(
                f"the sink 'prometheus' listens on a port: write 'prometheus:{_PORT}' or 'prometheus:HOST:PORT'"
            )
        return cls(int(found["port"]), (found["host"] or _HOST).strip("[]"))

    @property
    def name(self) -> str:
        """`prometheus:` with the address; `prometheus` alone where another's registry is used."""
        return self._name

    @property
    def port(self) -> int | None:
        """The port that is open; None while none is."""
        return self._page.port

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Count what is new in `batch`.

        Raises:
            SinkUnavailableError: The port cannot be opened now, or the sink is closed.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        self._page.serve()
        for delivery in batch:
            self._page.families.count(delivery)

    def update_status(self, ledger: Ledger) -> None:
        """Show the books of this moment."""
        if self._closed:
            return
        self._page.families.ledgers.put(id(self), ledger)
        try:
            self._page.serve()
        except SinkUnavailableError:
            # The next delivery says so, where it is noted and logged.
            return

    async def aclose(self) -> None:
        """Close the port, unless another sink of this process uses it."""
        if not self._closed:
            self._closed = True
            self._page.leave(id(self))


class _Page:
    """Metrics and the server that shows them, if there is one."""

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
    ) -> None:
        self.asked_port, self.host, self._given = port, host, registry
        self._buckets, self._max_apps = buckets, max_apps
        self.users: set[int] = set()
        self._start_anew()
        after_fork_in_child(self._after_fork)

    @property
    def port(self) -> int | None:
        """The port that is open."""
        return None if self._server is None else self._server.server_port

    def serve(self) -> None:
        """Open the port, if it is to be open and is not."""
        from prometheus_client import start_http_server

        with self._lock:
            if self.asked_port is None or self._server is not None:
                return
            try:
                self._server, self._thread = start_http_server(self.asked_port, self.host, self._registry)
            except OSError as error:
                raise SinkUnavailableError(
                    f"cannot listen on {self.host}:{self.asked_port} ({error.strerror or error}); another program may use "
                    "it: choose another port, 'prometheus:PORT'"
                ) from error

    def leave(self, user: int) -> None:
        """Close the port after the last user."""
        with self._lock:
            self.users.discard(user)
            self.families.ledgers.remove(user)
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

    def _start_anew(self) -> None:
        from prometheus_client import CollectorRegistry

        from ragstone.sinks._prometheus_families import Families

        self._lock = threading.Lock()
        self._server = self._thread = None
        self._registry = CollectorRegistry() if self._given is None else self._given
        self.families: Families = Families(self._registry, buckets=self._buckets, max_apps=self._max_apps)

    def _after_fork(self) -> None:
        """In a child nobody answers on the port, and threads of the parent may have held locks."""
        if self._server is not None:
            self._server.socket.close()
        if self._given is None:
            self._start_anew()
        else:
            # What is in another's registry cannot be put there twice.
            self._lock = threading.Lock()
            self._server = self._thread = None


_pages: Final[dict[object, _Page]] = {}
"""Of this process: by address, or by the registry that was given."""


def _page(
    port: int | None, host: str, registry: CollectorRegistry | None, *, buckets: tuple[float, ...], max_apps: int
) -> _Page:
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            feature="the sink 'prometheus'", package="prometheus-client", extra="ragstone[prometheus]"
        ) from error
    key: object = (host, port) if registry is None else registry
    page = _pages.get(key)
    if page is None:
        page = _Page(port, host, registry, buckets=buckets, max_apps=max_apps)
        if port != 0:  # each that asks for a free port gets one
            _pages[key] = page
    elif (page.asked_port, page.host) != (port, host):
        raise ConfigurationError(
            f"this registry is already served on port {page.asked_port!r} of {page.host!r} by another PrometheusSink"
        )
    return page


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
