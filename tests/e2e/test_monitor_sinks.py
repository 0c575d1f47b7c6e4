"""From a captured request to the destinations that are not databases: through the outbox, over outages, once."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable

from fake_servers import RecordingServer, Reply, Request
from ragstone.monitor import Monitor
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
from ragstone.sinks import LangfuseSink, LangsmithSink, Sink, WebhookSink
from ragstone.store import SqliteStore

_N = 20


def _draft(i: int) -> TraceDraft:
    """A complete request; each second one is in a trace that was sampled out."""
    return TraceDraft(
        trace_id=f"t{i}",
        run_id=str(uuid.UUID(int=i + 1)),
        otel_trace_id=f"{i + 1:032x}",
        otel_span_id=f"{i + 1:016x}",
        otel_sampled=i % 2 == 0,
        query="Where is the grey stone?",
        response="The grey stone lies at the river.",
        retrievals=[RetrievalDraft(passages=[PassageDraft(text="The grey stone lies at the river.")])],
        reference=["At the river."],
    )


def _unreliable(take: Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    """A server that is busy at first, then keeps what it is sent and says that it is down, and then works."""
    turns = iter(range(1_000_000))

    def answer(request: Request) -> Reply:
        turn = next(turns)
        if turn == 0:
            return Reply(429, "slow down", {"Retry-After": "0"})
        reply = take(request)
        return Reply(503, "lost on the way") if turn == 1 else reply

    return answer


def _delivered(monitor: Monitor, sinks: list[Sink]) -> list[tuple[int, int, int]]:
    """What is pending, sent and skipped at each sink, once nothing is pending."""
    deadline = time.monotonic() + 240
    while True:
        books = monitor.ledger().outbox
        if not any(books[sink.name].pending for sink in sinks) or time.monotonic() > deadline:
            return [(books[sink.name].pending, books[sink.name].sent, books[sink.name].skipped) for sink in sinks]
        time.sleep(0.1)


def test_each_outcome_arrives_where_it_has_a_place(tmp_path):
    """By key each is there once, however often it was sent; what has no place is in the ledger as skipped."""
    langfuse: Counter[tuple[str, str]] = Counter()
    langsmith: Counter[str] = Counter()
    webhook: Counter[str] = Counter()

    def take_scores(request: Request) -> Reply:
        scores = [score for score in json.loads(request.content) if score["name"] != "ragstone.cause"]
        langfuse.update((score["id"], score["timestamp"]) for score in scores)
        return Reply(202, {"message": "Accepted"})

    def take_feedback(request: Request) -> Reply:
        feedback = json.loads(request.content)
        if feedback["key"] != "ragstone.cause":
            langsmith[feedback["id"]] += 1
        return Reply(200, {})

    def take_batch(request: Request) -> Reply:
        webhook.update(outcome["id"] for outcome in json.loads(request.content)["outcomes"])
        return Reply(204, "")

    store = tmp_path / "r.db"
    with (
        RecordingServer(_unreliable(take_scores)) as first,
        RecordingServer(_unreliable(take_feedback)) as second,
        RecordingServer(_unreliable(take_batch)) as third,
    ):
        sinks = [
            LangfuseSink(first.address, public_key="pk", secret_key="sk"),
            LangsmithSink(second.address, api_key="key"),
            WebhookSink(f"{third.address}/scores"),
        ]
        with Monitor(judge="lexical", store=store, sinks=sinks) as monitor:
            for i in range(_N):
                assert monitor.record(_draft(i))
            assert monitor.drain(90)
            counts = _delivered(monitor, sinks)
    with SqliteStore.open(store, mode="read") as opened:
        outcomes = {outcome.id: outcome for outcome in opened.outcomes.read()}

    assert {(outcomes[id_].sample_id) for id_, _ in langfuse} == {f"t{i}" for i in range(0, _N, 2)}
    assert len(outcomes) / 2 == len(langfuse)
    assert set(outcomes) == set(langsmith) == set(webhook)
    n = len(outcomes)
    assert [(0, n // 2, n // 2), (0, n, 0), (0, n, 0)] == counts
