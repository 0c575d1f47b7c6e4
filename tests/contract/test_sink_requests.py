"""Contract tests of the sinks whose servers cannot run here: what we send against what their own clients send.

No server of Langfuse or LangSmith has seen these requests. Their clients, and the models those are made of, stand for them.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from datetime import datetime
from urllib.parse import parse_qs

import pytest

from fake_servers import RecordingServer, Reply, Request
from ragstone.schema import Failure, Interval, Score
from ragstone.sinks import Delivery, LangfuseSink, LangsmithSink

_RUN = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
_PROJECT = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
_TRACE, _SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
_SCORE = Score(
    sample_id="t1",
    metric="ccrs.qr",
    metric_version="1",
    value=0.123456,
    method="single_reply",
    judge="a judge",
    judge_hash="7d",
    prompt_hash="p",
    interval=Interval(low=0.1, high=0.2, method="bootstrap"),
    explanation="because",
    created_at=1_700_000_001.5,
)
_COMMENT = "because\n\n0.123 [0.1, 0.2] (95% bootstrap). judge a judge. single reply"
_FAILURE = Failure(sample_id="t1", metric="ccrs.qr", metric_version="1", kind="timeout", reason="60 s", judge="a judge")


def _delivery(outcome: Score | Failure) -> Delivery:
    return Delivery(
        outcome=outcome,
        trace_id="t1",
        run_id=_RUN,
        otel_trace_id=_TRACE,
        otel_span_id=_SPAN,
        otel_sampled=True,
        session_id="s",
        requested_at=1_700_000_000.25,
        inclusion_probability=0.5,
    )


def _answer(request: Request) -> Reply:
    """Answer as the servers do, as far as their clients look at it."""
    match request.path:
        case "/sessions":
            return Reply(200, json.dumps([{"id": _PROJECT}]))
        case "/info":
            return Reply(200, {"version": "0.15.0"})
        case "/api/public/scores":
            return Reply(202, {"message": "Accepted"})
        case _:
            return Reply(200, {})


@pytest.fixture
def server():
    with RecordingServer(_answer) as server:
        yield server


def _posted(server: RecordingServer, path: str) -> tuple[Request, object]:
    """The only request to `path`, and its body."""
    (request,) = [r for r in server.requests if r.method == "POST" and r.path == path]
    return request, json.loads(request.content)


def _send(sink: LangfuseSink | LangsmithSink, *outcomes: Score | Failure) -> dict:
    """Write to a sink that is closed afterwards; what it returned."""

    async def session() -> dict:
        try:
            return dict(await sink.write([_delivery(outcome) for outcome in outcomes]))
        finally:
            await sink.aclose()

    return asyncio.run(session())


def _client(script: str) -> None:
    """Run a client in a process of its own: it starts threads, and sets what is global to a process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LANG", "OTEL_"))}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=kept, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _without(body: dict, *names: str) -> dict:
    return {name: value for name, value in body.items() if name not in names}


def test_langfuse_is_sent_what_its_client_sends(server):
    """The same score has the same body and credentials, but for the metadata, which its user chooses there too."""
    pytest.importorskip("langfuse")
    sink = LangfuseSink(server.address, public_key="pk", secret_key="sk", environment="prod", include_text=True)
    assert {} == _send(sink, _SCORE)
    ours, (body,) = _posted(server, "/api/public/scores")
    server.requests.clear()
    _client(
        f"""
        from datetime import datetime, timezone
        from langfuse import Langfuse

        client = Langfuse(public_key="pk", secret_key="sk", base_url={server.address!r}, environment="prod")
        client.create_score(
            name="ccrs.qr", value=0.123456, trace_id={_TRACE!r}, observation_id={_SPAN!r}, score_id={_SCORE.id!r},
            data_type="NUMERIC", comment={_COMMENT!r}, timestamp=datetime.fromtimestamp(1_700_000_001.5, timezone.utc),
        )
        client.shutdown()
        """
    )
    theirs, (expected,) = _posted(server, "/api/public/scores")
    assert theirs.headers["authorization"] == ours.headers["authorization"]
    assert theirs.headers["content-type"] == ours.headers["content-type"]
    assert _without(expected, "timestamp") == _without(body, "timestamp", "metadata")
    assert datetime.fromisoformat(expected["timestamp"]) == datetime.fromisoformat(body["timestamp"])


