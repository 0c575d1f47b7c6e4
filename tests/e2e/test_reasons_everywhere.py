"""A criterion of a user's and both kinds of reasons, through the live path, replay and the tools that receive scores."""

from __future__ import annotations

import json

import pytest

import ragstone
from command_line import run_command
from fake_servers import RecordingServer, Reply, Request
from ragstone.judges import ModelJudge
from ragstone.monitor import Monitor
from ragstone.replay import replay_traces
from ragstone.requests import TraceDraft
from ragstone.schema import outcome_adapter
from ragstone.sinks import JsonlSink, MlflowSink, PhoenixSink
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from scripted_model import ScriptedModel

pytestmark = pytest.mark.usefixtures("short_pauses")

WHY = "The version is missing."
VERSION = ragstone.Criterion(
    "Does the answer name its version?", needs=("query", "response"), scale=("no", "partly", "yes"), name="acme.version"
)
METRICS = ["ccrs.qr", VERSION]
KINDS = pytest.mark.parametrize("kind", ["afterwards", "before"])


def judging(kind):
    """The judge and the number of reasons: both rate the criterion 1 of 3 and the answer 50 of 100."""
    if kind == "afterwards":
        return FakeJudge({"criterion": 1, "question_relevance": 50}, text=WHY), 1

    def replies(messages):
        rating = 1 if "name its version" in messages[-1]["content"] else 50
        return {f"{WHY}\nScore: {rating}": 1.0}

    return ModelJudge(ScriptedModel(replies), score_mode="reasoned"), 0


def draft(i):
    return TraceDraft(
        trace_id=f"t{i}",
        otel_trace_id=f"{i + 1:032x}",
        otel_span_id=f"{i + 1:016x}",
        otel_sampled=True,
        query="How tall is it?",
        response="31 meters.",
    )


def take_annotations(rows):
    def answer(request: Request) -> Reply:
        rows.extend(json.loads(request.content)["data"])
        return Reply(200, {"data": []})

    return answer


def take_assessments(rows):
    def answer(request: Request) -> Reply:
        if request.method == "GET":
            return Reply(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Assessment not found"})
        rows.append(json.loads(request.content)["assessment"])
        return Reply(200, {"assessment": rows[-1]})

    return answer


@KINDS
def test_the_monitor_delivers_reasons(tmp_path, kind):
    """To the store, to JSONL, and with `include_text` to Phoenix and MLflow; `traces` prints them."""
    judge, n = judging(kind)
    store, phoenix, mlflow = tmp_path / "r.db", [], []
    with (
        RecordingServer(take_annotations(phoenix)) as first,
        RecordingServer(take_assessments(mlflow)) as second,
        Monitor(
            judge=judge,
            metrics=METRICS,
            store=store,
            reasons=n,
            sinks=[
                JsonlSink(tmp_path / "s.jsonl"),
                PhoenixSink(first.address, include_text=True),
                MlflowSink(second.address, include_text=True),
            ],
        ) as monitor,
    ):
        for i in range(3):
            monitor.record(draft(i))
        assert monitor.drain(60)
    with SqliteStore.open(store, mode="read") as opened:
        stored = [
            (o.metric, o.value, o.explanation, o.details.get("explanation_source")) for o in opened.outcomes.read()
        ]
    # Of three equal answers the first one is among the worst so far, and the criterion is its lowest score.
    expected = 1 if kind == "afterwards" else 3
    assert expected == stored.count(("acme.version", 0.0, WHY, kind))
    assert 3 == sum((name, value) == ("ccrs.qr", 0.5) for name, value, *_ in stored)
    lines = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    for texts in (
        [line["explanation"] for line in lines if line["metric"] == "acme.version"],
        [row["result"]["explanation"] for row in phoenix if row["name"] == "acme.version"],
        [row.get("rationale") for row in mlflow if row["assessment_name"] == "acme.version"],
    ):
        # In Phoenix and MLflow, the interval and the judge follow.
        assert (3, expected) == (len(texts), sum((text or "").startswith(WHY) for text in texts))
    explained = next(line["trace_id"] for line in lines if line["explanation"] and line["metric"] == "acme.version")
    assert WHY in run_command("traces", store, explained).stdout


@KINDS
def test_replay_explains(tmp_path, kind):
    """The same, for a file of rows, with the criterion from a file."""
    judge, n = judging(kind)
    rows, criteria, out = tmp_path / "rows.jsonl", tmp_path / "criteria.toml", tmp_path / "s.jsonl"
    rows.write_text("".join(json.dumps({"id": f"s{i}", "query": "q", "response": "r"}) + "\n" for i in range(3)))
    criteria.write_text(
        '[[criterion]]\ntext = "Does the answer name its version?"\nneeds = ["query", "response"]\n'
        'scale = ["no", "partly", "yes"]\nname = "acme.version"\n'
    )
    replay_traces(
        [str(rows)],
        ["ccrs.qr", f"criterion@{criteria}"],
        store=tmp_path / "r.db",
        judge=judge,
        reasons=n,
        sinks=[f"jsonl:{out}"],
    )
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    texts = [line["explanation"] for line in lines if line["metric"] == "acme.version"]
    assert (3, 1 if kind == "afterwards" else 3) == (len(texts), texts.count(WHY))
    assert {VERSION.card.version} == {line["metric_version"] for line in lines if line["metric"] == "acme.version"}


@KINDS
def test_evaluate_explains(tmp_path, kind):
    """In the result, in its file, and in the sinks."""
    judge, n = judging(kind)
    data = [{"id": "a", "query": "q", "response": "r"}]
    result = ragstone.evaluate(data, METRICS, judge=judge, reasons=n, sinks=[JsonlSink(tmp_path / "s.jsonl")])
    result.to_jsonl(tmp_path / "outcomes.jsonl")
    stored = map(outcome_adapter.validate_json, (tmp_path / "outcomes.jsonl").read_text().splitlines())
    delivered = map(json.loads, (tmp_path / "s.jsonl").read_text().splitlines())
    assert (
        [o.explanation for o in result.outcomes]
        == [o.explanation for o in stored]
        == [line["explanation"] for line in delivered]
        == [None if kind == "afterwards" else WHY, WHY]
    )
