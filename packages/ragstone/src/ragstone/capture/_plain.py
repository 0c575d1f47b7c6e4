"""Whatever an application put into a draft, made plain: text that is valid Unicode, values that are JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from enum import Enum
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

__all__ = ["Json", "plain_number", "plain_text", "plain_value"]

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_MAX_DEPTH: Final = 12
"""Nesting of metadata; deeper, or going round in a circle, it is written as text."""
_MAX_REPR: Final = 500
"""Characters of the description of an object that is no JSON."""
_MAX_INT: Final = 2**63
"""Readers of JSON disagree about larger whole numbers."""


def plain_text(value: object) -> str:
    """A text as it can be written in UTF-8: lone surrogates become U+FFFD. Anything but text is described."""
    if not isinstance(value, str):
        return _described(value)
    text = str(value)  # subclasses carry things of the application
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, so that two halves that belong together become the character they stand for.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def plain_number(value: object) -> float | None:
    """A finite number, also one of numpy's; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError, TypeError):
        return None
    return number if math.isfinite(number) else None


def plain_value(value: Any, *, depth: int = 0) -> Json:
    """A value as JSON: containers nest, numbers of any library are numbers, the rest is described in words.

    A number that JSON does not have (NaN, infinite) is None; a description has at most 500 characters.
    """
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, Integral):
        number = int(value)
        return number if -_MAX_INT <= number < _MAX_INT else _described(number)
    if isinstance(value, Real):
        return plain_number(value)
    if depth < _MAX_DEPTH:
        # Copied in one step: the application may go on changing what it handed over.
        if isinstance(value, Mapping):
            return {_key(key): plain_value(item, depth=depth + 1) for key, item in list(value.items())}
        if isinstance(value, list | tuple | AbstractSet):
            return [plain_value(item, depth=depth + 1) for item in list(value)]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, UUID | PurePath):
        return plain_text(str(value))
    return _described(value)


def _key(key: object) -> str:
    return plain_text(key if isinstance(key, str) else str(plain_value(key, depth=_MAX_DEPTH)))


def _described(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the application's code; what it raises says nothing about the trace
        return f"<{type(value).__name__}>"
    return plain_text(text if len(text) <= _MAX_REPR else text[:_MAX_REPR] + "…")
