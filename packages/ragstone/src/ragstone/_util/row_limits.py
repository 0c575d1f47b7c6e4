"""Limits of one row of a file of unknown origin, and the readers that keep them."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, Self

from ragstone.errors import DataError

MAX_ROW_BYTES: Final = 16 * 2**20
"""Longest row in bytes. A request with its passages is far smaller, and no judge accepts as much."""
MAX_ROW_VALUES: Final = 500_000
"""Lists and objects of one row, and half of the values. One takes up to 250 bytes of memory, and two bytes of a
file."""


def check_json_row(text: bytes) -> None:
    """Check the size of a row of JSON before it is parsed. Brackets and commas inside strings count too.

    Raise DataError if it has too many bytes or values.
    """
    if len(text) > MAX_ROW_BYTES:
        raise DataError(f"longer than {MAX_ROW_BYTES} bytes")
    # A shorter text cannot have too many, and is not searched.
    if len(text) > MAX_ROW_VALUES and _weight(text) > 1:
        raise DataError(f"it has more than {MAX_ROW_VALUES} lists and objects, or {2 * MAX_ROW_VALUES} values")


def refuse_repeated(names: Iterable[object], source: str) -> None:
    """Raise DataError if two columns have the same name: a row would have the values of the last one only."""
    for name, n in Counter(names).items():
        if n > 1 and name not in ("", None):
            raise DataError(f"{source} has {n} columns with the name {name!r}. Rename or remove all but one")


def bounded_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a stream. A line that is too long is cut to one byte more than `MAX_ROW_BYTES`."""
    while line := stream.readline(MAX_ROW_BYTES + 1):
        if len(line) > MAX_ROW_BYTES and not line.endswith(b"\n"):
            while (rest := stream.readline(2**20)) and not rest.endswith(b"\n"):
                pass
        yield line


class BoundedStream:
    """A stream of JSON that raises an error if one item of it is too large. Call `next_item` after each item."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._n_bytes = 0
        self._weight = 0.0

    def next_item(self) -> None:
        """Begin to count again."""
        self._n_bytes, self._weight = 0, 0.0

    def read(self, n: int = -1) -> bytes:
        """Return the next bytes. Raise DataError if the current item is too large."""
        chunk: bytes = self._stream.read(n)
        self._n_bytes += len(chunk)
        self._weight += _weight(chunk)
        # What is read ahead belongs to later items.
        if self._n_bytes > MAX_ROW_BYTES + 2**20:
            raise DataError(
                f"{self._name!r} has an item of more than {MAX_ROW_BYTES} bytes, or as many before its list"
            )
        if self._weight > 1.5:
            raise DataError(f"{self._name!r} has an item with more than {MAX_ROW_VALUES} lists and objects")
        return chunk


class CsvLines:
    """The lines of a CSV file, of which a row may have several. Call `next_row` after each row."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        self._name = name
        self._n_chars = 0
        self.has_ended = False

    def next_row(self) -> None:
        """Begin to count again."""
        self._n_chars = 0

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> str:
        """Return the next line. Raise DataError if the row is too long."""
        line = self._lines.readline(MAX_ROW_BYTES + 1)
        if not line:
            self.has_ended = True
            raise StopIteration
        self._n_chars += len(line)
        if self._n_chars > MAX_ROW_BYTES:
            raise DataError(f"{self._name!r} has a row of more than {MAX_ROW_BYTES} characters")
        return line


def _weight(text: bytes) -> float:
    """Return the number of values of a JSON text as a share of the largest one."""
    return max((text.count(b"{") + text.count(b"[")) / MAX_ROW_VALUES, text.count(b",") / (2 * MAX_ROW_VALUES))
