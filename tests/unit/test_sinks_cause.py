"""The cause of a wrong answer in sinks: one annotation after the last outcome of a request, keyed, and without captured text."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import prometheus_client
import pytest

from fake_servers import RecordingServer, Reply, Request
from ragstone.errors import SinkError, SinkTargetMissingError
from ragstone.schema import AnswerCause, NotApplicable, Score
from ragstone.sinks import (
    Delivery,
    JsonlSink,
    LangfuseSink,
    LangsmithSink,
    MlflowSink,
    OtlpSink,
    PhoenixSink,
    PrometheusSink,
    Sink,
)
from ragstone.sinks._row import cause_note_of

_RUN = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
_TRACE, _SPAN = "0af7651916cd43dd8448eb211c80319c", "07ad6b7169203331"
_CAUSE = AnswerCause(
    name="missed_passage",
    title="The model missed a relevant passage",
    why="Passage 2 is relevant, and the model did not answer.",
    next="Work on the prompt.",
)
_SCORE = Score(sample_id="t1", metric="m", metric_version="1", value=0.5, method="x", created_at=5.0)
_ABSENT = NotApplicable(sample_id="t1", metric="n", metric_version="1", reason="secret")


def _delivery(outcome: Score | NotApplicable = _SCORE, cause: AnswerCause | None = _CAUSE) -> Delivery:
    return Delivery(
        outcome=outcome,
        trace_id="t1",
        run_id=_RUN,
        otel_trace_id=_TRACE,
        otel_span_id=_SPAN,
        app="shop",
        requested_at=4.0,
        inclusion_probability=0.5,
        cause=cause,
    )


def _write(sink: Sink, *deliveries: Delivery) -> dict[str, SinkError]:
    async def session() -> dict[str, SinkError]:
        try:
            return dict(await sink.write(deliveries) or {})
        finally:
            await sink.aclose()

    return asyncio.run(session())


def _answer(request: Request) -> Reply:
    """Accept everything, as the servers do."""
    if "/assessments" in request.path:
        return Reply(200, {"assessment": json.loads(request.content)["assessment"]})
    return Reply(200, {"data": []})


def _rows(request: Request) -> list[dict]:
    body = json.loads(request.content)
    if isinstance(body, list):
        return body
    return body["data"] if "data" in body else [body.get("assessment", body)]


def _sink(kind: str, address: str) -> Sink:
    match kind:
        case "phoenix":
            return PhoenixSink(address)
        case "langfuse":
            return LangfuseSink(address, public_key="pk", secret_key="sk")
        case "langsmith":
            return LangsmithSink(address, api_key="key")
        case _:
            return MlflowSink(address)


_TOOLS = {
    "phoenix": ("name", "identifier", lambda row: (row["result"]["label"], row["result"]["explanation"])),
    "langfuse": ("name", "id", lambda row: (row["value"], row["comment"])),
    "langsmith": ("key", "id", lambda row: (row["value"], row["comment"])),
    "mlflow": ("assessment_name", "assessment_id", lambda row: (row["feedback"]["value"], row["rationale"])),
}


@pytest.mark.parametrize("kind", _TOOLS)
def test_a_tool_shows_the_cause_after_the_last_outcome(kind: str) -> None:
    """The label is short, the text says the cause and its evidence. A repeat has the same ids, and other outcomes no cause."""
    name, key, shown = _TOOLS[kind]
    with RecordingServer(_answer) as server:
        assert not _write(_sink(kind, server.address), _delivery(_ABSENT, None), _delivery())
        first = [row for request in server.requests for row in _rows(request)]
        server.requests.clear()
        assert not _write(_sink(kind, server.address), _delivery(_ABSENT, None), _delivery())
        again = [row for request in server.requests for row in _rows(request)]
    # Phoenix sorts by name.
    cause_name = "_ragstone.cause" if kind == "phoenix" else "ragstone.cause"
    assert sorted(row[name] for row in first) == sorted(["m", "n", cause_name])
    (cause,) = [row for row in first if row[name] == cause_name]
    assert shown(cause) == ("missed passage", f"{_CAUSE.title}. {_CAUSE.why} {_CAUSE.next}")
    assert "secret" not in json.dumps(first)
    about = cause["extra"] if kind == "langsmith" else cause["metadata"]
    assert (about["cause"], about["trace_id"], about["app"]) == ("missed_passage", "t1", "shop")
    assert float(about["inclusion_probability"]) == 0.5
    assert len({row[key] for row in first}) == 3
    assert sorted(row[key] for row in again) == sorted(row[key] for row in first)


@pytest.mark.parametrize("kind", ["langsmith", "mlflow", "langfuse"])
def test_a_cause_that_does_not_arrive_is_retried_with_its_outcome(kind: str) -> None:
    """The outcome counts as delivered only together with its cause."""

    def answer(request: Request) -> Reply:
        rows = _rows(request)
        return Reply(503, "busy") if any("ragstone.cause" in row.values() for row in rows) else _answer(request)

    with RecordingServer(answer) as server:
        errors = _write(_sink(kind, server.address), _delivery())
    assert set(errors) == {_SCORE.id}


def test_phoenix_without_the_span_keeps_both_for_later() -> None:
    """An annotation of a missing span is reported by the id of the outcome, not by that of the cause."""
    with RecordingServer(lambda _: Reply(404, f"Spans with IDs {_SPAN} do not exist.")) as server:
        errors = _write(PhoenixSink(server.address), _delivery())
    assert set(errors) == {_SCORE.id}
    assert isinstance(errors[_SCORE.id], SinkTargetMissingError)


def test_langfuse_servers_without_arrays_get_each_row() -> None:
    """An older server accepts one row in a request: the score and the cause arrive one after the other."""

    def answer(request: Request) -> Reply:
        return Reply(400, {"message": "no"}) if isinstance(json.loads(request.content), list) else Reply(200, {})

    with RecordingServer(answer) as server:
        assert not _write(LangfuseSink(server.address, public_key="pk", secret_key="sk"), _delivery())
        sent = [json.loads(request.content) for request in server.requests]
    assert [row["name"] for row in sent if isinstance(row, dict)] == ["m", "ragstone.cause"]


def test_files_name_the_cause_on_the_last_outcome(tmp_path: Path) -> None:
    """Counting the lines with a cause counts requests."""
    path = tmp_path / "out.jsonl"
    _write(JsonlSink(path, include_text=False), _delivery(_ABSENT, None), _delivery())
    assert [json.loads(line)["cause"] for line in path.read_text().splitlines()] == [None, "missed_passage"]


def test_an_event_names_the_cause_even_if_the_last_metric_does_not_apply() -> None:
    """OTLP has no event for a metric that does not apply, and still one for the cause."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    with RecordingServer(lambda _: Reply(200, "")) as server:
        skipped = _write(OtlpSink(server.address), _delivery(_ABSENT))
        (request,) = server.requests
    assert set(skipped) == {_ABSENT.id}
    import gzip

    content = gzip.decompress(request.content) if request.content[:2] == b"\x1f\x8b" else request.content
    received = ExportLogsServiceRequest.FromString(content)
    (record,) = [r for logs in received.resource_logs for scope in logs.scope_logs for r in scope.log_records]
    attributes = {each.key: each.value.string_value or each.value.double_value for each in record.attributes}
    assert attributes["gen_ai.evaluation.name"] == "ragstone.cause"
    assert attributes["gen_ai.evaluation.score.label"] == "missed passage"
    assert attributes["ragstone.cause"] == "missed_passage"
    assert attributes["ragstone.trace_id"] == "t1"
    assert record.trace_id.hex() == _TRACE


