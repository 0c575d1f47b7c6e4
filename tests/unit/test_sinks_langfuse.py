"""`LangfuseSink`: what is sent of a score, and what an answer means for each row of a request."""

from __future__ import annotations

import asyncio
import json

import pytest

from fake_servers import RecordingServer, Reply, Request
from ragstone.errors import (
    ConfigurationError,
    SinkDeniedError,
    SinkNoTargetError,
    SinkRejectedError,
    SinkUnavailableError,
)
from ragstone.schema import Failure, Interval, NotApplicable, Score
from ragstone.sinks import Delivery, LangfuseSink, sink_from

_TRACE, _SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def _score(sample_id: str = "t1", **fields) -> Score:
    known = {"sample_id": sample_id, "metric": "m", "metric_version": "1", "value": 0.5, "method": "x"}
    return Score(**(known | {"created_at": 1_700_000_001.5} | fields))


def _delivery(outcome, **fields) -> Delivery:
    return Delivery(
        **({"outcome": outcome, "trace_id": outcome.sample_id, "otel_trace_id": _TRACE, "otel_span_id": _SPAN} | fields)
    )


class Langfuse:
    """Answers as a server does: rows in `bad` are refused, by their sample's id."""

    def __init__(
        self, *, arrays: bool = True, objects: bool = True, partial: bool = True, bad: frozenset[str] = frozenset()
    ) -> None:
        self.arrays, self.objects, self.partial, self.bad = arrays, objects, partial, bad
        self.kept: list[dict] = []
        self.server = RecordingServer(self._answer)

    def _answer(self, request: Request) -> Reply:
        body = json.loads(request.content)
        if not (self.arrays if isinstance(body, list) else self.objects):
            return Reply(400, {"message": "Invalid request data"})
        rows = body if isinstance(body, list) else [body]
        good = [row for row in rows if row["metadata"]["trace_id"] not in self.bad]
        if not self.partial and len(good) < len(rows):
            return Reply(400, {"message": "one of them is bad"})
        self.kept += good
        if len(good) == len(rows):
            return Reply(202, {"message": "Accepted"})
        if not isinstance(body, list):
            return Reply(400, {"message": "no such\nconfig"})
        errors = [{"message": "no such\nconfig"}] * (len(rows) - len(good))
        return Reply(207, {"accepted": len(good), "rejected": len(errors), "errors": errors})

    @property
    def sizes(self) -> list[int | None]:
        """How many rows each request had; None: one that is not in an array."""
        bodies = [json.loads(request.content) for request in self.server.requests]
        return [len(body) if isinstance(body, list) else None for body in bodies]

    @property
    def traces(self) -> list[str]:
        """Of what was kept."""
        return [row["metadata"]["trace_id"] for row in self.kept]


def _send(langfuse: Langfuse, *deliveries: Delivery, **options) -> dict:
    """Write one batch to a server; what the sink returned."""

    async def session() -> dict:
        sink = LangfuseSink(langfuse.server.address, public_key="pk", secret_key="sk", **options)
        try:
            return dict(await sink.write(deliveries))
        finally:
            await sink.aclose()

    with langfuse.server:
        return asyncio.run(session())


def test_a_score_as_langfuse_takes_it():
    """The trace, the observation, the number, and in the metadata what stands behind it; no text."""
    langfuse = Langfuse()
    score = _score(
        judge="j",
        judge_hash="h",
        prompt_hash="p",
        n=3,
        interval=Interval(low=0.4, high=0.6, method="bootstrap"),
        explanation="secret",
        details={"q": "secret"},
        raw="secret",
    )
    assert {} == _send(langfuse, _delivery(score, run_id="r", requested_at=11.0, inclusion_probability=0.1))
    assert langfuse.kept == [
        {
            "id": score.id,
            "traceId": _TRACE,
            "observationId": _SPAN,
            "name": "m",
            "value": 0.5,
            "dataType": "NUMERIC",
            "comment": "0.5 [0.4, 0.6] (95% bootstrap). judge j. x, n = 3",
            "timestamp": "2023-11-14T22:13:21.500000+00:00",
            "metadata": {
                "schema_version": 1,
                "trace_id": "t1",
                "run_id": "r",
                "otel_trace_id": _TRACE,
                "otel_span_id": _SPAN,
                "metric": "m",
                "metric_version": "1",
                "outcome": "score",
                "value": 0.5,
                "interval": {"low": 0.4, "high": 0.6, "confidence_level": 0.95, "method": "bootstrap"},
                "method": "x",
                "n": 3,
                "judge": "j",
                "judge_hash": "h",
                "prompt_hash": "p",
                "inclusion_probability": 0.1,
                "requested_at": 11.0,
                "scored_at": 1_700_000_001.5,
            },
        }
    ]
    (request,) = langfuse.server.requests
    assert ("/api/public/scores", "Basic cGs6c2s=") == (request.path, request.headers["authorization"])


