"""JSON of unknown origin: parsed within limits, and cleaned so that it can be stored and written again."""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from ragstone._util.surrogates import replace_surrogates
from ragstone.errors import DataError

MAX_DEPTH: Final = 100
"""Maximum nesting of a value. JSON writers reject much deeper values."""
_MAX_INT: Final = 2**63
"""JSON readers disagree about larger integers."""


def parse_json(text: bytes | str) -> Any:
    """Parse a JSON text, and clean its value.

    Raises:
        DataError: If it is not valid JSON in UTF-8, or nests too deeply.
    """
    try:
        value = json.loads(text.removeprefix(BOM_UTF8).decode() if isinstance(text, bytes) else text)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise DataError(f"not valid JSON: {str(error)[:200]}") from error
    return clean(value)


def clean(value: Any, *, depth: int = 0) -> Any:
    """Convert a value of JSON or of a table to one that UTF-8 JSON can hold.

    NaN and infinite numbers become None, integers beyond 64 bits become text, lone surrogates become U+FFFD, and times
    become ISO 8601. Any other object becomes the name of its type in brackets.

    Raises:
        DataError: If the value nests too deeply.
    """
    if isinstance(value, str):
        return value if value.isascii() else replace_surrogates(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_MAX_INT <= value < _MAX_INT else str(value) if abs(value) < 10**400 else "<int>"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > MAX_DEPTH:
        raise _too_deep()
    # First the classes that JSON has, because the test of an abstract class is ten times slower.
    if isinstance(value, (dict, Mapping)):
        return {replace_surrogates(str(key)): clean(item, depth=depth + 1) for key, item in value.items()}
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
    """Return the value of a text that is JSON. Other texts and values are returned unchanged."""
    if not isinstance(value, str) or value[:1] not in '{["' or not value:
        return value
    try:
        return parse_json(value)
    except DataError:
        return value


def _too_deep() -> DataError:
    return DataError(f"it nests more than {MAX_DEPTH} levels deep")
