"""Capture without callbacks in the calls: for a whole process, or for an application that `ragstone.evaluate` runs.

At the start of every call, LangChain asks registered hooks for a handler to add, and does not add a handler that the
call already has. A hook cannot be removed, so both hooks are registered once, when first needed, and switched off by
returning None. There are two, because a hook returns one handler, and `evaluate` may run inside a process that is captured.

The hook of the process returns a copy of the handler, which shares its state. So the handler can distinguish a model
call that it was passed to from one that is captured with everything else.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, cast

from langchain_core.tracers.context import register_configure_hook

from langchain_ragstone._handler import RagstoneCallbackHandler
from ragstone.errors import ConfigurationError
from ragstone.requests import Recorder, RetrieverTools


class _ProcessWide:
    """An object with the method of a context variable that LangChain calls, and one value for all threads.

    A new thread starts without context.
    """

    handler: RagstoneCallbackHandler | None = None

    def get(self) -> RagstoneCallbackHandler | None:
        return self.handler


_process = _ProcessWide()
_block: ContextVar[RagstoneCallbackHandler | None] = ContextVar("langchain_ragstone_block", default=None)


@functools.cache
def _register() -> None:
    # Two threads at the same time would register twice, which only costs time: LangChain skips known handlers.
    register_configure_hook(cast("ContextVar[Any]", _process), inheritable=True)
    register_configure_hook(_block, inheritable=True)


def _on_every_call(handler: RagstoneCallbackHandler) -> RagstoneCallbackHandler:
    """Return a twin of a handler, for the hook of the process."""
    own: Any = type(handler)
    twin: RagstoneCallbackHandler = object.__new__(_twin_of(own))
    twin.__dict__ = handler.__dict__
    return twin


@functools.cache
def _twin_of(kind: type[Any]) -> type[Any]:
    return type(kind.__name__, (kind,), {"__module__": kind.__module__, "_on_every_call": True})


def ragstone_enable(
    recorder: Recorder | RagstoneCallbackHandler, *, retriever_tools: Iterable[str] | RetrieverTools = ()
) -> RagstoneCallbackHandler:
    """Capture every LangChain call of this process from now on, in all its threads, without passing callbacks.

    Calls of evaluators are not captured. Bare model calls (`model.invoke(…)` outside any chain, agent or graph, for
    example for a title or for moderation) are not requests: they are counted in `ignored_models` of the handler. Pass
    the returned handler to such a call, or put it into a `Monitor.request` block, if it is a request.

    A call that is passed the returned handler too is captured once. Another handler captures the same call again.

    Args:
        recorder: A `ragstone.Monitor`, or a handler that you made with options. It replaces an earlier one.
        retriever_tools: As for `RagstoneCallbackHandler`.

    Returns:
        The handler that captures.

    Raises:
        ConfigurationError: If the recorder does not have a `record` method, or if a handler is given with
            `retriever_tools`.

    Examples:
        ```python
        ragstone_enable(Monitor(store="ragstone.db"))
        chain.invoke(question)
        ```
    """
    if not isinstance(recorder, RagstoneCallbackHandler):
        handler = RagstoneCallbackHandler(recorder, retriever_tools=retriever_tools)
    elif retriever_tools:
        raise ConfigurationError("retriever_tools: pass it to the RagstoneCallbackHandler that you made")
    else:
        handler = recorder
    _register()
    _process.handler = _on_every_call(handler)
    return handler


def ragstone_disable() -> None:
    """Stop the capture that `ragstone_enable` started. Requests in flight are still recorded. No effect if it is off."""
    _process.handler = None
