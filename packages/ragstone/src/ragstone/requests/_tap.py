"""Taps: streams for the application in place of a client's, which report their end to the block."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from ragstone.requests._current import entered
from ragstone.requests._messages import StreamReader
from ragstone.requests._shape import get
from ragstone.schema import TraceStatus


def is_stream(value: object) -> bool:
    """Whether a value is an iterator, such as a generator or a client's stream."""
    return callable(get(value, "__next__")) and callable(get(value, "__iter__"))


def is_async_stream(value: object) -> bool:
    """Whether a value is an asynchronous iterator, or an object that makes one."""
    return callable(get(value, "__aiter__"))


class StreamListener:
    """The end of a tap that belongs to the block. Its methods never raise."""

    def __init__(self, block: Any, *, explicit: bool) -> None:
        self.block = block
        self.explicit = explicit
        self.reader = StreamReader()
        self.first_token_at: float | None = None
        self.is_over = False
        self.status: TraceStatus = "ok"

    def chunk(self, chunk: Any) -> None:
        """Take note of a chunk."""
        try:
            is_state = isinstance(chunk, Mapping | tuple) and get(chunk, "type") is None  # of a framework's stream
            if (self.reader.add(chunk) or is_state) and self.first_token_at is None:
                self.first_token_at = time.time()
        except Exception as error:  # noqa: BLE001
            self.block._failed("answer", error)  # noqa: SLF001

    def ended(self, error: BaseException | None, *, complete: bool) -> None:
        """Take note of the end."""
        if self.is_over:
            return
        self.is_over = True
        if not complete:
            is_failure = error is not None and not isinstance(error, GeneratorExit)
            # Of a stream without chunks nothing was read, so that it did not begin to answer.
            self.status = "error" if is_failure else "truncated" if self.first_token_at else "abandoned"
        try:
            self.block._stream_over(self, error)  # noqa: SLF001
        except Exception as failure:  # noqa: BLE001
            self.block._failed("answer", failure)  # noqa: SLF001


class _Base:
    """What both kinds of taps have in common: everything else is the stream's own."""

    def __init__(self, stream: Any, listener: StreamListener) -> None:
        self._stream = stream
        self._listener = listener

    def __getattr__(self, name: str) -> Any:
        if name == "_stream":  # copied or unpickled without `__init__`
            raise AttributeError(name)
        return getattr(self._stream, name)

    def __del__(self) -> None:
        listener = getattr(self, "_listener", None)
        if listener is not None:
            listener.ended(None, complete=False)


class Tap(_Base):
    """A stream that reports its chunks and its end, whether it is read to the end, closed or collected."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._step(self._stream.__next__)

    def send(self, value: Any) -> Any:
        """Send a value to a generator."""
        return self._step(self._stream.send, value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception inside a generator."""
        return self._step(self._stream.throw, *error)

    def _step(self, function: Callable[..., Any], *values: Any) -> Any:
        try:
            # Frameworks run lazily: what begins while the stream is read belongs to the block.
            with entered(self._listener.block):
                chunk = function(*values)
        except StopIteration:
            self._listener.ended(None, complete=True)
            raise
        except BaseException as error:
            self._listener.ended(error, complete=False)
            raise
        self._listener.chunk(chunk)
        return chunk

    def close(self) -> Any:
        """Close the stream, which ends the request."""
        try:
            close = getattr(self._stream, "close", None)
            return close() if callable(close) else None
        finally:
            self._listener.ended(None, complete=False)

    def __enter__(self) -> Self:
        if callable(getattr(type(self._stream), "__enter__", None)):
            self._stream.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        try:
            leave = getattr(type(self._stream), "__exit__", None)
            return leave(self._stream, kind, error, traceback) if callable(leave) else self.close()
        finally:
            self._listener.ended(error, complete=False)


class AsyncTap(_Base):
    """The same for an asynchronous stream."""

    def __init__(self, stream: Any, listener: StreamListener) -> None:
        super().__init__(stream, listener)
        self._iterator: Any = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._iterator is None:
            self._iterator = self._stream.__aiter__()
        return await self._step(self._iterator.__anext__)

    async def asend(self, value: Any) -> Any:
        """Send a value to an asynchronous generator."""
        return await self._step(self._stream.asend, value)

    async def athrow(self, *error: Any) -> Any:
        """Raise an exception inside an asynchronous generator."""
        return await self._step(self._stream.athrow, *error)

    async def _step(self, function: Callable[..., Any], *values: Any) -> Any:
        try:
            with entered(self._listener.block):
                chunk = await function(*values)
        except StopAsyncIteration:
            self._listener.ended(None, complete=True)
            raise
        except BaseException as error:
            self._listener.ended(error, complete=False)
            raise
        self._listener.chunk(chunk)
        return chunk

    async def aclose(self) -> None:
        """Close the stream, which ends the request."""
        try:
            close = getattr(self._stream, "aclose", None) or getattr(self._stream, "close", None)
            result = close() if callable(close) else None
            if inspect.isawaitable(result):
                await result
        finally:
            self._listener.ended(None, complete=False)

    close = aclose
    """Some clients name it so."""

    async def __aenter__(self) -> Self:
        if callable(getattr(type(self._stream), "__aenter__", None)):
            await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        try:
            leave = getattr(type(self._stream), "__aexit__", None)
            return await (leave(self._stream, kind, error, traceback) if callable(leave) else self.aclose())
        finally:
            self._listener.ended(error, complete=False)
