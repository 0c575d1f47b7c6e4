"""Prometheus metric families: counts of delivered outcomes, and the current ledgers."""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from ragstone._util.ascii import without_controls
from ragstone.errors import ConfigurationError
from ragstone.judges import LEAST_RATINGS, RatingRange, check_outcome
from ragstone.metrics import resolve_metrics
from ragstone.schema import Delivery, DeliveryCounts, Ledger, Score, Usage
from ragstone.sinks._prometheus_streams import StoreCollector, StreamCollector, make_family
from ragstone.sinks._row import remember, shorten_name

_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_SEEN_MAX_IDS: Final = 20_000
_LABEL_MAX_CHARS: Final = 100
_EXEMPLAR_MAX_CHARS: Final = 100
"""OpenMetrics allows 128 characters for names and values of an exemplar together."""
_LEDGER_MAX_AGE_S: Final = 300.0
"""Age from which a ledger is unknown and not shown, so that an outage of the store is an alert."""
_METRICS_MAX: Final = 200
_MODELS_MAX: Final = 20
_REASONS_MAX: Final = 20
_CAUSES_MAX: Final = 20


class Families:
    """Ragstone's metrics in one registry."""

    def __init__(
        self, registry: CollectorRegistry, *, buckets: Sequence[float], max_apps: int, operations: bool
    ) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, None] = {}
        self._ratings: dict[str, RatingRange] = {}
        """Ratings by judge."""
        self.users: set[int] = set()
        """Ids of the sinks that use the metrics."""
        self._metric = _Bounded(_METRICS_MAX)
        self._app = _Bounded(max_apps)
        self._operation = _Bounded(max_apps) if operations else None
        labels = ["metric", "app", *(["operation"] if operations else [])]
        self._model = _Bounded(_MODELS_MAX)
        self._cause = _Bounded(_CAUSES_MAX)
        self._score = Histogram("ragstone_score", "Scores, by metric.", labels, buckets=buckets, registry=registry)
        self._outcomes = Counter(
            "ragstone_outcomes", "Outcomes: score, not_applicable or failure.", [*labels, "outcome"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "ragstone_judge_duration_seconds", "Duration of one metric for one request.", ["metric", "outcome"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._tokens = Counter(
            "ragstone_judge_tokens", "Input and output tokens of judges.", ["model", "direction"],
            registry=registry,
        )  # fmt: skip
        self._causes = Counter(
            "ragstone_causes", "Wrong or unscored answers, by the step that failed first.", ["app", "cause"],
            registry=registry,
        )  # fmt: skip
        self._checks = Counter(
            "ragstone_doubtful_outcomes", "Outcomes that may not measure what they state, by reason.",
            ["metric", "check"], registry=registry,
        )  # fmt: skip
        self.ledgers = LedgerCollector()
        registry.register(self.ledgers)
        self.streams = StreamCollector(self._metric, self._app)
        registry.register(self.streams)

    def count(self, delivery: Delivery) -> None:
        """Count an outcome unless it is among the last 20,000 counted."""
        outcome = delivery.outcome
        with self._lock:
            if outcome.id in self._seen:
                return
            remember(self._seen, [outcome.id], _SEEN_MAX_IDS)
            metric = self._metric(outcome.metric)
            app = self._app(delivery.app or "")
            labels = [metric, app]
            if self._operation is not None:
                labels.append(self._operation(delivery.name or ""))
            model = self._model(outcome.judge or "")
            checks = check_outcome(outcome)
            if isinstance(outcome, Score) and RatingRange.is_rating(outcome.method, outcome.judge):
                ratings = self._ratings.setdefault(model, RatingRange())
                ratings.add(outcome.value)
                if ratings.n >= LEAST_RATINGS and (doubt := ratings.check()):
                    checks.append(doubt)
            cause = None if delivery.cause is None else self._cause(delivery.cause.name)
        if cause is not None:
            self._causes.labels(app, cause).inc()
        for check in checks:
            self._checks.labels(metric, check).inc()
        self._outcomes.labels(*labels, outcome.outcome).inc()
        if isinstance(outcome, Score):
            self._score.labels(*labels).observe(outcome.value, _exemplar(delivery))
        if outcome.duration_s is not None:
            self._seconds.labels(metric, outcome.outcome).observe(outcome.duration_s)
        if outcome.usage is not None:
            self._tokens.labels(model, "input").inc(outcome.usage.input_tokens)
            self._tokens.labels(model, "output").inc(outcome.usage.output_tokens)
        if metric == _clean(outcome.metric):
            self.ledgers.note_metric(metric, outcome.metric_version, model)

    def leave(self, user: int) -> None:
        """Remove a sink, and what it publishes."""
        self.users.discard(user)
        self.ledgers.remove(user)
        self.streams.remove(user)

    def unregister(self, registry: CollectorRegistry) -> None:
        """Remove the metrics from their registry."""
        collectors = (
            self._score, self._outcomes, self._seconds, self._tokens, self._causes, self._checks, self.ledgers,
            self.streams,
        )  # fmt: skip
        for collector in collectors:
            registry.unregister(collector)


class LedgerCollector(StoreCollector[tuple[Ledger, float]]):
    """The ledgers of one or several stores with the time of each, summed at each scrape."""

    def __init__(self) -> None:
        super().__init__()
        self._reason = _Bounded(_REASONS_MAX)
        self._metrics: dict[str, tuple[str, str, str]] = {}

    def note_metric(self, metric: str, version: str, judge: str) -> None:
        """Store the current version and judge of a metric."""
        with self._lock:
            if self._metrics.get(metric, ("", ""))[:2] != (_clean(version), judge):
                self._metrics[metric] = _clean(version), judge, _direction(metric)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | InfoMetricFamily]:
        """Yield all current families."""
        with self._lock:
            published, metrics = list(self._published.values()), dict(self._metrics)
        ledgers = [each for each in published if time.monotonic() - each[1] < _LEDGER_MAX_AGE_S]
        yield InfoMetricFamily("ragstone", "The version of Ragstone.", value={"version": version("ragstone")})
        info = InfoMetricFamily(
            "ragstone_metric", "Version, judge and direction (higher or lower is better) of a metric.",
            labels=["metric", "version", "judge", "direction"],
        )  # fmt: skip
        for metric, (metric_version, judge, direction) in metrics.items():
            info.add_metric([metric, metric_version, judge, direction], {})
        yield info
        if ledgers:
            yield from _queue(ledgers)
            yield from _deliveries(ledgers)
            yield self._ignored(ledgers)
            yield from _spend(ledgers)
            yield from _brokers(ledgers)

    def _ignored(self, ledgers: Sequence[tuple[Ledger, float]]) -> CounterMetricFamily:
        ignored = Tally[tuple[str, ...]]()
        for ledger, _ in ledgers:
            for reason, found in ledger.ignored.items():
                ignored[self._reason(reason),] += found.n
        text = "Recorded traces that are not requests, by reason."
        return make_family(CounterMetricFamily, "ragstone_ignored_traces", text, ["reason"], ignored)


_OUTCOMES: Final = ("sampled_out", "dropped", "scored", "not_applicable", "failed")


def _queue(ledgers: Sequence[tuple[Ledger, float]]) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    totals = [ledger.total for ledger, _ in ledgers]
    # Erased requests count as what they were, because a counter that decreases looks like a restart, and as lost
    # requests they would raise an alert.
    n = {name: sum(getattr(row, name) for row in totals) for name in _OUTCOMES}
    for ledger, _ in ledgers:
        for state, erased in ledger.erased.items():
            n["dropped"] -= erased
            if state in n:
                n[state] += erased
    queued = sum(row.captured for row in totals) - n["sampled_out"] - n["dropped"]
    captures = {("queued",): queued} | {(outcome,): n[outcome] for outcome in _OUTCOMES}
    text = "Captured requests, by outcome."
    yield make_family(CounterMetricFamily, "ragstone_captures", text, ["outcome"], captures)
    yield GaugeMetricFamily(
        "ragstone_queue_depth", "Requests pending scoring.", value=sum(row.pending for row in totals)
    )
    yield GaugeMetricFamily(
        "ragstone_queue_oldest_seconds", "Age of the oldest request pending scoring (0 if none).",
        value=max(_age(ledger.oldest_pending_s, at) for ledger, at in ledgers),
    )  # fmt: skip


def _spend(ledgers: Sequence[tuple[Ledger, float]]) -> Iterator[GaugeMetricFamily]:
    usage = sum((ledger.spent_today for ledger, _ in ledgers), Usage())
    spent: dict[tuple[str, ...], float] = {
        ("calls",): usage.calls,
        ("tokens",): usage.input_tokens + usage.output_tokens,
        ("unpriced_calls",): usage.calls - usage.priced_calls,
        ("uncounted_calls",): usage.calls - usage.counted_calls,
    }
    if usage.cost_usd is not None or not usage.calls:
        spent["usd",] = usage.cost_usd or 0.0
    # If one store does not have a limit, the stores together do not have one.
    shared = set.intersection(*(set(ledger.daily_budget) for ledger, _ in ledgers))
    limits = {(unit,): sum(ledger.daily_budget[unit] for ledger, _ in ledgers) for unit in sorted(shared)}
    text = "What model calls have cost on the current day of UTC, without usd of unpriced_calls and tokens of uncounted_calls."
    yield make_family(GaugeMetricFamily, "ragstone_spent_today", text, ["unit"], spent)
    text = "Daily limits of what model calls may cost."
    yield make_family(GaugeMetricFamily, "ragstone_daily_budget", text, ["unit"], limits)


def _brokers(ledgers: Sequence[tuple[Ledger, float]]) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    found = {_clean(name): (status, at) for ledger, at in ledgers for name, status in ledger.brokers.items()}
    if not found:
        return
    depth = {
        (name, state): getattr(status, state)
        for name, (status, _) in found.items()
        for state in ("waiting", "in_progress")
    }
    text = "Entries of a message broker that are not stored."
    yield make_family(GaugeMetricFamily, "ragstone_broker_depth", text, ["broker", "state"], depth)
    oldest = {(name,): _age(status.oldest_s, at) for name, (status, at) in found.items()}
    text = "Age of the oldest entry that is not stored (0 if none)."
    yield make_family(GaugeMetricFamily, "ragstone_broker_oldest_seconds", text, ["broker"], oldest)
    aside = {(name,): status.set_aside for name, (status, _) in found.items()}
    text = "Entries that cannot be stored and were set aside."
    yield make_family(CounterMetricFamily, "ragstone_broker_set_aside", text, ["broker"], aside)
    up = {(name,): float(status.error is None) for name, (status, _) in found.items()}
    yield make_family(GaugeMetricFamily, "ragstone_broker_up", "1 if the message broker can be used.", ["broker"], up)


def _deliveries(ledgers: Sequence[tuple[Ledger, float]]) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    by_sink: dict[str, list[tuple[DeliveryCounts, float]]] = {}
    for ledger, at in ledgers:
        for sink, counts in ledger.outbox.items():
            by_sink.setdefault(_clean(sink), []).append((counts, at))
    # A counter that decreases looks like a restart, so deliveries of erased requests stay in it.
    erased = Tally[tuple[str, str]]()
    for ledger, _ in ledgers:
        for sink, states in ledger.erased_deliveries.items():
            erased.update({(_clean(sink), state): n for state, n in states.items()})
    n = {
        (sink, state): sum(getattr(counts, state) for counts, _ in entries)
        for sink, entries in by_sink.items()
        for state in ("sent", "skipped", "failed", "pending")
    }
    final = {key: n[key] + erased[key] for key in n if key[1] != "pending"}
    text = "Deliveries in a final state."
    yield make_family(CounterMetricFamily, "ragstone_sink_deliveries", text, ["sink", "outcome"], final)
    depth = {(sink, state): n[sink, state] for sink in by_sink for state in ("pending", "failed")}
    text = "Deliveries that have not arrived at a sink: pending or failed."
    yield make_family(GaugeMetricFamily, "ragstone_deliveries_depth", text, ["sink", "state"], depth)
    oldest = {
        (sink,): max(_age(counts.oldest_pending_s, at) for counts, at in entries) for sink, entries in by_sink.items()
    }
    text = "Age of the oldest delivery pending for a sink (0 if none)."
    yield make_family(GaugeMetricFamily, "ragstone_deliveries_oldest_seconds", text, ["sink"], oldest)
    stopped = {
        (sink,): float(any(counts.stopped is not None for counts, _ in entries)) for sink, entries in by_sink.items()
    }
    text = "1 if delivery to the sink is stopped because the credentials were rejected."
    yield make_family(GaugeMetricFamily, "ragstone_sink_stopped", text, ["sink"], stopped)


def _age(age_s: float | None, at: float) -> float:
    # The age grows between ledger updates, so that a hanging worker shows.
    return 0.0 if age_s is None else age_s + time.monotonic() - at


class _Bounded:
    """Maps values after the first `limit` distinct ones to "other", so that a label's cardinality stays bounded."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        value = _clean(value)
        if value in self._known:
            return value
        if len(self._known) >= self._limit:
            return "other"
        self._known.add(value)
        return value


def _clean(text: str) -> str:
    """Replace unprintable characters. A name from a user's request that is not valid UTF-8 would break the whole page."""
    return without_controls(shorten_name(text, _LABEL_MAX_CHARS))


def _exemplar(delivery: Delivery) -> dict[str, str] | None:
    """Return the score's trace as an exemplar: the OpenTelemetry id if the trace was sampled, otherwise Ragstone's."""
    if delivery.otel_trace_id is not None and delivery.otel_sampled is not False:
        name, value = "trace_id", delivery.otel_trace_id
    else:
        name, value = "ragstone_trace_id", delivery.trace_id
    return {name: value} if len(value) <= _EXEMPLAR_MAX_CHARS and value.isprintable() else None


def _direction(metric: str) -> str:
    try:
        (resolved,) = resolve_metrics(metric)
    except (ConfigurationError, ValueError):
        return "unknown"
    return resolved.card.direction
