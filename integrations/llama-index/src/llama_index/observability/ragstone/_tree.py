"""The tree of spans behind every request in flight, and nothing of LlamaIndex but its span ids.

LlamaIndex reports each step (a *span*) with its own id and that of its parent. The request a span belongs to is found
by walking up: a span whose parent we do not know is the root of a new request. What can go wrong, and what is done:

- most spans are details (splitters, parsers, prompts): such an id stands for the span above it, and costs no object;
- a streamed answer is made after the root has ended, by spans that have no parent, or that of whoever reads it: while
  the application pulls a token through our tap, they join the request that the tap belongs to;
- handlers that are registered twice see everything twice: the second one is ignored;
- spans of a request that has ended must not open a new one: the last ids are remembered for a while;
- a stream that is held open ends never: requests over `ttl_s`, and the oldest beyond `max_live`, are given up;
- the garbage collector may end an abandoned stream, and so call back into this module, *while the same thread is inside
  it*: the lock is re-entrant, and each section that holds it is a few operations on plain containers;
- a forked child inherits requests that its parent will finish: it forgets them, and starts with a fresh lock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from enum import Enum

from ragstone.capture import after_fork_in_child
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft

__all__ = ["REQUESTS", "Entry", "Kind", "LiveTrace", "Span", "SpanTree"]

_REMEMBERED = 20_000
"""Hashes of ended spans' ids kept per generation (two generations, about 3 MB at most)."""

_INNER_ERRORS = 20
"""Different errors kept per request; an agent that goes on for hours may survive thousands."""

_SWEPT_PER_START = 2
"""More than one, so that sweeping catches up; few, so that no request pays for many others."""


class Kind(Enum):
    """What a span is, as far as a request is concerned."""

    QUERY = "a query engine's call"
    CHAT = "a chat engine's turn"
    WORKFLOW = "a run of a workflow or an agent"
    RETRIEVE = "a search"
    SYNTHESIZE = "an answer made from nodes"
    POSTPROCESS = "a re-ranker or filter"
    TOOL = "a call of an agent's tool"
    LLM = "a call of a language model"
    WRITER = "the reader behind a streamed chat turn"
    STEP = "a workflow's step, or a function of the application's"
    DETAIL = "anything else: it stands for the span above it"

    __hash__ = object.__hash__  # the default hashes the name, in Python, at every look-up


REQUESTS = frozenset({Kind.QUERY, Kind.CHAT, Kind.WORKFLOW, Kind.RETRIEVE, Kind.SYNTHESIZE})
"""Spans that make what they belong to a RAG request; a call of a model alone is none."""

_SCOPES = frozenset({Kind.QUERY, Kind.CHAT, Kind.WORKFLOW, Kind.TOOL})


class LiveTrace:
    """A request in flight: its draft, and what its spans have contributed so far."""

    __slots__ = (
        "answer", "asked_for_otel", "cancelled", "closed", "contexts", "draft", "ignored", "is_request", "keys",
        "last_answer", "log", "passages", "paused", "root", "root_returned", "sources", "tapped", "written",
    )  # fmt: skip

    root: Span

    def __init__(self, draft: TraceDraft) -> None:
        self.draft = draft
        self.ignored = False
        """Whether it started while capture was suppressed: it is followed, and not recorded."""
        self.is_request = False
        """Whether anything of a RAG request happened in it; embedding a document is none."""
        self.keys: list[str] = []
        """Ids of all its spans, the root's first."""
        self.log: list[Span | Entry] = []
        """Searches in the order they started, and what became of their passages."""
        self.passages: dict[str, PassageDraft] = {}
        """Passages by node id, so that a node that comes again is not copied again."""
        self.contexts: list[PassageDraft] | None = None
        """Contexts that the application stated itself."""
        self.sources: list[PassageDraft] | None = None
        """The nodes that the root's result names as its sources."""
        self.answer: str | None = None
        """The answer in the root's result, or what a stream turned out to be."""
        self.last_answer: tuple[Span, str] | None = None
        """The last text of a synthesizer or a model that was not a tool call."""
        self.cancelled = False
        """Whether the application stopped it."""
        self.paused = False
        """Whether it is a workflow that waits for an event from outside, such as a person's answer."""
        self.root_returned = False
        """Whether the root has returned; a streamed answer comes later."""
        self.tapped = False
        """Whether its answer passes through a tap, which will say how it ends."""
        self.written: tuple[str | None, str | None] | None = None
        """What the reader behind a streamed chat turn made of it, and its error, once it has ended."""
        self.asked_for_otel = 0
        """How often OpenTelemetry was asked for the current span: others may start theirs after ours."""
        self.closed = False

    def note_inner_error(self, description: str) -> None:
        """Keep an error that is not the root's, once: each span it passes through reports it."""
        errors = self.draft.inner_errors
        if description not in errors and len(errors) < _INNER_ERRORS:
            errors.append(description)


