"""Contract of `Sink` as tests: subclass it in your test suite and define how to open a sink and read its destination."""

# ruff: noqa: S101  contracts use assert

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from ragstone.errors import SinkNoTargetError, SinkRejectedError, SinkUnavailableError
from ragstone.schema import Failure, NotApplicable, Outcome, Score
from ragstone.sinks import Delivery, Sink

_HOSTILE = "</script> \x00\x1b[2J \u202e \u2028 ' OR 1=1 -- {x} %s \ud800 \U0001f469"


class SinkContract:
    """Tests that every implementation of `Sink` must pass.

    Each test has its own empty directory, for a destination that is a file, or for the data of a server.

    Examples:
        ```python
        class TestMySink(SinkContract):
            def open(self, where: Path) -> Sink:
                return MySink(where / "scores.csv")

            def delivered(self, sink: Sink, where: Path) -> Sequence[str]:
                return [row["id"] for row in read_csv(where / "scores.csv")]
        ```
    """

    def open(self, where: Path) -> Sink:
        """Open the destination of the directory `where`. A second call opens the same destination again."""
        raise NotImplementedError

    def delivered(self, sink: Sink, where: Path) -> Sequence[str]:
        """Return the ids (`outcome.id`) in the destination. An id that is stored twice is returned twice."""
        raise NotImplementedError

    def batch(self, *sample_ids: str, text: str = "because") -> list[Delivery]:
        """Make one delivery of each kind of outcome for each sample, with all optional fields of its request."""
        outcomes: list[tuple[str, Outcome]] = []
        for sample_id in sample_ids:
            base = {"sample_id": sample_id, "metric_version": "1", "created_at": 1_700_000_001.5}
            score = {
                "value": 0.5,
                "method": "single_reply",
                "judge": "a judge",
                "judge_hash": "7d",
                "explanation": text,
            }
            made = (
                Score.model_validate(base | score | {"metric": "a"}),
                NotApplicable.model_validate(base | {"metric": "b", "reason": text}),
                Failure.model_validate(base | {"metric": "c", "kind": "timeout", "reason": text, "raw": text}),
            )
            outcomes += [(sample_id, outcome) for outcome in made]
        return [
            Delivery(
                outcome=outcome,
                trace_id=sample_id,
                run_id="1b4e28ba-2fa1-41d2-883f-0016d3cca427",
                otel_trace_id="0af7651916cd43dd8448eb211c80319c",
                otel_span_id="b7ad6b7169203331",
                otel_sampled=True,
                session_id="session",
                user_id="user",
                name="chain",
                requested_at=1_700_000_000.25,
                inclusion_probability=0.5,
            )
            for sample_id, outcome in outcomes
        ]

    async def write(self, sink: Sink, batch: Sequence[Delivery]) -> list[str]:
        """Write a batch, and return the ids that must be in the destination now.

        These are all ids except those that `write` returns with an error. Without an outage, these errors must be
        `SinkNoTargetError`.
        """
        refused = await sink.write(batch) or {}
        sent = [delivery.outcome.id for delivery in batch]
        assert set(refused) <= set(sent)
        assert all(isinstance(error, SinkNoTargetError) for error in refused.values()), refused
        return [id_ for id_ in sent if id_ not in refused]

    async def deliver(self, sink: Sink, where: Path, batch: Sequence[Delivery]) -> list[str]:
        """Call `write`, and check that the destination holds exactly the ids that it returns."""
        arrived = await self.write(sink, batch)
        assert sorted(arrived) == sorted(self.delivered(sink, where))
        return arrived

    def session(self, where: Path, work: Callable[[Sink], Awaitable[None]]) -> None:
        """Open the destination, run `work` and close it, in a new event loop."""

        async def run() -> None:
            sink = self.open(where)
            try:
                await work(sink)
            finally:
                await sink.aclose()

        asyncio.run(run())

    def test_is_a_sink(self, tmp_path: Path) -> None:
        """The sink has the members of the Protocol."""
        assert isinstance(self.open(tmp_path), Sink)

    def test_name_is_stable(self, tmp_path: Path) -> None:
        """The name is the same after a restart and after deliveries, because the outbox identifies the sink by it."""

        async def work(sink: Sink) -> None:
            before = sink.name
            await self.write(sink, self.batch("t1"))
            assert before
            assert before == sink.name == self.open(tmp_path).name

        self.session(tmp_path, work)

    def test_takes_scores(self, tmp_path: Path) -> None:
        """When `write` returns, each score is in the destination. Other outcomes are, or they do not apply to it."""

        async def work(sink: Sink) -> None:
            arrived = await self.deliver(sink, tmp_path, self.batch("t1", "t2"))
            assert {d.outcome.id for d in self.batch("t1", "t2") if isinstance(d.outcome, Score)} <= set(arrived)

        self.session(tmp_path, work)

    def test_a_repeat_changes_nothing(self, tmp_path: Path) -> None:
        """A batch that is written again, alone or with other outcomes, is stored once."""

        async def work(sink: Sink) -> None:
            await self.write(sink, self.batch("t1"))
            await self.write(sink, self.batch("t1"))
            await self.deliver(sink, tmp_path, self.batch("t1", "t2"))

        self.session(tmp_path, work)

    def test_a_repeat_after_a_restart_changes_nothing(self, tmp_path: Path) -> None:
        """A batch that was not acknowledged and is written again by a new sink is stored once."""

        async def work(sink: Sink) -> None:
            await self.deliver(sink, tmp_path, self.batch("t1"))

        self.session(tmp_path, work)
        self.session(tmp_path, work)

    def test_an_empty_batch_is_fine(self, tmp_path: Path) -> None:
        """An empty batch is accepted and stores nothing."""

        async def work(sink: Sink) -> None:
            assert await self.deliver(sink, tmp_path, []) == []

        self.session(tmp_path, work)

    def test_many_rows(self, tmp_path: Path) -> None:
        """A batch of any size is stored completely."""

        async def work(sink: Sink) -> None:
            await self.deliver(sink, tmp_path, self.batch(*(f"t{i}" for i in range(100))))

        self.session(tmp_path, work)

    def test_hostile_text(self, tmp_path: Path) -> None:
        """Control codes, markup and lone surrogates are stored or rejected per row, without another error."""

        async def work(sink: Sink) -> None:
            for delivery in self.batch("t1", text=_HOSTILE):
                try:
                    refused = await sink.write([delivery]) or {}
                except SinkRejectedError as error:
                    refused = {delivery.outcome.id: error}
                arrived = delivery.outcome.id in self.delivered(sink, tmp_path)
                assert arrived is (delivery.outcome.id not in refused)

        self.session(tmp_path, work)

    def test_a_request_without_ids(self, tmp_path: Path) -> None:
        """An outcome without any ids of its request is stored or reported as not applicable."""

        async def work(sink: Sink) -> None:
            bare = [Delivery(outcome=d.outcome, trace_id=d.trace_id) for d in self.batch("t1")]
            await self.deliver(sink, tmp_path, bare)

        self.session(tmp_path, work)

    def test_close_twice(self, tmp_path: Path) -> None:
        """Closing is idempotent, and possible before the first batch."""

        async def work(sink: Sink) -> None:
            await sink.aclose()

        self.session(tmp_path, work)


class SinkOutageContract(SinkContract):
    """`SinkContract`, with tests of a destination that can become unavailable."""

    def take_down(self, sink: Sink, where: Path) -> None:
        """Make the destination fail."""
        raise NotImplementedError

    def bring_up(self, sink: Sink, where: Path) -> None:
        """Make the destination work again."""
        raise NotImplementedError

    def test_an_outage_loses_nothing(self, tmp_path: Path) -> None:
        """Outcomes that cannot be delivered are reported as unavailable, and are stored once after the outage."""

        async def work(sink: Sink) -> None:
            batch = self.batch("t1", "t2")
            self.take_down(sink, tmp_path)
            try:
                refused = await sink.write(batch) or {}
            except SinkUnavailableError as error:
                refused = {delivery.outcome.id: error for delivery in batch}
            self.bring_up(sink, tmp_path)
            arrived = await self.deliver(sink, tmp_path, batch)
            assert set(arrived) <= {id_ for id_, error in refused.items() if isinstance(error, SinkUnavailableError)}

        self.session(tmp_path, work)
