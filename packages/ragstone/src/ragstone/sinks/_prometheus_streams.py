"""The watched streams as Prometheus gauges."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ragstone.sinks._protocol import StreamStatus

_LABELS = ["app", "metric", "kind"]


class StreamCollector(Collector):
    """The streams of one or several stores, at each scrape.

    Args:
        metric: Limits the values of the label `metric`.
        app: Limits the values of the label `app`.
    """

    def __init__(self, metric: Callable[[str], str], app: Callable[[str], str]) -> None:
        self._metric, self._app = metric, app
        self._lock = threading.Lock()
        self._streams: dict[int, Sequence[StreamStatus]] = {}

    def put(self, key: int, streams: Sequence[StreamStatus]) -> None:
        """Set the newest streams of a store."""
        with self._lock:
            self._streams[key] = streams

    def remove(self, key: int) -> None:
        """Remove the streams of a store."""
        with self._lock:
            self._streams.pop(key, None)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return nothing: the families depend on the streams."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield all current families."""
        with self._lock:
            streams = [stream for store in self._streams.values() for stream in store]
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
            gauge = GaugeMetricFamily(f"ragstone_watch_{name}", text, labels=_LABELS)
            for labels, stream in by_label.items():
                value = read(stream)
                if value is not None:
                    gauge.add_metric(labels, value)
            yield gauge
        alarms = CounterMetricFamily("ragstone_watch_alarms", "Alarms raised.", labels=_LABELS)
        for labels, stream in by_label.items():
            alarms.add_metric(labels, stream.n_alarms)
        yield alarms
