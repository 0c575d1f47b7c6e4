"""The `Sink` protocol, and `sink_from`, which makes a sink from its specification (`"jsonl:scores.jsonl"`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Protocol, runtime_checkable

from ragstone.errors import ConfigurationError, SinkError
from ragstone.schema import Delivery, Ledger

__all__ = ["Sink", "StatusSink", "sink_from"]

_GROUP = "ragstone.sinks"


@runtime_checkable
class Sink(Protocol):
    """A destination. Called by one task at a time; the same delivery may come twice (`outcome.id` is its key)."""

    @property
    def name(self) -> str:
        """Identifies the destination in the outbox: the same across restarts, without credentials."""
        ...

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError] | None:
        """Deliver `batch` durably.

        Returns:
            What did not arrive, by `outcome.id`, with the error that says what becomes of it: `SinkUnavailableError` (it
            comes again), `SinkTargetMissingError` (it comes again for a day), `SinkRejectedError` (never),
            `SinkNoTargetError` (there is no place for it here). None, or nothing in it: all have arrived.

        Raises:
            SinkUnavailableError: Nothing is known to have arrived; the whole batch comes again later.
            SinkRejectedError: The destination will never take this batch (it is split to find the row at fault).
            SinkDeniedError: The credentials are refused; nothing is sent until the worker starts again.
        """
        ...

    async def aclose(self) -> None:
        """Flush and let go. Safe to call twice."""
        ...


@runtime_checkable
class StatusSink(Sink, Protocol):
    """A sink that also shows how the whole pipeline is doing."""

    def update_status(self, ledger: Ledger) -> None:
        """Take the books of this moment; called every few seconds by the owner of the store."""
        ...


def sink_from(spec: str | Sink) -> Sink:
    """Make a sink from its specification; a `Sink` is returned as it is.

    A specification is the name of an entry point in the group `ragstone.sinks`, and after a colon the argument that
    this destination takes: `"jsonl:PATH"`, `"otlp"` (the endpoint comes from the `OTEL_EXPORTER_OTLP_*` variables),
    `"otlp:http://host:4318"`. `"NAME+text"` also sends what may quote captured text (explanations, reasons, details),
    which sinks on the network leave out by default.

    Args:
        spec: The specification, or a sink.

    Returns:
        The sink, not yet connected to anything.

    Raises:
        ConfigurationError: Nothing is known by that name, or the argument cannot work.
        MissingExtraError: The destination needs a package that is not installed.
    """
    if not isinstance(spec, str):
        return _checked(spec, origin="sinks=")
    kind, _, argument = spec.partition(":")
    kind, plus, flag = kind.partition("+")
    if plus and flag != "text":
        raise ConfigurationError(
            f"a sink can be called {kind + '+text'!r}, to send explanations too; {flag!r} means nothing"
        )
    known = entry_points(group=_GROUP)
    if kind not in known.names:
        # Only the kind is shown: an argument may hold credentials.
        raise ConfigurationError(
            f"no sink is called {kind!r}; known are {', '.join(sorted(known.names)) or 'none'}, "
            "written as 'NAME' or 'NAME:ARGUMENT'"
        )
    make = known[kind].load()
    made = make(argument, include_text=True) if flag else make(argument)
    return _checked(made, origin=f"the entry point {kind!r} in {_GROUP!r}")


def _checked(candidate: object, *, origin: str) -> Sink:
    if not isinstance(candidate, Sink):
        raise ConfigurationError(
            f"{origin} must give a sink (an object with name, write and aclose) or 'NAME:ARGUMENT', got {candidate!r}"
        )
    return candidate
