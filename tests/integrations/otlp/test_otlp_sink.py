"""`OtlpSink` against a real OTLP receiver."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from ragstone.errors import SinkRejectedError, SinkUnavailableError
from ragstone.schema import Failure, Interval, NotApplicable, Score, Usage
from ragstone.settings import Watch
from ragstone.sinks import Delivery, OtlpSink
from ragstone.store import open_store
from ragstone.testing import FakeJudge
from ragstone.worker import ScoringSetup, Worker
from watched_store import DAY_S, fill

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def _score(sample_id: str = "t1", **fields) -> Score:
    defaults = {
        "metric": "ccrs_cc",
        "metric_version": "1-ab12",
        "judge": "lexical baseline",
        "judge_hash": "j1",
        "prompt_hash": "p1",
        "created_at": 1_700_000_000.5,
        "value": 0.75,
        "method": "single_reply",
    }
    return Score(sample_id=sample_id, **(defaults | fields))


def _delivery(outcome=None, **fields) -> Delivery:
    outcome = outcome or _score()
    return Delivery(outcome=outcome, trace_id=outcome.sample_id, **fields)


def _send(sink: OtlpSink, *batches: list[Delivery]) -> None:
    async def run() -> None:
        try:
            for batch in batches:
                await sink.write(batch)
        finally:
            await sink.aclose()

    asyncio.run(run())


def test_a_score_arrives_as_the_event_of_the_conventions(otlp_receiver):
    """Event name, span link and every attribute of a score are on the wire."""
    outcome = _score(
        interval=Interval(low=0.5, high=0.9, confidence_level=0.9, method="bootstrap"), n=5, explanation="secret"
    )
    _send(
        OtlpSink(otlp_receiver.endpoint, clock=lambda: 1_700_000_060.0),
        [
            _delivery(
                outcome,
                run_id="r1",
                otel_trace_id=TRACE,
                otel_span_id=SPAN,
                response_id="chatcmpl-7",
                requested_at=1_699_999_999.0,
                inclusion_probability=0.25,
            )
        ],
    )
    (record,) = otlp_receiver.records
    assert record.event_name == "gen_ai.evaluation.result"
    assert record.trace_id.hex() == TRACE
    assert record.span_id.hex() == SPAN
    assert record.flags == 0
    assert record.time_unix_nano == 1_700_000_000_500_000_000
    assert record.observed_time_unix_nano == 1_700_000_060_000_000_000
    assert otlp_receiver.attributes() == {
        "gen_ai.evaluation.name": "ccrs_cc",
        "gen_ai.evaluation.score.value": 0.75,
        "ragstone.evaluation.id": outcome.id,
        "ragstone.outcome": "score",
        "ragstone.trace_id": "t1",
        "ragstone.run_id": "r1",
        "gen_ai.response.id": "chatcmpl-7",
        "ragstone.requested_at": 1_699_999_999.0,
        "ragstone.inclusion_probability": 0.25,
        "gen_ai.evaluation.evaluator.id": "ragstone/ccrs_cc",
        "gen_ai.evaluation.evaluator.version": "1-ab12",
        "ragstone.metric.version": "1-ab12",
        "ragstone.judge.name": "lexical baseline",
        "ragstone.judge.hash": "j1",
        "ragstone.prompt.hash": "p1",
        "ragstone.method": "single_reply",
        "ragstone.n": 5,
        "ragstone.interval.low": 0.5,
        "ragstone.interval.high": 0.9,
        "ragstone.interval.confidence_level": 0.9,
    }
    assert otlp_receiver.paths == ["/v1/logs"]
    assert otlp_receiver.headers[0]["content-type"] == "application/x-protobuf"


def test_the_type_of_an_evaluator_is_stated_if_it_is_known(otlp_receiver):
    """Without a judge it is deterministic, and a judge is a model if a call of one was counted."""
    model, without, unknown = _score(usage=Usage(calls=1)), _score(judge=None, judge_hash=""), _score()
    _send(OtlpSink(otlp_receiver.endpoint), [_delivery(each) for each in (model, without, unknown)])
    types = [otlp_receiver.attributes(i).get("gen_ai.evaluation.evaluator.type") for i in range(3)]
    assert ["llm_judge", "deterministic", None] == types


def test_a_failure_has_an_error_type_and_no_value(otlp_receiver):
    """A failure is never a score of 0."""
    failure = Failure(
        sample_id="t1", metric="ccrs_cc", metric_version="1", kind="unparseable", reason="said 'about half'"
    )
    _send(OtlpSink(otlp_receiver.endpoint), [_delivery(failure)])
    attributes = otlp_receiver.attributes()
    assert attributes["error.type"] == "unparseable"
    assert attributes["ragstone.outcome"] == "failure"
    assert "gen_ai.evaluation.score.value" not in attributes
    assert "gen_ai.evaluation.explanation" not in attributes


def test_text_is_sent_only_on_request(otlp_receiver):
    """`include_text=True` adds the explanation of a score and the reason of a failure."""
    failure = Failure(sample_id="t1", metric="m", metric_version="1", kind="timeout", reason="60 s")
    _send(
        OtlpSink(otlp_receiver.endpoint, include_text=True), [_delivery(_score(explanation="why")), _delivery(failure)]
    )
    explanations = [otlp_receiver.attributes(i)["gen_ai.evaluation.explanation"] for i in range(2)]
    assert explanations == ["why", "60 s"]


def test_not_applicable_is_not_sent(otlp_receiver):
    """An outcome that is no evaluation makes no event, and a batch of them no request."""
    outcome = NotApplicable(sample_id="t1", metric="m", metric_version="1", reason="no reference")
    _send(OtlpSink(otlp_receiver.endpoint), [_delivery(outcome)])
    assert otlp_receiver.paths == []


@pytest.mark.parametrize("ids", [{}, {"otel_trace_id": "not hex at all", "otel_span_id": "0af7"}])
def test_without_a_captured_span_nothing_is_linked(otlp_receiver, ids):
    """A span that happens to be current while sending is not the one that was judged."""
    from opentelemetry.sdk.trace import TracerProvider

    with TracerProvider(shutdown_on_exit=False).get_tracer("test").start_as_current_span("sending"):
        _send(OtlpSink(otlp_receiver.endpoint), [_delivery(**ids)])
    (record,) = otlp_receiver.records
    assert record.trace_id == b""
    assert record.span_id == b""


def test_an_error_is_raised_and_the_caller_tries_again(otlp_receiver, answer):
    """After a 503 the batch is the caller's; the second attempt delivers it once, with the same id."""
    otlp_receiver.answers = [answer(503, {"retry-after": "7"})]
    batch = [_delivery()]

    async def run() -> None:
        sink = OtlpSink(otlp_receiver.endpoint, timeout_s=0.5)
        with pytest.raises(SinkUnavailableError, match="503") as caught:
            await sink.write(batch)
        assert caught.value.retry_after_s == 7
        await sink.write(batch)
        await sink.aclose()

    asyncio.run(run())
    assert [batch[0].outcome.id] == [otlp_receiver.attributes(i)["ragstone.evaluation.id"] for i in range(1)]
    assert len(otlp_receiver.records) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 301])
