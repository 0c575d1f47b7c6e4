"""The live path inside one process: captured, stored, scored, exported."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

import pytest

from fake_servers import FakeJudgeServer
from memory_sink import MemorySink
from ragstone.errors import (
    ConfigurationError,
    JudgeUnavailableError,
    SinkRejectedError,
    SinkUnavailableError,
    StoreError,
)
from ragstone.judges import Prompt
from ragstone.monitor import Monitor
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
from ragstone.schema import DeliveryCounts, Failure, NotApplicable, Score
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from ragstone.worker import read_ledger
from waiting import wait_until

pytestmark = pytest.mark.usefixtures("short_pauses")


def draft(trace_id: str, **changes: object) -> TraceDraft:
    """A complete request."""
    values: dict[str, object] = {
        "trace_id": trace_id,
        "query": "Where is the grey stone?",
        "response": "The grey stone lies at the river.",
        "retrievals": [RetrievalDraft(passages=[PassageDraft(text="The grey stone lies at the river.")])],
        "reference": ["At the river."],
    }
    return TraceDraft(**(values | changes))  # type: ignore[arg-type]


def outcomes(store: Path) -> dict[tuple[str, str], object]:
    """All outcomes of a store by trace and metric."""
    with SqliteStore.open(store, mode="read") as opened:
        return {(o.sample_id, o.metric): o for o in opened.outcomes.read()}


def test_a_request_is_captured_scored_stored_and_exported(tmp_path: Path) -> None:
    """The whole path, with the ledger in order at the end."""
    store, sink = tmp_path / "r.db", MemorySink()
    with Monitor(judge="lexical", store=store, sinks=[sink, f"jsonl:{tmp_path / 's.jsonl'}"]) as monitor:
        for i in range(20):
            assert monitor.record(draft(f"t{i}"))
        assert monitor.drain(60)
        ledger = monitor.ledger()

    assert (20, 20, 0) == (ledger.total.captured, ledger.total.scored, ledger.total.pending)
    assert ledger.total.balanced
    assert all(row.scored == 20 for row in ledger.metrics.values())
    assert 100 == len({d.outcome.id for d in sink.deliveries})
    assert 100 == len((tmp_path / "s.jsonl").read_text(encoding="utf-8").splitlines())
    assert all(isinstance(o, Score) for o in outcomes(store).values())


def test_nothing_happens_before_the_first_request(tmp_path: Path) -> None:
    """A constructor that starts threads or makes files is a trap under gunicorn --preload."""
    before = set(threading.enumerate())
    monitor = Monitor(judge="lexical", store=tmp_path / "r.db")

    assert before == set(threading.enumerate())
    assert [] == list(tmp_path.iterdir())
    with pytest.raises(StoreError, match="store not found"):
        monitor.ledger()
    monitor.close()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": "error", "error": "ValueError: boom"}, "ended as 'error': ValueError: boom"),
        ({"status": "truncated"}, "ended as 'truncated'"),
        ({"inner_errors": ["ConnectionError: tool"]}, "something failed inside"),
        ({"query": None, "response": None}, "neither a query nor a response"),
    ],
)
def test_requests_that_went_wrong_are_not_applicable(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    """They are kept and counted, with the reason, and cost no judge call."""
    store = tmp_path / "r.db"
    judge = FakeJudge()
    with Monitor(judge=judge, store=store) as monitor:
        monitor.record(draft("t", **changes))
        assert monitor.drain(60)

    found = outcomes(store)["t", "ccrs.qr"]
    assert isinstance(found, NotApplicable)
    assert reason in found.reason
    assert 1 == read_ledger(store).total.not_applicable


def test_sampling_is_in_the_books(tmp_path: Path) -> None:
    """What sampling leaves out is counted, and what it keeps carries its weight."""
    store = tmp_path / "r.db"
    with Monitor(judge="lexical", store=store, sample_rate=0.5) as monitor:
        for i in range(200):
            monitor.record(draft(f"t{i}"))
        assert monitor.drain(60)
    ledger = read_ledger(store)

    assert 200 == ledger.total.captured
    assert 60 < ledger.total.sampled_out < 140
    assert ledger.total.balanced
    with SqliteStore.open(store, mode="read") as opened:
        assert {0.5} == {t.inclusion_probability for t in opened.traces.read() if t.query}


def test_secrets_do_not_reach_the_disk(tmp_path: Path) -> None:
    """Redaction comes before the spool, so no file holds the address."""
    with Monitor(judge="lexical", store=tmp_path / "r.db", sinks=[f"jsonl:{tmp_path / 's.jsonl'}"]) as monitor:
        monitor.record(draft("t", query="Mail anna.secret@example.com about sk-abcdefghijklmnopqrstuvwxyz123456"))
        assert monitor.drain(60)

    everything = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"anna.secret" not in everything
    assert b"abcdefghijklmnop" not in everything


def test_a_sink_that_is_down_loses_nothing(tmp_path: Path) -> None:
    """Outcomes wait in the outbox and arrive once the sink is back, each once."""

    class Flaky(MemorySink):
        down = 3

        async def write(self, batch: object) -> None:
            if self.down:
                self.down -= 1
                raise SinkUnavailableError("no route", retry_after_s=0.0)
            await super().write(batch)  # type: ignore[arg-type]

    sink = Flaky()
    store = tmp_path / "r.db"
    with Monitor(judge="lexical", metrics="ccrs.qr", store=store, sinks=[sink]) as monitor:
        for i in range(5):
            monitor.record(draft(f"t{i}"))
        wait_until(lambda: len(sink.deliveries) == 5)
        assert monitor.drain(60)

    assert 5 == len({d.outcome.id for d in sink.deliveries})
    assert DeliveryCounts(sent=5) == read_ledger(store).outbox[sink.name]


def test_one_refused_row_does_not_hold_back_the_others(tmp_path: Path) -> None:
    """A batch that is refused is split; the row at fault is set aside as dead."""

    class Picky(MemorySink):
        async def write(self, batch: object) -> None:
            if any(d.trace_id == "t3" for d in batch):  # type: ignore[attr-defined]
                raise SinkRejectedError("t3 is not welcome")
            await super().write(batch)  # type: ignore[arg-type]

    sink = Picky()
    store = tmp_path / "r.db"
    with Monitor(judge="lexical", metrics="ccrs.qr", store=store, sinks=[sink]) as monitor:
        for i in range(6):
            monitor.record(draft(f"t{i}"))
        assert monitor.drain(60)

    assert {"t0", "t1", "t2", "t4", "t5"} == {d.trace_id for d in sink.deliveries}
    assert (5, 1) == tuple(getattr(read_ledger(store).outbox[sink.name], s) for s in ("sent", "failed"))


def test_what_one_process_left_the_next_one_scores(tmp_path: Path) -> None:
    """`scoring="none"` never scores; a monitor that owns the store finds the spool and does."""
    store = tmp_path / "r.db"
    with Monitor(judge="lexical", store=store, scoring="none") as producer:
        for i in range(7):
            producer.record(draft(f"t{i}"))
        assert producer.flush(10)
        assert 7 == producer.ledger().total.pending
    with Monitor(judge="lexical", store=store) as owner:
        assert owner.drain(60)
        assert 7 == owner.ledger().total.scored


def test_the_second_monitor_takes_over_when_the_first_is_gone(tmp_path: Path) -> None:
    """Two monitors on one store: one owns it, the other captures, and inherits."""
    store = tmp_path / "r.db"
    first = Monitor(judge="lexical", store=store)
    first.record(draft("a"))
    assert first.drain(60)
    second = Monitor(judge="lexical", store=store)
    second.record(draft("b"))
    assert second.drain(60)
    first.close()
    second.record(draft("c"))
    wait_until(lambda: read_ledger(store).total.scored == 3)
    second.close()

    total = read_ledger(store).total
    assert (3, 3) == (total.captured, total.scored)


def test_a_judge_that_is_down_delays_scores(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While it is unavailable requests stay pending; when it is back they are scored. One log line for each turn."""
    down = [True]

    def fail(prompt: Prompt) -> Exception | None:
        return JudgeUnavailableError("no route to the judge") if down else None

    store = tmp_path / "r.db"
    with Monitor(judge=FakeJudge(fail=fail), metrics="ccrs.qr", store=store) as monitor:
        for i in range(3):
            monitor.record(draft(f"t{i}"))
        wait_until(lambda: "is unavailable" in caplog.text)
        assert not monitor.drain(0.2)
        assert 3 == monitor.ledger().total.pending
        down.clear()
        assert monitor.drain(60)

    assert 3 == read_ledger(store).total.scored
    words = [r.message for r in caplog.records if r.name == "ragstone" and r.levelno >= logging.WARNING]
    assert ["the judge is unavailable", "the judge is available again"] == [w.partition(",")[0] for w in words]
    assert words[0].endswith(": no route to the judge")


