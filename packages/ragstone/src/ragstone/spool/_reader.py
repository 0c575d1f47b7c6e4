"""Reader of the spool: returns the entries of complete appends, in order, at fixed byte offsets."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from ragstone._util.filelock import try_flock
from ragstone._util.files import sync_directory
from ragstone.errors import DataError, SpoolError, StoreVersionError
from ragstone.schema import Dropped, SpoolEntry, check_record, spool_entry_adapter
from ragstone.spool._format import (
    END,
    LAST,
    MORE,
    NAME,
    SEAL,
    Header,
    created_at_of,
    frame,
    is_cut_header,
    read_header,
    unframe,
)

_logger = logging.getLogger("ragstone")

_COPIED_BYTES: Final = 4 * 2**20
"""Bytes of the lines that are copied at once."""
_UNREADABLE: Final = "corrupt_segment"
_LONGEST_HEADER: Final = 200
"""Bytes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentState:
    """State of one segment when it was listed."""

    name: str
    live: bool
    """Whether a running process may still append to it."""


class Batch(NamedTuple, Generic[T]):
    """Consecutive entries of one segment."""

    entries: tuple[T, ...]
    next_offset: int
    """Byte offset at which the next `read` continues. It stays valid as the segment grows."""
    at_end: bool
    """Whether the segment is complete and read to its end. It can be removed after its entries are stored."""
    corrupt: int
    """Number of entries that represent a damaged line."""


