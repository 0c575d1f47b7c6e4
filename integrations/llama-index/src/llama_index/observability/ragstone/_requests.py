"""The requests behind LlamaIndex's spans and events: one finished `Request` for each."""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from llama_index.core.instrumentation.span import active_span_id
from llama_index.core.workflow import InputRequiredEvent

from llama_index.observability.ragstone import _responses as responses
from llama_index.observability.ragstone import _steps as steps_of
from llama_index.observability.ragstone._kinds import REQUESTS, kind_of
from llama_index.observability.ragstone._live import Live, LiveRequests, Span
from llama_index.observability.ragstone._messages import fill_reply
from llama_index.observability.ragstone._not_requests import runs_outside_requests
from llama_index.observability.ragstone._stream import pulled_stream
from ragstone.capture import Guard, capture_suppressed, guarded
from ragstone.requests import CaptureOptions, EnclosingRun, current_request, link_span
from ragstone.schema import TraceStatus


class RequestTracker:
    """The requests in flight through one instrumentor. Any thread may call any method, and none raises."""

    def __init__(
        self, options: CaptureOptions, live: LiveRequests, *, guard: Guard, clock: Callable[[], float]
    ) -> None:
        self.recorder = options.recorder
        self._options = options
        self._clock = clock
        self._guard = guard
        self.live = live
        _trackers.add(self)

    # `enter` and `exit` may raise: the span handler catches, because a wrapper takes time at each span.

    def enter(
        self,
        key: str,
        arguments: Mapping[str, Any],
        instance: Any,
        parent_key: str | None,
        tags: Mapping[str, Any] | None,
    ) -> None:
        """Begin a span."""
        kind = kind_of(key, instance)
        span = self.live.start(key, parent_key, kind, stream_key=pulled_stream.get())
        if span is None:
            return
        live, step = span.live, span.step
        if step.parent is None and step.id == key:
            self._open(live, arguments, tags)
        elif live.asked_for_otel < 2 and not step.muted:
            self._ask_for_otel(live)
        if kind == "detail":  # the span around it
            return
        step.muted = step.muted or capture_suppressed()
        if step.muted:
            return
        if kind in REQUESTS:
            live.is_request = True
        elif kind == "model":
            live.models.append(span)
        elif span.is_workflow_step:
            live.paused = False
        self._guard.attempt(steps_of.fill_arguments, step, kind, arguments, instance, live.passages)

    def exit(self, key: str, instance: Any, result: Any) -> None:
        """End a span that has returned."""
        span = self.live.end(key)
        if span is None:
            return
        live, step, kind = span.live, span.step, span.kind
        if not step.muted:
            if kind == "writer":
                text = responses.writer_text(instance)
                self._written(span, "".join(span.parts or ()).strip() if text is None else text, None)
            elif kind == "model":
                if step.reply is None and not step.calls_tool:
                    self._guard.attempt(fill_reply, step, result)
            elif span.parent is not None or kind == "retrieve":
                self._guard.attempt(steps_of.fill_result, step, kind, result, live.passages)
            if span.parent is not None:  # what the root returns is recorded at once, or comes from the stream's reader
                self.live.count_texts(span)
        if span.parent is None:
            self._root_returned(live, steps_of.unwrapped(result))
        elif span.is_workflow_step:
            live.paused = not span.stopped and (result is None or isinstance(result, InputRequiredEvent))

    @guarded
    def drop(self, key: str, error: BaseException | None) -> None:
        """End a span that has raised."""
        holder = self.live.find(key)
        span = self.live.end(key)
        if holder is None or holder.step.muted:
            if span is not None and span.parent is None:
                self.live.close(span.live)
            return
        live = holder.live
        if type(error).__name__ == "WaitingForEvent":  # private to LlamaIndex's workflows
            if span is not None and span.parent is not None:
                span.step.muted = True  # it runs again from its start
            return
        description = "unknown" if error is None else Guard.describe(error)
        if span is not None:
            span.step.error = description
            if span.parent is None:
                if live.paused and isinstance(error, asyncio.CancelledError):
                    span.step.error = None
                    self.settle(live, "interrupted")
                else:
                    live.draft.error = description
                    self.settle(live, "error")
                return
        live.note_inner_error(description)
        if span is not None and span.kind == "writer":
            self._written(span, None, description)

    @guarded
    def model_asked(self, key: str | None, model: str | None) -> None:
        """Note the model that is called. Its reply may name it more precisely."""
        if (span := self._span_of_event(key)) is not None and span.kind == "model":
            span.step.model = model

    @guarded
    def model_replied(self, key: str | None, response: Any) -> None:
        """Note the reply of a model."""
        span = self._span_of_event(key)
        if span is not None and span.kind == "model":
            fill_reply(span.step, response)

    @guarded
    def token_came(self, key: str | None, text: str | None) -> None:
        """Note a piece of a reply."""
        if text and (span := self._span_of_event(key)) is not None and span.kind == "model":
            self._add_part(span, text)

    @guarded
    def turn_grew(self, key: str | None, text: str) -> None:
        """Note a piece of a streamed chat turn."""
        if (span := self._span_of_event(key)) is not None:
            self._add_part(span, text)
            self.first_token(span.live)

    def _add_part(self, span: Span, text: str) -> None:
        if span.parts is None:
            span.parts = []
            span.step.first_token_at = self._clock()
        span.parts.append(text)

    @guarded
    def stream_failed(self, key: str | None, error: BaseException) -> None:
        """Note that the stream of a model has raised. Closing it early is not a failure."""
        if not isinstance(error, GeneratorExit) and (span := self._span_of_event(key)) is not None:
            description = Guard.describe(error)
            if span.kind == "model":
                span.step.error = description
            span.live.note_inner_error(description)

    @guarded
    def canceled(self, key: str | None) -> None:
        """Note that the application has stopped a workflow, and thereby one of its steps."""
        if (span := self._span_of_event(key)) is not None:
            span.stopped = span.step.id == key
            span.live.canceled = span.live.canceled or span.parent is None

    @guarded
    def contexts_stated(self, key: str | None, contexts: Iterable[Any]) -> None:
        """Take the contexts that the application states."""
        if (span := self._span_of_event(key)) is not None:
            span.live.request.statements.contexts = span.live.passages.copied(contexts)

    def first_token(self, live: Live) -> None:
        """Note when the user could begin to read."""
        if live.root.first_token_at is None:
            live.root.first_token_at = self._clock()

    def leave(self) -> None:
        """Record as `abandoned` what only spans could end: no more spans will come. Taps continue."""
        self._abandon(self.live.give_up(only=lambda live: not live.tapped))

    def end_all(self) -> None:
        """Record all requests in flight as `abandoned`, because the process ends."""
        self._abandon(self.live.give_up(only=lambda _: True))

    def settle(self, live: Live, status: TraceStatus, answer: str | None = None) -> None:
        """End a request and record it, once. `answer` is the text of its stream."""
        if self.live.close(live):
            if answer is not None:
                live.root.reply = answer
            self.record(live, status)

    def _span_of_event(self, key: str | None) -> Span | None:
        span = self.live.find(key)
        return None if span is None or span.step.muted else span

    def count_error(self, place: str, error: Exception) -> None:
        """Count an error of a handler, and log the first of each place."""
        self._guard.count(place, error)

    def _open(self, live: Live, arguments: Mapping[str, Any], tags: Mapping[str, Any] | None) -> None:
        """Fill in what is known when a request begins."""
        live.ignored = live.root.muted = capture_suppressed() or runs_outside_requests()
        if not live.ignored:
            _opening.add(live.keys[0])
            try:
                live.block = current_request(self.recorder)
            finally:
                _opening.discard(live.keys[0])
            live.request.retriever_tools = self._options.retriever_tools
            live.draft.name = live.root.name
            self._options.read_inputs(arguments, live.request.statements, steps_of.text_of)
            # A workflow's run is announced without its tags.
            self._guard.attempt(steps_of.fill_identity, live.draft, tags)
            self._ask_for_otel(live)
        self._abandon(self.live.give_up())

    def _ask_for_otel(self, live: Live) -> None:
        """Link the request to the span that other tools show for it: the one of its root, or else the one around it."""
        # An instrumentation that is registered after ours starts its span for the root after ours has begun: when the
        # next span begins, it is there, and has the root's name. (Registered before ours, it is there at once.)
        if live.asked_for_otel == 2:
            return
        live.asked_for_otel += 1
        # Without its import by the application there cannot be a span.
        if (otel := sys.modules.get("opentelemetry.trace")) is None:
            return
        draft, span = live.draft, otel.get_current_span()
        # The API's own spans, such as one that came with a request from another service, do not have a name.
        name = getattr(span, "name", None)
        if span.get_span_context().is_valid and (draft.otel_trace_id is None or name == draft.name):
            link_span(draft, span)
            if name == draft.name:
                live.asked_for_otel = 2

    def _written(self, span: Span, text: str | None, error: str | None) -> None:
        live = span.live
        live.written = (text, error)
        if live.root_returned:
            self._turn_ended(live)

    def _turn_ended(self, live: Live) -> None:
        if live.written is None:
            return
        text, error = live.written
        live.draft.error = live.root.error = error
        self.settle(live, "ok" if error is None else "error", text)

    def _root_returned(self, live: Live, result: Any) -> None:
        """End a request whose outermost span has returned, unless its streamed answer is still to come."""
        if live.ignored or not live.is_request:
            self.settle(live, "ok")
            return
        is_stream = responses.is_chat_stream(result) or responses.is_token_stream(result)
        statements, passages = live.request.statements, live.passages
        self._options.read_outputs(result, statements, steps_of.text_of, passages.copied, is_stream=is_stream)
        if live.root_kind != "retrieve":
            live.root.outputs = self._guard.attempt(steps_of.outputs_of, result, passages) or ()
        if responses.is_chat_stream(result):
            # Both ends of this race look whether the other was first, and `settle` settles once.
            live.root_returned = True
            self._turn_ended(live)
            return
        if is_stream:
            live.tapped = True
            if responses.install_tap(result, _Listener(self, live, self._guard)):
                return
        self.settle(live, "ok" if not live.canceled else "interrupted" if live.paused else "truncated")

    def _abandon(self, given_up: list[Live]) -> None:
        for live in given_up:
            self.record(live, "abandoned")

    def record(self, live: Live, status: TraceStatus) -> None:
        """Hand a request that has ended to the recorder, unless it is not one."""
        if live.ignored:
            return
        if not live.is_request and (live.block is None or not live.models):
            self.live.ignore_models(live.n_calls)
            return
        draft = live.draft
        draft.status = status
        if live.root_kind == "workflow":
            live.request.doubt_unseen_prompt()
        draft.ended_at = self._clock()
        live.complete_models()
        if live.block is not None:
            live.block.join(live.request)
        else:
            self.recorder.record(live.request)