def test_a_request_the_judge_cannot_take_fails_once_others_are_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where others are answered, an unanswered request is not an outage: it does not wait for an hour."""

    def fail(prompt: Prompt) -> Exception | None:
        return JudgeUnavailableError("503") if "poison" in str(prompt.fields["query"]) else None

    store = tmp_path / "r.db"
    with Monitor(judge=FakeJudge(fail=fail), metrics="ccrs.qr", store=store) as monitor:
        monitor.record(draft("bad", query="poison?"))
        wait_until(lambda: "is unavailable" in caplog.text)
        monitor.record(draft("good"))
        assert monitor.drain(60)

    found = outcomes(store)["bad", "ccrs.qr"]
    assert isinstance(found, Failure)
    assert "unavailable" == found.kind


def test_a_request_the_judge_cannot_take_does_not_stop_the_others(tmp_path: Path) -> None:
    """Even where one is scored at a time: it waits, and the next one shows that the judge is not down."""

    def fail(prompt: Prompt) -> Exception | None:
        return JudgeUnavailableError("500") if "poison" in str(prompt.fields["query"]) else None

    store = tmp_path / "r.db"
    with Monitor(judge=FakeJudge(fail=fail), metrics="ccrs.qr", store=store, concurrency=1) as monitor:
        monitor.record(draft("bad", query="poison?"))
        for i in range(3):
            monitor.record(draft(f"good{i}"))
        assert monitor.drain(60)

    total = read_ledger(store).total
    assert (3, 1, 0) == (total.scored, total.failed, total.pending)


def test_an_outage_beyond_the_limit_keeps_requests_pending(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing fails because of an outage, however short `max_outage_s` is: the log reports it, and the next owner scores."""
    store = tmp_path / "r.db"
    server = FakeJudgeServer(error_rate=1.0)
    with server:
        judge = {"url": server.url, "backoff_s": 0.01}
        with Monitor(judge=judge, metrics="ccrs.qr", store=store, max_outage_s=0) as monitor:
            monitor.record(draft("t"))
            wait_until(lambda: "all requests stay pending" in caplog.text)
            assert not monitor.drain(1)
    server.recover()
    total = read_ledger(store).total
    assert (1, 0, 0) == (total.pending, total.failed, total.scored)

    with server, Monitor(judge=server.url, metrics="ccrs.qr", store=store) as monitor:
        monitor.start()
        assert monitor.drain(60)
    assert 1 == read_ledger(store).total.scored


