"""The reading side of the spool."""

from __future__ import annotations

import contextlib
import functools
import json
import logging

import pytest

from ragstone._util.filelock import try_flock
from ragstone.errors import SpoolError
from ragstone.schema import Captured, Dropped, Trace, spool_entry_adapter
from ragstone.spool import SpoolReader, SpoolWriter
from ragstone.spool._format import END, LAST, MORE, frame


def line(n: int) -> bytes:
    """A spool line that can be told from others."""
    return spool_entry_adapter.dump_json(Dropped(reason="test", n=n, at=0.0))


def segment_with(directory, *appends: list[int], clock=lambda: 1_000_000_000.0):
    """The path of a sealed segment with these appends."""
    writer = SpoolWriter(directory, clock=clock)
    for append in appends:
        writer.append([line(n) for n in append])
    path = directory / writer.segment
    writer.close()
    return path


def damage(path, *, line_number: int):
    """Change one character in the middle of a line."""
    lines = path.read_bytes().splitlines(keepends=True)
    broken = bytearray(lines[line_number])
    broken[len(broken) // 2] ^= 1
    lines[line_number] = bytes(broken)
    path.write_bytes(b"".join(lines))


def test_no_directory_is_an_empty_spool(tmp_path):
    """No one has captured anything yet."""
    assert [] == SpoolReader(tmp_path / "missing").segments()


def test_foreign_files_are_left_alone(tmp_path, caplog):
    """Whatever their name; one that is named like a segment is mentioned once."""
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "other.seg").write_text("mine")
    (tmp_path / "20260101T000000.000000Z-1-0123abcd.seg").write_text("mine\n")
    (tmp_path / "20260101T000001.000000Z-1-0123abcd.seg").write_text('{"magic": "another"}\n')
    (tmp_path / "20260101T000002.000000Z-1-0123abcd.seg").write_text('{"magic": "another"')
    path = segment_with(tmp_path, [1])
    reader = SpoolReader(tmp_path)
    with caplog.at_level(logging.WARNING, logger="ragstone"):
        assert [path.name] == [segment.name for segment in reader.segments()]
        assert [path.name] == [segment.name for segment in reader.segments()]
    assert 3 == len(caplog.records)
    with pytest.raises(SpoolError, match="not a segment"):
        reader.read("20260101T000000.000000Z-1-0123abcd.seg")


def test_segments_are_sorted_by_age(tmp_path):
    """The oldest first."""
    paths = [segment_with(tmp_path, [1], clock=lambda at=at: at) for at in (3e8, 1e9, 2.5)]
    assert [paths[2].name, paths[0].name, paths[1].name] == [s.name for s in SpoolReader(tmp_path).segments()]


def test_small_batches_end_at_offsets_to_go_on_from(tmp_path):
    """Any batch size gives the same entries in the same order, also from the middle of an append."""
    path = segment_with(tmp_path, [1, 2, 3], [4], [5, 6])
    reader = SpoolReader(tmp_path)
    for size in range(1, 8):
        found, offset, at_end = [], 0, False
        while not at_end:
            batch = reader.read(path.name, offset, size)
            assert len(batch.entries) <= size
            found += [entry.n for entry in batch.entries]
            offset, at_end = batch.next_offset, batch.at_end
        assert [1, 2, 3, 4, 5, 6] == found
        assert ((), offset, True) == (
            (again := reader.read(path.name, offset)).entries,
            again.next_offset,
            again.at_end,
        )


def test_living_writer_is_read_up_to_its_last_append(tmp_path):
    """There is no end while it lives, and what comes later is found from the last offset."""
    writer, reader = SpoolWriter(tmp_path), SpoolReader(tmp_path)
    writer.append([line(1)])
    [state] = reader.segments()
    first = reader.read(state.name)
    assert (True, [1], False) == (state.live, [entry.n for entry in first.entries], first.at_end)
    waiting = reader.read(state.name, first.next_offset)
    assert ((), first.next_offset, False) == (waiting.entries, waiting.next_offset, waiting.at_end)
    writer.append([line(2)])
    writer.close()
    rest = reader.read(state.name, first.next_offset)
    assert ([2], True) == ([entry.n for entry in rest.entries], rest.at_end)