class SpoolReader:
    """Reads the segments of a spool directory, also while other processes append to them.

    Reading the same segment from the same offset always returns the same entries, even after the segment has grown. The
    caller stores `next_offset` in the transaction that stores the entries, so each entry is stored exactly once. Files
    that are not segments are ignored.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._foreign: set[str] = set()

    def segments(self) -> list[SegmentState]:
        """List every segment, oldest first. Raise SpoolError if the directory or a segment cannot be read."""
        with self._os_errors("list segments"):
            try:
                names = sorted(path.name for path in self._directory.iterdir() if NAME.fullmatch(path.name))
            except FileNotFoundError:
                return []
        states = (self._state(name) for name in names)
        return [state for state in states if state is not None]

    def read(self, name: str, offset: int = 0, max_entries: int = 500) -> Batch[SpoolEntry]:
        """Read entries of a segment.

        If the last append is incomplete and its writer is running, a later call returns it. If the writer has ended,
        the append was never acknowledged and is ignored. A damaged line becomes a `Dropped` entry with reason
        "corrupt_segment", and reading continues with the next line. A segment that no longer exists has been processed
        and removed: the result is an empty batch with `at_end`. `offset` is 0, or the `next_offset` of an earlier batch
        of this segment. Raise SpoolError if the file is not a segment, is not readable, or was written by another
        version of Ragstone.
        """
        parse = partial(_entry, name=str(self._directory / name))
        return self._read(name, offset, parse, lambda dropped: dropped, limit=max_entries)

    def read_lines(self, name: str, offset: int = 0, *, max_entries: int = 500) -> Batch[bytes]:
        """Read entries of a segment as framed lines with their checksums, to copy them. Otherwise as `read`.

        Raise SpoolError if the file is not a segment, or is not readable.
        """
        damaged = spool_entry_adapter.dump_json
        batch = self._read(name, offset, lambda payload: payload, damaged, limit=max_entries, max_bytes=_COPIED_BYTES)
        return batch._replace(entries=tuple(frame(payload, LAST) for payload in batch.entries))

    def batches(self, offsets: Mapping[str, int]) -> Iterator[Batch[SpoolEntry]]:
        """Yield all entries of all segments in batches, each segment from its offset, or from its beginning.

        Raises:
            SpoolError: As `segments` and `read`.
        """
        for segment in self.segments():
            offset = offsets.get(segment.name, 0)
            while (batch := self.read(segment.name, offset)).entries:
                yield batch
                offset = batch.next_offset

    def _read(
        self,
        name: str,
        offset: int,
        parse: Callable[[bytes], T | None],
        damaged: Callable[[Dropped], T],
        *,
        limit: int,
        max_bytes: int | None = None,
    ) -> Batch[T]:
        """Read a batch. `damaged` makes an entry of what is damaged or missing."""
        with self._open(name, offset) as opened:
            if opened is None:
                return Batch((), offset, at_end=True, corrupt=0)
            file, final, header = opened
            found = _read(file, parse=parse, final=final, limit=limit, max_bytes=max_bytes)
            next_offset, n_missing = _find_missing(file, header, found)
        one = Dropped(reason=_UNREADABLE, n=1, at=header.created_at)
        entries = [damaged(one) if entry is None else entry for entry, _ in found.items]
        if n_missing:
            entries.append(damaged(one.model_copy(update={"n": n_missing})))
        n_damaged = sum(entry is None for entry, _ in found.items)
        return Batch(tuple(entries), next_offset, found.at_end, n_damaged + n_missing)

    @contextlib.contextmanager
    def _open(self, name: str, offset: int) -> Iterator[tuple[BinaryIO, bool, Header] | None]:
        """Open a segment at an offset. Yields the file, whether it is final, and its header. None: it is gone."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._os_errors(f"read segment {name!r}"))
            try:
                file = stack.enter_context((self._directory / name).open("rb"))
            except FileNotFoundError:
                yield None
                return
            # Check first whether the segment is final, then read it. In the reverse order, lines that a writer appends
            # just before it ends would be missed.
            final = _is_final(file)
            header, start = _read_start(file, name)
            if header is None:
                raise SpoolError(
                    f"{str(self._directory / name)!r} is not a segment of a Ragstone spool. Move it out of the spool"
                )
            file.seek(max(offset, start))
            yield file, final, header

    def remove(self, name: str) -> None:
        """Remove a segment after `Batch.at_end` was reached. Do nothing if it no longer exists.

        Raise SpoolError if a running process still writes to it, or it cannot be removed.
        """
        path = self._directory / name
        with self._os_errors(f"remove segment {name!r}"):
            try:
                with path.open("rb") as file:
                    final = _is_final(file)
            except FileNotFoundError:
                return
            if not final:
                raise SpoolError(
                    f"segment {name!r} cannot be removed while its writer is running. Close its Monitor or process first"
                )
            path.unlink(missing_ok=True)
            # Without this, the segment could reappear after a loss of power, when its offset is no longer stored.
            sync_directory(self._directory)

    def _state(self, name: str) -> SegmentState | None:
        with self._os_errors(f"read segment {name!r}"):
            try:
                with (self._directory / name).open("rb") as file:
                    final = _is_final(file)
                    try:
                        is_segment = _read_start(file, name)[0] is not None
                    except StoreVersionError:  # `read` raises the error
                        is_segment = True
            except FileNotFoundError:  # another process has processed and removed it
                return None
        if not is_segment:
            if name not in self._foreign:
                self._foreign.add(name)
                _logger.warning(
                    "%s has the name of a spool segment, but not its header. The file is ignored",
                    self._directory / name,
                )
            return None
        return SegmentState(name=name, live=not final)

    @contextlib.contextmanager
    def _os_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except StoreVersionError as error:
            raise SpoolError(str(error)) from error
        except OSError as error:
            raise SpoolError(
                f"cannot {doing} in the spool {str(self._directory)!r}: {error.strerror or error}"
            ) from error


class _Found(NamedTuple, Generic[T]):
    """Complete appends of a segment."""

    items: list[tuple[T | None, int]]
    """Parsed payload, or None for a damaged line, and the offset after it."""
    next_offset: int
    at_end: bool


def _read_start(file: BinaryIO, name: str) -> tuple[Header | None, int]:
    """Return the header of a segment, or None if it is another file, and the offset of its first entry.

    A segment whose header is damaged is recognized by its name and a valid line, and one that was cut within its header
    by its name and the rest of the header.
    """
    first = file.readline()
    header = read_header(first, name=file.name)
    created_at = created_at_of(name)
    if header is not None or created_at is None:
        return header, len(first)
    if is_cut_header(first):
        # A segment gets its name after its header, so it had one. How many entries it had is not known: at least one.
        return Header(created_at, 1), len(first)
    if unframe(file.readline()) is not None and len(first) <= _LONGEST_HEADER:
        return Header(created_at, None), len(first)
    # Otherwise what comes before the first valid line may have been entries. It counts as damaged lines.
    return (Header(created_at, None), 0) if any(unframe(line) is not None for line in file) else (None, 0)


