"""The reading side of the spool: what whole appends hold, in order, at offsets that never change."""

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
    """One segment as it was found."""

    name: str
    size_bytes: int
    live: bool
    """Whether a living process may still append to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Consecutive entries of one segment."""

    entries: tuple[SpoolEntry, ...]
    next_offset: int
    """Where the next `read` goes on: a byte offset that the segment keeps for ever."""
    at_end: bool
    """Nothing will ever follow: once the entries are stored, the segment can be removed."""
    corrupt: int
    """How many of the entries stand for a damaged line."""


class SpoolReader:
    """Reads the segments of a spool directory, also while other processes append to them.

    Reading the same segment from the same offset gives the same entries every time, however the segment has grown and
    whoever reads. So the caller stores `next_offset` in the transaction that stores the entries, and each entry arrives
    exactly once. Files that are no segments are left alone.

    Args:
        directory: The spool directory; it need not exist yet.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._foreign: set[str] = set()

    def segments(self) -> list[SegmentState]:
        """Every segment, oldest first.

        Raises:
            SpoolError: The directory or a segment cannot be read.
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

        A last append that is not complete is left for later while its writer lives; when the writer is dead it was
        never acknowledged and is ignored. A damaged line becomes a `Dropped` entry with reason "corrupt_segment", and
        reading goes on with the next line. A segment that is gone was drained: it gives an empty batch at its end.

        Args:
            name: A segment, as `segments` names it.
            offset: 0, or the `next_offset` of an earlier batch of this segment.
            max_entries: At most so many entries.

        Raises:
            SpoolError: Not one of our segments, written by a newer Ragstone, or not readable.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._os_errors(f"read segment {name!r}"))
            try:
                file = stack.enter_context((self._directory / name).open("rb"))
            except FileNotFoundError:
                return Batch(entries=(), next_offset=offset, at_end=True, corrupt=0)
            # First whether it is final, then what it holds: the other way round, what a writer appends just before it
            # dies would be missed.
            final = _is_final(file)
            first = file.readline()
            created_at = read_header(first, name=name)
            if created_at is None:
                raise SpoolError(
                    f"{str(self._directory / name)!r} is not a segment of a Ragstone spool; move it elsewhere"
                )
            file.seek(max(offset, len(first)))
            return _read(file, name=name, final=final, max_entries=max_entries, damaged_at=created_at)

    def remove(self, name: str) -> None:
        """Remove a segment whose `Batch.at_end` was reached; does nothing when it is gone already.

        Raises:
            SpoolError: A living process still writes to it, or it cannot be removed.
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
                    f"segment {name!r} has a living writer and cannot be removed; close its Monitor or process first"
                )
            path.unlink(missing_ok=True)
            # Or a loss of power could bring it back after its offset was forgotten.
            sync_directory(self._directory)

    def _state(self, name: str) -> SegmentState | None:
        with self._os_errors(f"read segment {name!r}"):
            try:
                with (self._directory / name).open("rb") as file:
                    final = _is_final(file)
                    first = file.readline()
                    size = os.fstat(file.fileno()).st_size
            except FileNotFoundError:  # drained by somebody else meanwhile
                return None
        try:
            ours = read_header(first, name=name) is not None
        except SpoolError:  # a newer one of ours: `read` explains
            ours = True
        if not ours:
            if name not in self._foreign:
                self._foreign.add(name)
                _logger.warning(
                    "%s is named like a spool segment and does not begin like one; it is ignored",
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
    """Read on from where `file` stands."""
    whole: list[tuple[SpoolEntry, bool, int]] = []  # entry, whether it stands for a damaged line, offset behind it
    partial: list[tuple[SpoolEntry, bool, int]] = []  # the same, of an append whose last line was not seen yet
    certain = 0  # how many of `partial` count when nothing follows
    start = offset = file.tell()
    exhausted = True
    for line in file:
        if not line.endswith(b"\n"):  # torn: still being written, or never finished
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
            # A torn write has no newline, so this line was once whole, and may have been the last of its append.
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
    """The entry of a line; None when it makes no sense although its checksum holds."""
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
    """Whether a segment will never grow: it is sealed, or nobody holds the lock that its writer took before naming it."""
    if try_flock(file.fileno(), shared=True):
        return True
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), len(END), max(0, size - len(END))) == END