def test_refused_settings_keep_the_batch(otlp_receiver, answer, status):
    """Wrong credentials, a wrong path and a redirection are for the settings: the batch is to come again."""
    otlp_receiver.answers = [answer(status, {"location": "/elsewhere"})]
    with pytest.raises(SinkUnavailableError, match=str(status)):
        _send(OtlpSink(otlp_receiver.endpoint), [_delivery()])


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_logs_is_named(otlp_receiver, answer, status):
    """The message names the sinks for tracing tools, and the batch is kept."""
    otlp_receiver.answers = [answer(status)]
    with pytest.raises(SinkUnavailableError, match=f"accepts logs, but this one answers HTTP {status}.*sink phoenix"):
        _send(OtlpSink(otlp_receiver.endpoint), [_delivery()])


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_batch_is_rejected(otlp_receiver, answer, status):
    """What the receiver says about the batch itself is final."""
    otlp_receiver.answers = [answer(status)]
    with pytest.raises(SinkRejectedError, match=str(status)):
        _send(OtlpSink(otlp_receiver.endpoint), [_delivery()])


def test_no_receiver_is_unavailable(otlp_receiver, unused_tcp_port_url):
    """A refused connection ends in our own error, without the URL's credentials in it."""
    with pytest.raises(SinkUnavailableError) as caught:
        _send(OtlpSink(unused_tcp_port_url, timeout_s=0.5), [_delivery()])
    assert "hunter2" not in str(caught.value)


def test_events_refused_inside_a_success_are_noticed(otlp_receiver, answer, caplog):
    """A partial success is logged; when nothing was accepted it is a rejection."""
    otlp_receiver.answers = [answer(rejected=1), answer(rejected=2)]
    batch = [_delivery(), _delivery(_score("t2"))]
    with caplog.at_level(logging.WARNING, "ragstone"), pytest.raises(SinkRejectedError, match="too old"):
        _send(OtlpSink(otlp_receiver.endpoint), batch, batch)
    assert ["1 of 2" in r.getMessage() for r in caplog.records if r.name == "ragstone"] == [True]


def test_large_batches_are_cut(otlp_receiver):
    """No request holds more than 512 events, and none is lost."""
    _send(OtlpSink(otlp_receiver.endpoint), [_delivery(_score(f"t{i}")) for i in range(1030)])
    sizes = [len(r.resource_logs[0].scope_logs[0].log_records) for r in otlp_receiver.requests]
    assert sizes == [512, 512, 6]
    assert len({otlp_receiver.attributes(i)["ragstone.trace_id"] for i in range(1030)}) == 1030


