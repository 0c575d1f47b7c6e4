"""What every sink promises: written once here, run for each of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragstone.errors import SinkUnavailableError
from ragstone.schema import Failure, NotApplicable, Outcome, Score
from ragstone.sinks import Delivery, JsonlSink, Sink
from ragstone.testing import MemorySink


def _outcomes(sample_id: str) -> list[Outcome]:
    """One outcome of each kind."""
    return [
        Score(sample_id=sample_id, metric="a", metric_version="1", value=0.5, method="lexical"),
        NotApplicable(sample_id=sample_id, metric="b", metric_version="1", reason="no reference"),
        Failure(sample_id=sample_id, metric="c", metric_version="1", kind="timeout", reason="60 s"),
    ]


def _batch(*sample_ids: str) -> list[Delivery]:
    return [Delivery(outcome=o, trace_id=sample_id) for sample_id in sample_ids for o in _outcomes(sample_id)]


class SinkContract:
    """Subclass it for a sink: say how to open one destination (again) and how to read it."""

    def open(self, where: Path) -> Sink:
        """Open the destination in the directory `where`."""
        raise NotImplementedError

    def delivered(self, sink: Sink, where: Path) -> Sequence[str]:
        """Return the ids at the destination, repeats included."""
        raise NotImplementedError

    @pytest.fixture
    def where(self, tmp_path: Path) -> Path:
        """An empty directory."""
        return tmp_path

    def test_is_a_sink(self, where):
        """The object has the Protocol's members."""
        assert isinstance(self.open(where), Sink)

    def test_name_is_stable(self, where):
        """The outbox finds the destination again after a restart."""
        assert self.open(where).name == self.open(where).name

    def test_delivers_every_kind_of_outcome(self, where):
        """When `write` returns, all of the batch has arrived."""
        sink, sent = self.open(where), _batch("t1", "t2")
        asyncio.run(sink.write(sent))
        assert [d.outcome.id for d in sent] == list(self.delivered(sink, where))

    def test_a_repeat_changes_nothing(self, where):
        """At least once at the seam, once at the destination."""
        sink = self.open(where)

        async def run() -> None:
            await sink.write(_batch("t1"))
            await sink.write(_batch("t1", "t2"))

        asyncio.run(run())
        assert [d.outcome.id for d in _batch("t1", "t2")] == list(self.delivered(sink, where))

    def test_an_empty_batch_is_fine(self, where):
        """Nothing in, nothing out."""
        sink = self.open(where)
        asyncio.run(sink.write([]))
        assert list(self.delivered(sink, where)) == []

    def test_closing_twice_is_fine(self, where):
        """`aclose` is idempotent, before and after use."""
        sink = self.open(where)

        async def run() -> None:
            await sink.aclose()
            await sink.aclose()

        asyncio.run(run())


class OutsideSinkContract(SinkContract):
    """For destinations outside this process: they can be down."""

    def take_down(self, sink: Sink, where: Path) -> None:
        """Make the destination fail."""
        raise NotImplementedError

    def bring_up(self, sink: Sink, where: Path) -> None:
        """Make it work again."""
        raise NotImplementedError

    def test_down_is_unavailable_and_the_batch_comes_again(self, where):
        """A destination that is down raises `SinkUnavailableError`; after it is up the same batch arrives once."""
        sink = self.open(where)

        async def run() -> None:
            self.take_down(sink, where)
            with pytest.raises(SinkUnavailableError):
                await sink.write(_batch("t1"))
            self.bring_up(sink, where)
            await sink.write(_batch("t1"))

        asyncio.run(run())
        assert [d.outcome.id for d in _batch("t1")] == list(self.delivered(sink, where))


class TestJsonlSink(OutsideSinkContract):
    """`JsonlSink`: down means that something else stands in the file's place."""

    def open(self, where: Path) -> Sink:
        """A file."""
        return JsonlSink(where / "out.jsonl")

    def delivered(self, sink: Sink, where: Path) -> Sequence[str]:
        """Read the file."""
        path = where / "out.jsonl"
        return [json.loads(line)["id"] for line in path.read_bytes().splitlines()] if path.exists() else []

    def take_down(self, sink: Sink, where: Path) -> None:
        """A directory of the same name."""
        (where / "out.jsonl").mkdir()

    def bring_up(self, sink: Sink, where: Path) -> None:
        """Nothing of that name."""
        (where / "out.jsonl").rmdir()

    def test_a_repeat_after_a_restart_changes_nothing(self, where):
        """A new sink on the same file knows what the old one delivered."""
        asyncio.run(self.open(where).write(_batch("t1")))
        sink = self.open(where)
        asyncio.run(sink.write(_batch("t1")))
        assert [d.outcome.id for d in _batch("t1")] == list(self.delivered(sink, where))


class TestMemorySink(SinkContract):
    """`MemorySink`, which our users test with."""

    def open(self, where: Path) -> Sink:
        """A list."""
        return MemorySink()

    def delivered(self, sink: Sink, where: Path) -> Sequence[str]:
        """What an idempotent destination would hold."""
        assert isinstance(sink, MemorySink)
        return list(sink.by_id)