def test_close_is_quick_idempotent_and_leaves_the_rest_pending(tmp_path: Path) -> None:
    """A slow judge does not hold back an exit; the trace stays pending."""
    store = tmp_path / "r.db"
    with FakeJudgeServer(latency_s=30) as server:
        monitor = Monitor(judge=server.url, store=store)
        monitor.record(draft("t"))
        wait_until(lambda: server.calls)
        monitor.close(timeout_s=10)
        monitor.close()
        assert not monitor.record(draft("late"))

    total = read_ledger(store).total
    assert (1, 1) == (total.captured, total.pending)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_captures_on_its_own(tmp_path: Path) -> None:
    """After a fork both processes capture, and nothing is doubled."""
    store = tmp_path / "r.db"
    monitor = Monitor(judge="lexical", store=store)
    monitor.record(draft("parent"))
    assert monitor.drain(60)
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        accepted = monitor.record(draft("child"))
        flushed = monitor.flush(20)
        os._exit(0 if accepted and flushed else 1)
    assert 0 == os.waitpid(child, 0)[1]
    assert monitor.drain(60)
    monitor.close()

    total = read_ledger(store).total
    assert (2, 2) == (total.captured, total.scored)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"metrics": ["ccrs.cq"]}, "ccrs.cq"),
        ({"judge": "gpt5"}, "gpt5"),
        ({"sinks": ["kafka:x"]}, "kafka"),
        ({"store": "/no/such/folder/r.db"}, "does not exist"),
        ({"sample_rate": 1.5}, "1.5"),
        ({"durability": "maybe"}, "maybe"),
        ({"scoring": "boss"}, "boss"),
        ({"concurrency": 0}, "concurrency"),
        ({"max_outage_s": -1}, "max_outage_s"),
    ],
)
def test_arguments_that_cannot_work_are_refused_at_once(
    tmp_path: Path, arguments: dict[str, object], match: str
) -> None:
    """The message names the value, long before the first request."""
    with pytest.raises(ConfigurationError, match=match):
        Monitor(**({"store": tmp_path / "r.db", "judge": "lexical"} | arguments))  # type: ignore[arg-type]