def test_text_when_it_is_wanted():
    """The explanation is the comment."""
    langfuse = Langfuse()
    _send(langfuse, _delivery(_score(explanation="because")), include_text=True)
    assert "because\n\n0.5. x" == langfuse.kept[0]["comment"]


@pytest.mark.parametrize(
    ("outcome", "state", "comment"),
    [
        (
            Failure(sample_id="t1", metric="m", metric_version="1", kind="timeout", reason="secret"),
            "failed",
            "failed (timeout)",
        ),
        (
            NotApplicable(sample_id="t1", metric="m", metric_version="1", reason="secret"),
            "not applicable",
            "not applicable",
        ),
    ],
)
def test_an_outcome_without_a_score_is_a_category(outcome, state, comment):
    """Langfuse does not average categories."""
    langfuse = Langfuse()
    assert {} == _send(langfuse, _delivery(outcome))
    (body,) = langfuse.kept
    assert (state, "CATEGORICAL", comment) == (body["value"], body["dataType"], body["comment"])
    assert "secret" not in str(body)


def test_the_time_is_the_same_at_each_repeat():
    """Langfuse tells scores apart by id and time: without a time of scoring it is that of the request."""
    langfuse = Langfuse()
    _send(langfuse, _delivery(_score(created_at=None), requested_at=0.0), _delivery(_score("t2", created_at=1e300)))
    assert ["1970-01-01T00:00:00.000000+00:00", None] == [row.get("timestamp") for row in langfuse.kept]


@pytest.mark.parametrize(
    ("delivery", "reason"),
    [
        (_delivery(_score(), otel_trace_id=None), "outside of any"),
        (_delivery(_score(), otel_trace_id="not hex"), "outside of any"),
        (_delivery(_score(), otel_sampled=False), "not sampled"),
    ],
)
def test_what_has_no_place(delivery, reason):
    """A failure is not sent as a number; a score without a trace is not sent. The others of the batch are."""
    langfuse = Langfuse()
    errors = _send(langfuse, delivery, _delivery(_score("t2")))
    assert [delivery.outcome.id] == list(errors)
    assert isinstance(errors[delivery.outcome.id], SinkNoTargetError)
    assert reason in str(errors[delivery.outcome.id])
    assert ["t2"] == langfuse.traces


def test_nothing_to_send_is_not_sent():
    """A batch without scores makes no request."""
    langfuse = Langfuse()
    _send(langfuse, _delivery(_score(), otel_trace_id=None))
    assert [] == langfuse.server.requests


def test_requests_are_small():
    """At most 15 rows, and at most a million bytes."""
    langfuse = Langfuse()
    small = [_delivery(_score(f"s{i}")) for i in range(16)]
    large = [_delivery(_score(f"l{i}", judge="j" * 300_000)) for i in range(7)]
    assert {} == _send(langfuse, *small, *large)
    assert [15, 1 + 3, 3, 1] == langfuse.sizes
    assert all(len(r.content) <= 1_000_000 for r in langfuse.server.requests)
    assert [d.outcome.sample_id for d in [*small, *large]] == langfuse.traces


def test_an_older_server_is_found_out_once():
    """Arrays are refused once; from then on each score goes alone."""
    langfuse = Langfuse(arrays=False)
    assert {} == _send(langfuse, *[_delivery(_score(f"t{i}")) for i in range(40)])
    assert 40 == langfuse.sizes.count(None)
    assert len(langfuse.sizes) - 40 <= 1 + 8  # the first request, and what was under way when it showed
    assert sorted(f"t{i}" for i in range(40)) == sorted(langfuse.traces)


@pytest.mark.parametrize("objects", [True, False])
def test_a_row_at_fault_is_found(objects):
    """After a 207 each row of the request goes alone; the one that is refused has the server's words, on one line."""
    langfuse = Langfuse(objects=objects, bad=frozenset({"t3"}))
    errors = _send(langfuse, *[_delivery(_score(f"t{i}")) for i in range(20)])
    assert [_score("t3").id] == list(errors)
    assert isinstance(errors[_score("t3").id], SinkRejectedError)
    assert "no such config" in str(errors[_score("t3").id])
    assert {f"t{i}" for i in range(20)} - {"t3"} == set(langfuse.traces)
    assert None not in langfuse.sizes


