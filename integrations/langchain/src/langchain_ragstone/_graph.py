"""LangGraph's graphs: where they pause, and what of their state is of this request.

They tell of pauses only to handlers of their own class, which takes half a second to import. And what a graph returns on
a thread is the whole state: a question that needs no search returns with the documents of the question before it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from pydantic import BaseModel

from langchain_ragstone._tree import ChainRun, LiveTrace

__all__ = ["enable_interrupt_events", "input_keys", "keys_written", "note_node", "only_written"]


def enable_interrupt_events(handler: BaseCallbackHandler) -> None:
    """Make a handler one of LangGraph's, once the application itself has imported LangGraph.

    A graph reports its start before it looks which of its handlers want to hear of pauses, so that a handler which
    was made before LangGraph was imported is in time when it does this at the start of each request.

    Args:
        handler: The handler; its class becomes a subclass of the one it had.
    """
    kind = getattr(sys.modules.get("langgraph.callbacks"), "GraphCallbackHandler", None)
    if kind is not None and not isinstance(handler, kind):
        own: Any = type(handler)
        handler.__class__ = _with(own, kind)


@functools.cache
def _with(own: type[Any], kind: type[Any]) -> type[Any]:
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__}
    return type(own.__name__, (own, kind), names)


def input_keys(inputs: object) -> set[str] | None:
    """The keys of its state that a graph is given; None where it is given none, as when it resumes."""
    return keys_written(inputs) if isinstance(inputs, Mapping | BaseModel) else None


def note_node(run: ChainRun, metadata: Mapping[str, Any] | None) -> None:
    """Note whether a run is a step of a graph on a thread that is the request itself."""
    at_the_top = run.parent is not None and run.parent.parent is None
    if run.trace.written is not None and at_the_top and "langgraph_node" in (metadata or ()):
        run.is_node = run.trace.is_graph = True


def keys_written(output: object) -> set[str] | None:
    """The keys of its graph's state that a step writes by what it returns; None where that cannot be told."""
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


def only_written(trace: LiveTrace, outputs: Any) -> Any:
    """Of the state that a graph on a thread returns, what this request put there."""
    if trace.written is None or not trace.is_graph or not isinstance(outputs, Mapping):
        return outputs
    return {key: value for key, value in outputs.items() if key in trace.written}
