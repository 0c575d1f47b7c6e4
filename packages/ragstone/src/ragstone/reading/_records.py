"""Records of a file, one by one, in memory that does not grow with it: JSON lines, one JSON document, or Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from typing import Any, Final, TypeVar

from ragstone._util.parquet_rows import parquet_rows
from ragstone._util.row_limits import BoundedStream, check_json_row
from ragstone.errors import DataError, MissingExtraError
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._json import clean, parse_json
from ragstone.reading._source import MAX_RECORD_BYTES, InputFile, Line

PARQUET: Final = b"PAR1"
LARGE: Final = 8 * 2**20
"""Bytes of a document above which it is read incrementally, because its Python objects take ten times as much."""
_SMALL: Final = 2**20
"""Bytes of a document that cannot have too many values."""
_SPACE: Final = b" \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a file."""

    place: str
    """Position in the file, for messages: "line 3", "item 7 of b.json"."""
    value: Any
    """Plain JSON values (see `clean`)."""


def records(source: InputFile, *, within: Sequence[str] = ("data",)) -> Iterator[Record | RejectedRecord]:
    """Yield the records of a file or of a directory's files, in order. Unreadable records are reported and skipped.

    Args:
        source: JSON lines, one JSON document, or Parquet, detected by its bytes.
        within: Names under which a JSON object may hold the list that is meant, such as a page of an API's answer.

    Raises:
        DataError: If the rest of a file is unreadable.
        MissingExtraError: If a Parquet file, or a document larger than `MAX_RECORD_BYTES`, needs a missing package.
    """
    for part in source.parts():
        suffix = "" if part is source else f" of {part.name}"
        for item in _of_file(part, within):
            if not suffix:
                yield item
            elif isinstance(item, RejectedRecord):
                yield RejectedRecord(place=item.place + suffix, reason=item.reason)
            else:
                yield Record(item.place + suffix, item.value)


def read_each(
    records: Iterable[Record | RejectedRecord], read: Callable[[Any], Iterable[_T | str]]
) -> Iterator[_T | RejectedRecord]:
    """Yield what a function reads in each record. A `DataError`, or a problem in words, is a rejected record."""
    for record in records:
        if isinstance(record, RejectedRecord):
            yield record
            continue
        try:
            for item in read(record.value):
                yield RejectedRecord(place=record.place, reason=item) if isinstance(item, str) else item
        except DataError as error:
            yield RejectedRecord(place=record.place, reason=str(error))


def _of_file(source: InputFile, within: Sequence[str]) -> Iterator[Record | RejectedRecord]:
    with source.open() as stream:
        start = stream.read(4)
    if start == PARQUET:
        yield from _parquet(source)
    elif _is_lines(source):
        for line in source.lines():
            yield from _of_line(line, within)
    else:
        yield from _of_document(source, within)


def _is_lines(source: InputFile) -> bool:
    """Return whether each line is a separate value. Otherwise the file is one value."""
    lines = source.lines()
    first, second = next(lines, None), next(lines, None)
    if first is None:
        return True
    text = first.text.removeprefix(_BOM).strip()
    if second is None:
        # One line may be a whole list, and too large a one to be read as a whole.
        return not ((first.is_too_long or len(text) > LARGE) and text.startswith((b"[", b"{")))
    if first.is_too_long or _parses(first):
        return True
    # Pretty-printed JSON ends its first line in the middle of something; a bad line is followed by good ones.
    return not text.endswith((b"[", b"{", b",", b":")) and (text[:1] != b"[" or _parses(second))


def _parses(line: Line) -> bool:
    try:
        json.loads(line.text.removeprefix(_BOM))
    except RecursionError:
        return True  # too deep a line is a line
    except ValueError:
        return False
    return True