def test_unfinished_append_of_a_living_writer_is_waited_for(tmp_path):
    """Neither a torn line nor whole lines of half an append are delivered before the append is complete."""
    writer, reader = SpoolWriter(tmp_path), SpoolReader(tmp_path)
    writer.append([line(1)])
    name = writer.segment
    rest = frame(line(2), MORE) + frame(line(3), LAST)
    for size in (5, len(frame(line(2), MORE)), len(rest) - 1, len(rest)):
        whole = reader.read(name)
        assert ([1], False) == ([entry.n for entry in whole.entries], whole.at_end)
        have = (tmp_path / name).stat().st_size
        with (tmp_path / name).open("ab") as file:
            file.write(rest[have - whole.next_offset : size])
    assert [1, 2, 3] == [entry.n for entry in reader.read(name).entries]
    writer.close()


def test_unfinished_append_of_a_dead_writer_never_was(tmp_path):
    """It was not acknowledged, and the segment ends before it."""
    path = segment_with(tmp_path, [1])
    text = path.read_bytes()[: -len(END)]
    path.write_bytes(text + frame(line(2), MORE) + frame(line(3), LAST)[:-4])
    batch = SpoolReader(tmp_path).read(path.name)
    assert ([1], len(text), True, 0) == (
        [entry.n for entry in batch.entries],
        batch.next_offset,
        batch.at_end,
        batch.corrupt,
    )


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_damaged_line_is_counted_and_the_rest_is_read(tmp_path, number):
    """Whichever line it is, the last one of an append included, the loss is an entry in its place."""
    path = segment_with(tmp_path, [1, 2], [3], [4, 5])
    damage(path, line_number=number)
    batch = SpoolReader(tmp_path).read(path.name)
    expected = [(n, "corrupt_segment" if n == number else "test") for n in (1, 2, 3, 4, 5)]
    expected[number - 1] = (1, "corrupt_segment")
    assert expected == [(entry.n, entry.reason) for entry in batch.entries]
    assert (1, True, 1_000_000_000.0) == (batch.corrupt, batch.at_end, batch.entries[number - 1].at)


def test_damaged_line_gives_the_same_entries_again(tmp_path):
    """A loss is counted once however often it is read, one by one or all together."""
    path = segment_with(tmp_path, [1, 2], [3])
    damage(path, line_number=2)
    reader = SpoolReader(tmp_path)
    whole = reader.read(path.name).entries
    offset, single = 0, []
    while not (batch := reader.read(path.name, offset, 1)).at_end or batch.entries:
        single += batch.entries
        offset = batch.next_offset
    assert list(whole) == single


def test_line_that_is_no_entry_is_damaged(tmp_path):
    """Its checksum holds, its content makes no sense."""
    writer = SpoolWriter(tmp_path)
    writer.append([b"null", b"[]", b'{"entry": "captured"}', b'{"entry": "captured", "trace": 7}', line(2)])
    batch = SpoolReader(tmp_path).read(writer.segment)
    assert ([1, 1, 1, 1, 2], 4) == ([entry.n for entry in batch.entries], batch.corrupt)
    writer.close()


def test_another_format_names_the_way_out(tmp_path):
    """A segment of another version is listed, and reading it says what to do."""
    path = segment_with(tmp_path, [1])
    path.write_bytes(path.read_bytes().replace(b'"format": 1', b'"format": 2'))
    reader = SpoolReader(tmp_path)
    assert [path.name] == [segment.name for segment in reader.segments()]
    with pytest.raises(
        SpoolError, match=rf"{path.name}' has format version 2, and this version of Ragstone reads version 1: "
    ):
        reader.read(path.name)


