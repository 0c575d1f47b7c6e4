"""Blocks around whole functions, and the methods that make blocks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar, overload

from ragstone._util.guard import Guard
from ragstone.errors import ConfigurationError
from ragstone.requests._block import RequestBlock
from ragstone.requests._current import current_request
from ragstone.requests._draft import TraceDraft
from ragstone.requests._harvest import harvest
from ragstone.requests._hits import read_object
from ragstone.requests._live import RequestArguments
from ragstone.requests._step import Request
from ragstone.schema import field_names

_Function = TypeVar("_Function", bound=Callable[..., Any])


class RequestBlocks:
    """The methods `request` and `observe` of a recorder. A subclass sets `_guard` and has `record`."""

    takes_every_request = False
    """Whether requests of other recorders that run inside a block of this one become a part of it too."""
    _guard: Guard

    def record(self, draft: TraceDraft | Request) -> bool:
        """Take a finished request (see `Recorder`)."""
        raise NotImplementedError

    @property
    def errors(self) -> Mapping[str, int]:
        """Number of errors and wrong uses that were stopped before they reached the application, by place."""
        return self._guard.counts()

    def request(
        self,
        question: str | None = None,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        reference: str | Sequence[str] = (),
        history: Any = None,
    ) -> RequestBlock:
        """Capture a request that the application marks itself, with `with` or `async with`.

        Requests of a framework that run inside the block become a part of it. An exception passes through, and the
        request ends with status `error`.

        Args:
            question: What the user asked.
            session_id: Id of the conversation.
            user_id: Id of the user. Stored unredacted, so do not use an e-mail address.
            name: What the application calls such requests.
            tags: Labels of the application.
            metadata: Anything else to keep.
            reference: A correct answer, or several.
            history: Messages before the question, as for `prompt`, of which those of the user and the assistant are
                kept. None takes them from the prompt, if there is a `session_id`. An empty list says that the question
                stands alone.

        Returns:
            The block. Its methods never raise.

        Examples:
            ```python
            with monitor.request(question, session_id="s-1") as r:
                hits = r.found(client.query_points("docs", query=vector, limit=5))
                messages = r.prompt(make_messages(question, hits))
                reply = r.answer(openai.chat.completions.create(model="gpt-5", messages=messages))
            ```
        """
        arguments = RequestArguments(
            self._guard,
            query=question,
            session_id=session_id,
            user_id=user_id,
            name=name,
            tags=tags,
            metadata=metadata,
            reference=reference,
            history=history,
        )
        return RequestBlock(self, self._guard, arguments)

    def current_request(self) -> RequestBlock:
        """Return the innermost block of this recorder around the caller.

        Outside of a block it returns one that captures nothing: calls of its methods return their argument and are
        counted.
        """
        block = current_request(self)
        return block if isinstance(block, RequestBlock) else self.request()

    @overload
    def observe(self, function: _Function, /) -> _Function: ...

    @overload
    def observe(
        self,
        function: None = None,
        /,
        *,
        question: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Callable[[_Function], _Function]: ...

    def observe(
        self,
        function: Any = None,
        /,
        *,
        question: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Any:
        """Decorate a function so that each call is a request, and what it returns or yields is the answer.

        Works for functions, coroutines, generators and asynchronous generators. Inside, `current_request()` returns the
        block. If the function calls the block's `answer` itself, that answer counts.

        Args:
            function: The function, if the decorator is used without arguments.
            question: Name of the parameter that holds the question. None takes the first parameter with a usual name
                (`question`, `query`, `input`, …), else the only argument. Of several, the one in the prompt counts.
            session_id: Name of the parameter that holds the id of the conversation.
            user_id: Name of the parameter that holds the id of the user.
            name: What the application calls such requests. None takes the function's name.
            tags: Labels of the application.
            metadata: Anything else to keep.

        Raises:
            ConfigurationError: When the function is decorated, if it does not have a named parameter.

        Examples:
            ```python
            @monitor.observe(question="q")
            async def ask(q: str) -> str: ...
            ```
        """
        named = {"question": question, "session_id": session_id, "user_id": user_id}

        def decorate(inner: Callable[..., Any]) -> Any:
            arguments = _Arguments(inner, named)

            def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> RequestBlock:
                values = self._guard.attempt(arguments.read, args, kwargs) or {}
                label = name or getattr(inner, "__name__", None)
                inputs = values.pop("inputs", ())
                block = self.request(**values, name=label, tags=tags, metadata=metadata)
                block._step.inputs = inputs  # noqa: SLF001
                return block

            return _wrapper(inner, begin)

        return decorate if function is None else decorate(function)


class _Arguments:
    """Finds the values of named parameters in a call."""

    def __init__(self, function: Callable[..., Any], named: Mapping[str, str | None]) -> None:
        self._signature = inspect.signature(function)
        parameters = list(self._signature.parameters)
        for argument, parameter in named.items():
            if parameter is not None and parameter not in parameters:
                raise ConfigurationError(
                    f"{argument}={parameter!r} names no parameter of {getattr(function, '__name__', function)!r}; "
                    f"it has {parameters}"
                )
        self._names = {argument: parameter for argument, parameter in named.items() if parameter is not None}
        usual = next((name for name in field_names("query", "input") if name in parameters), None)
        if usual is not None:
            self._names.setdefault("question", usual)

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of `request`, and what can be the question under `inputs` if no parameter names it."""
        bound = self._signature.bind_partial(*args, **kwargs)
        bound.apply_defaults()
        values = {argument: bound.arguments.get(parameter) for argument, parameter in self._names.items()}
        if "question" not in values:
            others = {key: value for key, value in bound.arguments.items() if key not in self._names.values()}
            others.pop("self", None)
            texts = [value for value in others.values() if isinstance(value, str)]
            if len(texts) == 1:
                values["question"] = texts[0]
            else:
                values["inputs"] = harvest(others, read_object)
        return values


def _wrapper(function: Any, begin: Callable[[tuple[Any, ...], dict[str, Any]], RequestBlock]) -> Any:
    """Return a function of the same kind with a block around each call."""
    # A generator's block is left at once: the stream that `answer` returns holds it open, and enters it for each step.
    if inspect.isgeneratorfunction(function):

        def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with begin(args, kwargs) as block:
                stream = block._answer(function(*args, **kwargs), explicit=False)  # noqa: SLF001
            return (yield from stream)

        wrapper: Any = generate
    elif inspect.isasyncgenfunction(function):

        async def agenerate(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async with begin(args, kwargs) as block:
                stream = block._answer(function(*args, **kwargs), explicit=False)  # noqa: SLF001
            try:
                async for item in stream:
                    yield item
            finally:
                await stream.aclose()

        wrapper = agenerate
    elif inspect.iscoroutinefunction(function):

        async def acall(*args: Any, **kwargs: Any) -> Any:
            async with begin(args, kwargs) as block:
                return block._answer(await function(*args, **kwargs), explicit=False)  # noqa: SLF001

        wrapper = acall
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            with begin(args, kwargs) as block:
                return block._answer(function(*args, **kwargs), explicit=False)  # noqa: SLF001

        wrapper = call
    return functools.wraps(function)(wrapper)