class Span:
    """One span: its place in the tree, and what it found."""

    __slots__ = (
        "counted", "ended", "failed", "inside_search", "key", "kind", "muted", "name", "parent", "parts", "query",
        "scope", "search", "stopped", "texts_in", "trace",
    )  # fmt: skip

    def __init__(self, key: str, kind: Kind, trace: LiveTrace, parent: Span | None) -> None:
        self.key = key
        self.kind = kind
        self.trace = trace
        self.parent = parent
        self.ended = False
        self.failed = False
        self.stopped = False
        """Whether it ends because the application stops its run."""
        self.counted = False
        """Whether a model call below has told its tokens already."""
        self.query: str | None = None
        self.name: str | None = None
        self.search: RetrievalDraft | None = None
        self.texts_in: frozenset[str] = frozenset()
        """Texts of the nodes that a re-ranker was given."""
        self.parts: list[str] | None = None
        """Pieces of a streamed chat turn."""
        if parent is None:
            self.muted = False
            self.inside_search = False
            self.scope = self
        else:
            self.muted = parent.muted
            """Started while capture was suppressed (a judge call of ours, say): contributes nothing."""
            self.inside_search = parent.inside_search or parent.kind is Kind.RETRIEVE
            """Whether it is a detail of a search: a sub-query, an inner index, a rewritten question."""
            self.scope = self if kind in _SCOPES else parent.scope
            """The nearest engine, tool or workflow: what is searched in it is what its answers are made from."""

    @property
    def is_workflow_step(self) -> bool:
        """Whether it is a step of the workflow that is the request."""
        parent = self.parent
        return self.kind is Kind.STEP and parent is self.trace.root and parent.kind is Kind.WORKFLOW

    def ancestors(self) -> Iterator[Span]:
        """The spans above this one, nearest first."""
        span = self.parent
        while span is not None:
            yield span
            span = span.parent

    @property
    def discarded(self) -> bool:
        """Whether this span was part of an attempt that failed, and that the application made good by another."""
        return self.parent is not None and (
            self.failed or any(span.failed and span.parent is not None for span in self.ancestors())
        )


class Entry:
    """What became of passages: re-ranked, when there are texts they are made from; else put into a prompt."""

    __slots__ = ("passages", "span", "texts_in")

    def __init__(self, span: Span, texts_in: frozenset[str] | None, passages: list[PassageDraft]) -> None:
        self.span = span
        self.texts_in = texts_in
        self.passages = passages


class _RecentIds:
    """A set that forgets its oldest members: two generations, the older one dropped when the younger is full."""

    __slots__ = ("_limit", "_old", "_young")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __contains__(self, key: str | None) -> bool:
        if key is None:
            return False
        number = hash(key)
        return number in self._young or number in self._old

    def update(self, keys: list[str]) -> None:
        if len(self._young) >= self._limit:
            self._old, self._young = self._young, set()
        self._young.update(map(hash, keys))


