"""The `retrieve` function of an application without a framework, whose result a trial changes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Final

from ragstone.errors import ConfigurationError
from ragstone.requests import RetrievalStage, changed_results, read_hits

_NUMBERS: Final = ("k", "top_k", "n", "limit", "n_results", "num_results")
"""Names of the parameter for the number of passages."""


def changed_function(place: str) -> AbstractContextManager[None]:
    """Change what the function at `MODULE:NAME` returns. Raise ConfigurationError if it does not exist."""
    module_name, _, path = place.partition(":")
    *outer, name = path.split(".")
    try:
        holder: Any = functools.reduce(getattr, outer, import_module(module_name))
        function = getattr(holder, name)
        signature = inspect.signature(function)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"hook {place!r} is not a function: {error}. Give MODULE:NAME of the function that the application calls to retrieve"
        ) from error

    def widen(stage: RetrievalStage, args: Any, kwargs: Any) -> tuple[Any, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        number = next((each for each in _NUMBERS if isinstance(bound.arguments.get(each), int)), None)
        if number is not None:
            bound.arguments[number] = stage.wider(bound.arguments[number])
        return bound.args, bound.kwargs

    return changed_results(holder, name, text=_text, make=_made, widen=widen, notes=True)


def _text(item: Any) -> str:
    if isinstance(item, str):
        return item
    try:
        ((passage,),) = read_hits([item]).lists
    except ConfigurationError as error:
        raise ValueError(str(error)) from error
    return passage.text


def _made(text: str, items: Sequence[Any]) -> Any:
    """Return a passage of the kind that the function returns. None if this is an object of an unknown class."""
    example = next(iter(items), "")
    if isinstance(example, Mapping):
        name = next((name for name, value in example.items() if value == _text(example)), None)
        return None if name is None else {**example, name: text}
    return text if isinstance(example, str) else None