def test_a_store_that_cannot_be_used_does_not_reach_the_application(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A foreign file in the store's place: requests continue, captures wait in the spool, one log line says why."""
    store = tmp_path / "r.db"
    store.write_bytes(b"this is no database" * 100)
    with caplog.at_level(logging.ERROR, logger="ragstone"), Monitor(judge="lexical", store=store) as monitor:
        assert monitor.record(draft("t"))
        assert monitor.flush(10)
        wait_until(lambda: caplog.records)

    assert 1 == len([r for r in caplog.records if "cannot score" in r.message])
    assert b"this is no database" * 100 == store.read_bytes()


def test_a_store_that_is_removed_while_in_use_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so, and everything that the spool still holds is taken in and scored again."""
    store = tmp_path / "r.db"
    with Monitor(judge="lexical", store=store) as monitor:
        monitor.record(draft("before"))
        assert monitor.drain(60)
        for file in tmp_path.glob("r.db*"):
            if file.is_file():
                file.unlink()
        monitor.record(draft("after"))
        wait_until(lambda: store.exists() and read_ledger(store).total.scored == 2)

    assert {"before", "after"} == {trace for trace, _ in outcomes(store)}
    assert "was removed or replaced while in use" in caplog.text


def test_scores_in_the_file_carry_their_provenance(tmp_path: Path) -> None:
    """Judge, method, metric version and request time are beside each value."""
    path = tmp_path / "s.jsonl"
    with Monitor(judge="lexical", metrics="ccrs.qr", store=tmp_path / "r.db", sinks=[f"jsonl:{path}"]) as monitor:
        monitor.record(draft("t", otel_trace_id="a" * 32, otel_span_id="b" * 16))
        assert monitor.drain(60)

    line = json.loads(path.read_text(encoding="utf-8"))
    assert ("t", "ccrs.qr", "a" * 32, "b" * 16) == tuple(
        line[k] for k in ("trace_id", "metric", "otel_trace_id", "otel_span_id")
    )
    assert all(line[k] for k in ("id", "judge", "judge_hash", "method", "metric_version"))
