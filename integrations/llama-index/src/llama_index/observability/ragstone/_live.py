"""The requests in flight: to which request each span of LlamaIndex belongs.

LlamaIndex reports each step (a *span*) with its own id and the id of its parent. A span whose parent is not in flight
here is the root of a new request.

Special cases:

- Most spans are details (splitters, parsers, prompts): such an id stands for the span around it, and costs no object.
- A streamed answer is made after the root has ended, by spans without a parent, or with the parent of the reader: while
  the application pulls a token through a tap, they join the request of the tap.
- Handlers that are registered twice see every span twice. The second one is ignored.
- See `InFlight` for requests that never end, late spans and forks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from llama_index.observability.ragstone._kinds import STEP_KINDS, Kind
from llama_index.observability.ragstone._nodes import Passages
from ragstone.requests import InFlight, Request, Step, TraceDraft

_MAX_ERRORS: Final = 20
"""Different errors kept per request: an agent that runs for hours may survive thousands."""


@dataclass(slots=True, eq=False)
class Live:
    """A request in flight: its steps so far, and its state that is not part of the record.

    Attributes:
        draft: The record's identity, times and status.
        steps: All steps, in the order in which they began.
        request: What will be handed to the recorder.
        root: The step of the span that began it.
        root_kind: The kind of that span.
        keys: Ids of all its spans, the root's first.
        passages: Its nodes, each copied once.
        block: The block of the application around it, which it joins.
        models: Calls of models in it, each before those inside it.
        ignored: Whether it is followed and not recorded.
        is_request: Whether anything of a RAG request happened in it. Embedding a document does not make a request.
        canceled: Whether the application stopped it.
        paused: Whether it is a workflow that waits for an event from outside, such as a person's reply.
        root_returned: Whether the root has returned. A streamed answer comes later.
        tapped: Whether its answer passes through a tap, which reports its end.
        written: The text and the error of the reader of a streamed chat turn, once it has ended.
        asked_for_otel: How often OpenTelemetry was asked for the current span: others may start theirs after ours.
        closed: Whether it has ended.
    """

    draft: TraceDraft
    root: Step
    root_kind: Kind
    steps: list[Step] = field(init=False)
    request: Request = field(init=False)
    keys: list[Any] = field(init=False)
    passages: Passages = field(default_factory=Passages)
    block: Any = None
    models: list[Span] = field(default_factory=list)
    ignored: bool = False
    is_request: bool = False
    canceled: bool = False
    paused: bool = False
    root_returned: bool = False
    tapped: bool = False
    written: tuple[str | None, str | None] | None = None
    asked_for_otel: int = 0
    closed: bool = False

    def __post_init__(self) -> None:
        self.steps, self.keys = [self.root], [self.root.id]
        self.request = Request(draft=self.draft, steps=self.steps, root=self.root)

    @property
    def n_calls(self) -> int:
        """The number of calls of models: a method that calls another one of the same model is one call with it."""
        return sum(span.parent is None or span.parent.kind != "model" for span in self.models)

    def complete_models(self) -> None:
        """Fill in the replies of streams that were closed early, and leave out calls that report no reply of their own.

        The request has ended: its spans are forgotten.
        """
        for span in self.models:
            if span.step.reply is None and span.parts:
                span.step.reply = "".join(span.parts)
        for span in self.models:
            step, around = span.step, span.parent
            is_inside = around is not None and around.kind == "model" and around.step.reply is not None
            if is_inside and step.reply is None and step.error is None:
                step.kind = "other"
        self.models.clear()  # a circle of references, which only the garbage collector would find

    def note_inner_error(self, description: str) -> None:
        """Keep an error that is not the root's, once: each span that it passes through reports it."""
        errors = self.draft.inner_errors
        if description not in errors and len(errors) < _MAX_ERRORS:
            errors.append(description)


class Span:
    """A span: its step, and its place in the tree. It is muted if it began while capture was suppressed."""

    __slots__ = ("ended", "kind", "live", "parent", "parts", "step", "stopped")

    def __init__(self, step: Step, kind: Kind, live: Live, parent: Span | None) -> None:
        self.step = step
        self.kind = kind
        self.live = live
        self.parent = parent
        self.ended = False
        self.stopped = False
        """Whether it ends because the application stops its run."""
        self.parts: list[str] | None = None
        """Pieces of a streamed reply."""
        step.muted = parent is not None and parent.step.muted

    @property
    def is_workflow_step(self) -> bool:
        """Whether it is a step of the workflow that is the request."""
        parent = self.parent
        return self.kind == "function" and parent is not None and parent.parent is None and parent.kind == "workflow"

    def around(self) -> Iterator[Span]:
        """Yield the spans around this one, nearest first."""
        span = self.parent
        while span is not None:
            yield span
            span = span.parent


class LiveRequests(InFlight[Live, Span]):
    """All requests in flight through one instrumentor."""

    def start(self, key: str, parent_key: str | None, kind: Kind, *, stream_key: str | None = None) -> Span | None:
        """Begin a span, and return it, or the span around it for a detail, or None for a span to be ignored.

        Without a parent it is the request's root. `stream_key` is the root of the request whose stream is being pulled.
        """
        with self._lock:
            spans = self._begun
            if key in spans:
                self.late += 1
                return None
            parent = spans.get(parent_key)
            if stream_key is not None:
                stream = spans.get(stream_key)
                if stream is not None and (parent is None or parent.live is not stream.live):
                    # In any thread or task: the spans that make the tokens of a stream belong to the request that the
                    # stream answers.
                    parent = stream
            if parent is not None:
                live = parent.live
                live.keys.append(key)
                if kind == "detail":
                    spans[key] = parent
                    return parent
                step = Step(id=key, parent=parent.step.id, kind=STEP_KINDS[kind], started_at=self._clock())
                span = spans[key] = Span(step, kind, live, parent)
                live.steps.append(step)
                return span
            if self._has_ended(key, parent_key):
                self.late += 1
                return None
        # Embeddings and splitters outside of any request, as in the building of an index, are not requests.
        return None if kind == "detail" else self._start_root(key, kind)

    def _start_root(self, key: str, kind: Kind) -> Span:
        # LlamaIndex's ids are "Class.method-<uuid>".
        trace_id = key[-36:] if key[-37:-36] == "-" else key
        now = self._clock()
        step = Step(id=key, kind=STEP_KINDS[kind], name=key[:-37], started_at=now)
        live = Live(TraceDraft(trace_id=trace_id, run_id=key, source="llamaindex", started_at=now), step, kind)
        span = Span(step, kind, live, None)
        with self._lock:
            self._begun[key] = span
            self._live[key] = live
        return span

    def find(self, key: str | None) -> Span | None:
        """Return the span of a request in flight that this id belongs to, or stands for."""
        return None if key is None else self._begun.get(key)

    def end(self, key: str) -> Span | None:
        """End a span, and return it unless it is ignored. `close` ends its request: a streamed answer comes later."""
        with self._lock:
            span = self._begun.get(key)
            if span is None:
                self.late += int(hash(key) in self._closed)
                return None
            if span.step.id != key:  # a detail
                return None
            if span.ended:
                self.late += 1
                return None
            span.ended = True
            span.step.ended_at = self._clock()
            return span

    def close(self, live: Live) -> bool:
        """Forget a request; return False if it has been forgotten before."""
        with self._lock:
            if live.closed:
                return False
            self._forget(live)
            return True

    def count_texts(self, span: Span) -> None:
        """Count the texts of a span that has ended, so that its request holds a limited number of characters."""
        with self._lock:
            if not span.live.closed:
                span.live.request.count_texts(span.step)