def test_langfuse_knows_every_field(server):
    """The model its client is made of takes what we send, and has a field for each name in it."""
    pytest.importorskip("langfuse")
    from langfuse.api.core.pydantic_utilities import parse_obj_as
    from langfuse.api.scores.types.create_score_request import CreateScoreRequest

    _send(LangfuseSink(server.address, public_key="pk", secret_key="sk", include_text=True), _SCORE)
    _, (body,) = _posted(server, "/api/public/scores")
    score = parse_obj_as(CreateScoreRequest, body)
    assert not score.model_extra
    assert (_SCORE.id, _TRACE, _SPAN, 0.123456) == (score.id, score.trace_id, score.observation_id, score.value)
    assert "single_reply" == score.metadata["method"]


def test_langsmith_is_sent_what_its_client_sends(server):
    """The same feedback has the same body and credentials, but for the metadata, and for times that are when it was sent."""
    pytest.importorskip("langsmith")
    sink = LangsmithSink(server.address, api_key="key", project="p", workspace_id=_PROJECT, include_text=True)
    assert {} == _send(sink, _SCORE)
    ours, body = _posted(server, "/feedback")
    (question,) = [r for r in server.requests if r.path == "/sessions"]
    server.requests.clear()
    _client(
        f"""
        from datetime import datetime, timezone
        from langsmith import Client

        client = Client(api_url={server.address!r}, api_key="key", workspace_id={_PROJECT!r}, auto_batch_tracing=False)
        try:
            client.read_project(project_name="p")
        except Exception:
            pass  # Only the question matters.
        client.create_feedback(
            run_id={_RUN!r}, key="ccrs.qr", score=0.123456, comment={_COMMENT!r}, feedback_id={_SCORE.id!r},
            session_id={_PROJECT!r}, feedback_source_type="model", extend_trace_retention=False,
            start_time=datetime.fromtimestamp(1_700_000_000.25, timezone.utc),
        )
        """
    )
    theirs, expected = _posted(server, "/feedback")
    for name in ("x-api-key", "x-tenant-id", "content-type"):
        assert theirs.headers[name] == ours.headers[name]
    times = ("created_at", "modified_at")
    assert "model" == expected["feedback_source"]["type"] == body["feedback_source"]["type"]
    assert _without(expected, *times, "feedback_source") == _without(body, *times, "feedback_source", "extra")
    (asked,) = [r for r in server.requests if r.path == "/sessions"]
    assert parse_qs(asked.query.lower()) == parse_qs(question.query)


@pytest.mark.parametrize("outcome", [_SCORE, _FAILURE], ids=["score", "failure"])
def test_langsmith_knows_every_field(server, outcome):
    """The model its client is made of takes what we send, and has a field for each name in it."""
    pytest.importorskip("langsmith")
    from langsmith.schemas import FeedbackCreate

    _send(LangsmithSink(server.address, api_key="key", project="p", include_text=True), outcome)
    _, body = _posted(server, "/feedback")
    assert set(body) <= set(FeedbackCreate.model_fields)
    # Required by the model, and left out by its client where there is none.
    feedback = FeedbackCreate.model_validate({"trace_id": None} | body)
    assert (outcome.id, _RUN, _PROJECT) == (str(feedback.id), str(feedback.run_id), str(feedback.session_id))
    assert (None, True) == (feedback.score, feedback.error) or (0.1235, None) == (feedback.score, feedback.error)
    assert feedback.extend_trace_retention is False
