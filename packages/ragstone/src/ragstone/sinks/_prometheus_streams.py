"""Prometheus families of what several stores publish, and the watched streams as gauges."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ragstone.sinks._protocol import StreamStatus

_LABELS = ("app", "metric", "kind")
_T = TypeVar("_T")
_Key = TypeVar("_Key", bound=tuple[str, ...])
_Family = TypeVar("_Family", CounterMetricFamily, GaugeMetricFamily)


def make_family(
    kind: type[_Family], name: str, text: str, labels: Sequence[str], values: Mapping[_Key, float]
) -> _Family:
    """Make a family from its values by the values of its labels."""
    family = kind(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


class StoreCollector(Collector, Generic[_T]):
    """What one or several stores publish, at each scrape."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._published: dict[int, _T] = {}

    def put(self, key: int, published: _T) -> None:
        """Set what a store publishes now."""
        with self._lock:
            self._published[key] = published

    def remove(self, key: int) -> None:
        """Remove a store."""
        with self._lock:
            self._published.pop(key, None)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return nothing: the families depend on what is published."""
        return ()


class StreamCollector(StoreCollector[Sequence[StreamStatus]]):
    """The streams of one or several stores, at each scrape. `metric` and `app` limit the values of these labels."""

    def __init__(self, metric: Callable[[str], str], app: Callable[[str], str]) -> None:
        super().__init__()
        self._metric, self._app = metric, app

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield all current families."""
        with self._lock:
            streams = [stream for store in self._published.values() for stream in store]
        # Several applications can share the label "other": the first one counts.
        by_label: dict[tuple[str, str, str], StreamStatus] = {}
        for stream in streams:
            by_label.setdefault((self._app(stream.app), self._metric(stream.metric), stream.kind), stream)
        if not by_label:
            return
        gauges: list[tuple[str, str, Callable[[StreamStatus], float | None]]] = [
            ("mean", "Mean of the last 24 hours, or share of failures.", lambda s: s.mean),
            ("low", "Lower end of the 95% confidence interval of the mean.", lambda s: s.low),
            ("high", "Upper end of the 95% confidence interval of the mean.", lambda s: s.high),
            ("reference", "Acceptable mean.", lambda s: s.reference),
            ("evidence", "Evidence of a change for the worse. 1 raises an alarm.", lambda s: s.evidence),
            ("learning", "1 while the baseline is learned.", lambda s: float(s.is_learning)),
            ("alarm", "1 while an alarm is open.", lambda s: float(s.has_alarm)),
        ]
        for name, text, read in gauges:
            values = {key: value for key, stream in by_label.items() if (value := read(stream)) is not None}
            yield make_family(GaugeMetricFamily, f"ragstone_watch_{name}", text, _LABELS, values)
        counts = {key: stream.n_alarms for key, stream in by_label.items()}
        yield make_family(CounterMetricFamily, "ragstone_watch_alarms", "Alarms raised.", _LABELS, counts)
