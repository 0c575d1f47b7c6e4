"""A tap on a streamed answer: the application's tokens pass through it unchanged, when the application pulls them.

The tap does not read the stream itself. It is a generator like the one that it replaces, so that laziness, errors,
`close`,
`send` and `throw` stay the same. LlamaIndex calls the model when the first token is pulled, in spans without a parent.
A context variable holds the request of the stream meanwhile.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

pulled_stream: ContextVar[str | None] = ContextVar("ragstone_llama_index_pulled_stream", default=None)
"""The root span of the request whose stream the caller is pulling."""


class StreamListener(Protocol):
    """Takes note of a stream. It never raises, and does not hold objects of the application."""

    root_key: str

    def saw(self, item: Any) -> None:
        """Take note of a token that is passed on."""

    def ended(self, text: str) -> None:
        """Take note that the application has read it to the end."""

    def failed(self, error: BaseException) -> None:
        """Take note that the stream raised."""

    def stopped(self, text: str) -> None:
        """Take note that the application closed it before its end."""

    def lost(self) -> None:
        """Take note that it was never read, and was collected."""


class _Text:
    """The items that passed through: texts, responses with a `delta`, or versions of an object, the last of which counts."""

    __slots__ = ("_last", "_parts", "_text_of", "begun")

    def __init__(self, text_of: Callable[[Any], str | None]) -> None:
        self.begun = False
        self._parts: list[str] = []
        self._last: Any = None
        self._text_of = text_of

    def add(self, item: Any) -> None:
        piece = item if isinstance(item, str) else getattr(item, "delta", None)
        if isinstance(piece, str):
            self._parts.append(piece)
        else:
            self._last = item

    def __str__(self) -> str:
        # Lives as long as the application's generator does, and so may hold its last object.
        return "".join(self._parts) if self._last is None else (self._text_of(self._last) or "")


def wrap_stream(
    tokens: Any, listener: StreamListener, text_of: Callable[[Any], str | None]
) -> Generator[Any, Any, Any]:
    """Replace an iterator of tokens. `text_of` returns the text of an item that is not a string."""
    text = _Text(text_of)
    stand_in = _tap(tokens, listener, text)
    # On the generator, not on the response around it: applications keep only this.
    weakref.finalize(stand_in, _collected, listener, text).atexit = False
    return stand_in


def _collected(listener: StreamListener, text: _Text) -> None:
    # A generator that has begun is closed when it is collected, after this, and says by itself how far it came.
    if not text.begun:
        listener.lost()


def _tap(tokens: Any, listener: StreamListener, text: _Text) -> Generator[Any, Any, Any]:
    text.begun = True
    advance: Callable[[], Any] = partial(next, tokens)
    pull = advance
    while True:
        mark = pulled_stream.set(listener.root_key)
        try:
            item = pull()
        except StopIteration as end:
            listener.ended(str(text))
            return end.value
        except BaseException as error:
            listener.failed(error)
            raise
        finally:
            pulled_stream.reset(mark)
        text.add(item)
        listener.saw(item)
        try:
            sent = yield item
        except GeneratorExit:
            try:
                if hasattr(tokens, "close"):
                    tokens.close()
            finally:
                listener.stopped(str(text))
            raise
        except BaseException as error:
            if not hasattr(tokens, "throw"):
                listener.failed(error)
                raise
            pull = partial(tokens.throw, error)
        else:
            pull = advance if sent is None else partial(tokens.send, sent)


def tap_async(tokens: Any, listener: StreamListener, text_of: Callable[[Any], str | None]) -> AsyncGenerator[Any, Any]:
    """Replace an asynchronous iterator of tokens. Arguments as for `wrap_stream`."""
    text = _Text(text_of)
    stand_in = _tap_async(tokens, listener, text)
    weakref.finalize(stand_in, _collected, listener, text).atexit = False
    return stand_in


async def _tap_async(tokens: Any, listener: StreamListener, text: _Text) -> AsyncGenerator[Any, Any]:
    text.begun = True
    pull: Callable[[], Any] = tokens.__anext__
    while True:
        mark = pulled_stream.set(listener.root_key)
        try:
            item = await pull()
        except StopAsyncIteration:
            listener.ended(str(text))
            return
        except BaseException as error:
            listener.failed(error)
            raise
        finally:
            with suppress(ValueError):  # ended in the task of an event loop that shuts down
                pulled_stream.reset(mark)
        text.add(item)
        listener.saw(item)
        try:
            sent = yield item
        except GeneratorExit:
            try:
                if hasattr(tokens, "aclose"):
                    await tokens.aclose()
            finally:
                listener.stopped(str(text))
            raise
        except BaseException as error:
            if not hasattr(tokens, "athrow"):
                listener.failed(error)
                raise
            pull = partial(tokens.athrow, error)
        else:
            pull = tokens.__anext__ if sent is None else partial(tokens.asend, sent)
