"""How an application is called: a function, or an object of a framework, recognized by its methods."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from ragstone.errors import ConfigurationError
from ragstone.requests import RequestBlock
from ragstone.schema import Sample, field_names

_QUESTION_NAMES: Final = field_names("query", "input")
_ROW_NAME: Final = "row"

_T = TypeVar("_T")


def app_call(app: object) -> AppCall:
    """Find out how an application is called. What it may be is described by `evaluate`.

    Raise ConfigurationError if it cannot be called, or is a class instead of an instance.
    """
    if isinstance(app, AppCall):
        return app
    if inspect.isclass(app):
        raise ConfigurationError(
            f"app must be a function or an object that answers, got the class {app.__name__}. Pass an instance: "
            f"app={app.__name__}(...)"
        )
    # Runnables of LangChain can be asynchronous only. Engines of LlamaIndex can be synchronous only.
    for name in ("ainvoke", "invoke"):
        if callable(method := getattr(app, name, None)):
            return _Runnable(app, method)
    for name in ("query", "aquery", "chat", "achat"):
        if callable(method := getattr(app, name, None)):
            return _Engine(app, method, resets=name in ("chat", "achat"))
    if callable(app):
        return _Function(app)
    raise ConfigurationError(
        f"app must be a function of the question, a LangChain runnable or a LlamaIndex engine, got {type(app).__name__}. "
        "Wrap it in a function: app=lambda question: ..."
    )


def app_name(app: object) -> str:
    """Return the name under which the answers of an application are saved."""
    module = getattr(app, "__module__", None) or type(app).__module__
    own_name = getattr(app, "__qualname__", None)
    # The class of a chain says little, so the name of its variable is used.
    modules = {name: getattr(each, "__dict__", {}) for name, each in [*sys.modules.items()] if name != "__main__"}
    places = (f"{name}:{key}" for name, found in modules.items() for key in [*found] if found[key] is app)
    return f"{module}:{own_name}" if own_name else next(places, f"{module}:{type(app).__qualname__}")


class AppCall:
    """Calls an application."""

    is_stateful = False
    """Whether the application keeps state between calls, so that only one call may run at a time."""

    def __init__(self, app: object, function: Callable[..., Any]) -> None:
        self.name = app_name(app)
        self._function = function

    def argument(self, sample: Sample) -> Any:
        """Return what the application is asked: the question, or the whole row."""
        return sample.query

    async def __call__(self, sample: Sample, block: RequestBlock) -> str:
        """Ask the application inside a block, read its answer to the end and note it; return the answer's type."""
        call = self._prepared(sample)
        if _is_async(self._function):
            return await _read_async(call(), block)
        # A stream is read in the thread too, because reading it runs the application.
        read = await _in_thread(lambda: _read(call(), block))
        return await _read_async(read.value, block) if isinstance(read, _Unread) else read

    def _prepared(self, sample: Sample) -> Callable[[], Any]:
        return lambda: self._function(self.argument(sample))


class _Function(AppCall):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, function)
        self._takes_row = _takes_row(function)

    def argument(self, sample: Sample) -> Any:
        return sample if self._takes_row else sample.query


class _Runnable(AppCall):
    """A runnable or a graph of LangChain. Its input schema says whether its input is the question, or a mapping."""

    def __init__(self, app: object, method: Callable[..., Any]) -> None:
        super().__init__(app, method)
        self._inputs = _input_names(app)
        self._has_threads = bool(getattr(app, "checkpointer", None))

    def argument(self, sample: Sample) -> Any:
        if sample.query is None or not self._inputs:
            return sample.query
        name, *others = self._inputs
        before = [{"role": turn.role, "content": turn.text} for turn in sample.history]
        question = [*before, {"role": "user", "content": sample.query}] if name == "messages" else sample.query
        return {name: question} | {other: sample.metadata[other] for other in others if other in sample.metadata}

    def _prepared(self, sample: Sample) -> Callable[[], Any]:
        if not self._has_threads:
            return super()._prepared(sample)
        # A graph with a memory: each call is a conversation of its own.
        config = {"configurable": {"thread_id": str(uuid.uuid4())}}
        return lambda: self._function(self.argument(sample), config=config)