def test_the_otel_variables_are_honoured(otlp_receiver, monkeypatch):
    """Endpoint, headers, compression and service name come from the environment."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlp_receiver.endpoint + "/tenant/")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=search")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    _send(OtlpSink(headers={"x-extra": "1"}), [_delivery()])
    assert otlp_receiver.paths == ["/tenant/v1/logs"]
    assert otlp_receiver.resource["service.name"] == "shop"
    (headers,) = otlp_receiver.headers
    assert (headers["x-team"], headers["x-extra"], headers["content-encoding"]) == ("search", "1", "gzip")


def test_the_logs_endpoint_is_taken_as_it_is(otlp_receiver, monkeypatch):
    """`OTEL_EXPORTER_OTLP_LOGS_ENDPOINT` goes before the general one, and nothing is appended to it."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", otlp_receiver.endpoint + "/in")
    _send(OtlpSink(), [_delivery()])
    assert otlp_receiver.paths == ["/in"]


def test_sending_is_not_instrumented(otlp_receiver):
    """An instrumented HTTP client sees that it must not record our request."""
    import requests
    from opentelemetry.context import get_value

    seen = []
    original = requests.Session.send

    def instrumented(self, *args, **kwargs):
        seen.append(any(v is True for k, v in _context().items() if k.startswith("suppress_instrumentation")))
        return original(self, *args, **kwargs)

    def _context():
        from opentelemetry import context

        return context.get_current()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests.Session, "send", instrumented)
        _send(OtlpSink(otlp_receiver.endpoint), [_delivery()])
    assert seen == [True]
    assert get_value("suppress_instrumentation") is None


def test_a_forked_child_makes_its_own_connection(otlp_receiver, monkeypatch):
    """Two processes on one socket would mix their requests."""
    sink = OtlpSink(otlp_receiver.endpoint)

    async def run() -> None:
        await sink.write([_delivery()])
        parents = sink._channel
        await sink.write([_delivery()])
        assert sink._channel is parents
        with monkeypatch.context() as patch:
            patch.setattr("os.getpid", lambda: -1)
            await sink.write([_delivery()])
        assert sink._channel is not parents
        parents.close()
        await sink.aclose()

    asyncio.run(run())
    assert len(otlp_receiver.records) == 3


def test_a_closed_sink_takes_nothing(otlp_receiver):
    """Closing twice is fine; writing afterwards leaves the batch with the caller."""

    async def run() -> None:
        sink = OtlpSink(otlp_receiver.endpoint)
        await sink.write([_delivery()])
        await sink.aclose()
        await sink.aclose()
        with pytest.raises(SinkUnavailableError, match="closed"):
            await sink.write([_delivery()])

    asyncio.run(run())
    assert len(otlp_receiver.records) == 1


def test_an_alarm_arrives_as_an_event_of_its_own(otlp_receiver, tmp_path):
    """The worker folds a drop and delivers alarm and follow-up once each, as `ragstone.alarm` with the text as body."""
    path = tmp_path / "a.db"
    with open_store(path, mode="own") as store:
        fill(store, time.time() - 11.6 * DAY_S)
    options = Watch(notify=(f"otlp:{otlp_receiver.endpoint}",))
    for _ in range(2):
        worker = Worker(path, ScoringSetup("ccrs.qr", judge=FakeJudge()), watch=options)
        asyncio.run(asyncio.wait_for(worker.run(until_idle=True), 120))

    events = {otlp_receiver.attributes(i)["ragstone.alarm.id"]: i for i in range(len(otlp_receiver.records))}
    assert {"1:alarm", "1:follow_up"} <= set(events)
    assert len(events) == len(otlp_receiver.records)
    record, said = otlp_receiver.records[events["1:alarm"]], otlp_receiver.attributes(events["1:alarm"])
    assert ("ragstone.alarm", 13) == (record.event_name, record.severity_number)
    assert record.body.string_value.startswith("ALARM 1 · qa-bot · Question relevance (ccrs.qr) fell by about")
    assert ("qa-bot", "ccrs.qr", "alarm", "score") == (
        said["ragstone.app"], said["gen_ai.evaluation.name"], said["ragstone.alarm.event"], said["ragstone.alarm.kind"],
    )  # fmt: skip
    assert said["ragstone.alarm.low"] <= said["ragstone.alarm.drop"] <= said["ragstone.alarm.high"]
    assert said["ragstone.alarm.drop"] == pytest.approx(said["ragstone.alarm.before"] - said["ragstone.alarm.after"])
    assert "release=2.4.1" == said["ragstone.alarm.slices"]
