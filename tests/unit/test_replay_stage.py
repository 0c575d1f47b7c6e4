"""Spans wait on disk until their trace is whole."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from ragstone.errors import DataError, StoreError
from ragstone.reading import BufferedSpan, SpanBuffer


def span(trace: str, name: str, *, root: bool = False, body: bytes = b"{}") -> BufferedSpan:
    """One span."""
    return BufferedSpan(trace_id=trace, span_id=name, is_root=root, body=body)


class Clock:
    """A clock that tests move."""

    now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def test_spans_are_grouped_in_the_order_of_first_arrival():
    """Traces in the order in which they began to come, their spans in one order whatever came first."""
    with SpanBuffer() as stage:
        assert 2 == stage.add([span("b", "2", body=b"b2"), span("a", "1", body=b"a1")])
        assert 1 == stage.add([span("b", "1", body=b"b1")])

        assert [("b", (b"b1", b"b2")), ("a", (b"a1",))] == [(t.trace_id, t.spans) for t in stage.traces()]
        assert 2 == len(stage)


def test_a_span_that_comes_again_changes_nothing():
    """Exporters send again what they think was lost."""
    with SpanBuffer() as stage:
        stage.add([span("a", "1", body=b"first")])

        assert 0 == stage.add([span("a", "1", body=b"second")])
        assert [(b"first",)] == [t.spans for t in stage.traces()]


def test_more_traces_than_a_page():
    """Reading continues page by page."""
    with SpanBuffer() as stage:
        stage.add([span(f"t{i}", "1") for i in range(450)])

        assert [f"t{i}" for i in range(450)] == [t.trace_id for t in stage.traces()]


@pytest.mark.parametrize("limits", [{"max_spans": 3}, {"max_bytes": 7}])
def test_a_trace_beyond_the_limits_is_cut_and_says_so(limits):
    """What fits stays; the trace knows that it is not whole; others are not touched."""
    with SpanBuffer(**limits) as stage:
        assert 3 == stage.add([span("a", str(i)) for i in range(5)])
        stage.add([span("b", "1")])

        assert [(3, True), (1, False)] == [(len(t.spans), t.is_cut) for t in stage.traces()]


def test_only_what_has_settled(tmp_path: Path):
    """A trace is whole when nothing came for long, or for a shorter time when its root is there."""
    clock = Clock()
    with SpanBuffer(tmp_path / "s.db", clock=clock) as stage:
        stage.add([span("rooted", "1", root=True), span("open", "1")])
        clock.now += 10
        stage.add([span("young", "1", root=True)])

        assert ["rooted"] == [t.trace_id for t in stage.traces(untouched_since=90.0, rooted_since=105.0)]
        assert ["rooted", "open"] == [t.trace_id for t in stage.traces(untouched_since=100.0, rooted_since=100.0)]


def test_what_was_added_is_there_after_a_restart(tmp_path: Path):
    """A stage with a file keeps its spans; what was forgotten is gone."""
    with SpanBuffer(tmp_path / "s.db") as stage:
        stage.add([span("a", "1"), span("b", "1")])
        stage.forget([t.seq for t in stage.traces() if t.trace_id == "a"])

    with SpanBuffer(tmp_path / "s.db") as stage:
        assert ["b"] == [t.trace_id for t in stage.traces()]


def test_a_temporary_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Spans of a replay are not redacted yet, so that nothing of them is left behind if the process is killed."""
    for name in ("TMPDIR", "SQLITE_TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with SpanBuffer() as stage:
        stage.add([span(f"t{i}", "1", body=bytes(10_000)) for i in range(1000)])
        assert [] == list(tmp_path.iterdir())


def test_all_or_nothing():
    """A span that belongs nowhere takes back the whole call, and the stage continues."""
    with SpanBuffer() as stage:
        with pytest.raises(DataError, match="belongs nowhere"):
            stage.add([span("a", "1"), span("", "1")])

        assert 0 == len(stage)
        assert 1 == stage.add([span("a", "1")])


def test_a_file_that_cannot_be_used_is_told(tmp_path: Path):
    """The message names the file, which is closed."""
    (tmp_path / "s.db").write_bytes(b"no database at all, and long enough to be read as one" * 40)

    connections: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def note(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connections.append(connect(*args, **kwargs))
        return connections[-1]

    with (
        mock.patch.object(sqlite3, "connect", note),
        pytest.raises(StoreError, match=r"cannot be kept in .*s\.db"),
    ):
        SpanBuffer(tmp_path / "s.db")

    (db,) = connections
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        db.execute("SELECT 1")


def test_a_repeated_span_takes_no_bytes_of_its_trace():
    """Exporters that try again send the same spans."""
    with SpanBuffer(max_bytes=10) as stage:
        for _ in range(5):
            stage.add([span("a", "1", body=b"12345")])
        assert 1 == stage.add([span("a", "2", body=b"12345")])

        assert [((b"12345", b"12345"), False)] == [(t.spans, t.is_cut) for t in stage.traces()]


def test_spans_of_a_forgotten_trace_are_gone():
    """A later trace can get its number."""
    with SpanBuffer() as stage:
        stage.add([span("a", "1", body=b"old")])
        stage.forget([trace.seq for trace in stage.traces()])
        stage.add([span("b", "2", body=b"new")])

        assert [("b", (b"new",))] == [(t.trace_id, t.spans) for t in stage.traces()]
