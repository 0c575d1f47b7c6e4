"""UDCG beside the request path, and how a person reads what it found."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from fake_models import FakeReader
from fake_servers import FakeModelServer
from ragstone import Monitor
from ragstone.cli import main
from ragstone.errors import StoreError
from ragstone.judges import AbstentionEstimate
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from scripted_model import ScriptedModel
from waiting import wait_until


def test_the_story_of_a_trace_tells_what_each_passage_was_worth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`traces STORE ID` prints for each passage whether it is relevant, whether it distracts, and its p(answer)."""
    store, question = tmp_path / "s.db", "Where does Mara live?"
    passages = [PassageDraft(text=f"{question} In Oslo."), PassageDraft(text="Rain.")]
    with (
        FakeModelServer(ScriptedModel({"NO-RESPONSE": 0.25, "Oslo": 0.75})) as server,
        Monitor(metrics=["udcg"], judge="lexical", reader=server.url, store=store) as monitor,
    ):
        search = RetrievalDraft(query=question, passages=passages)
        monitor.record(TraceDraft(trace_id="t", query=question, response="Oslo", retrievals=[search]))
        assert monitor.drain(60)
    with pytest.raises(SystemExit) as ended:
        main(["traces", str(store), "t"])
    shown = capsys.readouterr().out

    assert not ended.value.code
    assert "   1  relevant p(answer) 0.75" in shown
    assert "   2  distracting p(answer) 0.75" in shown
    assert "helpful: passage 1. Distracting: passage 2" in " ".join(shown.split())


def stored_metrics(store: Path) -> list[str]:
    """The metric of each outcome in a store; none if nothing can be read yet."""
    with contextlib.suppress(StoreError), SqliteStore.open(store, mode="read") as opened:
        return sorted(outcome.metric for outcome in opened.outcomes.read())
    return []


def test_what_waits_for_the_reader_is_asked_once(tmp_path: Path) -> None:
    """While UDCG waits for a reader that is slow, the judge's own scores are stored, and no one asks for them again."""
    release = threading.Event()

    class SlowReader(FakeReader):
        async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
            while not release.is_set():  # noqa: ASYNC110  set by another thread
                await asyncio.sleep(0.01)
            return await super().estimate_abstention(query, passages)

    judge, reader = FakeJudge(lambda prompt: 1 if prompt.construct == "passage_relevance" else 80), SlowReader(0.25)
    store = tmp_path / "s.db"
    with Monitor(metrics=["ccrs.qr", "udcg"], judge=judge, reader=reader, store=store) as monitor:
        search = RetrievalDraft(query="Where?", passages=[PassageDraft(text="In Oslo.")])
        monitor.record(TraceDraft(trace_id="t", query="Where?", response="Oslo", retrievals=[search]))
        wait_until(lambda: stored_metrics(store))
        assert not monitor.drain(0.2)
        assert ["ccrs.qr"] == stored_metrics(store)
        release.set()
        assert monitor.drain(60)
        assert ["ccrs.qr", "udcg"] == stored_metrics(store)
    assert ["passage_relevance", "question_relevance"] == sorted(prompt.construct for prompt in judge.prompts)
    assert [("Where?", ("In Oslo.",))] == reader.asked