@pytest.mark.parametrize("where", ["entry", "trace"])
def test_a_record_of_another_version_names_the_way_out(tmp_path, where):
    """It is not damage, and it is not dropped."""
    record = json.loads(spool_entry_adapter.dump_json(Captured(trace=Trace(trace_id="t", started_at=0.0))))
    (record if where == "entry" else record["trace"])["schema_version"] = 99
    writer = SpoolWriter(tmp_path)
    writer.append([json.dumps(record).encode()])
    with pytest.raises(SpoolError, match=rf"{writer.segment}' has format version 99, and "):
        SpoolReader(tmp_path).read(writer.segment)
    writer.close()


@pytest.mark.parametrize("depth", [10, 250])
def test_an_entry_with_deep_metadata_is_read(tmp_path, depth):
    """An entry is read if its metadata are nested as deep as a writer can write them."""
    metadata = functools.reduce(lambda inner, _: {"in": inner}, range(depth), {"value": 1})
    trace = Trace(trace_id="t", started_at=0.0, metadata=metadata)
    with contextlib.closing(SpoolWriter(tmp_path)) as writer:
        writer.append([spool_entry_adapter.dump_json(Captured(trace=trace))])
        (entry,) = SpoolReader(tmp_path).read(writer.segment).entries
    assert trace == entry.trace


def test_segment_of_a_living_writer_is_not_removed(tmp_path):
    """Even if everything in it was read; sealed, it can go, and going twice is no error."""
    writer, reader = SpoolWriter(tmp_path), SpoolReader(tmp_path)
    writer.append([line(1)])
    name = writer.segment
    with pytest.raises(SpoolError, match="writer is running"):
        reader.remove(name)
    writer.close()
    reader.remove(name)
    reader.remove(name)
    assert [] == reader.segments()


def test_sealed_segment_is_final_while_its_lock_is_held(tmp_path):
    """A child forked at an unlucky moment can hold a copy of the lock for as long as it lives."""
    writer, reader = SpoolWriter(tmp_path), SpoolReader(tmp_path)
    writer.append([line(1)])
    name = writer.segment
    writer._write(END)
    assert [False] == [segment.live for segment in reader.segments()]
    assert reader.read(name).at_end
    reader.remove(name)
    writer._abandon()


def test_last_append_before_death_is_not_missed(tmp_path, monkeypatch):
    """A writer that appends and dies at any moment of a read: at the end, everything was delivered."""
    writer = SpoolWriter(tmp_path)
    writer.append([line(1)])
    name = writer.segment

    def dies_before(fd, *, shared):
        writer.append([line(2)])
        writer._abandon()
        return try_flock(fd, shared=shared)

    def dies_after(fd, *, shared):
        locked = try_flock(fd, shared=shared)
        writer.append([line(2)])
        writer._abandon()
        return locked

    for dies in (dies_after, dies_before):
        with monkeypatch.context() as patch:
            patch.setattr("ragstone.spool._reader.try_flock", dies)
            first = SpoolReader(tmp_path).read(name)
        rest = SpoolReader(tmp_path).read(name, first.next_offset)
        assert [1, 2] == [entry.n for entry in first.entries + rest.entries]
        assert rest.at_end
        assert not (first.at_end and rest.entries)
        writer.append([line(1)])
        name = writer.segment
    writer.close()


def test_missing_segment_was_drained(tmp_path):
    """Whoever listed it before its owner removed it finds its end, not an error."""
    batch = SpoolReader(tmp_path).read("gone.seg", 70)
    assert ((), 70, True, 0) == (batch.entries, batch.next_offset, batch.at_end, batch.corrupt)


