"""The requests in flight: to which request each run of LangChain belongs.

LangChain reports each step (a *run*) with its own id and the id of its parent. A run whose parent is not in flight here is
the root of a new request, whether it has a parent id or not: other tracers open parents that this handler never sees.

Special cases:

- A handler that is registered twice sees every event twice. The second event is ignored.
- Events of a request that has ended must not start a new one. The ids of recent runs are remembered.
- A stream that is held open and never read does not have an end event. Requests older than `ttl_s`, and the oldest beyond `max_live`,
  are given up.
- The garbage collector may close an abandoned stream, and thereby call this module, while the same thread is inside it.
  The lock is re-entrant, and each section that holds it is a few operations on plain containers.
- A forked child inherits requests that its parent will finish. It forgets them and starts with a new lock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from langchain_ragstone._documents import Passages
from ragstone.capture import after_fork_in_child
from ragstone.requests import Request, Step, StepKind, TraceDraft

_REMEMBERED: Final = 20_000
"""Ids of ended runs kept (about 3 MB)."""
_SWEPT_PER_START: Final = 2
"""More than one, so that the number of requests in flight shrinks; few, so that no request pays for many others."""


class Live:
    """A request in flight: its steps so far, and its state that is not part of the record.

    Attributes:
        request: What will be handed to the recorder.
        root: The step that began it.
        steps: All steps, in the order in which they began.
        passages: Its documents, each copied once.
        block: The block of the application around it, which it joins.
        n_open: Steps that have begun and not ended.
        ignored: Whether it is followed and not recorded, because it began while capture was suppressed.
        interrupted: Whether it paused to ask a person.
        is_graph: Whether nodes of a graph ran in it.
        nodes: Ids of the steps of the graph that is the request.
        thread: The name and the thread of a graph on a thread.
        resumed: Whether it is a graph on a thread that continues after a pause.
        has_earlier_steps: Whether its steps before the pause are among the steps.
        written: Keys of its state that a graph on a thread wrote in this request; None if this is unknown.
    """

    __slots__ = (
        "block", "has_earlier_steps", "ignored", "interrupted", "is_graph", "n_open", "nodes", "passages",
        "request", "resumed", "root", "steps", "thread", "written",
    )  # fmt: skip

    def __init__(self, draft: TraceDraft, root: Step) -> None:
        self.root = root
        self.steps = [root]
        self.request = Request(draft=draft, steps=self.steps, root=root)
        self.passages = Passages()
        self.block: Any = None
        self.n_open = 1
        self.ignored = False
        self.interrupted = False
        self.is_graph = False
        self.nodes: set[Any] = set()
        self.thread: tuple[str | None, str] | None = None
        self.resumed = False
        self.has_earlier_steps = False
        self.written: set[str] | None = None

    @property
    def draft(self) -> TraceDraft:
        """The record's identity, times and status."""
        return self.request.draft

    def wrote(self, keys: set[str] | None) -> None:
        """Note that a step wrote these keys of the state, or unknown ones."""
        self.written = None if keys is None or self.written is None else self.written | keys


Begun = tuple[Step, Live]


class LiveRequests:
    """All requests in flight through one handler. Every method may be called from any thread.

    Attributes:
        late: Events ignored because they came twice, or after their request had ended.
        ignored_models: Bare model calls that were not recorded.
    """

    def __init__(self, *, ttl_s: float, max_live: int, clock: Callable[[], float]) -> None:
        self._ttl_s = ttl_s
        self._max_live = max_live
        self._clock = clock
        self.late = 0
        self.ignored_models = 0
        self._start_empty()
        after_fork_in_child(self.forget_all)

    def _start_empty(self) -> None:
        self._lock = threading.RLock()
        self._begun: dict[int, Begun] = {}
        self._live: OrderedDict[int, Live] = OrderedDict()
        self._closed: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of requests in flight."""
        return len(self._live)

    def start(
        self, run_id: UUID, parent_id: UUID | None, kind: StepKind, name: str | None, *, counted: bool = True
    ) -> Begun | None:
        """Begin a step.

        Args:
            run_id: The run.
            parent_id: Its parent, if it has one.
            kind: The kind of the step.
            name: The name of the step.
            counted: Whether a second start of the same run is counted in `late`.

        Returns:
            The step and its request. The step is the request's root if its parent is not in flight. None if the event is
            to be ignored.
        """
        key = run_id.int  # an int hashes and compares in C, a UUID in Python
        parent_key = None if parent_id is None else parent_id.int
        step = Step(id=key, parent=parent_key, kind=kind, name=name, started_at=self._clock())
        with self._lock:
            if key in self._begun:
                self.late += counted
                return None
            around = None if parent_key is None else self._begun.get(parent_key)
            if around is not None:
                live = around[1]
                begun = self._begun[key] = (step, live)
                live.steps.append(step)
                live.n_open += 1
                return begun
            if parent_key in self._closed or key in self._closed:
                self.late += counted
                self._remember([key])
                return None
        return self._start_root(run_id, step)

    def _start_root(self, run_id: UUID, step: Step) -> Begun:
        name = str(run_id)
        started_at = step.started_at or 0.0
        live = Live(TraceDraft(trace_id=name, run_id=name, source="langchain", started_at=started_at), step)
        key = run_id.int
        with self._lock:
            begun = self._begun[key] = (step, live)
            self._live[key] = live
        return begun

    def find(self, run_id: UUID) -> Begun | None:
        """Return the step of a run and its request, if the request is in flight."""
        return self._begun.get(run_id.int)

    def end(self, run_id: UUID, *, counted: bool = True) -> Begun | None:
        """End a step; with the root, the request is forgotten.

        Returns:
            The step and its request, or None if the event is to be ignored.
        """
        key = run_id.int
        now = self._clock()
        with self._lock:
            begun = self._begun.get(key)
            if begun is None or begun[0].ended_at is not None:
                self.late += counted
                return None
            step, live = begun
            step.ended_at = now
            live.n_open -= 1
            if step is live.root:
                self._forget(key, live)
            return begun

    def ignore_model(self) -> None:
        """Count a bare model call that is not recorded."""
        with self._lock:
            self.ignored_models += 1

    def give_up(self, *, older_than_s: float | None = None, at_most: int | None = _SWEPT_PER_START) -> list[Live]:
        """Take out requests that are too old or, oldest first, too many.

        Args:
            older_than_s: Age from which a request is too old; `ttl_s` by default.
            at_most: Number of requests to take out; None for no limit.
        """
        given_up: list[Live] = []
        oldest_start = self._clock() - (self._ttl_s if older_than_s is None else older_than_s)
        with self._lock:
            while self._live and (at_most is None or len(given_up) < at_most):
                key, live = next(iter(self._live.items()))
                if live.draft.started_at > oldest_start and len(self._live) <= self._max_live:
                    break
                self._forget(key, live)
                given_up.append(live)
        return given_up

    def _forget(self, key: int, live: Live) -> None:
        self._live.pop(key, None)
        keys: list[Any] = [step.id for step in live.steps]
        for step_key in keys:
            self._begun.pop(step_key, None)
        self._remember(keys)

    def _remember(self, keys: list[Any]) -> None:
        """Note the ids of runs that have ended, and forget the oldest."""
        self._closed.update(dict.fromkeys(keys))
        while len(self._closed) > _REMEMBERED:
            self._closed.popitem(last=False)

    def forget_all(self) -> None:
        """Start empty in a forked child: the parent finishes what is in flight, and another thread may hold the lock."""
        keys = list(self._begun)
        self._start_empty()
        self._remember(keys)
