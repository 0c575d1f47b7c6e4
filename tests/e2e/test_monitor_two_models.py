"""A judge and a reader on two endpoints: one that is down delays what rests on it, and nothing else."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from fake_models import FakeReader
from ragstone.errors import JudgeUnavailableError, StoreError
from ragstone.judges import AbstentionEstimate, Prompt
from ragstone.monitor import Monitor
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
from ragstone.schema import Score
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from waiting import wait_until

pytestmark = pytest.mark.usefixtures("short_pauses")

SAYS = {"question_relevance": 80, "passage_relevance": 1}


def draft(trace_id: str) -> TraceDraft:
    """A complete request."""
    return TraceDraft(
        trace_id=trace_id,
        query="Where is the grey stone?",
        response="At the river.",
        retrievals=[RetrievalDraft(passages=[PassageDraft(text="The grey stone lies at the river.")])],
    )


class SwitchedReader(FakeReader):
    """A reader behind a connection that can be cut."""

    down = True

    async def estimate_abstention(self, query: str, passages: object) -> AbstentionEstimate:
        """Answer while the connection is up."""
        if self.down:
            msg = "no route to the reader"
            raise JudgeUnavailableError(msg)
        return await super().estimate_abstention(query, passages)  # type: ignore[arg-type]


def scored(store: Path) -> dict[str, list[str]]:
    """Which requests have a score, by metric."""
    found: dict[str, list[str]] = {}
    # No one may have made the store yet.
    with contextlib.suppress(StoreError), SqliteStore.open(store, mode="read") as opened:
        for outcome in opened.outcomes.read():
            assert isinstance(outcome, Score)
            found.setdefault(outcome.metric, []).append(outcome.sample_id)
    return {metric: sorted(ids) for metric, ids in found.items()}


def test_a_reader_that_is_down_delays_its_own_metric(tmp_path: Path) -> None:
    """The judge's scores are stored at once, of more requests than may be in work; UDCG comes when the reader is back."""
    store = tmp_path / "r.db"
    ids = [f"t{i}" for i in range(9)]
    reader, judge = SwitchedReader(0.25), FakeJudge(SAYS)
    with Monitor(judge=judge, reader=reader, metrics=["ccrs.qr", "udcg"], store=store, concurrency=2) as monitor:
        for trace_id in ids:
            monitor.record(draft(trace_id))
        wait_until(lambda: scored(store).get("ccrs.qr") == ids)
        assert {"ccrs.qr": ids} == scored(store)
        assert 9 == monitor.ledger().total.pending
        reader.down = False
        assert monitor.drain(60)
    assert {"ccrs.qr": ids, "udcg": ids} == scored(store)
    assert 9 == sum(prompt.construct == "question_relevance" for prompt in judge.prompts)


def test_a_judge_that_is_down_delays_all_that_asks_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """UDCG asks it for labels."""
    store = tmp_path / "r.db"
    down = [True]

    def fail(_: Prompt) -> Exception | None:
        return JudgeUnavailableError("no route to the judge") if down else None

    reader = SwitchedReader(0.25)
    reader.down = False
    with Monitor(judge=FakeJudge(SAYS, fail=fail), reader=reader, metrics=["ccrs.qr", "udcg"], store=store) as monitor:
        monitor.record(draft("t0"))
        wait_until(lambda: "is unavailable" in caplog.text)
        assert not monitor.drain(0.2)
        assert {} == scored(store)
        down.clear()
        assert monitor.drain(90)
    assert {"ccrs.qr": ["t0"], "udcg": ["t0"]} == scored(store)
