"""LangGraph's graphs: when they pause, and which keys of their state belong to this request.

They report pauses only to handlers of their own class, which takes half a second to import. What a graph returns on a
thread is the whole state: a request without a retrieval returns the documents of the request before it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from pydantic import BaseModel

from langchain_ragstone._live import Live
from ragstone.requests import Step

__all__ = ["enable_interrupt_events", "input_keys", "keys_written", "note_node", "only_written"]


def enable_interrupt_events(handler: BaseCallbackHandler) -> None:
    """Make a handler an instance of LangGraph's class, if the application itself has imported LangGraph.

    A graph reports its start before it selects the handlers that receive pauses. So this is in time at the start of each
    request, also for a handler that was made before LangGraph was imported.

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
    """Return the keys of its state that a graph is given; None if it is given none, for example when it resumes."""
    return keys_written(inputs) if isinstance(inputs, Mapping | BaseModel) else None


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
    if live.written is None or not live.nodes or not isinstance(outputs, Mapping):
        return outputs
    return {key: value for key, value in outputs.items() if key in live.written}
