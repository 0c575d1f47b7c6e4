"""The block that the running code belongs to: how a framework's steps join it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from ragstone.requests._recorder import Recorder
from ragstone.requests._step import Request


class Block(Protocol):
    """A `with monitor.request(...)` block, as translators of framework events see it."""

    outer: Block | None
    """The block around it."""

    @property
    def recorder(self) -> Recorder:
        """The recorder that takes the request."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the request has ended."""
        ...

    @property
    def trace_id(self) -> str | None:
        """The id under which the request is stored. None if it is not captured."""
        ...

    def join(self, request: Request) -> bool:
        """Make a framework's finished request a part of this one, instead of recording it.

        Never raises. Its steps become steps of the block. Contexts and a response that it states count for the block
        unless the block states its own, and so do its session, user, reference, tags and metadata.

        Returns:
            False if the block had ended, so that the steps are counted as late and left out.
        """
        ...


# A context variable, so that tasks and `asyncio.to_thread` started inside inherit it.
_current: ContextVar[Any] = ContextVar("ragstone_current_request", default=None)


def current_request(recorder: Recorder | None = None) -> Any:
    """Return the innermost block around the caller that has not ended, or None if there is none.

    A translator of framework events asks once, when an outermost step begins, with its own recorder. If it gets a block, it
    hands the finished `Request` to the block's `join`, however the request ends, and not to the recorder.

    Args:
        recorder: Only blocks that record into this recorder count, or into one with `takes_every_request`. None means any
            block.
    """
    block = _current.get()
    while block is not None and (block.ended or not _takes(block.recorder, recorder)):
        block = block.outer
    return block


def _takes(taker: Any, recorder: Recorder | None) -> bool:
    return recorder is None or taker is recorder or getattr(taker, "takes_every_request", False) is True


def enter(block: Block) -> Any:
    """Make a block the current one, and return the one before it."""
    outer = _current.get()
    _current.set(block)
    return outer


def leave(block: Block, outer: Block | None) -> None:
    """Make the block around the current one if `block` is: another context has a variable of its own."""
    # Not by token: a generator or an event loop's fixture may end in another context than it began in.
    if _current.get() is block:
        _current.set(outer)


@contextmanager
def entered(block: Block) -> Iterator[None]:
    """Make a block the current one inside `with`: while a generator runs between two of its yields."""
    outer = enter(block)
    try:
        yield
    finally:
        leave(block, outer)
