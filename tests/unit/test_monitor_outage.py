"""Which failures an outage of the judge explains, and which are the request's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ragstone.schema import Failure, FailureKind, Score, Usage
from ragstone.worker._parts import JudgeOutage

pytestmark = pytest.mark.usefixtures("virtual_time")


def answered() -> list[Score | Failure]:
    """What a judge that works says."""
    return [
        Score(sample_id="t", metric="m", metric_version="1", judge_hash="j", value=1.0, method="x", n=1, raw="100"),
    ]


def unanswered(kind: FailureKind = "unavailable") -> list[Score | Failure]:
    """What becomes of a request that the judge does not answer."""
    return [Failure(sample_id="t", metric="m", metric_version="1", judge_hash="j", kind=kind, reason="nobody there")]


def test_a_try_that_was_under_way_when_the_judge_came_back_does_not_count():
    """A request that hangs in a dead connection while others are answered again was not refused: it is asked again."""

    async def main() -> tuple[Sequence[object], int]:
        outage = JudgeOutage(patience_s=60)
        second_try, back = asyncio.Event(), asyncio.Event()
        tries = 0

        async def hanging() -> Sequence[Score | Failure]:
            nonlocal tries
            tries += 1
            if tries == 1:
                return unanswered()
            if tries == 2:
                second_try.set()
                await back.wait()
                return unanswered("timeout")
            return answered()

        async def first_to_be_answered() -> Sequence[Score | Failure]:
            return answered()

        waiting = asyncio.create_task(outage.score_with_retry(hanging, extend_lease=lambda: None))
        await second_try.wait()
        await outage.score_with_retry(first_to_be_answered, extend_lease=lambda: None)
        back.set()
        return await waiting, tries

    outcomes, tries = asyncio.run(main())

    assert 3 == tries
    assert [True] == [isinstance(o, Score) for o in outcomes]


def test_metrics_that_ask_no_judge_do_not_end_the_wait():
    """A plain metric has its score at once; the judged ones beside it are still waited for."""
    plain = Score(sample_id="t", metric="plain", metric_version="1", value=1.0, method="x", n=1)
    replies = [[plain, *unanswered()], [plain, *answered()]]

    async def main() -> Sequence[object]:
        async def score() -> Sequence[Score | Failure]:
            return replies.pop(0)

        return await JudgeOutage(patience_s=60).score_with_retry(score, extend_lease=lambda: None)

    assert [True, True] == [isinstance(o, Score) for o in asyncio.run(main())]


def test_replies_from_the_cache_do_not_end_the_wait():
    """They say nothing about the judge: neither do they answer for it, nor is what failed beside them given up."""
    kept = [o.model_copy(update={"usage": Usage(cached=1)}) for o in answered()]
    replies = [[*kept, *unanswered()], [*kept, *answered()]]
    told = []

    async def main() -> Sequence[object]:
        async def score() -> Sequence[Score | Failure]:
            return replies.pop(0)

        return await JudgeOutage(patience_s=60).score_with_retry(score, extend_lease=lambda: told.append("waits"))

    assert [True, True] == [isinstance(o, Score) for o in asyncio.run(main())]
    assert ["waits"] == told


@pytest.mark.parametrize("nothing_asked", [Usage(), None])
def test_scores_that_nobody_was_asked_for_do_not_end_the_wait(nothing_asked: Usage | None) -> None:
    """Where retrieval found nothing, some judged metrics are 0 without a question: no sign that the judge is up."""
    empty = [o.model_copy(update={"raw": None, "value": 0.0, "usage": nothing_asked}) for o in answered()]
    down = [o.model_copy(update={"usage": Usage(calls=3)}) for o in unanswered()]
    replies = [[*empty, *down], [*empty, *answered()]]

    async def main() -> Sequence[object]:
        async def score() -> Sequence[Score | Failure]:
            return replies.pop(0)

        return await JudgeOutage(patience_s=60).score_with_retry(score, extend_lease=lambda: None)

    assert [True, True] == [isinstance(o, Score) for o in asyncio.run(main())]


def test_who_is_slow_is_not_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that runs out of time while it is answered fails the second time, and is not paid for all hour long."""
    monkeypatch.setattr("ragstone.worker._times.OUTAGE_PAID_MIN_S", 0.0)
    monkeypatch.setattr("ragstone.worker._times.OUTAGE_MIN_S", 0.0)
    slow = [o.model_copy(update={"usage": Usage(calls=9, output_tokens=9)}) for o in unanswered("timeout")]
    tries = []

    async def main() -> Sequence[object]:
        async def score() -> Sequence[Score | Failure]:
            tries.append("asked")
            return slow if len(tries) < 9 else answered()

        return await JudgeOutage(patience_s=3600).score_with_retry(score, extend_lease=lambda: None)

    assert slow == asyncio.run(main())
    assert ["asked", "asked"] == tries
