"""Laws of the spool: nothing acknowledged is lost, nothing comes twice, whatever the bytes and wherever they end."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ragstone.schema import Captured, Dropped, SampledOut, Trace, spool_entry_adapter
from ragstone.spool import SpoolReader, SpoolWriter
from ragstone.spool._format import END, LAST, MORE, SEAL, count_field, frame, unframe

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
ENTRIES = st.one_of(
    st.builds(
        Captured,
        trace=st.builds(
            Trace,
            trace_id=st.text(st.characters(codec="utf-8"), min_size=1, max_size=5),
            query=TEXT,
            response=TEXT,
            tags=st.lists(TEXT, max_size=2).map(tuple),
            metadata=st.dictionaries(TEXT, TEXT | st.integers(-(2**63), 2**63 - 1) | st.none(), max_size=2),
            started_at=st.floats(0, 1e10),
        ),
    ),
    st.builds(SampledOut, trace_id=TEXT, started_at=st.floats(0, 1e10), inclusion_probability=st.floats(0, 1)),
    st.builds(Dropped, reason=TEXT, n=st.integers(1, 10**6), at=st.floats(0, 1e10)),
)
APPENDS = st.lists(st.lists(ENTRIES, min_size=1, max_size=4), min_size=1, max_size=5)


def write(directory: str, appends) -> tuple[Path, list[int]]:
    """One segment with these appends, sealed, and its size before the first and after each of them."""
    writer = SpoolWriter(directory, clock=lambda: 1e9)  # so that the header is always as long
    sizes = []
    for append in appends:
        writer.append([spool_entry_adapter.dump_json(entry) for entry in append])
        path = Path(directory, writer.segment)
        sizes.append(path.stat().st_size)
    writer.close()
    return path, sizes


def drain(directory: str, name: str, max_entries: int = 3):
    """Everything in a segment, batch by batch, as the owner of a store reads it."""
    reader, found, offset, at_end = SpoolReader(directory), [], 0, False
    while not at_end:
        batch = reader.read(name, offset, max_entries)
        found += batch.entries
        offset, at_end = batch.next_offset, batch.at_end
    return found


def missing(appends, whole) -> list[Dropped]:
    """What the reader says about entries that are not there."""
    n = sum(map(len, appends)) - len(whole)
    return [Dropped(reason="corrupt_segment", n=n, at=1e9)] if n else []


@given(APPENDS)
def test_hostile_text_comes_back_as_it_was(appends):
    """Newlines, control characters, quotes, other scripts."""
    with tempfile.TemporaryDirectory() as directory:
        path, _ = write(directory, appends)
        assert [entry for append in appends for entry in append] == drain(directory, path.name)


@given(APPENDS, st.data())
def test_a_tail_cut_anywhere_costs_only_appends_that_were_not_complete(appends, data):
    """Every append whose last byte is there is read, and of the one that was cut nothing is. The others are counted."""
    with tempfile.TemporaryDirectory() as directory:
        path, sizes = write(directory, appends)
        text = path.read_bytes()
        header = text.index(b"\n") + 1
        cut = data.draw(st.integers(header, len(text)))
        path.write_bytes(text[:cut])
        whole = [entry for append, size in zip(appends, sizes, strict=True) if size <= cut for entry in append]
        assert [*whole, *missing(appends, whole)] == drain(directory, path.name)
        # The number is written after the entries: if the process is killed in between, it is smaller.
        path.write_bytes(text[: header - len(count_field(0))] + count_field(0) + text[header:cut])
        assert whole == drain(directory, path.name)


@given(APPENDS, st.binary(max_size=60), st.data())
def test_a_torn_append_with_garbage_behind_hides_nothing_before_it(appends, garbage, data):
    """A disk may leave anything after the last acknowledged byte, as long as it is no whole line."""
    with tempfile.TemporaryDirectory() as directory:
        path, sizes = write(directory, appends)
        last = data.draw(st.integers(1, len(appends)))
        path.write_bytes(path.read_bytes()[: sizes[last - 1]] + garbage.replace(b"\n", b""))
        whole = [entry for append in appends[:last] for entry in append]
        assert [*whole, *missing(appends, whole)] == drain(directory, path.name)


@given(st.lists(st.lists(TEXT, min_size=1, max_size=4), min_size=1, max_size=5), st.data())
def test_a_changed_byte_costs_at_most_two_lines(appends, data):
    """A changed byte never makes up an entry; what is lost is counted, and what is behind it is read."""
    numbers = iter(range(2, 100))
    appends = [[Dropped(reason=text, n=next(numbers), at=0.0) for text in append] for append in appends]
    with tempfile.TemporaryDirectory() as directory:
        path, sizes = write(directory, appends)
        text = bytearray(path.read_bytes())
        place = data.draw(st.integers(text.index(b"\n") + 1, sizes[-1] - 1))
        text[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(text)
        expected = [entry for append in appends for entry in append]
        found = drain(directory, path.name)
        whole = [entry for entry in found if entry in expected]
        damaged = [(entry.reason, entry.n) for entry in found if entry not in expected]
        # A newline that is gone joins two lines, one that comes up parts one.
        assert damaged in ([("corrupt_segment", 1)], [("corrupt_segment", 1)] * 2)
        assert len(expected) - 2 <= len(whole)
        assert whole == [entry for entry in expected if entry in whole]


@given(APPENDS, st.integers(1, 7), st.data())
def test_any_stop_and_restart_gives_every_entry_once(appends, max_entries, data):
    """A reader that keeps only the offset, and is killed between any two batches, misses and repeats nothing."""
    with tempfile.TemporaryDirectory() as directory:
        writer, found, offset, name = SpoolWriter(directory), [], 0, None
        for append in appends:
            writer.append([spool_entry_adapter.dump_json(entry) for entry in append])
            name = writer.segment
            for _ in range(data.draw(st.integers(0, 3))):
                batch = SpoolReader(directory).read(name, offset, max_entries)
                found += batch.entries
                offset = batch.next_offset
        writer.close()
        at_end = False
        while not at_end:
            batch = SpoolReader(directory).read(name, offset, max_entries)
            found += batch.entries
            offset, at_end = batch.next_offset, batch.at_end
        assert [entry for append in appends for entry in append] == found


@given(st.binary(max_size=50), st.sampled_from([MORE, LAST, SEAL]), st.data())
def test_a_frame_is_read_back_or_refused(payload, mark, data):
    """Any single changed byte is noticed."""
    payload = payload.replace(b"\n", b"")
    line = bytearray(frame(payload, mark))
    assert (mark, payload) == unframe(bytes(line))
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] ^= data.draw(st.integers(1, 255))
    assert unframe(bytes(line)) is None
    assert (SEAL, b"") == unframe(END)