class _Engine(AppCall):
    """A query engine of LlamaIndex, or a chat engine, which starts a new conversation for each row."""

    def __init__(self, app: object, method: Callable[..., Any], *, resets: bool) -> None:
        super().__init__(app, method)
        reset = getattr(app, "reset", None) if resets else None
        self._reset = reset if callable(reset) else None
        self.is_stateful = resets

    def _prepared(self, sample: Sample) -> Callable[[], Any]:
        def ask() -> Any:
            if self._reset is not None:
                self._reset()
            return self._function(sample.query)

        return ask


def _takes_row(function: Callable[..., Any]) -> bool:
    """Whether the first parameter is named `row` or annotated as `Sample`."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):  # built in, without a signature
        return False
    if first is None:
        raise ConfigurationError(
            f"app {app_name(function)} does not take an argument, but it is called with the question. Add a parameter"
        )
    annotation = first.annotation
    return first.name == _ROW_NAME or annotation is Sample or str(annotation).rpartition(".")[2] == Sample.__name__


def _input_names(app: object) -> list[str]:
    """Return the names of a runnable's inputs, that of the question first; none if its input is the question itself."""
    with suppress(Exception):  # schemas of unusual types cannot be made, and are not needed then
        schema: Any = app.get_input_jsonschema()  # type: ignore[attr-defined]  # a method of runnables
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and schema.get("type") == "object":
            known = [name for name in _QUESTION_NAMES if name in properties]
            required = [str(name) for name in schema.get("required") or properties]
            return list(dict.fromkeys([*(name for name in known if name in required), *known, *required, *properties]))
    return []


def _is_async(function: Callable[..., Any]) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004 - of an object whose `__call__` is a coroutine function
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in (function, call))


class _Unread(NamedTuple):
    """A value that must be read on the event loop."""

    value: Any


def _read(value: Any, block: RequestBlock) -> _Unread | str:
    """Read what an application returned, a stream to its end, in the thread that called it."""
    is_stream = callable(getattr(value, "__next__", None))
    stream = value if is_stream else _attribute(value, "response_gen")
    if callable(getattr(stream, "__next__", None)):
        for _ in block.returned(stream):
            pass
    elif inspect.isawaitable(value) or _async_stream(value) is not None:
        return _Unread(value)
    if not is_stream:
        block.returned(value)
    return type(value).__name__


async def _read_async(value: Any, block: RequestBlock) -> str:
    if inspect.isawaitable(value):
        value = await value
    stream = _async_stream(value)
    if stream is None:
        read = _read(value, block)
        return read if isinstance(read, str) else type(value).__name__
    async for _ in block.returned(stream):
        pass
    if stream is not value:
        block.returned(value)
    return type(value).__name__


def _async_stream(value: Any) -> Any:
    """Return an asynchronous stream: the value itself, or the one that a response of LlamaIndex holds."""
    stream = value if callable(getattr(value, "__aiter__", None)) else _attribute(value, "async_response_gen")
    stream = stream() if inspect.ismethod(stream) else stream
    return stream if callable(getattr(stream, "__aiter__", None)) else None


def _attribute(value: Any, name: str) -> Any:
    if getattr(value, "is_dummy_stream", None) is False:  # LlamaIndex's chat response that was not streamed
        return None
    return getattr(value, name, None)


async def _in_thread(function: Callable[[], _T]) -> _T:
    """Run a function in a thread of its own, in this task's context.

    Not in a pool: the process may end while a call hangs, and a call that was given up does not take a place in a pool.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    context = contextvars.copy_context()
    result: Future[_T] = Future()

    def target() -> None:
        try:
            result.set_result(context.run(function))
        except BaseException as error:  # noqa: BLE001 - raised in the task below
            result.set_exception(error)
        with suppress(RuntimeError):  # the loop has closed, and the call was given up
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=target, name="ragstone-app", daemon=True).start()
    await ended.wait()
    return result.result()
