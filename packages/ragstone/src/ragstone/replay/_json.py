"""JSON of unknown origin: parsed within limits, and cleaned so that it can be stored and written again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from ragstone.errors import DataError

__all__ = ["MAX_DEPTH", "clean", "inner_json", "parse_json"]

MAX_DEPTH: Final = 100
"""Nesting of a value; what writes JSON again refuses much more."""
_MAX_INT: Final = 2**63
"""Readers of JSON disagree about larger whole numbers."""


def parse_json(text: bytes | str) -> Any:
    """The value of a JSON text, cleaned.

    Raises:
        DataError: If it is not valid JSON in UTF-8, or nests too deeply.
    """
    try:
        value = json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise DataError(f"no JSON: {str(error)[:200]}") from error
    return clean(value)


def clean(value: Any, *, depth: int = 0) -> Any:
    """A value of JSON or of a table as it can be written in UTF-8 JSON: containers nest, the rest is plain.

    Numbers that JSON lacks (NaN, infinite) become None, whole numbers beyond 64 bits text, lone surrogates U+FFFD, times
    ISO 8601, and what is none of these its type's name in brackets.

    Raises:
        DataError: It nests too deeply.
    """
    if isinstance(value, str):
        return value if value.isascii() else _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_MAX_INT <= value < _MAX_INT else str(value) if abs(value) < 10**400 else "<int>"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > MAX_DEPTH:
        raise _too_deep()
    if isinstance(value, Mapping):
        return {_text(str(key)): clean(item, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item, depth=depth + 1) for item in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return clean(float(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return f"<{type(value).__name__}>"


def inner_json(value: Any) -> Any:
    """What a text says when it is itself JSON; any other value as it is. A text that is not JSON stays the text."""
    if not isinstance(value, str) or value[:1] not in '{["' or not value:
        return value
    try:
        return parse_json(value)
    except DataError:
        return value


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, so that two halves that belong together become the character they stand for.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _too_deep() -> DataError:
    return DataError(f"it nests more than {MAX_DEPTH} levels deep")
