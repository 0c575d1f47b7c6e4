"""Pauses of LangGraph's graphs: it tells only handlers of its own class, which takes half a second to import."""

from __future__ import annotations

import functools
import sys
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler

__all__ = ["hear_of_pauses"]


def hear_of_pauses(handler: BaseCallbackHandler) -> None:
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