class SpanTree:
    """All requests in flight through one instrumentor; every method may be called from any thread.

    Attributes:
        late: Spans ignored because they came twice, or after their request had ended.
    """

    def __init__(self, *, ttl_s: float, max_live: int, clock: Callable[[], float]) -> None:
        self._ttl_s = ttl_s
        self._max_live = max_live
        self._clock = clock
        self.late = 0
        self._start_empty()
        after_fork_in_child(self.forget_all)

    def _start_empty(self) -> None:
        self._lock = threading.RLock()
        self._spans: dict[str, Span] = {}
        self._live: OrderedDict[str, LiveTrace] = OrderedDict()
        self._closed = _RecentIds(_REMEMBERED)

    def __len__(self) -> int:
        """How many requests are in flight."""
        return len(self._live)

    def start(self, key: str, parent_key: str | None, kind: Kind, *, stream_key: str | None = None) -> Span | None:
        """A span has started.

        Args:
            key: Its id.
            parent_key: The id of the span it runs in, as LlamaIndex says.
            kind: What it is.
            stream_key: The root of the request whose stream is being pulled.

        Returns:
            The span; a root has no parent. None when there is nothing to do.
        """
        with self._lock:
            spans = self._spans
            if key in spans:
                self.late += 1
                return None
            parent = None if parent_key is None else spans.get(parent_key)
            stream = None if stream_key is None else spans.get(stream_key)
            if stream is not None and (parent is None or parent.trace is not stream.trace):
                # Whoever reads a stream, what makes its tokens belongs to the request that the stream answers.
                parent = stream
            if parent is not None:
                trace = parent.trace
                trace.keys.append(key)
                if kind is Kind.DETAIL:
                    spans[key] = parent
                    return None
                span = spans[key] = Span(key, kind, trace, parent)
                return span
            if parent_key in self._closed or key in self._closed:
                self.late += 1
                self._closed.update([key])
                return None
        # Embeddings and splitters outside any request, as while an index is built, are nobody's request.
        return None if kind is Kind.DETAIL else self._start_root(key, kind)

    def _start_root(self, key: str, kind: Kind) -> Span:
        # LlamaIndex's ids are "Class.method-<uuid>".
        trace_id = key[-36:] if key[-37:-36] == "-" else key
        trace = LiveTrace(TraceDraft(trace_id=trace_id, run_id=key, source="llamaindex", started_at=self._clock()))
        span = trace.root = Span(key, kind, trace, None)
        with self._lock:
            self._spans[key] = span
            self._live[key] = trace
            trace.keys.append(key)
        return span

    def find(self, key: str | None) -> Span | None:
        """The span of a request in flight that this id belongs to, or stands for."""
        return None if key is None else self._spans.get(key)

    def end(self, key: str, *, failed: bool = False) -> Span | None:
        """A span has ended; the request goes on until `close`, because a streamed answer comes after its root.

        Returns:
            The span, or None when there is nothing to do.
        """
        with self._lock:
            span = self._spans.get(key)
            if span is None:
                self.late += int(key in self._closed)
                return None
            if span.key != key:
                return None
            if span.ended:
                self.late += 1
                return None
            span.ended = True
            span.failed = failed
            return span

    def close(self, trace: LiveTrace) -> bool:
        """Forget a request; False when it is forgotten already."""
        with self._lock:
            if trace.closed:
                return False
            self._forget(trace)
            return True

    def give_up(
        self,
        *,
        older_than_s: float | None = None,
        at_most: int | None = _SWEPT_PER_START,
        only: Callable[[LiveTrace], bool] | None = None,
    ) -> list[LiveTrace]:
        """Take out requests that are too old or, oldest first, too many.

        Args:
            older_than_s: Age from which a request is too old; the tree's `ttl_s` by default.
            at_most: How many to take out; None for no limit.
            only: Take only these, whatever their age.
        """
        given_up: list[LiveTrace] = []
        oldest_start = self._clock() - (self._ttl_s if older_than_s is None else older_than_s)
        with self._lock:
            if only is not None:
                given_up = [trace for trace in self._live.values() if only(trace)]
                for trace in given_up:
                    self._forget(trace)
                return given_up
            while self._live and (at_most is None or len(given_up) < at_most):
                trace = next(iter(self._live.values()))
                if trace.draft.started_at > oldest_start and len(self._live) <= self._max_live:
                    break
                self._forget(trace)
                given_up.append(trace)
        return given_up

    def _forget(self, trace: LiveTrace) -> None:
        trace.closed = True
        self._live.pop(trace.root.key, None)
        for key in trace.keys:
            self._spans.pop(key, None)
        self._closed.update(trace.keys)

    def forget_all(self) -> None:
        """Start afresh in a forked child: what is in flight belongs to the parent, the lock may be held by nobody."""
        traces, keys = list(self._live.values()), list(self._spans)
        self._start_empty()
        self._closed.update(keys)
        for trace in traces:
            trace.closed = True
