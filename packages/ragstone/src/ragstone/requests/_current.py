"""The block and the OpenTelemetry span that the running code belongs to, and the recorder that takes requests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol

from ragstone._util.guard import Guard
from ragstone.errors import ConfigurationError
from ragstone.requests._draft import PassageDraft, TraceDraft
from ragstone.requests._step import Request, RetrieverTools, Statements, Step, read_retriever_tools


class Recorder(Protocol):
    """Takes finished requests, such as `ragstone.Monitor` and `ragstone.testing.MemoryRecorder`."""

    def record(self, draft: TraceDraft | Request) -> bool:
        """Take over a finished request. Never raises, never blocks.

        Args:
            draft: A draft, or a request whose draft is still to be assembled. The recorder may do that later, on
                another thread, so neither it nor its steps may be changed afterwards.

        Returns:
            False if the request was dropped, which is counted.
        """
        ...


class CaptureOptions:
    """The recorder and the options of a framework's integration. A function that raises states nothing.

    Args:
        recorder: Takes the finished requests.
        guard: Counts the errors.
        question: Finds the question in the inputs of a request.
        contexts: Finds the contexts in its outputs.
        answer: Finds the answer in its outputs.
        retriever_tools: Names of tools that retrieve, see `Request`.

    Raises:
        ConfigurationError: If the recorder does not have a `record` method or is an integration itself, if one of the
            functions is not one, or if `retriever_tools` contains anything but names and separators.
    """

    def __init__(
        self,
        recorder: Recorder,
        guard: Guard,
        *,
        question: Callable[[Any], str | None] | None,
        contexts: Callable[[Any], Iterable[Any] | None] | None,
        answer: Callable[[Any], str | None] | None,
        retriever_tools: Iterable[str] | RetrieverTools,
    ) -> None:
        if hasattr(recorder, "record_abandoned") or not callable(getattr(recorder, "record", None)):
            raise ConfigurationError(f"needs a recorder, such as a ragstone.Monitor, got {type(recorder).__name__}")
        for name, function in {"question": question, "contexts": contexts, "answer": answer}.items():
            if function is not None and not callable(function):
                raise ConfigurationError(
                    f"{name} must be a function, such as lambda inputs: inputs['question'], "
                    f"got {type(function).__name__}"
                )
        self.recorder = recorder
        self.retriever_tools = read_retriever_tools(retriever_tools)
        self._attempt = guard.attempt
        self._question = question
        self._contexts = contexts
        self._answer = answer

    def read_inputs(self, inputs: Any, statements: Statements, text_of: Callable[[Any], str | None]) -> None:
        """Fill in the question from the inputs of a request."""
        if self._question is not None:
            statements.query = text_of(self._attempt(self._question, inputs)) or statements.query

    def read_outputs(
        self,
        outputs: Any,
        statements: Statements,
        text_of: Callable[[Any], str | None],
        copy: Callable[[Any], Sequence[PassageDraft]],
        *,
        is_stream: bool = False,
    ) -> None:
        """Fill in the contexts, unless an event stated them, and the answer, unless it is a stream."""
        if self._answer is not None and not is_stream:
            statements.response = text_of(self._attempt(self._answer, outputs))
        if self._contexts is not None and statements.contexts is None:
            found = self._attempt(self._contexts, outputs)
            statements.contexts = None if found is None else self._attempt(copy, found)


# A context variable, so that tasks and `asyncio.to_thread` started inside inherit it.
_current: ContextVar[Any] = ContextVar("ragstone_current_request", default=None)
_enclosing: Final[list[Callable[[], Iterable[EnclosingRun]]]] = []
"""One function for each framework."""


def current_request(recorder: Recorder | None = None) -> Any:
    """Return the innermost block around the caller that has not ended, or None if there is none.

    A translator of framework events asks once, when an outermost step begins, with its own recorder. If it gets a
    block, it hands the finished `Request` to the block's `join`, however the request ends, and not to the recorder.

    Args:
        recorder: Only blocks that record into this recorder count, or into one with `takes_every_request`. None means
            any block.
    """
    current = block = _current.get()
    while block is not None and (block.ended or not _takes(block.recorder, recorder)):
        block = block.outer
    for find in _enclosing if recorder is not None else ():
        for run in find():
            # A block that was opened inside the run is nearer than the run.
            if _takes(run.recorder, recorder) and run.outer is block and not run.ended:
                return run._replace(outer=current)
    return block


class EnclosingRun(NamedTuple):
    """A run of a framework that encloses the caller, in a request in flight. Other requests join it as they join a block."""

    recorder: Recorder
    outer: Any
    """The block that the request is going to join."""
    request: Request
    step: Step

    @property
    def ended(self) -> bool:
        """Whether the request around has ended."""
        return self.request.draft.ended_at is not None

    @property
    def trace_id(self) -> str:
        """The id of the request around."""
        return self.request.draft.trace_id

    def join(self, request: Request) -> bool:
        """Make a request a part of the one around."""
        # Work that outlives the request around it is a request of its own.
        return self.recorder.record(request) if self.ended else self.request.join(request, parent=self.step)

    @staticmethod
    def find_with(find: Callable[[], Iterable[EnclosingRun]]) -> None:
        """Register how a framework's integration finds the runs around the caller, by its own context variable.

        A request of another handler or framework that begins inside such a run becomes a part of its request.
        """
        _enclosing.append(find)


def _takes(taker: Any, recorder: Recorder | None) -> bool:
    return recorder is None or taker is recorder or getattr(taker, "takes_every_request", False) is True


def enter(block: Any) -> Any:
    """Make a block the current one, and return the one before it."""
    outer = _current.get()
    _current.set(block)
    return outer


def leave(block: Any, outer: Any) -> None:
    """Make the block around the current one if `block` is: another context has a variable of its own."""
    # Not by token: a generator or an event loop's fixture may end in another context than it began in.
    if _current.get() is block:
        _current.set(outer)


@contextmanager
def entered(block: Any) -> Iterator[None]:
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