def _find_missing(file: BinaryIO, header: Header, found: _Found[Any]) -> tuple[int, int]:
    """Return the next offset, and how many entries of a complete segment are missing, because the file was cut or a line end damaged.

    They are reported once: the offset is then behind the end of the file.
    """
    size = os.fstat(file.fileno()).st_size
    if not found.at_end or header.n_lines is None or found.next_offset > size:
        return found.next_offset, 0
    file.seek(0)
    file.readline()
    present = _read(file, parse=lambda payload: payload, final=True, limit=sys.maxsize, max_bytes=None)
    n_missing = max(0, header.n_lines - len(present.items))
    return (size + 1, n_missing) if n_missing else (found.next_offset, 0)


def _read(
    file: BinaryIO, *, parse: Callable[[bytes], T | None], final: bool, limit: int, max_bytes: int | None
) -> _Found[T]:
    """Read entries from the current position of `file`."""
    whole: list[tuple[T | None, int]] = []
    partial: list[tuple[T | None, int]] = []  # the same, for an append whose last line was not read yet
    certain = 0  # number of entries of `partial` that count if no line follows
    start = offset = file.tell()  # codespell:ignore
    exhausted = True
    for line in file:
        if not line.endswith(b"\n"):  # incomplete: the write is in progress, or never finished
            break
        offset += len(line)
        mark, payload = unframe(line) or (b"", b"")
        if mark == SEAL:
            final = True
            break
        parsed = parse(payload) if mark else None
        partial.append((parsed, offset))
        if parsed is None:
            # An incomplete write ends without a newline, so this line was complete once and may have ended its append.
            certain = len(partial)
        elif mark == LAST:
            whole += partial
            partial, certain = [], 0
            if len(whole) >= limit or (max_bytes is not None and offset - start >= max_bytes):
                exhausted = False
                break
    if final and exhausted:
        whole += partial[:certain]
    taken = whole[:limit]
    return _Found(
        items=taken,
        next_offset=taken[-1][1] if taken else start,
        at_end=final and exhausted and len(taken) == len(whole),
    )


def _entry(payload: bytes, *, name: str) -> SpoolEntry | None:
    """Parse the entry of a line. Return None if it is invalid although its checksum is correct."""
    try:
        return parse_entry(payload, name=f"an entry of the spool segment {name!r}")
    except DataError:
        return None


def parse_line(line: bytes) -> SpoolEntry:
    """Parse a framed line.

    Raise DataError if its checksum is wrong, or it does not contain an entry. Raise StoreVersionError if another
    version of Ragstone wrote it.
    """
    found = unframe(line)
    if found is None or found[0] not in (MORE, LAST):
        raise DataError("the checksum is wrong")
    return parse_entry(found[1])


def parse_entry(payload: bytes, *, name: str = "the entry") -> SpoolEntry:
    """Parse the JSON of an entry, whose name is for the error.

    Raise DataError if it is not an entry. Raise StoreVersionError if another version of Ragstone wrote it.
    """
    try:
        return spool_entry_adapter.validate_json(payload)
    except ValidationError:
        pass
    try:
        # pydantic reads neither lone surrogates nor deep nesting, and does not know the kinds of entries of another
        # version.
        record = json.loads(payload)
        check_record(name, record)
        return spool_entry_adapter.validate_python(record)
    except (ValueError, RecursionError) as error:
        # The error's text may quote the request.
        raise DataError(f"it is not an entry of a spool ({type(error).__name__})") from None


def _is_final(file: BinaryIO) -> bool:
    """Return whether a segment can no longer grow: it is sealed, or its writer no longer holds its lock."""
    if try_flock(file.fileno(), shared=True):
        return True
    return os.pread(file.fileno(), len(END), max(0, os.fstat(file.fileno()).st_size - len(END))) == END