class Handler:
    """Base class of the handlers that LlamaIndex calls, before its own, which is a Pydantic model."""

    if TYPE_CHECKING:
        requests: RequestTracker

    @classmethod
    def of(cls, requests: RequestTracker) -> Self:
        """Return a handler that hands over to these requests."""
        self = cls()
        # Not through Pydantic, whose private attributes cost microseconds at each access.
        self.__dict__["requests"] = requests
        return self

    @classmethod
    def class_name(cls) -> str:
        """Return its name for LlamaIndex."""
        return cls.__name__


_opening: Final[set[str]] = set()
"""Ids of requests that look for what is around them: LlamaIndex's variable holds their own span already."""
_trackers: Final[weakref.WeakSet[RequestTracker]] = weakref.WeakSet()


def _enclosing_runs() -> Iterator[EnclosingRun]:
    """Yield the spans around the caller, by LlamaIndex's context variable."""
    key = active_span_id.get()
    for tracker in list(_trackers) if key is not None and key not in _opening else ():
        span = tracker.live.find(key)
        if span is not None and not span.live.ignored:
            yield EnclosingRun(tracker.recorder, span.live.block, span.live.request, span.step)


EnclosingRun.find_with(_enclosing_runs)


class _Listener:
    """The request's end of a stream."""

    __slots__ = ("__weakref__", "_guard", "_live", "_requests", "root_key")

    def __init__(self, requests: RequestTracker, live: Live, guard: Guard) -> None:
        self._guard = guard
        self._requests = requests
        self._live = live
        self.root_key = live.keys[0]

    @guarded
    def saw(self, item: Any) -> None:
        if item:
            self._requests.first_token(self._live)

    @guarded
    def ended(self, text: str) -> None:
        self._requests.settle(self._live, "ok", text)

    @guarded
    def failed(self, error: BaseException) -> None:
        if not self._live.closed:
            self._live.draft.error = self._live.root.error = Guard.describe(error)
            self._requests.settle(self._live, "error")

    @guarded
    def stopped(self, text: str) -> None:
        self._requests.settle(self._live, "truncated", text)

    @guarded
    def lost(self) -> None:
        self._requests.settle(self._live, "abandoned")
