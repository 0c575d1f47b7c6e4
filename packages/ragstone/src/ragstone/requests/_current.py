"""The block and the OpenTelemetry span that the running code belongs to, and the recorder that takes requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from ragstone.requests._draft import TraceDraft
from ragstone.requests._step import Request


class Recorder(Protocol):
    """Takes finished requests, such as `ragstone.Monitor` and `ragstone.testing.MemoryRecorder`."""

    def record(self, draft: TraceDraft | Request) -> bool:
        """Take over a finished request. Never raises, never blocks.

        Args:
            draft: A draft, or a request whose draft is still to be assembled. The recorder may do that later, on another
                thread, so neither it nor its steps may be changed afterwards.

        Returns:
            False if the request was dropped, which is counted.
        """
        ...


class Block(Protocol):
    """A `with monitor.request(...)` block, as translators of framework events see it."""

    outer: Block | None
    """The block around it."""

    @property
    def recorder(self) -> Recorder:
        """The recorder that takes the request."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the request has ended."""
        ...

    @property
    def trace_id(self) -> str | None:
        """The id under which the request is stored. None if it is not captured."""
        ...

    def join(self, request: Request) -> bool:
        """Make a framework's finished request a part of this one, instead of recording it.

        Never raises. Its steps become steps of the block. Contexts and a response that it states count for the block
        unless the block states its own, and so do its session, user, reference, tags and metadata.

        Returns:
            False if the block had ended, so that the steps are counted as late and left out.
        """
        ...


# A context variable, so that tasks and `asyncio.to_thread` started inside inherit it.
_current: ContextVar[Any] = ContextVar("ragstone_current_request", default=None)


def current_request(recorder: Recorder | None = None) -> Any:
    """Return the innermost block around the caller that has not ended, or None if there is none.

    A translator of framework events asks once, when an outermost step begins, with its own recorder. If it gets a block, it
    hands the finished `Request` to the block's `join`, however the request ends, and not to the recorder.

    Args:
        recorder: Only blocks that record into this recorder count, or into one with `takes_every_request`. None means any
            block.
    """
    block = _current.get()
    while block is not None and (block.ended or not _takes(block.recorder, recorder)):
        block = block.outer
    return block


def _takes(taker: Any, recorder: Recorder | None) -> bool:
    return recorder is None or taker is recorder or getattr(taker, "takes_every_request", False) is True


def enter(block: Block) -> Any:
    """Make a block the current one, and return the one before it."""
    outer = _current.get()
    _current.set(block)
    return outer


def leave(block: Block, outer: Block | None) -> None:
    """Make the block around the current one if `block` is: another context has a variable of its own."""
    # Not by token: a generator or an event loop's fixture may end in another context than it began in.
    if _current.get() is block:
        _current.set(outer)


@contextmanager
def entered(block: Block) -> Iterator[None]:
    """Make a block the current one inside `with`: while a generator runs between two of its yields."""
    outer = enter(block)
    try:
        yield
    finally:
        leave(block, outer)


TRACE_ID_KEY: Final = "ragstone.trace_id"
"""Attribute of a span, or key of a run's metadata: the id of the request. A reader of the exported trace uses it as the
trace id, so that a request that was captured as well is stored once."""

_FIELDS: Final = {
    "app": ("service.name",),
    "release": ("service.version",),
    "environment": ("deployment.environment.name", "deployment.environment"),
}


def read_resource(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return app, release and environment, as far as the attributes of an OpenTelemetry resource state them.

    The name that the SDK invents for an application without one (`unknown_service`) is ignored.
    """
    found: dict[str, str] = {}
    for field, keys in _FIELDS.items():
        values = (attributes.get(key) for key in keys)
        value = next((value for value in values if isinstance(value, str) and value), None)
        if value is not None and not value.startswith("unknown_service"):
            found[field] = value
    return found


def link_current_span(draft: TraceDraft) -> None:
    """Link a request to the current span, if there is one.

    OpenTelemetry is only asked if the application has imported it: without it there cannot be a span.
    """
    otel = sys.modules.get("opentelemetry.trace")
    if otel is not None:
        link_span(draft, otel.get_current_span())


def link_span(draft: TraceDraft, span: Any) -> None:
    """Link a request to a span: note its ids, its resource and if it is sampled, and set the request's id as its attribute.

    Inside a block the attribute is the block's id, because the request becomes a part of it.
    """
    context = span.get_span_context()
    if not context.is_valid:
        return
    draft.otel_trace_id = f"{context.trace_id:032x}"
    draft.otel_span_id = f"{context.span_id:016x}"
    draft.otel_sampled = bool(context.trace_flags.sampled)
    attributes = getattr(getattr(span, "resource", None), "attributes", None)
    if isinstance(attributes, Mapping):
        for field, value in read_resource(attributes).items():
            setattr(draft, field, getattr(draft, field) or value)
    if span.is_recording():
        block = current_request()
        span.set_attribute(TRACE_ID_KEY, draft.trace_id if block is None else block.trace_id or draft.trace_id)
