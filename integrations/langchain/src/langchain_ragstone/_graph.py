"""LangGraph's graphs: when they pause, and which keys of their state belong to this request.

They report pauses only to handlers of their own class, which takes half a second to import. What a graph returns on a
thread is the whole state: a request without a retrieval returns the documents of the request before it.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.callbacks import BaseCallbackHandler
from pydantic import BaseModel

from langchain_ragstone._live import Live
from ragstone.capture import after_fork_in_child
from ragstone.requests import Step, Value
from ragstone.schema import TraceStatus

_MAX_PAUSED: Final = 100
"""Paused requests whose steps are kept."""
_MAX_PAUSED_CHARS: Final = 200_000
"""Characters of prompts and documents of a paused request, at most, whose steps are kept."""


def enable_interrupt_events(handler: BaseCallbackHandler) -> None:
    """Make a handler an instance of LangGraph's class, if the application itself has imported LangGraph.

    A graph reports its start before it selects the handlers that receive pauses. So this is in time at the start of
    each request, also for a handler that was made before LangGraph was imported. The handler's class becomes a subclass
    of the one that it had.
    """
    kind = getattr(sys.modules.get("langgraph.callbacks"), "GraphCallbackHandler", None)
    if kind is not None and not isinstance(handler, kind):
        own: Any = type(handler)
        handler.__class__ = _with(own, kind)


@functools.cache
def _with(own: type[Any], kind: type[Any]) -> type[Any]:
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__}
    return type(own.__name__, (own, kind), names)


class _PausedRequests:
    """The steps of requests that paused, by graph and thread, for the request that resumes them in this process."""

    def __init__(self) -> None:
        self._steps: OrderedDict[tuple[str | None, str], list[Step]] = OrderedDict()
        self._renew_lock()
        after_fork_in_child(self._renew_lock)

    def _renew_lock(self) -> None:
        # In a forked child, because another thread of the parent may hold the earlier one.
        self._lock = threading.Lock()

    def steps(self, live: Live) -> list[Step]:
        """Return the steps of the paused request that a request resumes."""
        with self._lock:
            return [] if live.thread is None else self._steps.get(live.thread, [])

    def end(self, live: Live, *, paused: bool) -> None:
        """Keep the steps of a request that pauses, and forget those of its thread at the end of another one."""
        if live.thread is None:
            return
        is_kept = paused and live.request.n_chars <= _MAX_PAUSED_CHARS
        steps = [_without_costs(step) for step in live.steps] if is_kept else []
        with self._lock:
            self._steps.pop(live.thread, None)
            if is_kept:
                self._steps[live.thread] = steps
                if len(self._steps) > _MAX_PAUSED:
                    self._steps.popitem(last=False)


def _without_costs(step: Step) -> Step:
    """Return a step of a paused request as a step of the one that resumes it, which does not pay for it again."""
    step = copy.copy(step)
    step.input_tokens = step.output_tokens = step.first_token_at = None
    return step


_paused: Final = _PausedRequests()
"""Of all handlers, because an application may make one for each request."""


def begin_on_thread(live: Live, inputs: object, thread_id: object) -> None:
    """Note the keys of its state that a graph on a thread is given, and what it resumes."""
    live.thread = (live.draft.name, str(thread_id))
    live.resumed = inputs is None or type(inputs).__name__ == "Command"
    live.written = keys_written(inputs) if live.resumed or isinstance(inputs, Mapping | BaseModel) else None
    if live.resumed and (earlier := _paused.steps(live)):
        live.steps[:0] = earlier
        live.has_earlier_steps = True


def end_on_thread(live: Live, status: TraceStatus) -> None:
    """Keep the steps of a graph on a thread if it paused."""
    _paused.end(live, paused=status == "interrupted")


def note_node(step: Step, live: Live, metadata: Mapping[str, Any] | None) -> None:
    """Note whether a step is a node of a graph on a thread that is the request itself."""
    if live.written is not None and step.parent == live.root.id and "langgraph_node" in (metadata or ()):
        live.nodes.add(step.id)


def keys_written(output: object) -> set[str] | None:
    """Return the keys of its graph's state that a step writes by what it returns; None if they are unknown."""
    if output is None or isinstance(output, str | bool):  # what routers return
        return set()
    if isinstance(output, Mapping):
        return set(output)
    if isinstance(output, BaseModel):
        return set(output.model_fields_set)
    if isinstance(output, tuple) and len(output) == 2 and isinstance(output[0], str):
        return {output[0]}
    if isinstance(output, list | tuple):
        found = [keys_written(item) for item in output]
        return None if None in found else {key for keys in found if keys is not None for key in keys}
    kind = type(output).__name__
    if kind == "Command":
        return keys_written(getattr(output, "update", None))
    return set() if kind == "Send" else None


def only_written(live: Live, outputs: Any) -> Any:
    """Return the part of the state that this request wrote, if a graph on a thread returned the state."""
    if live.resumed or live.written is None or not live.nodes or not isinstance(outputs, Mapping):
        return outputs
    return {key: value for key, value in outputs.items() if key in live.written}


def without_earlier_documents(live: Live, outputs: Sequence[Value]) -> Sequence[Value]:
    """Return what a request returned, without documents in the state of a resumed graph that are from before its pause.

    Its question and its answer may be from before. If its steps before the pause are not known, as in another process,
    nothing says which of the documents a model saw then.
    """
    if not live.resumed or live.has_earlier_steps:
        return outputs
    return tuple(
        value for value in outputs if value.passages is None or not value.path or value.path[0] in (live.written or ())
    )
