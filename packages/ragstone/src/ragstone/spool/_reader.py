"""Reader of the spool: returns the entries of complete appends, in order, at fixed byte offsets."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import ValidationError

from ragstone._util.filelock import try_flock
from ragstone.errors import SpoolError, StoreVersionError
from ragstone.schema import SCHEMA_VERSION, Captured, Dropped, SpoolEntry, migrate, spool_entry_adapter
from ragstone.spool._format import END, LAST, NAME, SEAL, read_header, sync_directory, unframe

__all__ = ["Batch", "SegmentState", "SpoolReader"]

_logger = logging.getLogger("ragstone")

_UNREADABLE: Final = "corrupt_segment"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentState:
    """State of one segment when it was listed."""

    name: str
    size_bytes: int
    live: bool
    """Whether a running process may still append to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Consecutive entries of one segment."""

    entries: tuple[SpoolEntry, ...]
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

    Args:
        directory: The spool directory. It does not have to exist yet.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._foreign: set[str] = set()

    def segments(self) -> list[SegmentState]:
        """List every segment, oldest first.

        Raises:
            SpoolError: If the directory or a segment cannot be read.
        """
        with self._os_errors("list segments"):
            try:
                names = sorted(path.name for path in self._directory.iterdir() if NAME.fullmatch(path.name))
            except FileNotFoundError:
                return []
        states = (self._state(name) for name in names)
        return [state for state in states if state is not None]

    def read(self, name: str, offset: int = 0, max_entries: int = 500) -> Batch:
        """Read entries of a segment.

        If the last append is incomplete and its writer is running, a later call returns it. If the writer has ended,
        the append was never acknowledged and is ignored. A damaged line becomes a `Dropped` entry with reason
        "corrupt_segment", and reading continues with the next line. A segment that no longer exists has been processed
        and removed: the result is an empty batch with `at_end`.

        Args:
            name: Name of a segment from `segments`.
            offset: 0, or the `next_offset` of an earlier batch of this segment.
            max_entries: Maximum number of entries.

        Raises:
            SpoolError: If the file is not a segment, is not readable, or was written by a newer version of Ragstone.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._os_errors(f"read segment {name!r}"))
            try:
                file = stack.enter_context((self._directory / name).open("rb"))
            except FileNotFoundError:
                return Batch(entries=(), next_offset=offset, at_end=True, corrupt=0)
            # Check first whether the segment is final, then read it. In the reverse order, lines that a writer appends
            # just before it ends would be missed.
            final = _is_final(file)
            first = file.readline()
            created_at = read_header(first, name=name)
            if created_at is None:
                raise SpoolError(
                    f"{str(self._directory / name)!r} is not a segment of a Ragstone spool. Move it out of the spool"
                )
            file.seek(max(offset, len(first)))
            return _read(file, name=name, final=final, max_entries=max_entries, damaged_at=created_at)

    def remove(self, name: str) -> None:
        """Remove a segment after `Batch.at_end` was reached. Do nothing if it no longer exists.

        Raises:
            SpoolError: If a running process still writes to it, or it cannot be removed.
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
                    first = file.readline()
                    size = os.fstat(file.fileno()).st_size
            except FileNotFoundError:  # another process has processed and removed it
                return None
        try:
            is_segment = read_header(first, name=name) is not None
        except SpoolError:  # written by a newer version: `read` raises the error
            is_segment = True
        if not is_segment:
            if name not in self._foreign:
                self._foreign.add(name)
                _logger.warning(
                    "%s has the name of a spool segment, but not its header. The file is ignored",
                    self._directory / name,
                )
            return None
        return SegmentState(name=name, size_bytes=size, live=not final)

    @contextlib.contextmanager
    def _os_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SpoolError(
                f"cannot {doing} in the spool {str(self._directory)!r}: {error.strerror or error}"
            ) from error


def _read(file: BinaryIO, *, name: str, final: bool, max_entries: int, damaged_at: float) -> Batch:
    """Read entries from the current position of `file`."""
    whole: list[tuple[SpoolEntry, bool, int]] = []  # entry, whether it represents a damaged line, offset after it
    partial: list[tuple[SpoolEntry, bool, int]] = []  # the same, for an append whose last line was not read yet
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
        entry = _entry(payload, name=name) if mark else None
        if entry is None:
            entry = Dropped(reason=_UNREADABLE, n=1, at=damaged_at)
            partial.append((entry, True, offset))
            # An incomplete write ends without a newline, so this line was complete once and may have ended its append.
            certain = len(partial)
            continue
        partial.append((entry, False, offset))
        if mark == LAST:
            whole += partial
            partial, certain = [], 0
            if len(whole) >= max_entries:
                exhausted = False
                break
    if final and exhausted:
        whole += partial[:certain]
    taken = whole[:max_entries]
    return Batch(
        entries=tuple(entry for entry, _, _ in taken),
        next_offset=taken[-1][2] if taken else start,
        at_end=final and exhausted and len(taken) == len(whole),
        corrupt=sum(damaged for _, damaged, _ in taken),
    )


def _entry(payload: bytes, *, name: str) -> SpoolEntry | None:
    """Parse the entry of a line. Return None if it is invalid although its checksum is correct."""
    try:
        entry = spool_entry_adapter.validate_json(payload)
    except ValidationError:
        entry = None
    if entry is not None and _current(entry):
        return entry
    try:
        record = json.loads(payload)
        trace = record.get("trace")
        if trace is not None:
            record["trace"] = migrate(trace)
        return spool_entry_adapter.validate_python(migrate(record))
    except StoreVersionError as error:
        raise SpoolError(f"segment {name!r}: {error}") from error
    except (ValueError, AttributeError, TypeError):
        return None


def _current(entry: SpoolEntry) -> bool:
    versions = [entry.schema_version]
    if isinstance(entry, Captured):
        versions.append(entry.trace.schema_version)
    return all(version == SCHEMA_VERSION for version in versions)


def _is_final(file: BinaryIO) -> bool:
    """Return whether a segment can no longer grow: it is sealed, or its writer no longer holds its lock."""
    if try_flock(file.fileno(), shared=True):
        return True
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), len(END), max(0, size - len(END))) == END
