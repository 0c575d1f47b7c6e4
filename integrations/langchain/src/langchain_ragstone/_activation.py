"""Capture without touching the calls: for a whole process, or for a block of code.

LangChain asks registered hooks, at the start of every call, for a handler to add, and does not add one that the call
has already. A hook cannot be taken back, so both are registered once, when first needed, and switched off by answering
None. They are two, because a hook answers with one handler, and a block may be collected inside a process that is
captured anyway.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from langchain_core.documents import Document
from langchain_core.tracers.context import register_configure_hook

from langchain_ragstone._handler import RagstoneCallbackHandler
from ragstone.requests import Recorder, Request, TraceDraft, assemble

__all__ = ["collect_traces", "ragstone_disable", "ragstone_enable"]


class _ProcessWide:
    """Looks to LangChain like a context variable, and has one value for all threads: a new one starts without context."""

    handler: RagstoneCallbackHandler | None = None

    def get(self) -> RagstoneCallbackHandler | None:
        return self.handler


_process = _ProcessWide()
_block: ContextVar[RagstoneCallbackHandler | None] = ContextVar("langchain_ragstone_block", default=None)


@functools.cache
def _register() -> None:
    # Two threads that come first at once would register twice, which only costs time: LangChain skips known handlers.
    register_configure_hook(cast("ContextVar[Any]", _process), inheritable=True)
    register_configure_hook(_block, inheritable=True)


def ragstone_enable(recorder: Recorder | RagstoneCallbackHandler) -> RagstoneCallbackHandler:
    """Capture every LangChain call of this process from now on, in all its threads, without passing callbacks.

    Where a call is given the returned handler too, it is captured once. A handler of your own making is another one,
    and captures the same call again.

    Args:
        recorder: A `ragstone.Monitor`, or a handler that you made with options. It takes the place of an earlier one.

    Returns:
        The handler that captures.

    Raises:
        ConfigurationError: The recorder has no `record` method.

    Example:
        ```python
        ragstone_enable(Monitor(store="ragstone.db"))
        chain.invoke(question)
        ```
    """
    handler = recorder if isinstance(recorder, RagstoneCallbackHandler) else RagstoneCallbackHandler(recorder)
    _register()
    _process.handler = handler
    return handler


def ragstone_disable() -> None:
    """End what `ragstone_enable` began; requests in flight are still recorded. Without effect where nothing is on."""
    _process.handler = None


@contextmanager
def collect_traces(
    *,
    question: Callable[[Any], str | None] | None = None,
    contexts: Callable[[Any], Iterable[Document | str | Mapping[str, Any]] | None] | None = None,
    answer: Callable[[Any], str | None] | None = None,
    contexts_event: str = "rag.contexts",
) -> Iterator[list[TraceDraft]]:
    """Collect what the LangChain calls inside a block did, in memory; for tests, notebooks and looking closer.

    Calls in threads and tasks belong to the block if they carry its context, as `asyncio.create_task`,
    `asyncio.to_thread` and LangChain's own threads do. Blocks may be nested: an outer one gets everything. It needs no
    monitor, and leaves alone what else captures.

    Args:
        question: As for `RagstoneCallbackHandler`, like the others.
        contexts: As above.
        answer: As above.
        contexts_event: As above.

    Yields:
        The finished requests, in the order in which they end; streams that end after the block come late.

    Example:
        ```python
        with collect_traces() as traces:
            chain.invoke(question)
        print(traces[0].query, traces[0].response)
        ```
    """
    outer = _block.get()
    collected = _Collected(None if outer is None else outer.recorder)
    handler = RagstoneCallbackHandler(
        collected, question=question, contexts=contexts, answer=answer, contexts_event=contexts_event
    )
    _register()
    _block.set(handler)
    try:
        yield collected.drafts
    finally:
        # Not by token: a fixture of an event loop may end in another context than it began in.
        _block.set(outer)


class _Collected:
    """The requests of a block, and of the blocks around it."""

    def __init__(self, outer: Recorder | None) -> None:
        self.drafts: list[TraceDraft] = []
        self._outer = outer

    def record(self, draft: TraceDraft | Request) -> bool:
        """Keep it, assembled."""
        if isinstance(draft, Request):
            draft = assemble(draft)
        self.drafts.append(draft)
        return self._outer is None or self._outer.record(draft)
