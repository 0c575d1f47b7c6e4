"""`MlflowSink`: what is sent of an outcome, and what MLflow's answers mean for it (as a real server gave them)."""

from __future__ import annotations

import asyncio
import base64
import json
import re

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
from ragstone.sinks import Delivery, MlflowSink, sink_from

_TRACES = [f"0af7651916cd43dd8448eb211c80319{i}" for i in range(4)]
_SPAN = "07ad6b7169203331"


def _score(**fields) -> Score:
    known = {"sample_id": "t1", "metric": "m", "metric_version": "1", "value": 0.5, "method": "x"}
    return Score(**(known | fields))


def _failure(**fields) -> Failure:
    known = {"sample_id": "t1", "metric": "m", "metric_version": "1", "kind": "timeout", "reason": "60 s"}
    return Failure(**(known | fields))


def _delivery(outcome=None, trace: str | None = _TRACES[0], **fields) -> Delivery:
    known = {"outcome": outcome or _score(sample_id=f"t-{trace}"), "trace_id": "t1", "otel_trace_id": trace}
    return Delivery(**(known | {"otel_span_id": _SPAN} | fields))


class Mlflow:
    """Takes an assessment with the same id once, as MLflow does, and answers 500 to the second."""

    def __init__(self, *traces: str, replies: dict[str, Reply] | None = None, own_ids: bool = False) -> None:
        self.traces, self.replies, self.own_ids = set(traces), replies or {}, own_ids
        self.kept: dict[str, dict] = {}
        self.server = RecordingServer(self._answer)

    def _answer(self, request) -> Reply:
        trace, assessment_id = re.fullmatch(
            r"/api/3\.0/mlflow/traces/tr-([0-9a-f]{32})/assessments(?:/(.+))?", request.path
        ).groups()
        if trace in self.replies:
            return self.replies[trace]
        if trace not in self.traces:
            return Reply(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Trace with ID not found."})
        if request.method == "GET":
            if assessment_id not in self.kept:
                return Reply(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Assessment not found"})
            return Reply(200, {"assessment": self.kept[assessment_id]})
        assessment = json.loads(request.content)["assessment"]
        if self.own_ids:
            assessment["assessment_id"] = f"a-{len(self.kept)}"
        if assessment["assessment_id"] in self.kept:
            return Reply(500, {"error_code": "INTERNAL_ERROR", "message": "due to a constraint violation."})
        self.kept[assessment["assessment_id"]] = assessment
        return Reply(200, {"assessment": assessment})


def _send(mlflow: Mlflow, *deliveries: Delivery, **options) -> dict:
    """What the sink says of a batch, by the class of the error."""

    async def session() -> dict:
        sink = MlflowSink(mlflow.server.address, **options)
        try:
            return {i: type(e) for i, e in (await sink.write(deliveries)).items()}
        finally:
            await sink.aclose()

    with mlflow.server:
        return asyncio.run(session())


def test_a_score_becomes_a_feedback():
    """It is on the trace and span of its request; what stands behind it is text in the metadata."""
    interval = Interval(low=0.25, high=0.75, confidence_level=0.9, method="wilson")
    outcome = _score(judge="tiny", judge_hash="j", prompt_hash="p", n=3, interval=interval, explanation="It says so.")
    mlflow = Mlflow(*_TRACES)
    assert {} == _send(mlflow, _delivery(outcome, trace=_TRACES[0].upper(), inclusion_probability=0.1))
    (got,) = mlflow.kept.values()
    metadata = got.pop("metadata")
    assert {
        "assessment_id": got["assessment_id"], "trace_id": f"tr-{_TRACES[0]}", "span_id": _SPAN, "assessment_name": "m",
        "source": {"source_type": "LLM_JUDGE", "source_id": "tiny"}, "feedback": {"value": 0.5},
        "rationale": "0.5 [0.25, 0.75] (90% wilson). judge tiny. x, n = 3",
    } == got  # fmt: skip
    assert {
        "id": outcome.id, "judge_hash": "j", "prompt_hash": "p", "metric_version": "1", "method": "x", "n": "3",
        "interval": json.dumps(interval.model_dump()), "inclusion_probability": "0.1", "trace_id": "t1",
    }.items() <= metadata.items()  # fmt: skip
    assert all(isinstance(value, str) for value in metadata.values())


def test_a_plain_metric_is_code():
    """No one judged."""
    mlflow = Mlflow(*_TRACES)
    _send(mlflow, _delivery())
    assert [{"source_type": "CODE", "source_id": "ragstone"}] == [got["source"] for got in mlflow.kept.values()]


def test_a_failure_is_an_error_without_a_value():
    """Its kind is MLflow's error code; its reason, which may quote captured text, stays at home."""
    mlflow = Mlflow(*_TRACES)
    _send(mlflow, _delivery(_failure()))
    error = {"error_code": "timeout", "error_message": "failed (timeout)"}
    assert [{"error": error}] == [got["feedback"] for got in mlflow.kept.values()]


def test_text_is_sent_when_asked_for():
    """`+text` adds explanations as rationale, and reasons as messages of errors."""
    mlflow = Mlflow(*_TRACES)
    score = _score(explanation="e" * 16_001)
    _send(mlflow, _delivery(score), _delivery(_failure(metric="f")), include_text=True)
    got = {row["assessment_name"]: row for row in mlflow.kept.values()}
    assert 16_000 == len(got["m"]["rationale"])
    assert got["m"]["rationale"].endswith("e…\n\n0.5. x")
    text = "60 s\n\nfailed (timeout)"
    assert {"error_code": "timeout", "error_message": text} == got["f"]["feedback"]["error"]
    assert text == got["f"]["rationale"]


def test_a_metric_that_does_not_apply_is_not_an_error():
    """Its value is text, which MLflow does not average."""
    mlflow = Mlflow(*_TRACES)
    _send(
        mlflow,
        _delivery(NotApplicable(sample_id="t", metric="m", metric_version="1", reason="secret", missing=("qrels",))),
    )
    (got,) = mlflow.kept.values()
    assert ({"value": "not applicable"}, "not applicable, missing: qrels") == (got["feedback"], got["rationale"])


def test_names_fit_into_the_tables():
    """MLflow keeps 250 characters of the names of metrics and judges. Names that are cut stay different."""
    mlflow = Mlflow(*_TRACES)
    assert {} == _send(mlflow, _delivery(_score(metric="m" * 251, judge="j" * 251)))
    (got,) = mlflow.kept.values()
    names = got["assessment_name"], got["source"]["source_id"]
    assert [250, 250] == [len(name) for name in names]
    assert [True, True] == [name.startswith(letter * 241) for name, letter in zip(names, "mj", strict=True)]
    _send(mlflow, _delivery(_score(metric="m" * 252, judge="j" * 251)))
    assert 2 == len({row["assessment_name"] for row in mlflow.kept.values()})


@pytest.mark.parametrize(
    "delivery",
    [
        _delivery(trace=None),
        _delivery(trace="../../../api/2.0/mlflow/runs/del"),
        _delivery(otel_sampled=False),
    ],
    ids=["no trace", "broken trace", "not sampled"],
)
def test_what_has_no_place_is_left_out(delivery):
    """It is not sent, and the rest of its batch arrives, without a span too."""
    mlflow = Mlflow(*_TRACES)
    other = _delivery(trace=_TRACES[1], otel_span_id=None)
    assert {delivery.outcome.id: SinkNoTargetError} == _send(mlflow, delivery, other)
    assert [(f"tr-{_TRACES[1]}", None)] == [(row["trace_id"], row.get("span_id")) for row in mlflow.kept.values()]


def test_a_repeat_is_recognised():
    """MLflow answers 500 to an id that it has; that it has it shows, and nothing is sent again."""
    mlflow = Mlflow(*_TRACES)
    assert {} == _send(mlflow, _delivery())
    assert {} == _send(mlflow, _delivery())
    assert 1 == len(mlflow.kept)
    assert ["POST", "POST", "GET"] == [request.method for request in mlflow.server.requests]


def test_an_outcome_of_two_traces_is_two_assessments():
    """Ids are unique in a whole server, and two applications may name their requests alike."""
    mlflow = Mlflow(*_TRACES)
    outcome = _score()
    assert {} == _send(mlflow, _delivery(outcome), _delivery(outcome, trace=_TRACES[1]))
    assert sorted(f"tr-{trace}" for trace in _TRACES[:2]) == sorted(row["trace_id"] for row in mlflow.kept.values())


def test_a_missing_trace_holds_back_nothing_else():
    """Each row has an answer of its own: one waits, one is refused for good, one arrives."""
    mlflow = Mlflow(_TRACES[0], replies={_TRACES[2]: Reply(400, {"error_code": "INVALID_PARAMETER_VALUE"})})
    deliveries = [_delivery(trace=trace) for trace in _TRACES]
    assert {
        deliveries[1].outcome.id: SinkTargetMissingError,
        deliveries[2].outcome.id: SinkRejectedError,
        deliveries[3].outcome.id: SinkTargetMissingError,
    } == _send(mlflow, *deliveries)
    assert [f"tr-{_TRACES[0]}"] == [row["trace_id"] for row in mlflow.kept.values()]


@pytest.mark.parametrize(
    "reply",
    [
        Reply(404, "<h1>Not Found</h1>"),
        Reply(404, {"error_code": "ENDPOINT_NOT_FOUND"}),
        Reply(405, "Method Not Allowed"),
        Reply(302, "", headers={"Location": "https://login.test"}),
        Reply(200, "<h1>Welcome</h1>"),
        Reply(200, "[]"),
        Reply(429, "slow down"),
        Reply(500, {"error_code": "INTERNAL_ERROR", "message": "disk full"}),
        Reply(503, "starting"),
    ],
)
def test_what_may_come_again(reply):
    """A server in trouble, or something that is no MLflow, loses nothing."""
    delivery = _delivery()
    mlflow = Mlflow(replies={_TRACES[0]: reply})
    assert {delivery.outcome.id: SinkUnavailableError} == _send(mlflow, delivery)


def test_a_500_is_an_outage_unless_the_assessment_is_there():
    """That the trace is there is not enough."""
    mlflow = Mlflow(_TRACES[0])
    mlflow.kept = Refusing()
    delivery = _delivery()
    assert {delivery.outcome.id: SinkUnavailableError} == _send(mlflow, delivery)


def test_a_500_is_an_outage_whatever_else_is_found():
    """A page that greets everybody is not the assessment."""
    mlflow = Mlflow()
    mlflow.server = RecordingServer(
        lambda request: Reply(200, "<h1>Welcome</h1>") if request.method == "GET" else Reply(500, "")
    )
    delivery = _delivery()
    assert {delivery.outcome.id: SinkUnavailableError} == _send(mlflow, delivery)
    assert ["POST", "GET"] == [request.method for request in mlflow.server.requests]


class Refusing(dict):
    """Assessments of a server whose database takes none."""

    asked = 0

    def __contains__(self, key: object) -> bool:
        self.asked += 1
        return self.asked == 1


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_stop_the_sink(status, monkeypatch):
    """Nothing more is sent, and the message does not show them."""
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "hunter2")
    mlflow = Mlflow(replies={trace: Reply(status, "Permission denied") for trace in _TRACES})
    with pytest.raises(SinkDeniedError, match=f"{status}: Permission denied. Check the credentials") as caught:
        _send(mlflow, *(_delivery(trace=trace) for trace in _TRACES))
    assert "hunter2" not in str(caught.value)


def test_a_server_with_ids_of_its_own_is_refused():
    """It would store each repeat as a new assessment, so the first is the last."""
    with pytest.raises(SinkDeniedError, match="replaces assessment ids"):
        _send(Mlflow(*_TRACES, own_ids=True), _delivery())


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({}, None),
        ({"MLFLOW_TRACKING_TOKEN": "t"}, "Bearer t"),
        ({"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p"}, "Basic " + base64.b64encode(b"u:p").decode()),
        (
            {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p", "MLFLOW_TRACKING_TOKEN": "t"},
            "Basic " + base64.b64encode(b"u:p").decode(),
        ),
        ({"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_TOKEN": "t"}, "Bearer t"),
    ],
    ids=["none", "token", "user", "both", "half a user"],
)  # fmt: skip
def test_credentials_come_from_the_environment(monkeypatch, environment, sent):
    """As MLflow's own client sends them."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    mlflow = Mlflow(*_TRACES)
    _send(mlflow, _delivery())
    assert [sent] == [request.headers.get("authorization") for request in mlflow.server.requests]


def test_a_specification_names_a_server(monkeypatch):
    """`mlflow:URL`, or the environment's tracking server."""
    assert "mlflow:there:5000" == sink_from("mlflow:http://user:hunter2@there:5000/").name
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://mlflow.test/behind/")
    sink = sink_from("mlflow+text")
    assert ("mlflow:mlflow.test:443", "https://mlflow.test/behind", True) == (
        sink.name,
        sink._url.geturl(),
        sink._include_text,
    )
    assert not MlflowSink.from_spec("http://there:5000")._include_text


@pytest.mark.parametrize("specification", ["mlflow", "mlflow:sqlite:///hunter2.db", "mlflow:databricks"])
def test_an_address_that_cannot_work(specification):
    """It is refused at once, with one that would, without being shown."""
    with pytest.raises(ConfigurationError, match="mlflow:http://localhost:5000") as caught:
        sink_from(specification)
    assert "hunter2" not in str(caught.value)


def test_a_closed_sink_takes_nothing():
    """What comes after `aclose` comes again elsewhere."""

    async def session() -> None:
        sink = MlflowSink("http://127.0.0.1:1")
        await sink.aclose()
        await sink.aclose()
        await sink.write([_delivery()])

    with pytest.raises(SinkUnavailableError, match="closed"):
        asyncio.run(session())