def test_prometheus_counts_causes_once_and_with_few_labels() -> None:
    """A repeat is not counted, and names beyond the limit share one label."""
    registry = prometheus_client.CollectorRegistry()
    sink = PrometheusSink(registry)
    many = [
        _delivery(
            Score(sample_id=f"t{n}", metric="m", metric_version="1", value=0.5, method="x"),
            AnswerCause(name=f"c{n}", title="", why="", next=""),
        )
        for n in range(2, 42)
    ]
    asyncio.run(sink.write([_delivery(), _delivery(), *many]))
    value = registry.get_sample_value
    assert value("ragstone_causes_total", {"app": "shop", "cause": "missed_passage"}) == 1
    assert value("ragstone_causes_total", {"app": "shop", "cause": "other"}) == 21
    asyncio.run(sink.aclose())


@pytest.mark.parametrize(
    ("title", "why", "comment"),
    [
        (
            "The model did not answer",
            "The model did not answer. No more is known.",
            "The model did not answer. No more is known. Do it.",
        ),
        ("Not scored", "No metric has a score.", "Not scored. No metric has a score. Do it."),
        ("Not scored", "", "Not scored. Do it."),
    ],
)
def test_a_comment_has_each_sentence_once(title: str, why: str, comment: str) -> None:
    """The comment is the title, the evidence and the next step. Evidence that begins with the title does not repeat it."""
    note = cause_note_of(_delivery(cause=AnswerCause(name="x", title=title, why=why, next="Do it.")))
    assert note is not None
    assert note.comment == comment
