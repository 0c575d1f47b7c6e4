"""Records of a file, one by one, in memory that does not grow with it: JSON lines, one JSON document, or Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ragstone._util.parquet_rows import parquet_rows
from ragstone._util.row_limits import MAX_ROW_BYTES
from ragstone.errors import DataError
from ragstone.reading._files import PARQUET
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._json import LARGE, clean, has_line_values, large_items, line_values, load_document
from ragstone.reading._source import InputFile, Line

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

    Raise DataError if the rest of a file is unreadable. Raise MissingExtraError if a Parquet file, or a large document,
    needs a missing package.
    """
    for part in source.parts():
        suffix = "" if part is source else f" of {part.name}"
        for item in _of_file(part, within):
            yield replace(item, place=item.place + suffix) if suffix else item


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
        for number, row in parquet_rows(source.path, extra="replay", name=source.name):
            yield _cleaned(f"row {number}", row)
    elif _is_lines(source):
        for line, value in line_values(source):
            yield from _of_line(line, value, within)
    elif (value := load_document(source)) is LARGE:
        yield from _of_large_document(source, within)
    else:
        yield from _unwrapped(_cleaned("", value, of_file=source.name), within)


def _is_lines(source: InputFile) -> bool:
    found = has_line_values(source)
    if found is None:
        # One line may be a whole list, and too large a one to be read as a whole.
        line = next(source.lines(), None)
        return line is None or not (line.is_too_long and line.text.lstrip().startswith((b"[", b"{")))
    return found


def _of_line(line: Line, value: Any, within: Sequence[str]) -> Iterator[Record | RejectedRecord]:
    found = _cleaned(f"line {line.number}", value)
    if isinstance(found, RejectedRecord) and line.is_torn and not line.is_too_long:
        found = RejectedRecord(place=found.place, reason=f"the file ends inside it: {found.reason}")
    yield from _unwrapped(found, within)


def _cleaned(place: str, value: Any, *, of_file: str = "") -> Record | RejectedRecord:
    try:
        if not isinstance(value, DataError):
            return Record(place, clean(value))
        reason = str(value)
    except DataError as error:
        if of_file:
            raise DataError(f"{of_file!r} is {error}") from error
        reason = str(error)
    return RejectedRecord(place=place, reason=reason)


def _unwrapped(record: Record | RejectedRecord, within: Sequence[str]) -> Iterator[Record | RejectedRecord]:
    if isinstance(record, RejectedRecord):
        yield record
        return
    place, value = record.place, record.value
    if isinstance(value, dict):
        value = next((value[name] for name in within if isinstance(value.get(name), list)), value)
    if isinstance(value, list):
        for number, item in enumerate(value, start=1):
            yield Record(f"{place} item {number}" if place else f"item {number}", item)
    else:
        yield Record(place or "the document", value)


def _of_large_document(source: InputFile, within: Sequence[str]) -> Iterator[Record | RejectedRecord]:
    start = source.head(2**16).lstrip()
    names = (n for n in within if re.search(rb'"%s"\s*:\s*\[' % re.escape(n.encode()), start))
    path = "item" if start.startswith(b"[") else next((f"{name}.item" for name in names), None)
    if path is None:
        raise DataError(f"{source.name!r} is one JSON value of more than {MAX_ROW_BYTES} bytes, and no list of records")
    yield from large_records(source, path)


def large_records(source: InputFile, path: str, *, kind: str = "item") -> Iterator[Record | RejectedRecord]:
    """Yield the values of a large JSON document, read incrementally. Arguments and errors are those of `large_items`."""
    for number, value in enumerate(large_items(source, path, kind=kind), start=1):
        yield _cleaned(f"{kind} {number}", value)