def _of_line(line: Line, within: Sequence[str]) -> Iterator[Record | RejectedRecord]:
    place = f"line {line.number}"
    if line.is_too_long:
        yield RejectedRecord(place=place, reason=f"longer than {MAX_RECORD_BYTES} bytes")
        return
    try:
        check_json_row(line.text)
        value = parse_json(line.text)
    except DataError as error:
        torn = "the file ends inside it: " if line.is_torn else ""
        yield RejectedRecord(place=place, reason=f"{torn}{error}")
        return
    yield from _unwrapped(value, place, within)


def _unwrapped(value: Any, place: str, within: Sequence[str]) -> Iterator[Record]:
    if isinstance(value, dict):
        value = next((value[name] for name in within if isinstance(value.get(name), list)), value)
    if isinstance(value, list):
        for number, item in enumerate(value, start=1):
            yield Record(f"{place} item {number}" if place else f"item {number}", item)
    else:
        yield Record(place or "the document", value)


def _of_document(source: InputFile, within: Sequence[str]) -> Iterator[Record | RejectedRecord]:
    with source.open() as stream:
        text = stream.read(MAX_RECORD_BYTES + 1)
    name = _list_name(text[: 2**16].removeprefix(_BOM).lstrip(_SPACE), within)
    if name is not None and len(text) > (LARGE if find_spec("ijson") else MAX_RECORD_BYTES):
        del text
        yield from large_items(source, f"{name}.item" if name else "item")
    elif len(text) <= MAX_RECORD_BYTES:
        try:
            if len(text) > _SMALL:
                check_json_row(text)
            value = parse_json(text)
        except DataError as error:
            raise DataError(f"{source.name!r} is {error}") from error
        yield from _unwrapped(value, "", within)
    else:
        raise DataError(
            f"{source.name!r} is one JSON value of more than {MAX_RECORD_BYTES} bytes, and no list of records"
        )


def _list_name(start: bytes, within: Sequence[str]) -> str | None:
    """Return the name of the list of records in a document with this start: "" for the document itself, None if missing."""
    if start.startswith(b"["):
        return ""
    return next((n for n in within if re.search(rb'"%s"\s*:\s*\[' % re.escape(n.encode()), start)), None)


def large_items(source: InputFile, path: str, *, kind: str = "item") -> Iterator[Record | RejectedRecord]:
    """Yield the values of a large JSON document, read incrementally.

    Args:
        source: The document.
        path: Where the values are, as `ijson` writes it.
        kind: Name of one value, for messages.

    Raises:
        DataError: If the rest of the document is unreadable, or a value is too large.
        MissingExtraError: If the package that reads incrementally is not installed.
    """
    try:
        import ijson
    except ImportError as error:
        feature = f"A JSON document of more than {LARGE} bytes"
        raise MissingExtraError(feature=feature, package="ijson", extra="ragstone[replay]") from error
    with source.open() as stream:
        if stream.read(3) != _BOM:
            stream.seek(0)
        bounded = BoundedStream(stream, source.name)
        items = ijson.items(bounded, path, use_float=True, multiple_values=True)
        for number in count(1):
            try:
                value = next(items, bounded)
            except DataError:
                raise
            except (ijson.JSONError, ValueError, RecursionError) as error:
                reason = str(error)[:200]
                raise DataError(f"{source.name!r} cannot be read on from {kind} {number}: {reason}") from error
            if value is bounded:
                return
            bounded.next_item()
            try:
                yield Record(f"{kind} {number}", clean(value))
            except DataError as error:
                yield RejectedRecord(place=f"{kind} {number}", reason=str(error))


def _parquet(source: InputFile) -> Iterator[Record | RejectedRecord]:
    for number, row in parquet_rows(source.path, extra="ragstone[replay]", name=source.name):
        place = f"row {number}"
        try:
            yield (
                RejectedRecord(place=place, reason=str(row))
                if isinstance(row, DataError)
                else Record(place, clean(row))
            )
        except DataError as error:
            yield RejectedRecord(place=place, reason=str(error))
