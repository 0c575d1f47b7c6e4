"""Outcomes as Prometheus metrics, in a registry that the application serves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ragstone._util.fork import NoFork
from ragstone.errors import ConfigurationError, SinkUnavailableError
from ragstone.schema import Delivery, Ledger
from ragstone.sinks._protocol import StreamStatus

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ragstone.sinks._prometheus_families import Families

_BUCKETS: Final = tuple(tenths / 10 for tenths in range(1, 11))


class PrometheusSink:
    """Adds counts of outcomes and the store's ledger to a registry, which the application serves.

    The sink does not open a port. `ragstone worker --listen` and `ragstone ingest` serve the same metrics without it.

    Outcomes are counted in the process that owns the store. A repeated outcome is not counted twice if it is among the
    last 20,000. Counts of outcomes start at 0 in each process, as usual for Prometheus counters. Values from the ledger
    (`ragstone_captures_total`, `ragstone_sink_deliveries_total` and the gauges) are those of the store. Sinks with the
    same registry share the metrics, with the options of the first sink.

    Args:
        registry: Registry of prometheus-client, such as its `REGISTRY`.
        buckets: Upper bounds of the buckets of `ragstone_score`. Default: tenths up to 1. Values above the last bound
            count in the sum, but quantiles show only that they exceed it.
        max_apps: Maximum number of values of the labels `app` and `operation`, each. Further values share "other".
        operations: Add the label `operation`, the name of the trace (of a chain, a query engine or a block), to scores
            and outcomes.

    Raises:
        ConfigurationError: If the buckets are not increasing numbers.
    """

    name = "prometheus"

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        buckets: Sequence[float] = _BUCKETS,
        max_apps: int = 20,
        operations: bool = False,
    ) -> None:
        if not buckets or list(buckets) != sorted(set(buckets)):
            raise ConfigurationError(f"buckets must be increasing numbers, got {list(buckets)!r}")
        from ragstone.sinks._prometheus_families import Families

        self._registry = registry
        self._closed = False
        with _sharing:
            if registry not in _families:
                _families[registry] = Families(registry, buckets=buckets, max_apps=max_apps, operations=operations)
            self._shared = _families[registry]
            self._shared.users.add(id(self))

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Count the new outcomes of `batch`.

        Raises:
            SinkUnavailableError: If the sink is closed.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        self.count(batch)

    def count(self, batch: Iterable[Delivery]) -> None:
        """Count the new outcomes of `batch`, except backfilled ones."""
        for delivery in batch:
            # Its request is of another time than the scrape.
            if not delivery.is_backfilled:
                self._shared.count(delivery)

    def update_status(self, ledger: Ledger) -> None:
        """Expose the current ledger."""
        if not self._closed:
            self._shared.ledgers.put(id(self), (ledger, time.monotonic()))

    def update_streams(self, streams: Sequence[StreamStatus]) -> None:
        """Expose the watched streams."""
        if not self._closed:
            self._shared.streams.put(id(self), streams)

    async def aclose(self) -> None:
        """Remove the metrics from the registry, unless another sink uses them."""
        if self._closed:
            return
        self._closed = True
        with _sharing:
            self._shared.leave(id(self))
            if not self._shared.users:
                del _families[self._registry]
                self._shared.unregister(self._registry)


_sharing: Final = NoFork()
_families: Final[dict[CollectorRegistry, Families]] = {}
"""Metrics of this process, by registry."""
