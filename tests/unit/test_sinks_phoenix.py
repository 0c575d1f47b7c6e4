"""`PhoenixSink`: what is sent of an outcome, and what Phoenix's answers mean for it (as a real server gave them)."""

from __future__ import annotations

import asyncio
import json

import pytest

from fake_servers import RecordingServer, Reply
from ragstone.errors import (
    ConfigurationError,
    SinkDeniedError,
    SinkNoTargetError,
    SinkRejectedError,
    SinkTargetMissingError,
    SinkUnavailableError,
)
from ragstone.schema import Failure, Interval, NotApplicable, Score
from ragstone.sinks import Delivery, PhoenixSink, sink_from

_TRACE = "0af7651916cd43dd8448eb211c80319c"
_SPANS = [f"07ad6b716920333{i}" for i in range(4)]


def _score(**fields) -> Score:
    known = {"sample_id": "t1", "metric": "m", "metric_version": "1", "value": 0.5, "method": "x"}
    return Score(**(known | fields))


def _delivery(outcome=None, span: str | None = _SPANS[0], **fields) -> Delivery:
    known = {"outcome": outcome or _score(sample_id=f"t-{span}"), "trace_id": "t1", "otel_trace_id": _TRACE}
    return Delivery(**(known | {"otel_span_id": span} | fields))


class Phoenix:
    """Refuses a whole batch for one unknown span, as Phoenix does, and says which."""

    def __init__(self, *spans: str, reply: Reply | None = None) -> None:
        self.spans, self.reply = set(spans), reply
        self.rows: list[dict] = []
        self.server = RecordingServer(self._answer)

    def _answer(self, request) -> Reply:
        if self.reply is not None:
            return self.reply
        rows = json.loads(request.content)["data"]
        missing = {row["span_id"] for row in rows} - self.spans
        if missing:
            return Reply(404, f"Spans with IDs {', '.join(missing)} do not exist.")
        self.rows += rows
        return Reply(200, {"data": []})


def _send(phoenix: Phoenix, *deliveries: Delivery, **options) -> dict:
    """What the sink says of a batch."""

    async def session() -> dict:
        sink = PhoenixSink(phoenix.server.address, **options)
        try:
            return dict(await sink.write(deliveries))
        finally:
            await sink.aclose()

    with phoenix.server:
        return asyncio.run(session())


def test_a_score_becomes_an_annotation():
    """The id is Phoenix's identifier, the metric its name; what stands behind the score is in the metadata."""
    interval = Interval(low=0.25, high=0.75, confidence_level=0.9, method="wilson")
    outcome = _score(judge="tiny", judge_hash="j", prompt_hash="p", n=3, interval=interval, explanation="It says so.")
    phoenix = Phoenix(*_SPANS)
    assert {} == _send(phoenix, _delivery(outcome, inclusion_probability=0.1))
    (request,) = phoenix.server.requests
    assert ("POST", "/v1/span_annotations", "sync=true") == (request.method, request.path, request.query)
    metadata = phoenix.rows[0].pop("metadata")
    assert [
        {
            "span_id": _SPANS[0], "name": "m", "identifier": outcome.id, "annotator_kind": "LLM",
            "result": {"score": 0.5, "label": None, "explanation": "0.5 [0.25, 0.75] (90% wilson). judge tiny. x, n = 3"},
        }
    ] == phoenix.rows  # fmt: skip
    assert {
        "judge": "tiny", "judge_hash": "j", "prompt_hash": "p", "metric_version": "1", "method": "x", "n": 3,
        "interval": interval.model_dump(), "inclusion_probability": 0.1, "trace_id": "t1",
    }.items() <= metadata.items()  # fmt: skip


