"""Feedback of users: written like captures, matched to its request before or after it arrives, counted and watched."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from types import SimpleNamespace

import aiohttp
import pytest

from command_line import run_command
from completions import complete
from ragstone import Monitor
from ragstone.capture import Capture
from ragstone.errors import DataError
from ragstone.ingest import Access, FeedbackRoute, OtlpReceiver, SharedSpanBuffer
from ragstone.requests import TraceDraft
from ragstone.schema import Captured, Feedback, SampledOut, Trace
from ragstone.settings import Lengths
from ragstone.spool import SpoolWriter
from ragstone.store import SqliteStore
from ragstone.worker import ScoringSetup, Worker, spool_directory

OTEL = "4bf92f3577b34da6a3ce929d0e0e4736"
T0 = 1_790_000_000.0


def said(request_id, value=1.0, comment=None):
    return Feedback(request_id=request_id, value=value, comment=comment, given_at=T0)


def request(trace_id="t", otel=None):
    return Captured(
        trace=Trace(trace_id=trace_id, otel_trace_id=otel, started_at=T0, query="q", response="r", app="bot")
    )


@pytest.fixture
def store(tmp_path):
    with SqliteStore.open(tmp_path / "a.db", mode="own", clock=lambda: T0) as store:
        store.plan.set([], [])
        yield store


def queued(store):
    with store._database.read() as db:
        return db.execute("SELECT trace_id, metric, value, probability FROM watch_queue ORDER BY seq").fetchall()


def test_many_wrong_ids(tmp_path):
    """They are removed after a week, a few at a time, and counted. Feedback that may still find its request stays."""
    clock = SimpleNamespace(now=T0)
    with SqliteStore.open(tmp_path / "b.db", mode="own", clock=lambda: clock.now) as store:
        store.plan.set([], [])
        store.traces.ingest("a", 1, [*(said(f"wrong{i}") for i in range(1000)), request("t"), said("t")])
        clock.now += 6 * 86_400
        store.traces.ingest("a", 2, [said("new")])
        assert 0 == store.upkeep.forget_unknown_feedback()
        clock.now += 1.1 * 86_400
        assert [400, 400, 200, 0] == [store.upkeep.forget_unknown_feedback(limit=400) for _ in range(4)]
        assert {"received": 1002, "waiting": 0, "unknown": 1001} == store.ledger().feedback.model_dump()
        assert 1 == len(store.traces.explain("t").feedback)
        store.traces.ingest("a", 3, [request("new")])
        assert 1 == len(store.traces.explain("new").feedback)
        assert {"received": 1002, "waiting": 0, "unknown": 1000} == store.ledger().feedback.model_dump()


@pytest.mark.parametrize("wrong", ["wrong{}", "undefined"])
def test_many_wrong_ids_cost_others_nothing(store, wrong):
    """Feedback that waits is not read when other requests and other feedback arrive, whether its ids differ or are one."""
    store.traces.ingest("a", 1, [said(wrong.format(i)) for i in range(3000)])
    steps = []
    with store._database.write() as db:
        db.set_progress_handler(lambda: steps.append(1), 100)
    store.traces.ingest("a", 2, [said("undefined"), request("t"), said("t"), request("u", otel=OTEL), said(OTEL)])
    assert len(steps) < 100
    assert {"received": 3003, "waiting": 3001, "unknown": 0} == store.ledger().feedback.model_dump()


@pytest.mark.parametrize("by", ["t", OTEL])
@pytest.mark.parametrize("is_first", [True, False])
def test_joins_its_request(store, by, is_first):
    """By our id or the one of OpenTelemetry, before or after the request, and once in the stream."""
    entries = [said(by, 0.0, "bad"), request(otel=OTEL)]
    for i, entry in enumerate(entries if is_first else reversed(entries)):
        store.traces.ingest("a", i + 1, [entry])
    assert [(0.0, "bad", T0)] == list(store.traces.explain("t").feedback)
    assert [("t", "feedback", 0.0, 1.0)] == queued(store)
    store.traces.ingest("a", 3, [said("t", 1.0)])
    assert [0.0, 1.0] == [each.value for each in store.traces.explain("t").feedback]
    assert 1 == len(queued(store))
    assert (2, 0, 0) == tuple(store.ledger().feedback.model_dump().values())
    # Feedback is not a request.
    assert (1, True) == (store.ledger().total.captured, store.ledger().total.balanced)


def test_request_that_never_comes(store, tmp_path):
    """It waits for a day, and then counts as unknown. Other feedback is not affected."""
    store.traces.ingest("a", 1, [said("nothing"), said(OTEL), request("u")])
    assert {"received": 2, "waiting": 2, "unknown": 0} == store.ledger().feedback.model_dump()
    with SqliteStore.open(tmp_path / "a.db", mode="read", clock=lambda: T0 + 90_000) as later:
        assert {"received": 2, "waiting": 0, "unknown": 2} == later.ledger().feedback.model_dump()
    assert "feedback of users: 2, 2 about unknown requests" in run_command("status", tmp_path / "a.db").stdout


def test_request_that_was_sampled_out(store):
    """It is known by our id, and not in the stream, whose requests have weights."""
    out = SampledOut(trace_id="out", started_at=T0, inclusion_probability=0.1)
    store.traces.ingest("a", 1, [said("out"), out])
    assert {"received": 1, "waiting": 0, "unknown": 0} == store.ledger().feedback.model_dump()
    assert [] == queued(store)


def test_retention_removes_comments(store):
    """Those of removed requests, and old ones without a request. The values stay."""
    store.traces.ingest("a", 1, [request(), said("t", 0.5, "secret 1"), said("nothing", 0.5, "secret 2")])
    (trace,) = store.leases.claim("w", 1, lease_s=60)
    complete(store, trace.trace_id, [])
    assert 1 == store.upkeep.remove_texts(before=T0 + 1)
    with store._database.read() as db:
        assert [(0.5, None)] * 2 == db.execute("SELECT value, comment FROM feedback").fetchall()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", 1), "must be a trace id"),
        ((None, 1), "must be a trace id"),
        (("x" * 201, 1), "at most 200 characters"),
        (("a\nb", 1), "must be a trace id"),
        (("t", 1.5), "from 0 .bad. to 1 .good., got 1.5"),
        (("t", float("nan")), "from 0 .bad. to 1"),
        (("t", "good"), "from 0 .bad. to 1"),
        (("t", 1, 5), "comment of feedback must be text"),
    ],
)
def test_wrong_values(tmp_path, arguments, message):
    """The message names the value and the rule."""
    with Capture(partial(SpoolWriter, tmp_path / "spool")) as capture, pytest.raises(DataError, match=message):
        capture.feedback(*arguments[:2], comment=arguments[2] if len(arguments) > 2 else None)


def test_monitor(tmp_path):
    """Recorded with a redacted comment, although sampling skips the request, and shown with it."""
    path = tmp_path / "m.db"
    with Monitor(store=path, metrics="rouge_l") as monitor:
        monitor.record(TraceDraft(trace_id="t1", started_at=T0, query="q", response="r"))
        assert monitor.feedback("t1", False, comment="write to ann@example.com " + "x" * 5000)
        assert monitor.feedback(int(OTEL, 16), 1)
        assert monitor.drain()
        assert (1, 1) == (monitor.counters.recorded, monitor.counters.written)
    shown = run_command("traces", path, "t1").stdout
    assert "feedback on 20" in shown
    assert "ann@example.com" not in shown
    with SqliteStore.open(path, mode="read") as store:
        (found,) = store.traces.explain("t1").feedback
        assert (0.0, 4000) == (found.value, len(found.comment))
        assert 1 == store.ledger().feedback.waiting


def test_lost_feedback_is_not_a_lost_request(tmp_path):
    """A redactor that fails, and a closed monitor: False or a log, and the counts of requests stay."""

    def fails(_text):
        raise ValueError

    capture = Capture(partial(SpoolWriter, tmp_path / "spool"), redact=fails, durability="sync", lengths=Lengths())
    assert not capture.feedback("t", 1, comment="x")
    assert capture.feedback("t", 1)
    capture.close()
    assert not capture.feedback("t", 1)
    assert ({}, 0, 0) == (dict(capture.counters.dropped), capture.counters.recorded, capture.counters.queued)


def test_stream_has_no_failures(tmp_path):
    """The worker folds feedback into one stream for each application."""
    path = tmp_path / "a.db"
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest("a", 1, [request(), said("t", 0.0)])

    async def main():
        async with ScoringSetup(["rouge_l"]) as setup:
            await asyncio.wait_for(Worker(path, setup).run(until_idle=True), 60)

    asyncio.run(main())
    with SqliteStore.open(path, mode="read") as store, store.watch.read() as tables:
        assert [("bot", "feedback", "score")] == [(s.key.app, s.key.metric, s.kind) for s in tables.streams()]
    assert "feedback" in run_command("watch", path).stdout


async def post(url, body, *, kind="application/json", **headers):
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/feedback", data=body, headers={"Content-Type": kind, **headers}) as reply,
    ):
        return reply.status, await reply.text()


def test_receiver(tmp_path):
    """On the disk before the reply, with the guard of the receiver, limits and messages."""
    token = "a-token-of-some-length"
    capture = Capture(partial(SpoolWriter, spool_directory(tmp_path / "a.db")), durability="sync")
    buffer = SharedSpanBuffer(tmp_path / "spans.db")
    good = json.dumps({"trace_id": OTEL, "value": 1, "comment": "key sk-a1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})

    async def main():
        receiver = OtlpReceiver(buffer, port=0, access=Access(token, ()), add_routes=FeedbackRoute(capture).add_to)
        await receiver.start()
        own = {"Authorization": f"Bearer {token}"}
        try:
            assert 401 == (await post(receiver.url, good))[0]
            assert (200, "{}") == await post(receiver.url, good, **own)
            for body, status, text in (
                ("[]", 400, "must be an object"),
                ('{"trace_id": "t"}', 400, "must be an object"),
                ('{"trace_id": "t", "value": 1, "x": 1}', 400, "must be an object"),
                ('{"trace_id": "t", "value": 7}', 400, "from 0 (bad) to 1 (good), got 7"),
                ("{" * 5000, 400, "not valid JSON"),
                ("x" * 70_000, 413, "at most 65536 bytes"),
            ):
                found = await post(receiver.url, body, **own)
                assert (status, True) == (found[0], text in found[1])
            assert 415 == (await post(receiver.url, good, kind="text/plain", **own))[0]
            capture.close()
            assert 503 == (await post(receiver.url, good, **own))[0]
        finally:
            await receiver.aclose()
            buffer.close()

    asyncio.run(main())
    (segment,) = spool_directory(tmp_path / "a.db").glob("*")
    text = segment.read_text(encoding="utf-8")
    assert (1, 0) == (text.count(OTEL), text.count("sk-a1aa"))