def test_unreadable_segment_is_an_error(tmp_path):
    """The reader says which one, and where."""
    (tmp_path / "20260101T000000.000000Z-1-0123abcd.seg").mkdir()
    with pytest.raises(SpoolError, match=r"cannot read segment '20260101T.*seg' in the spool"):
        SpoolReader(tmp_path).read("20260101T000000.000000Z-1-0123abcd.seg")


def test_what_a_cut_segment_lost_is_counted_once(tmp_path):
    """Its header knows how many entries it had. The offset is then behind its end, also for a reader that starts again."""
    path = segment_with(tmp_path, [1], [2, 3], [4])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))  # the header, 1 and 2, which is not the end of its append
    batch = SpoolReader(tmp_path).read(path.name)
    assert [("test", 1), ("corrupt_segment", 3)] == [(entry.reason, entry.n) for entry in batch.entries]
    assert batch.at_end
    assert 3 == batch.corrupt
    again = SpoolReader(tmp_path).read(path.name, batch.next_offset)
    assert ((), True, batch.next_offset) == (again.entries, again.at_end, again.next_offset)
    assert 2 == len(SpoolReader(tmp_path).read_lines(path.name).entries)


@pytest.mark.parametrize(
    "rest", [b"", bytes(4096), b"{", b'{"magic": "ragstone-spool"', b'{"magic": "ragstone-spool", "format": 1,\0']
)
def test_a_segment_that_was_cut_within_its_header_is_counted(tmp_path, rest):
    """Nothing says how many entries it had, so it counts as one, once."""
    path = segment_with(tmp_path, [1], [2])
    path.write_bytes(rest)
    assert [path.name] == [state.name for state in SpoolReader(tmp_path).segments()]
    # The name has the time.
    assert [("corrupt_segment", 1, 1e9)] == [(each.reason, each.n, each.at) for each in drain_all(tmp_path, path.name)]
    assert 1 == len(SpoolReader(tmp_path).read_lines(path.name).entries)
    SpoolReader(tmp_path).remove(path.name)
    assert [] == list(tmp_path.iterdir())


def test_zeros_over_several_lines_are_counted_as_many(tmp_path):
    """They are one line now, because the line ends are gone too."""
    path = segment_with(tmp_path, *([n] for n in range(1, 9)))
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    start, end = sum(map(len, lines[:3])), sum(map(len, lines[:6]))
    path.write_bytes(content[:start] + bytes(end - start) + content[end:])
    found = drain_all(tmp_path, path.name)
    assert [1, 2, 7, 8] == [entry.n for entry in found if entry.reason == "test"]
    assert 4 == sum(entry.n for entry in found if entry.reason == "corrupt_segment")


def test_a_segment_with_a_damaged_header_is_read(tmp_path):
    """Its name and the line after the header say that it is one."""
    path = segment_with(tmp_path, [1], [2])
    for damaged in (b"x", b'{"created_at": NaN}', b'{"magic": "ragstone-spool", "format": 1, "created_at": 1e300}'):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(damaged + b"\n" + b"".join(lines[1:]))
        assert [path.name] == [state.name for state in SpoolReader(tmp_path).segments()]
        assert [1, 2] == [entry.n for entry in drain_all(tmp_path, path.name)]


def test_segments_of_older_versions_have_no_count(tmp_path):
    """A cut one ends where it ends, as one whose writer was killed."""
    path = segment_with(tmp_path, [1], [2])
    lines = path.read_bytes().splitlines(keepends=True)
    old = json.dumps({"magic": "ragstone-spool", "format": 1, "pid": 1, "created_at": 1.0}).encode() + b"\n"
    path.write_bytes(old + b"".join(lines[1:2]))
    assert [1] == [entry.n for entry in drain_all(tmp_path, path.name)]


def drain_all(directory, name):
    """Everything in a segment, as a worker reads it."""
    found, offset, at_end = [], 0, False
    while not at_end:
        batch = SpoolReader(directory).read(name, offset, 3)
        found += batch.entries
        offset, at_end = batch.next_offset, batch.at_end
    return found
