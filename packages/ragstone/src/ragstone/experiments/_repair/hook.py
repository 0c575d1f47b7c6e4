"""The `retrieve` function of an application without a framework, wrapped while a trial runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from ragstone.errors import ConfigurationError
from ragstone.requests import RetrievalStage, read_hits, retrieval_stage

_NUMBERS: Final = ("k", "top_k", "n", "limit", "n_results", "num_results")
"""Names of the parameter for the number of passages."""


@contextmanager
def wrapped_function(place: str) -> Iterator[None]:
    """Wrap the function at `MODULE:NAME` that returns a list of passages.

    Raise ConfigurationError if it does not exist or is not a function.
    """
    module_name, _, path = place.partition(":")
    *outer, name = path.split(".")
    try:
        holder: Any = functools.reduce(getattr, outer, import_module(module_name))
        function = getattr(holder, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"hook {place!r} was not found: {error}. Give MODULE:NAME of the function that the application calls to retrieve"
        ) from error
    if not callable(function):
        raise ConfigurationError(
            f"hook {place!r} must be a function that returns a list, got {type(function).__name__}"
        )
    setattr(holder, name, _wrapped(function))
    try:
        yield
    finally:
        setattr(holder, name, function)


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def retrieve_async(*args: Any, **kwargs: Any) -> Any:
            with retrieval_stage() as stage:
                args, kwargs = _wider(function, stage, args, kwargs)
                return _changed(stage, await function(*args, **kwargs))

        return retrieve_async

    @functools.wraps(function)
    def retrieve(*args: Any, **kwargs: Any) -> Any:
        with retrieval_stage() as stage:
            args, kwargs = _wider(function, stage, args, kwargs)
            return _changed(stage, function(*args, **kwargs))

    return retrieve


def _wider(function: Callable[..., Any], stage: RetrievalStage | None, args: Any, kwargs: Any) -> tuple[Any, Any]:
    if stage is None:
        return args, kwargs
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    name = next((name for name in _NUMBERS if isinstance(bound.arguments.get(name), int)), None)
    if name is not None:
        bound.arguments[name] = stage.wider(bound.arguments[name])
    return bound.args, bound.kwargs


def _changed(stage: RetrievalStage | None, result: Any) -> Any:
    if stage is None:
        return result
    try:
        stage.note([_text(item) for item in result])
    except (ConfigurationError, TypeError, ValueError):  # not a list of passages
        return stage.unchanged(result)
    return stage.result(result, _text, lambda text: _made(text, result))


def _text(item: Any) -> str:
    if isinstance(item, str):
        return item
    ((passage,),) = read_hits([item]).lists
    return passage.text


def _made(text: str, items: Any) -> Any:
    """Return a passage of the kind that the function returns. None if this is an object of an unknown class."""
    example = next(iter(items), "")
    if isinstance(example, Mapping):
        name = next((name for name, value in example.items() if value == _text(example)), None)
        return None if name is None else {**example, name: text}
    return text if isinstance(example, str) else None
