"""The writing side of the spool."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from ragstone.errors import ConfigurationError, SpoolError
from ragstone.schema import Dropped, spool_entry_adapter
from ragstone.spool import SpoolReader, SpoolWriter


def line(n: int) -> bytes:
    """A spool line that can be told from others."""
    return spool_entry_adapter.dump_json(Dropped(reason="test", n=n, at=0.0))


def numbers(directory) -> list[int]:
    """What a reader finds, segment by segment."""
    reader = SpoolReader(directory)
    return [entry.n for segment in reader.segments() for entry in reader.read(segment.name).entries]


class Disk:
    """`os.write` that behaves like a disk with some room left, and `os.fdatasync` that can fail."""

    def __init__(self, monkeypatch) -> None:
        self.room = None
        self.error = errno.ENOSPC
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, fd, data):
        if self.room is None:
            return self._write(fd, data)
        if self.room == 0:
            raise OSError(self.error, os.strerror(self.error))
        written = self._write(fd, bytes(data)[: self.room])
        self.room -= written
        return written


@pytest.fixture
def disk(monkeypatch):
    """Room on it can be taken away."""
    return Disk(monkeypatch)


def test_lines_are_read_back_in_order(tmp_path):
    """What was appended, once, in order."""
    with_gap = SpoolWriter(tmp_path)
    with_gap.append([line(1), line(2)])
    with_gap.append([])
    with_gap.append([line(3)])
    with_gap.sync()
    with_gap.close()
    assert [1, 2, 3] == numbers(tmp_path)


def test_nothing_is_made_before_the_first_append(tmp_path):
    """Making, syncing and closing an unused writer leaves no trace."""
    writer = SpoolWriter(tmp_path / "deep" / "spool")
    writer.sync()
    writer.close()
    assert [] == list(tmp_path.iterdir())
    assert writer.segment is None


def test_an_append_is_one_write(tmp_path, monkeypatch):
    """So that two appends never mix and a group costs one call of the kernel."""
    writer = SpoolWriter(tmp_path)
    writer.append([line(1)])
    sizes, write = [], os.write
    monkeypatch.setattr(os, "write", lambda fd, data: sizes.append(len(data)) or write(fd, data))
    writer.append([line(2), line(3)])
    assert 1 == len(sizes)
    writer.close()


def test_segment_is_sealed_when_full(tmp_path):
    """A new one is begun, and a lone line larger than a segment still fits somewhere."""
    writer = SpoolWriter(tmp_path, max_segment_bytes=400)
    for n in range(1, 10):
        writer.append([line(n)])
    big = spool_entry_adapter.dump_json(Dropped(reason="x" * 1_000, n=10, at=0.0))
    writer.append([big])
    segments = SpoolReader(tmp_path).segments()
    assert [False] * (len(segments) - 1) + [True] == [segment.live for segment in segments]
    assert 3 < len(segments)
    assert list(range(1, 11)) == numbers(tmp_path)
    writer.close()


def test_closing_seals_and_a_later_append_starts_again(tmp_path):
    """A closed writer is not broken."""
    writer = SpoolWriter(tmp_path)
    for n in (1, 2):
        writer.append([line(n)])
        writer.close()
        writer.close()
    assert [False, False] == [segment.live for segment in SpoolReader(tmp_path).segments()]
    assert [1, 2] == numbers(tmp_path)


def test_segments_are_private(tmp_path):
    """Captured text is for the eyes of its owner."""
    writer = SpoolWriter(tmp_path)
    writer.append([line(1)])
    assert 0o600 == stat.S_IMODE((tmp_path / writer.segment).stat().st_mode)
    writer.close()


@pytest.mark.parametrize("room", [0, 1, 30, 150])
def test_full_disk_leaves_all_or_nothing(tmp_path, disk, room):
    """An append that does not fit is taken back; the next one that fits goes into the same segment."""
    writer = SpoolWriter(tmp_path)
    writer.append([line(1)])
    segment = writer.segment
    disk.room = room
    with pytest.raises(SpoolError, match=r"cannot append to the spool .* Free disk space") as caught:
        writer.append([line(2), line(3)])
    assert errno.ENOSPC == caught.value.__cause__.errno
    disk.room = None
    writer.append([line(4)])
    assert segment == writer.segment
    writer.close()
    assert [1, 4] == numbers(tmp_path)


def test_short_writes_are_continued(tmp_path, monkeypatch):
    """The kernel may take less than it was given, without an error."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:7]))
    writer = SpoolWriter(tmp_path)
    writer.append([line(1), line(2)])
    writer.close()
    assert [1, 2] == numbers(tmp_path)


