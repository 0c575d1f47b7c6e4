"""The tree of runs behind every request in flight, and nothing of LangChain but its run ids.

LangChain reports each step (a *run*) with its own id and that of its parent. The request a run belongs to is found by
walking up: a run whose parent we have never seen is the root of a new request, *whatever* its parent id says, because
tracers of other makers open parents that we are not told about.

What can go wrong, and what is done about it:

- a handler that is registered twice sees every event twice: the second one is ignored;
- events of a request that has ended must not open a new one: the ids of the last runs are remembered for a while;
- a stream that is held open and never read ends never: requests over `ttl_s`, and the oldest beyond `max_live`, are
  given up;
- the garbage collector may close an abandoned stream, and so call back into this module, *while the same thread is
  inside it*: the lock is re-entrant, and each section that holds it is a few operations on plain containers;
- a forked child inherits requests that its parent will finish: it forgets them, and starts with a fresh lock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TypeVar
from uuid import UUID

from ragstone.capture import after_fork_in_child
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft

__all__ = ["ChainRun", "LiveTrace", "LlmRun", "RetrieverRun", "Run", "RunTree", "Step", "ToolRun"]

_REMEMBERED = 20_000
"""Ids of ended runs kept per generation (two generations, about 3 MB at most)."""

_INNER_ERRORS = 20
"""Different errors kept per request; an agent that goes on for hours may survive thousands."""

_SWEPT_PER_START = 2
"""More than one, so that sweeping catches up; few, so that no request pays for many others."""


class LiveTrace:
    """A request in flight: its draft, and what its runs have contributed so far."""

    __slots__ = (
        "contexts", "draft", "ignored", "interrupted", "is_graph", "keys", "last_answer", "open", "searching", "steps",
        "written",
    )  # fmt: skip

    def __init__(self, draft: TraceDraft) -> None:
        self.draft = draft
        self.ignored = False
        """Whether it started while capture was suppressed: it is followed, and not recorded."""
        self.keys: list[int] = []
        """Keys of all its runs, the root's first."""
        self.open = 0
        """Runs that have started and not ended."""
        self.searching: list[RetrieverRun | ToolRun] = []
        """Runs that search, in the order they started; each carries its `search` once it has found something."""
        self.steps: list[Step] = []
        """Steps that turned documents into documents (re-rankers, filters), in the order they ended."""
        self.last_answer: tuple[LlmRun, str] | None = None
        """The last text of a model that was not a tool call."""
        self.contexts: list[PassageDraft] | None = None
        """Contexts that the application stated itself."""
        self.interrupted = False
        """Whether it paused to ask a person."""
        self.written: set[str] | None = None
        """Keys of its state that a graph on a thread wrote in this request; None where that is not known."""
        self.is_graph = False
        """Whether it is such a graph."""

    def wrote(self, keys: set[str] | None) -> None:
        """A step wrote these keys of the state, or some that nobody knows."""
        self.written = None if keys is None or self.written is None else self.written | keys

    def note_inner_error(self, description: str) -> None:
        """Keep an error that is not the root's, once: each step it passes through reports it."""
        errors = self.draft.inner_errors
        if description not in errors and len(errors) < _INNER_ERRORS:
            errors.append(description)


class Run:
    """One run: its place in the tree, and whether it ended, failed or is to be kept out."""

    __slots__ = ("ended", "failed", "muted", "parent", "searched", "trace")

    def __init__(self, trace: LiveTrace, parent: Run | None) -> None:
        self.trace = trace
        self.parent = parent
        self.ended = False
        self.failed = False
        self.muted: bool = parent is not None and parent.muted
        """Started while capture was suppressed (a judge call of ours, say): contributes nothing."""
        self.searched = False
        """Whether a search that counts ran below: then documents that come out of this run are known already."""

    def ancestors(self) -> Iterator[Run]:
        """The runs above this one, nearest first."""
        run = self.parent
        while run is not None:
            yield run
            run = run.parent

    @property
    def inside_search(self) -> bool:
        """Whether this run is a detail of a retriever: a sub-query, an inner index, a compressor's model call."""
        return any(isinstance(run, RetrieverRun) for run in self.ancestors())

    def counts_as_search(self) -> None:
        """Tell the runs above that what they return was found here."""
        for run in self.ancestors():
            run.searched = True

    @property
    def discarded(self) -> bool:
        """Whether this run was part of an attempt that failed, and that the application made good by another."""
        return self.parent is not None and (
            self.failed or any(run.failed and run.parent is not None for run in self.ancestors())
        )


class ChainRun(Run):
    """Any step that is not of another kind."""

    __slots__ = ("documents_in", "is_node")

    def __init__(self, trace: LiveTrace, parent: Run | None) -> None:
        super().__init__(trace, parent)
        self.is_node = False
        """Whether it is a step of the graph that is the request, on a thread."""
        self.documents_in: frozenset[str] | None = None
        """Texts of the documents it was given, if it was given documents."""


class LlmRun(Run):
    """A call of a language model."""

    __slots__ = ()


