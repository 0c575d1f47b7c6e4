"""Checksums of rows and of scores, and the errors for what differs from them."""

from __future__ import annotations

import shlex
import zlib
from array import array
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from ragstone.errors import StoreCorruptError

K = TypeVar("K", bound=int | str)
_FEW: Final = 1_000
"""Scores whose checksums are computed one by one, without arrays."""


class DamagedRowError(StoreCorruptError):
    """A row that is not as it was written. The transaction that reads it adds the store and the way out."""


def checksum_of(columns: Sequence[object]) -> int:
    """Return the checksum of the columns of a row, the same for the types and the text of both databases."""
    return zlib.crc32(repr([column if column is None else _plain(column) for column in columns]).encode())


def check_row(table: str, checksum: object, columns: Sequence[object]) -> None:
    """Verify the `CHECKED_COLUMNS` of a row, of which the first one is its id, against its checksum.

    Raise DamagedRowError if they differ.
    """
    if checksum != checksum_of(columns):
        raise damaged(table, columns[0], "its columns differ from their checksum")


def sum_checksums(values: Sequence[float], repeats: Sequence[int]) -> int:
    """Return the sum of the checksums of scores, each of which occurs `repeats` times. Negative zero counts as zero."""
    if len(values) > _FEW:
        return _sum_many(values, repeats)
    data = array("d", [value + 0.0 for value in values]).tobytes()
    return sum(n * zlib.crc32(data[8 * k : 8 * k + 8]) for k, n in enumerate(repeats))


def _sum_many(values: Sequence[float], repeats: Sequence[int]) -> int:
    """Return what `sum_checksums` does. The CRC of eight bytes is the XOR of a number for each byte and its place."""
    import numpy as np

    zeros = zlib.crc32(bytes(8))
    found = np.full(len(values), zeros, np.uint64)
    for place, column in enumerate((np.asarray(values, float) + 0.0).view(np.uint8).reshape(-1, 8).T):
        numbers = [zlib.crc32(bytes(place) + bytes([byte]) + bytes(7 - place)) ^ zeros for byte in range(256)]
        found ^= np.array(numbers, np.uint64)[column]
    return int(found @ np.asarray(repeats, np.uint64))


def _plain(column: object) -> object:
    if isinstance(column, (int, float)):
        return float(column) + 0.0
    return stored_text(column) if isinstance(column, str) else column


def stored_text(text: str) -> str:
    """Return a text as both databases can store it. PostgreSQL stores neither NUL nor lone surrogates."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def damaged(table: str, row: object, problem: str) -> DamagedRowError:
    """Return the error for a damaged row."""
    return DamagedRowError(f"the row of {table} {'of unknown id' if row is None else repr(row)} is damaged: {problem}")


def last_key(table: str, page: Sequence[Sequence[Any]], after: K) -> K:
    """Return the key of the last row of a page, its first column, or that of the page before if the page is empty.

    A damaged tree of a table can return rows again and again, so that reading would not end. Raise DamagedRowError if
    the keys do not increase.
    """
    last = after
    for row in page:
        if not last < row[0]:
            raise damaged(table, row[0], f"it follows the row {last!r}, so the order of the rows is damaged")
        last = row[0]
    return last


UNREADABLE: Final = (TypeError, ValueError, LookupError, OverflowError, AssertionError)
"""Errors that values of an unexpected type or form cause where a transaction uses them."""


def unreadable(error: Exception) -> str:
    """Describe such an error without the value, which may be text of a user."""
    return f"a value does not have the expected type or form ({type(error).__name__})"


def damaged_store(name: str, place: str, problem: object) -> StoreCorruptError:
    """Return the error for a damaged store at `place` (its path, or its URL without credentials), with the way out."""
    return StoreCorruptError(
        f"the store {name} is damaged: {problem}. List all damaged rows with `ragstone store verify {shlex.quote(place)}`. "
        f"{way_out(place)}"
    )


def way_out(place: str) -> str:
    """Say how a damaged store at `place` (its path, or its URL without credentials) is replaced."""
    store = shlex.quote(place)
    restore = "pg_restore" if "://" in place else f"`ragstone store restore BACKUP {store} --replace`"
    return (
        f"Restore a backup with {restore}. Without one, save what is not damaged with `ragstone store export {store} "
        "saved.jsonl --texts`, and score it in a new store with `ragstone replay saved.jsonl --store NEW`."
    )