def test_half_an_append_that_cannot_be_taken_back_is_not_read(tmp_path, disk, monkeypatch):
    """Nothing follows the rest of it in its segment, and readers ignore it."""
    writer = SpoolWriter(tmp_path)
    writer.append([line(1)])
    disk.room = len(line(2)) + 40  # the first line and a part of the second

    def refuse(fd, size):
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(SpoolError):
            writer.append([line(2), line(3)])
    disk.room = None
    writer.append([line(4)])
    writer.close()
    assert [1, 4] == numbers(tmp_path)


def test_other_faults_start_a_new_segment(tmp_path, disk):
    """A file that the disk fails on is not used again."""
    writer = SpoolWriter(tmp_path)
    writer.append([line(1)])
    segment = writer.segment
    disk.room, disk.error = 0, errno.EIO
    with pytest.raises(SpoolError):
        writer.append([line(2)])
    disk.room = None
    writer.append([line(3)])
    assert segment != writer.segment
    writer.close()
    assert [1, 3] == numbers(tmp_path)


def test_failed_sync_starts_a_new_segment(tmp_path, monkeypatch):
    """After a failed sync the kernel may claim success for what it has given up."""
    writer = SpoolWriter(tmp_path)
    writer.append([line(1)])
    segment = writer.segment

    def fail(fd):
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr("ragstone.spool._writer.sync_data", fail)
        with pytest.raises(SpoolError, match="cannot sync the spool"):
            writer.sync()
    writer.append([line(2)])
    assert segment != writer.segment
    writer.close()
    assert [1, 2] == numbers(tmp_path)


def test_unwritable_directory_is_an_error_and_not_for_ever(tmp_path):
    """A directory that cannot be made, because a file has its name; later it can."""
    (tmp_path / "spool").write_text("in the way")
    writer = SpoolWriter(tmp_path / "spool")
    with pytest.raises(SpoolError, match="choose another one"):
        writer.append([line(1)])
    (tmp_path / "spool").unlink()
    writer.append([line(2)])
    writer.close()
    assert [2] == numbers(tmp_path / "spool")


def test_undrained_spool_stops_growing(tmp_path):
    """With no one to drain it, the spool ends at its limit instead of filling the disk."""
    writer = SpoolWriter(tmp_path, max_segment_bytes=300, max_spool_bytes=900)
    with pytest.raises(SpoolError, match="Check that a worker is running") as caught:
        for n in range(1, 100):
            writer.append([line(n)])
    assert errno.EDQUOT == caught.value.__cause__.errno
    reader = SpoolReader(tmp_path)
    assert sum((tmp_path / segment.name).stat().st_size for segment in reader.segments()) < 900 + 300
    for segment in reader.segments():
        reader.remove(segment.name)
    writer.append([line(100)])
    writer.close()
    assert [100] == numbers(tmp_path)


def test_newline_in_a_line_is_refused(tmp_path):
    """It would be read as two damaged lines."""
    with pytest.raises(ValueError, match="newline"):
        SpoolWriter(tmp_path).append([b"{\n}"])


@pytest.mark.parametrize("option", ["max_segment_bytes", "max_spool_bytes"])
def test_sizes_must_be_positive(tmp_path, option):
    """The message names the option and its value."""
    with pytest.raises(ConfigurationError, match=f"{option} must be positive, got 0"):
        SpoolWriter(tmp_path, **{option: 0})


def test_a_segment_that_somebody_deleted_is_not_written_on(tmp_path):
    """What goes into a file without a name is gone with the process: it must not count as on the disk."""
    writer = SpoolWriter(tmp_path / "spool")
    writer.append([line(1)])
    for segment in (tmp_path / "spool").iterdir():
        segment.unlink()
    (tmp_path / "spool").rmdir()
    writer.append([line(2)])

    assert [2] == numbers(tmp_path / "spool")
