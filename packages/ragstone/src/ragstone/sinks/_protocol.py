"""The `Sink` protocol, and `sink_from`, which creates a sink from its specification (`"jsonl:scores.jsonl"`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Literal, Protocol, runtime_checkable

from ragstone.errors import ConfigurationError, SinkError
from ragstone.schema import Delivery, Ledger

_GROUP = "ragstone.sinks"


@runtime_checkable
class Sink(Protocol):
    """A destination for outcomes.

    The worker calls it from one task at a time. The same delivery may be written twice: `outcome.id` is its key.
    """

    @property
    def name(self) -> str:
        """Name of the destination in the store: stable across restarts, without credentials."""
        ...

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError] | None:
        """Deliver `batch` durably.

        Returns:
            Errors by `outcome.id` of the deliveries that did not arrive. The error's class decides what happens next:
            `SinkUnavailableError` (retried), `SinkTargetMissingError` (retried for a day), `SinkRejectedError`
            (failed), `SinkNoTargetError` (skipped). None or an empty mapping if all arrived.

        Raises:
            SinkUnavailableError: If the request failed. The worker retries the whole batch later.
            SinkRejectedError: If the destination rejects the batch. The worker splits it to find the rejected row.
            SinkDeniedError: If the credentials are rejected. Delivery to this sink stops until the worker restarts.
        """
        ...

    async def aclose(self) -> None:
        """Flush and close the sink. Can be called twice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """State of one watched stream. Means are in the metric's unit, and shares for a stream of failures."""

    app: str
    metric: str
    kind: Literal["score", "failures"]
    mean: float | None
    """Mean of the last 24 hours."""
    low: float | None
    """Lower end of the mean's 95% confidence interval over sessions."""
    high: float | None
    reference: float | None
    evidence: float
    """Evidence of a change for the worse, 1 raises an alarm."""
    is_learning: bool
    has_alarm: bool
    n_alarms: int


@runtime_checkable
class StatusSink(Sink, Protocol):
    """A sink that also publishes the state of the whole pipeline and of the watched streams."""

    def update_status(self, ledger: Ledger) -> None:
        """Publish the current ledger. The owner of the store calls this every few seconds."""
        ...

    def update_streams(self, streams: Sequence[StreamStatus]) -> None:
        """Publish the current streams. The owner of the store calls this after each fold."""
        ...


def sink_from(spec: str | Sink) -> Sink:
    """Create a sink from its specification, or return a `Sink` unchanged.

    A specification is the name of an entry point in the group `ragstone.sinks`, optionally followed by a colon and an
    argument: `"jsonl:PATH"`, `"otlp"` (the endpoint comes from the `OTEL_EXPORTER_OTLP_*` variables),
    `"otlp:http://host:4318"`. `"NAME+text"` also sends explanations, reasons and details. They may quote captured text,
    so network sinks omit them by default. Raise ConfigurationError if the name is unknown or the argument is invalid.
    Raise MissingExtraError if the destination needs a package that is not installed.
    """
    if not isinstance(spec, str):
        return _check_sink(spec, origin="sinks=")
    kind, _, argument = spec.partition(":")
    kind, plus, flag = kind.partition("+")
    if plus and flag != "text":
        raise ConfigurationError(
            f"unknown flag {flag!r} in the sink {kind + plus + flag!r}. Write {kind + '+text'!r} to send explanations."
        )
    known = entry_points(group=_GROUP)
    if kind not in known.names:
        # The message shows only the kind, because the argument may contain credentials.
        raise ConfigurationError(
            f"unknown sink {kind!r}. Known sinks: {', '.join(sorted(known.names)) or 'none'}. Write 'NAME' or "
            "'NAME:ARGUMENT'."
        )
    factory = known[kind].load()
    sink = factory(argument, include_text=True) if flag else factory(argument)
    return _check_sink(sink, origin=f"the entry point {kind!r} in {_GROUP!r}")


def check_names(names: Sequence[str]) -> None:
    """Raise ConfigurationError if two sinks have one name: what one has received would count as sent to both."""
    for n, name in enumerate(names):
        if (first := names.index(name)) < n:
            raise ConfigurationError(
                f"sinks {first + 1} and {n + 1} have one name, {name!r}, and a store counts by name what was sent. Keep "
                "one of them. Use another store for the other, or for OTLP a collector that sends to both."
            )


def _check_sink(candidate: object, *, origin: str) -> Sink:
    if not isinstance(candidate, Sink):
        raise ConfigurationError(
            f"{origin} must be a sink (an object with name, write and aclose) or 'NAME:ARGUMENT', got {candidate!r}"
        )
    return candidate