def test_a_failure_has_a_label_and_no_score():
    """An average over scores does not see it; the kind of failure is in the metadata."""
    phoenix = Phoenix(*_SPANS)
    _send(phoenix, _delivery(Failure(sample_id="t", metric="m", metric_version="1", kind="timeout", reason="60 s")))
    (row,) = phoenix.rows
    assert {"score": None, "label": "failure", "explanation": "failed (timeout)"} == row["result"]
    assert ("timeout", "CODE") == (row["metadata"]["kind"], row["annotator_kind"])


def test_a_metric_that_does_not_apply_has_a_label_and_no_score():
    """With the fields that are missing; its reason, which may quote captured text, is not sent."""
    phoenix = Phoenix(*_SPANS)
    _send(phoenix, _delivery(_nothing()))
    (row,) = phoenix.rows
    expected = {"score": None, "label": "not applicable", "explanation": "not applicable, missing: reference"}
    assert expected == row["result"]


def _nothing():
    return NotApplicable(sample_id="t", metric="m", metric_version="1", reason="secret", missing=("reference",))


def test_text_is_sent_when_asked_for():
    """`+text` adds explanations and reasons, at most 16,000 characters of each."""
    phoenix = Phoenix(*_SPANS)
    failure = Failure(sample_id="t", metric="m", metric_version="1", kind="bug", reason="r" * 16_000)
    _send(phoenix, _delivery(_score(explanation="e" * 16_001)), _delivery(failure), include_text=True)
    explained, failed = (row["result"]["explanation"] for row in phoenix.rows)
    assert (16_000, 16_000) == (len(explained), len(failed))
    assert explained.startswith("e" * 15_900)
    assert explained.endswith("e…\n\n0.5. x")
    assert failed.endswith("r…\n\nfailed (bug)")


@pytest.mark.parametrize(
    "delivery",
    [
        _delivery(span=None),
        _delivery(span="0" * 16),
        _delivery(span="07ad6b71692033g1"),
        _delivery(otel_trace_id=None),
        _delivery(otel_sampled=False),
    ],
    ids=["no span", "zero span", "broken span", "no trace", "not sampled"],
)
def test_what_has_no_place_is_left_out(delivery):
    """It is not sent, and the rest of its batch arrives."""
    phoenix = Phoenix(*_SPANS)
    other = _delivery(span=_SPANS[1].upper(), otel_sampled=True)
    refused = _send(phoenix, delivery, other)
    assert {delivery.outcome.id: SinkNoTargetError} == {i: type(e) for i, e in refused.items()}
    assert [_SPANS[1]] == [row["span_id"] for row in phoenix.rows]


def test_a_missing_span_holds_back_nothing_else():
    """Rows whose spans Phoenix names are refused; the others go again, once."""
    phoenix = Phoenix(_SPANS[0], _SPANS[3])
    deliveries = [_delivery(span=span) for span in _SPANS]
    refused = _send(phoenix, *deliveries)
    assert {d.outcome.id: SinkTargetMissingError for d in deliveries[1:3]} == {i: type(e) for i, e in refused.items()}
    assert [_SPANS[0], _SPANS[3]] == [row["span_id"] for row in phoenix.rows]
    assert 2 == len(phoenix.server.requests)


def test_a_batch_of_missing_spans_is_asked_for_once():
    """Nothing is left to send again."""
    phoenix = Phoenix()
    assert [SinkTargetMissingError] * 4 == [
        type(e) for e in _send(phoenix, *(_delivery(span=span) for span in _SPANS)).values()
    ]
    assert 1 == len(phoenix.server.requests)


def test_nothing_to_send_is_not_sent():
    """An empty batch makes no request."""
    phoenix = Phoenix()
    assert {} == _send(phoenix)
    assert [] == phoenix.server.requests


