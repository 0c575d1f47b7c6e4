"""The requests in flight: to which request each run of LangChain belongs.

LangChain reports each step (a *run*) with its own id and the id of its parent. A run whose parent is not in flight here
is the root of a new request, whether it has a parent id or not: other tracers open parents that this handler never
sees.

A handler that is registered twice sees every event twice. The second event is ignored. See `InFlight` for the other
cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_ragstone._documents import Passages
from ragstone.requests import InFlight, Request, Step, StepKind, TraceDraft


@dataclass(slots=True, eq=False)
class Live:
    """A request in flight: its steps so far, and its state that is not part of the record.

    Attributes:
        draft: The record's identity, times and status.
        request: What will be handed to the recorder.
        root: The step that began it.
        steps: All steps, in the order in which they began.
        passages: Its documents, each copied once.
        closed: Whether it has ended.
        block: The block of the application around it, which it joins.
        ignored: Whether it is followed and not recorded, because it began while capture was suppressed.
        interrupted: Whether it paused to ask a person.
        is_graph: Whether nodes of a graph ran in it.
        nodes: Ids of the steps of the graph that is the request.
        thread: The name and the thread of a graph on a thread.
        resumed: Whether it is a graph on a thread that continues after a pause.
        has_earlier_steps: Whether its steps before the pause are among the steps.
        written: Keys of its state that a graph on a thread wrote in this request; None if this is unknown.
    """

    draft: TraceDraft
    root: Step
    steps: list[Step] = field(init=False)
    request: Request = field(init=False)
    passages: Passages = field(default_factory=Passages)
    block: Any = None
    closed: bool = False
    ignored: bool = False
    interrupted: bool = False
    is_graph: bool = False
    nodes: set[Any] = field(default_factory=set)
    thread: tuple[str | None, str] | None = None
    resumed: bool = False
    has_earlier_steps: bool = False
    written: set[str] | None = None

    def __post_init__(self) -> None:
        self.steps = [self.root]
        self.request = Request(draft=self.draft, steps=self.steps, root=self.root)

    @property
    def keys(self) -> list[Any]:
        """Ids of all steps."""
        return [step.id for step in self.steps]

    def wrote(self, keys: set[str] | None) -> None:
        """Note that a step wrote these keys of the state, or unknown ones."""
        self.written = None if keys is None or self.written is None else self.written | keys


Begun = tuple[Step, Live]


class LiveRequests(InFlight[Live, Begun]):
    """All requests in flight through one handler."""

    def start(
        self, run_id: UUID, parent_id: UUID | None, kind: StepKind, name: str | None, *, counted: bool = True
    ) -> Begun | None:
        """Begin a step, and return it with its request, or None if the event is to be ignored.

        The step is the request's root if its parent is not in flight. `counted` says if a second start of the same run
        is counted in `late`.
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
                return begun
            if self._has_ended(key, parent_key):
                self.late += counted
                return None
        return self._start_root(run_id, step)

    def _start_root(self, run_id: UUID, step: Step) -> Begun:
        name = str(run_id)
        live = Live(TraceDraft(trace_id=name, run_id=name, source="langchain", started_at=step.started_at or 0.0), step)
        key = run_id.int
        with self._lock:
            begun = self._begun[key] = (step, live)
            self._live[key] = live
        return begun

    def find(self, run_id: UUID) -> Begun | None:
        """Return the step of a run and its request, if the request is in flight."""
        return self._begun.get(run_id.int)

    def end(self, run_id: UUID, *, counted: bool = True) -> Begun | None:
        """End a step, and return it with its request, unless it is ignored. With the root, the request is forgotten."""
        key = run_id.int
        now = self._clock()
        with self._lock:
            begun = self._begun.get(key)
            if begun is None or begun[0].ended_at is not None:
                self.late += counted
                return None
            step, live = begun
            step.ended_at = now
            if step is live.root:
                self._forget(live)
            return begun