@pytest.mark.parametrize(("bad", "sizes"), [(["t0"], [1]), (["t0", "t1"], [2, 1, 1])])
def test_a_refused_row_is_not_asked_about_in_vain(bad, sizes):
    """A server that has said what is wrong with a row in an array takes arrays: the row is not tried in another form."""
    langfuse = Langfuse(bad=frozenset(bad))
    errors = _send(langfuse, *[_delivery(_score(name)) for name in bad])
    assert {_score(name).id for name in bad} == set(errors)
    assert sizes == langfuse.sizes


def test_a_server_that_has_taken_an_array_is_sent_no_objects():
    """A row that it refuses later is at fault, and not the form."""
    langfuse = Langfuse(partial=False, bad=frozenset({"t15"}))
    errors = _send(langfuse, *[_delivery(_score(f"t{i}")) for i in range(16)])
    assert [_score("t15").id] == list(errors)
    assert [15, 1] == langfuse.sizes


def test_a_row_at_fault_on_an_older_server():
    """It neither hides what the server takes nor holds back the others."""
    langfuse = Langfuse(arrays=False, bad=frozenset({"t0"}))
    errors = _send(langfuse, *[_delivery(_score(f"t{i}")) for i in range(20)])
    assert [_score("t0").id] == list(errors)
    assert {f"t{i}" for i in range(1, 20)} == set(langfuse.traces)


def test_an_outage_in_the_middle():
    """What has arrived counts; the rest comes again, and is not tried in vain meanwhile."""
    langfuse = Langfuse()
    answer = langfuse.server._reply
    langfuse.server._reply = lambda request: (
        answer(request) if not langfuse.kept else Reply(429, "slow down", {"Retry-After": "7"})
    )
    errors = _send(langfuse, *[_delivery(_score(f"t{i}")) for i in range(50)])
    assert [_score(f"t{i}").id for i in range(15, 50)] == list(errors)
    assert {SinkUnavailableError} == {type(error) for error in errors.values()}
    assert {7.0} == {error.retry_after_s for error in errors.values()}
    assert [15, 15] == langfuse.sizes


@pytest.mark.parametrize(
    ("status", "kind"), [(401, SinkDeniedError), (403, SinkDeniedError), (404, None), (302, None), (500, None)]
)
def test_what_refuses_us_all(status, kind):
    """Wrong keys stop the sink; a wrong address and a broken server keep the scores for later."""
    langfuse = Langfuse()
    langfuse.server._reply = lambda _: Reply(status, "no", {"Location": "http://127.0.0.1/"})
    if kind is not None:
        with pytest.raises(kind, match=str(status)):
            _send(langfuse, _delivery(_score()), _delivery(_score("t2")))
    else:
        errors = _send(langfuse, _delivery(_score()), _delivery(_score("t2")))
        assert [SinkUnavailableError] * 2 == [type(error) for error in errors.values()]


def test_the_environment(monkeypatch):
    """Address, keys and environment come from the variables of Langfuse's client, the newer name of the address first."""
    langfuse = Langfuse()
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk")
    assert "langfuse:cloud.langfuse.com:443" == LangfuseSink.from_spec("").name
    monkeypatch.setenv("LANGFUSE_HOST", "http://older:3000")
    assert "langfuse:older:3000" == LangfuseSink.from_spec("").name
    monkeypatch.setenv("LANGFUSE_BASE_URL", "http://newer:3000/")
    assert "langfuse:newer:3000" == LangfuseSink.from_spec("").name
    monkeypatch.setenv("LANGFUSE_TRACING_ENVIRONMENT", "staging")

    async def session() -> None:
        sink = LangfuseSink.from_spec(langfuse.server.address)
        await sink.write([_delivery(_score())])
        await sink.aclose()
        with pytest.raises(SinkUnavailableError, match="closed"):
            await sink.write([_delivery(_score())])

    with langfuse.server:
        asyncio.run(session())
    assert "staging" == langfuse.kept[0]["environment"]


@pytest.mark.parametrize("missing", ["LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"])
def test_a_missing_key_is_named(monkeypatch, missing):
    """The variables are in the message, and what is set in them is not."""
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "hunter2")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "hunter2")
    monkeypatch.delenv(missing)
    with pytest.raises(ConfigurationError, match="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY") as caught:
        LangfuseSink()
    assert "hunter2" not in str(caught.value)


def test_by_name(monkeypatch):
    """`sink_from` finds it, and the name holds no credentials."""
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk")
    assert "langfuse:host:443" == sink_from("langfuse:https://user:hunter2@host/path?key=hunter2").name
    with pytest.raises(ConfigurationError, match="langfuse:https://"):
        sink_from("langfuse:host:3000")