def test_a_request_has_a_thousand_rows():
    """More go in several."""
    phoenix = Phoenix(*_SPANS)
    assert {} == _send(phoenix, *(_delivery(_score(metric_version=str(i))) for i in range(1001)))
    assert [1000, 1] == [len(json.loads(request.content)["data"]) for request in phoenix.server.requests]


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (Reply(404, "<h1>Not Found</h1>"), SinkUnavailableError, "Check the URL"),
        (Reply(404, "Spans with IDs 00000000000000aa do not exist."), SinkUnavailableError, "Check the URL"),
        (Reply(405, "Method Not Allowed"), SinkUnavailableError, "Check the URL"),
        (Reply(307, "", headers={"Location": "https://elsewhere.test"}), SinkUnavailableError, "Check the URL"),
        (Reply(401, "Invalid token"), SinkDeniedError, "401: Invalid token. Check the credentials"),
        (Reply(403, ""), SinkDeniedError, "Check the credentials"),
        (Reply(422, {"detail": "Input should be a valid number"}), SinkRejectedError, "valid number"),
        (Reply(500, "Internal Server Error"), SinkUnavailableError, "500"),
        (Reply(507, "Database is full"), SinkUnavailableError, "full"),
    ],
)
def test_what_an_answer_means(reply, error, words):
    """An address to repair, credentials to repair, a row at fault, or a server in trouble: each has its error."""
    with pytest.raises(error, match=words) as caught:
        _send(Phoenix(reply=reply), _delivery(), api_key="hunter2")
    assert error is type(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_server_may_ask_for_patience():
    """`Retry-After` is passed on."""
    with pytest.raises(SinkUnavailableError) as caught:
        _send(Phoenix(reply=Reply(429, "slow down", headers={"Retry-After": "7"})), _delivery())
    assert 7.0 == caught.value.retry_after_s


def test_nobody_there():
    """A connection that is refused is an outage, told without the credentials of the URL."""
    with RecordingServer() as server:
        sink = PhoenixSink(server.address.replace("//", "//user:hunter2@"))
    with pytest.raises(SinkUnavailableError, match="no response from 127") as caught:
        asyncio.run(sink.write([_delivery()]))
    assert "hunter2" not in str(caught.value) + sink.name


def test_credentials_come_from_the_environment(monkeypatch):
    """As Phoenix's own client reads them; what the caller gives comes first."""
    monkeypatch.setenv("PHOENIX_API_KEY", "env-key")
    monkeypatch.setenv("PHOENIX_CLIENT_HEADERS", "X-Team=search%20and%20find, api_key=old,nonsense")
    phoenix = Phoenix(*_SPANS)
    _send(phoenix, _delivery())
    _send(phoenix, _delivery(), api_key="own", headers={"x-team": "b"})
    assert [("Bearer env-key", "search and find", "old"), ("Bearer own", "b", "old")] == [
        tuple(request.headers[name] for name in ("authorization", "x-team", "api_key"))
        for request in phoenix.server.requests
    ]


def test_a_specification_names_a_server(monkeypatch):
    """`phoenix:URL`, or the environment's address of the spans, or Phoenix's own port."""
    assert "phoenix:there:6006" == sink_from("phoenix:http://key:hunter2@there:6006/").name
    assert "phoenix:localhost:6006" == sink_from("phoenix").name
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", "https://phoenix.test/s/team/v1/traces")
    sink = sink_from("phoenix+text")
    assert ("phoenix:phoenix.test:443", "https://phoenix.test/s/team", True) == (
        sink.name,
        sink._url.geturl(),
        sink._include_text,
    )
    assert not PhoenixSink.from_spec("http://there:6006")._include_text


def test_an_address_that_cannot_work():
    """It is refused at once, without being shown."""
    with pytest.raises(ConfigurationError, match="phoenix:http://localhost:6006") as caught:
        sink_from("phoenix:user:hunter2@there")
    assert "hunter2" not in str(caught.value)


def test_a_closed_sink_takes_nothing():
    """What comes after `aclose` comes again elsewhere."""

    async def session() -> None:
        sink = PhoenixSink("http://127.0.0.1:1")
        await sink.aclose()
        await sink.aclose()
        await sink.write([_delivery()])

    with pytest.raises(SinkUnavailableError, match="closed"):
        asyncio.run(session())