class RetrieverRun(Run):
    """A call of a retriever."""

    __slots__ = ("name", "outermost", "query", "search")

    def __init__(self, trace: LiveTrace, parent: Run | None) -> None:
        super().__init__(trace, parent)
        self.outermost = False
        """Whether its documents count: not so for a detail of another retriever."""
        self.query: str | None = None
        self.name: str | None = None
        self.search: RetrievalDraft | None = None


class ToolRun(Run):
    """A call of an agent's tool; it counts as a search only when it returns documents and no retriever ran below."""

    __slots__ = ("name", "query", "search")

    def __init__(self, trace: LiveTrace, parent: Run | None) -> None:
        super().__init__(trace, parent)
        self.query: str | None = None
        self.name: str | None = None
        self.search: RetrievalDraft | None = None


class Step:
    """Documents in, documents out: what a re-ranker or filter in a plain function looks like from outside."""

    __slots__ = ("documents_in", "passages", "run")

    def __init__(self, run: ChainRun, documents_in: frozenset[str], passages: list[PassageDraft]) -> None:
        self.run = run
        self.documents_in = documents_in
        self.passages = passages


class _RecentIds:
    """A set that forgets its oldest members: two generations, the older one dropped when the younger is full."""

    __slots__ = ("_limit", "_old", "_young")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __contains__(self, key: int | None) -> bool:
        return key in self._young or key in self._old

    def update(self, keys: list[int]) -> None:
        if len(self._young) >= self._limit:
            self._old, self._young = self._young, set()
        self._young.update(keys)


_R = TypeVar("_R", bound=Run)


class RunTree:
    """All requests in flight through one handler; every method may be called from any thread.

    Attributes:
        late: Events ignored because they came twice, or after their request had ended.
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
        self._runs: dict[int, Run] = {}
        self._live: OrderedDict[int, LiveTrace] = OrderedDict()
        self._closed = _RecentIds(_REMEMBERED)

    def __len__(self) -> int:
        """How many requests are in flight."""
        return len(self._live)

    def start(self, run_id: UUID, parent_id: UUID | None, kind: type[_R]) -> _R | None:
        """A run has started.

        Returns:
            The run, of the given kind; a root has no parent. None when the event is to be ignored.
        """
        key = run_id.int  # an int hashes and compares in C, a UUID in Python
        parent_key = None if parent_id is None else parent_id.int
        with self._lock:
            if key in self._runs:
                self.late += 1
                return None
            parent = None if parent_key is None else self._runs.get(parent_key)
            if parent is not None:
                trace = parent.trace
                run = self._runs[key] = kind(trace, parent)
                trace.keys.append(key)
                trace.open += 1
                return run
            if parent_key in self._closed or key in self._closed:
                self.late += 1
                self._closed.update([key])
                return None
        return self._start_root(run_id, kind)

    def _start_root(self, run_id: UUID, kind: type[_R]) -> _R:
        name = str(run_id)
        trace = LiveTrace(TraceDraft(trace_id=name, run_id=name, source="langchain", started_at=self._clock()))
        run = kind(trace, None)
        key = run_id.int
        with self._lock:
            self._runs[key] = run
            self._live[key] = trace
            trace.keys.append(key)
            trace.open = 1
        return run

    def find(self, run_id: UUID) -> Run | None:
        """The run of a request in flight, if it is one."""
        return self._runs.get(run_id.int)

    def end(self, run_id: UUID, *, failed: bool = False) -> Run | None:
        """A run has ended; with the root the whole request is forgotten.

        Returns:
            The run, or None when the event is to be ignored.
        """
        key = run_id.int
        with self._lock:
            run = self._runs.get(key)
            if run is None or run.ended:
                self.late += 1
                return None
            run.ended = True
            run.failed = failed
            run.trace.open -= 1
            if run.parent is None:
                self._forget(key, run.trace)
            return run

    def give_up(self, *, older_than_s: float | None = None, at_most: int | None = _SWEPT_PER_START) -> list[LiveTrace]:
        """Take out requests that are too old or, oldest first, too many.

        Args:
            older_than_s: Age from which a request is too old; the tree's `ttl_s` by default.
            at_most: How many to take out; None for no limit.
        """
        given_up: list[LiveTrace] = []
        oldest_start = self._clock() - (self._ttl_s if older_than_s is None else older_than_s)
        with self._lock:
            while self._live and (at_most is None or len(given_up) < at_most):
                key, trace = next(iter(self._live.items()))
                if trace.draft.started_at > oldest_start and len(self._live) <= self._max_live:
                    break
                self._forget(key, trace)
                given_up.append(trace)
        return given_up

    def _forget(self, key: int, trace: LiveTrace) -> None:
        self._live.pop(key, None)
        for run_key in trace.keys:
            self._runs.pop(run_key, None)
        self._closed.update(trace.keys)

    def forget_all(self) -> None:
        """Start afresh in a forked child: what is in flight belongs to the parent, the lock may be held by nobody."""
        runs = list(self._runs)
        self._start_empty()
        self._closed.update(runs)
