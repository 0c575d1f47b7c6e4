"""JSON of unknown origin: read within limits, and cleaned so that it can be stored and written again."""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from ragstone._util.lazy import needs_extra
from ragstone._util.row_limits import MAX_ROW_BYTES, BoundedStream, check_json_row
from ragstone._util.unicode import replace_surrogates
from ragstone.errors import DataError
from ragstone.reading._files import describe_bytes

if TYPE_CHECKING:
    from ragstone.reading._source import InputFile, Line


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a row. A key that it has twice would have the last value, without a word."""
    value = dict(pairs)
    if len(value) != len(pairs):
        name = next(name for n, (name, _) in enumerate(pairs) if any(name == other for other, _ in pairs[:n]))
        raise DataError(f"an object has the key {name!r} several times. Rename or remove all but one")
    return value


_decode: Final = json.JSONDecoder().decode
_decode_unique: Final = json.JSONDecoder(object_pairs_hook=_unique).decode
LARGE: Final = object()
"""The value of a document that must be read item by item."""
_SMALL: Final = 2**20
"""Bytes of a document that cannot have too many values."""
MAX_DEPTH: Final = 100
"""Maximum nesting of a value. JSON writers reject much deeper values."""
_MAX_INT: Final = 2**63
"""JSON readers disagree about larger integers."""


def parse_json(text: bytes | str) -> Any:
    """Parse a JSON text, and clean its value. Raise DataError if it is not valid JSON in UTF-8, or nests too deeply."""
    return clean(load_json(text))


def load_json(text: bytes | str, *, is_row: bool = False) -> Any:
    """Parse a JSON text. Errors are those of `parse_json`. In a row, a key that occurs twice is an error."""
    try:
        return (_decode_unique if is_row else _decode)(
            text.removeprefix(BOM_UTF8).decode() if isinstance(text, bytes) else text
        )
    except RecursionError as error:
        raise _too_deep() from error
    except UnicodeDecodeError as error:
        raise DataError(describe_bytes(error)) from error
    except DataError:
        raise
    except ValueError as error:
        remedy = ". Write one value on each line: jq -c . FILE" if "Extra data" in str(error) else ""
        raise DataError(f"not valid JSON: {str(error)[:200]}{remedy}") from error


def line_values(source: InputFile, *, is_row: bool = False) -> Iterator[tuple[Line, Any]]:
    """Yield each line of a file with its value, or with the error that it is not one."""
    for line in source.lines():
        try:
            if line.is_too_long:
                raise DataError(f"longer than {MAX_ROW_BYTES} bytes")  # noqa: TRY301
            check_json_row(line.text)
            yield line, load_json(line.text, is_row=is_row)
        except DataError as error:
            yield line, error


def has_line_values(source: InputFile) -> bool | None:
    """Return whether each line is a separate value. Otherwise the file is one value. None: it has at most one line."""
    lines = source.lines()
    first, second = next(lines, None), next(lines, None)
    if first is None or second is None:
        return None
    if first.is_too_long or _parses(first):
        return True
    # Pretty-printed JSON ends its first line in the middle of something; a bad line is followed by good ones.
    text = first.text.strip()
    is_whole = not text.endswith((b"[", b"{", b",", b":"))
    return (is_whole and text[:1] != b"[") or ((is_whole or text[:1] == b"{") and _parses(second))


def _parses(line: Line) -> bool:
    try:
        json.loads(line.text)
    except RecursionError:
        return True  # too deep a line is a line
    except ValueError:
        return False
    return True


def load_document(source: InputFile, *, is_row: bool = False) -> Any:
    """Return the value of a file, or `LARGE`. Raise DataError if it is not valid JSON in UTF-8."""
    with source.open() as file:
        text = file.read(MAX_ROW_BYTES + 1)
    try:
        # Many rows may have many values together, and a small file cannot.
        if len(text) > min(_SMALL, MAX_ROW_BYTES):
            check_json_row(text)
    except DataError:
        return LARGE
    try:
        return load_json(text, is_row=is_row)
    except DataError as error:
        raise DataError(f"{source.name!r} is {error}") from error


def large_items(source: InputFile, prefix: str, *, kind: str = "item") -> Iterator[Any]:
    """Yield the items of a list in a document, one by one.

    Raise DataError if an item is too large, the rest of the document is not valid, or it does not have the list. Raise
    MissingExtraError if the package that reads JSON incrementally is not installed.
    """
    with needs_extra("replay", "ijson", f"A JSON document of more than {MAX_ROW_BYTES} bytes"):
        import ijson
    number = 0
    with source.open() as file:
        bounded = BoundedStream(file, source.name)
        try:
            for number, item in enumerate(ijson.items(bounded, prefix, use_float=True, multiple_values=True), start=1):  # noqa: B007
                bounded.next_item()
                yield item
        except (ijson.JSONError, ValueError, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"{source.name!r} cannot be read on from {kind} {number + 1}: {str(error)[:200]}"
            ) from error
    if not number:
        raise DataError(f"{source.name!r} does not have an item at {prefix.removesuffix('.item')!r}")


def clean(value: Any, *, depth: int = 0) -> Any:
    """Convert a value of JSON or of a table to one that UTF-8 JSON can hold.

    NaN and infinite numbers become None, integers beyond 64 bits become text, lone surrogates become U+FFFD, and times
    become ISO 8601. Any other object becomes the name of its type in brackets. Raise DataError if the value nests too
    deeply.
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
    return DataError(f"nested more than {MAX_DEPTH} levels deep")
