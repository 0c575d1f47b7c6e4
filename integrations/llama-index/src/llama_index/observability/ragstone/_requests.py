"""What both handlers report to: LlamaIndex's spans and events in, one finished `TraceDraft` per request out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from llama_index.observability.ragstone import _translate as translate
from llama_index.observability.ragstone._assemble import finish
from llama_index.observability.ragstone._otel import current_span
from llama_index.observability.ragstone._replies import reply_from
from llama_index.observability.ragstone._stream import pulled_stream
from llama_index.observability.ragstone._tree import REQUESTS, Entry, Kind, LiveTrace, Span, SpanTree
from ragstone.capture import Guard, capture_suppressed, guarded
from ragstone.requests import Recorder, RetrievalDraft, link_span
from ragstone.schema import TraceStatus

__all__ = ["Extractors", "RequestTracker"]


class Extractors(Protocol):
    """Where an odd application's question, contexts and answer are; see `RagstoneInstrumentor`."""

    question: Callable[[Mapping[str, Any]], str | None] | None
    contexts: Callable[[Any], Iterable[Any] | None] | None
    answer: Callable[[Any], str | None] | None


class RequestTracker:
    """The requests in flight through one instrumentor; every method may be called from any thread, and none raises."""

    def __init__(
        self, recorder: Recorder, extractors: Extractors, tree: SpanTree, *, guard: Guard, clock: Callable[[], float]
    ) -> None:
        self._recorder = recorder
        self._extractors = extractors
        self._clock = clock
        self._guard = guard
        self.tree = tree

    @guarded
    def enter(
        self,
        key: str,
        arguments: Mapping[str, Any],
        instance: Any,
        parent_key: str | None,
        tags: Mapping[str, Any] | None,
    ) -> None:
        """A span begins."""
        kind = translate.kind_of(key, instance)
        span = self.tree.start(key, parent_key, kind, stream_key=pulled_stream())
        if span is None:
            if (above := self.tree.find(key)) is not None and above.trace.asked_for_otel < 2:
                self._ask_for_otel(above.trace)
            return
        trace = span.trace
        if span.parent is None:
            self._open(span, arguments, tags)
        elif not span.muted:
            span.muted = capture_suppressed()
            self._ask_for_otel(trace)
        if span.muted:
            return
        if kind in REQUESTS:
            trace.is_request = True
        elif span.is_workflow_step:
            trace.paused = False
        if span.inside_search:
            return
        if kind is Kind.RETRIEVE:
            span.name = type(instance).__name__
            span.query = translate.text_of(next(iter(arguments.values()), None))
            trace.log.append(span)
        elif kind is Kind.TOOL:
            span.name = type(instance).__name__
        elif kind is Kind.POSTPROCESS:
            span.texts_in = translate.node_texts(next(iter(arguments.values()), None))
        elif kind is Kind.SYNTHESIZE:
            passages = self._guard.attempt(translate.passages_from, arguments.get("nodes") or (), trace.passages)
            if passages is not None:
                trace.log.append(Entry(span, None, passages))

    @guarded
    def exit(self, key: str, instance: Any, result: Any) -> None:
        """A span has returned."""
        span = self.tree.end(key)
        if span is None:
            return
        trace, kind = span.trace, span.kind
        if not span.muted and not span.inside_search:
            if kind is Kind.RETRIEVE:
                passages = self._guard.attempt(translate.passages_from, result, trace.passages)
                if passages is not None:
                    span.search = RetrievalDraft(query=span.query, passages=passages, name=span.name)
            elif kind is Kind.POSTPROCESS:
                passages = self._guard.attempt(translate.passages_from, result, trace.passages)
                if passages is not None:
                    trace.log.append(Entry(span, span.texts_in, passages))
            elif kind is Kind.SYNTHESIZE:
                if (text := translate.answer_from(result)) is not None:
                    trace.last_answer = (span, text)
            elif kind is Kind.TOOL:
                self._tool_returned(span, result)
            elif kind is Kind.WRITER:
                text = translate.writer_text(instance)
                self._written(span, "".join(span.parts or ()).strip() if text is None else text, None)
        if span.parent is None:
            self._root_returned(trace, translate.unwrapped(result))
        elif span.is_workflow_step:
            trace.paused = not span.stopped and translate.waits_for_event(result)

    @guarded
    def drop(self, key: str, error: BaseException | None) -> None:
        """A span has raised."""
        holder = self.tree.find(key)
        span = self.tree.end(key, failed=True)
        if holder is None or holder.muted:
            if span is not None and span.parent is None:
                self.tree.close(span.trace)
            return
        trace = holder.trace
        if error is not None and translate.is_pause(error):
            return
        description = "unknown" if error is None else translate.describe_error(error)
        if span is not None and span.parent is None:
            if trace.paused and translate.is_cancellation(error):
                self.settle(trace, "interrupted")
            else:
                self._failed(trace, description)
            return
        trace.note_inner_error(description)
        if span is not None and span.kind is Kind.WRITER:
            self._written(span, "".join(span.parts or ()), description)

    @guarded
    def on_model_request(self, key: str | None, model: str | None) -> None:
        """A model is called; the reply may name it more precisely."""
        if (
            model is not None
            and (span := self._handle_stream_event(key)) is not None
            and span.trace.draft.model is None
        ):
            span.trace.draft.model = model

    @guarded
    def on_model_response(self, key: str | None, response: Any) -> None:
        """A model has answered."""
        span = self._handle_stream_event(key)
        if span is None or span.counted or (reply := reply_from(response)) is None:
            return
        for above in span.ancestors():
            # A model's asynchronous methods may call its others: one call, told several times.
            if above.kind is not Kind.LLM:
                break
            above.counted = True
        reply.add_to(span.trace.draft)
        if reply.text is not None and not span.inside_search:
            span.trace.last_answer = (span, reply.text)

    @guarded
    def on_token(self, key: str | None, text: str | None) -> None:
        """A piece of a reply has come."""
        if text and (span := self._handle_stream_event(key)) is not None and not span.inside_search:
            self.first_token(span.trace)

    @guarded
    def on_turn_update(self, key: str | None, text: str) -> None:
        """A streamed chat turn has a piece more."""
        if (span := self._handle_stream_event(key)) is not None:
            span.parts = span.parts or []
            span.parts.append(text)
            self.first_token(span.trace)

    @guarded
    def stream_failed(self, key: str | None, error: BaseException) -> None:
        """A model's stream has raised; closing it early is no failure."""
        if not isinstance(error, GeneratorExit) and (span := self._handle_stream_event(key)) is not None:
            span.trace.note_inner_error(translate.describe_error(error))

    @guarded
    def cancelled(self, key: str | None) -> None:
        """The application has stopped a workflow, or one of its steps with it."""
        if (span := self._handle_stream_event(key)) is not None:
            span.stopped = span.key == key
            span.trace.cancelled = span.trace.cancelled or span.parent is None

    @guarded
    def contexts_stated(self, key: str | None, contexts: Iterable[Any]) -> None:
        """The application says itself what it put into the prompt."""
        if (span := self._handle_stream_event(key)) is not None:
            span.trace.contexts = translate.passages_from(contexts)

    def first_token(self, trace: LiveTrace) -> None:
        """The user could begin to read."""
        if trace.draft.first_token_s is None:
            trace.draft.first_token_s = self._clock() - trace.draft.started_at

    def record_abandoned(self, *, older_than_s: float | None) -> int:
        """Record requests that have not ended for too long as `abandoned`; returns how many."""
        return self._abandon(self.tree.give_up(older_than_s=older_than_s, at_most=None))

    def leave(self) -> None:
        """No more spans will come: what only they could end is `abandoned`; taps go on."""
        self._abandon(self.tree.give_up(only=lambda trace: not trace.tapped))

    def end_all(self) -> None:
        """The process ends: nothing that is in flight will."""
        self._abandon(self.tree.give_up(only=lambda _: True))

    def settle(self, trace: LiveTrace, status: TraceStatus) -> None:
        """A request has ended: record it, once."""
        if self.tree.close(trace):
            self._record(trace, status)

    def _handle_stream_event(self, key: str | None) -> Span | None:
        span = self.tree.find(key)
        return None if span is None or span.muted else span

    def _open(self, root: Span, arguments: Mapping[str, Any], tags: Mapping[str, Any] | None) -> None:
        """Fill in what is known when a request begins."""
        trace = root.trace
        trace.ignored = root.muted = capture_suppressed()
        if not trace.ignored:
            draft = trace.draft
            draft.name = root.key[:-37]
            draft.query = self._stated(self._extractors.question, arguments) or self._guard.attempt(
                translate.question_from, arguments
            )
            # A workflow's run is announced without its tags.
            self._guard.attempt(translate.fill_identity, draft, translate.tags_here() if tags is None else tags)
            self._ask_for_otel(trace)
        self._abandon(self.tree.give_up())

    def _ask_for_otel(self, trace: LiveTrace) -> None:
        """Link the request to the span that other tools show for it: the one of its root, or else that around it."""
        # An instrumentation that is registered after ours starts its span for the root after ours has begun: when the
        # next span begins, it is there, and has the root's name. (Registered before ours, it is there at once.)
        if trace.asked_for_otel == 2:
            return
        trace.asked_for_otel += 1
        draft, span = trace.draft, current_span()
        # The API's own spans, such as one that came with a request from another service, do not have a name.
        name = getattr(span, "name", None)
        if span is not None and (draft.otel_trace_id is None or name == draft.name):
            link_span(draft, span)
            if name == draft.name:
                trace.asked_for_otel = 2

    def _tool_returned(self, span: Span, result: Any) -> None:
        """A tool that searched without a retriever of LlamaIndex's shows it by what it returns."""
        trace = span.trace
        if any(span in entry.ancestors() for entry in list(trace.log) if isinstance(entry, Span)):
            return
        passages = self._guard.attempt(translate.found_by_tool, result, trace.passages)
        if passages is not None:
            span.search = RetrievalDraft(query=span.query, passages=passages, name=span.name)
            trace.log.append(span)

    def _written(self, span: Span, text: str | None, error: str | None) -> None:
        trace = span.trace
        trace.written = (text, error)
        if trace.root_returned:
            self._turn_ended(trace)

    def _turn_ended(self, trace: LiveTrace) -> None:
        if trace.written is None:
            return
        trace.answer, trace.draft.error = trace.written
        self.settle(trace, "ok" if trace.draft.error is None else "error")

    def _failed(self, trace: LiveTrace, description: str) -> None:
        if trace.is_request:
            trace.draft.error = description
            self.settle(trace, "error")
        else:
            self.tree.close(trace)

    def _root_returned(self, trace: LiveTrace, result: Any) -> None:
        """The outermost span has returned; a streamed answer is still to come."""
        if trace.ignored or not trace.is_request:
            self.tree.close(trace)
            return
        stated = None if self._extractors.contexts is None else self._guard.attempt(self._extractors.contexts, result)
        if stated is not None:
            trace.contexts = self._guard.attempt(translate.passages_from, stated)
        trace.sources = self._guard.attempt(translate.sources_from, result, trace.passages)
        if translate.is_chat_stream(result):
            # Both ends of this race look whether the other was first, and `settle` settles once.
            trace.root_returned = True
            self._turn_ended(trace)
            return
        if translate.is_token_stream(result):
            trace.tapped = True
            if translate.install_tap(result, _Listener(self, trace, self._guard)):
                return
        else:
            answer = self._stated(self._extractors.answer, result)
            trace.answer = self._guard.attempt(translate.answer_from, result) if answer is None else answer
        self.settle(trace, "ok" if not trace.cancelled else "interrupted" if trace.paused else "truncated")

    def _abandon(self, traces: list[LiveTrace]) -> int:
        for trace in traces:
            self._record(trace, "abandoned")
        return len(traces)

    def _record(self, trace: LiveTrace, status: TraceStatus) -> None:
        if trace.is_request and not trace.ignored:
            finish(trace, status=status, ended_at=self._clock())
            self._recorder.record(trace.draft)

    def _stated(self, extractor: Callable[[Any], str | None] | None, value: Any) -> str | None:
        return None if extractor is None else translate.text_of(self._guard.attempt(extractor, value))


class _Listener:
    """Tells a request what became of its stream."""

    __slots__ = ("__weakref__", "_guard", "_requests", "_trace", "root_key")

    def __init__(self, requests: RequestTracker, trace: LiveTrace, guard: Guard) -> None:
        self._guard = guard
        self._requests = requests
        self._trace = trace
        self.root_key = trace.root.key

    @guarded
    def saw(self, item: Any) -> None:
        if item:
            self._requests.first_token(self._trace)

    @guarded
    def ended(self, text: str) -> None:
        self._trace.answer = text
        self._requests.settle(self._trace, "ok")

    @guarded
    def failed(self, error: BaseException) -> None:
        if not self._trace.closed:
            self._trace.draft.error = translate.describe_error(error)
            self._requests.settle(self._trace, "error")

    @guarded
    def stopped(self, text: str) -> None:
        self._trace.answer = text
        self._requests.settle(self._trace, "truncated")

    @guarded
    def lost(self) -> None:
        self._requests.settle(self._trace, "abandoned")
