"""`LangsmithSink`: what is sent of an outcome, the project it belongs to, and what an answer means."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from fake_servers import RecordingServer, Reply, Request
from ragstone.errors import (
    ConfigurationError,
    SinkDeniedError,
    SinkNoTargetError,
    SinkRejectedError,
    SinkTargetMissingError,
    SinkUnavailableError,
)
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.sinks import Delivery, LangsmithSink, sink_from

_RUN = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
_PROJECT = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"


def _score(sample_id: str = "t1", **fields) -> Score:
    known = {"sample_id": sample_id, "metric": "m", "metric_version": "1", "value": 0.5, "method": "x"}
    return Score(**(known | fields))


def _delivery(outcome, **fields) -> Delivery:
    return Delivery(**({"outcome": outcome, "trace_id": outcome.sample_id, "run_id": _RUN} | fields))


class Langsmith:
    """Answers as a server does."""

    def __init__(self, *, projects: object = ({"id": _PROJECT},), statuses: dict[str, int] | None = None) -> None:
        self.projects, self.statuses = projects, statuses or {}
        self.kept: list[dict] = []
        self.server = RecordingServer(self._answer)

    def _answer(self, request: Request) -> Reply:
        if request.path == "/sessions":
            return (
                Reply(200, json.dumps(self.projects))
                if not isinstance(self.projects, int)
                else Reply(self.projects, "")
            )
        body = json.loads(request.content)
        status = self.statuses.get(body["extra"]["trace_id"], 200)
        if status == 200:
            self.kept.append(body)
        return Reply(status, {"detail": f"status {status}"})

    @property
    def paths(self) -> Counter[str]:
        """How often what was asked for."""
        return Counter(request.path for request in self.server.requests)


def _send(langsmith: Langsmith, *batches: list[Delivery], **options) -> list[dict]:
    """Write batches to a server; what the sink returned for each."""

    async def session() -> list[dict]:
        sink = LangsmithSink(langsmith.server.address, api_key="key", **options)
        try:
            return [dict(await sink.write(batch)) for batch in batches]
        finally:
            await sink.aclose()

    with langsmith.server:
        return asyncio.run(session())


def test_a_score_as_langsmith_takes_it():
    """The run, a score of four decimals, the exact value beside it, who judged; no longer retention, and no text."""
    langsmith = Langsmith()
    score = _score(
        value=0.123456,
        judge="j",
        judge_hash="h",
        prompt_hash="p",
        created_at=1_700_000_001.5,
        explanation="secret",
        details={"q": "secret"},
        raw="secret",
    )
    assert [{}] == _send(langsmith, [_delivery(score, requested_at=1_700_000_000.25, inclusion_probability=0.1)])
    assert langsmith.kept == [
        {
            "id": score.id,
            "run_id": _RUN,
            "start_time": "2023-11-14T22:13:20.250000+00:00",
            "key": "m",
            "score": 0.1235,
            "comment": "0.123. judge j. x",
            "feedback_source": {"type": "model", "metadata": {"judge": "j", "judge_hash": "h", "prompt_hash": "p"}},
            "extra": {
                "schema_version": 1,
                "trace_id": "t1",
                "run_id": _RUN,
                "metric": "m",
                "metric_version": "1",
                "outcome": "score",
                "value": 0.123456,
                "method": "x",
                "n": 1,
                "judge": "j",
                "judge_hash": "h",
                "prompt_hash": "p",
                "inclusion_probability": 0.1,
                "requested_at": 1_700_000_000.25,
                "scored_at": 1_700_000_001.5,
            },
            "created_at": "2023-11-14T22:13:21.500000+00:00",
            "modified_at": "2023-11-14T22:13:21.500000+00:00",
            "extend_trace_retention": False,
        }
    ]
    (request,) = langsmith.server.requests
    assert ("/feedback", "key") == (request.path, request.headers["x-api-key"])
    assert "x-tenant-id" not in request.headers


def test_a_failure_is_feedback_without_a_score():
    """It says that there was an error, and of what kind; its reason may quote text and stays here."""
    langsmith = Langsmith()
    failure = Failure(sample_id="t1", metric="m", metric_version="1", kind="timeout", reason="secret", raw="secret")
    _send(langsmith, [_delivery(failure)])
    (body,) = langsmith.kept
    assert body["error"] is True
    assert "score" not in body
    assert ("timeout", "failed") == (body["extra"]["kind"], body["value"])
    assert "secret" not in json.dumps(body)


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (_score(explanation="because"), "because\n\n0.5. x"),
        (
            Failure(sample_id="t1", metric="m", metric_version="1", kind="timeout", reason="60 s"),
            "60 s\n\nfailed (timeout)",
        ),
        (_score(), "0.5. x"),
        (
            NotApplicable(sample_id="t1", metric="m", metric_version="1", reason="no labels", missing=("qrels",)),
            "no labels\n\nnot applicable, missing: qrels",
        ),
    ],
)
def test_text_when_it_is_wanted(outcome, text):
    """The explanation or the reason is the comment."""
    langsmith = Langsmith()
    _send(langsmith, [_delivery(outcome)], include_text=True)
    assert text == langsmith.kept[0].get("comment")


def test_a_plain_metric_is_no_model():
    """Where no judge was asked, the source is the API."""
    langsmith = Langsmith()
    _send(langsmith, [_delivery(_score())])
    assert {"type": "api", "metadata": {}} == langsmith.kept[0]["feedback_source"]


@pytest.mark.parametrize("run_id", [None, "", "run-1"])
def test_a_request_that_langsmith_does_not_know(run_id):
    """A request without a run id that is a UUID has no place there."""
    langsmith = Langsmith()
    batch = [_delivery(_score(), run_id=run_id)]
    (errors,) = _send(langsmith, batch, project="p")
    assert [d.outcome.id for d in batch] == list(errors)
    assert {SinkNoTargetError} == {type(error) for error in errors.values()}
    assert not langsmith.server.requests


def test_the_project_is_asked_for_once():
    """Its id goes with each feedback."""
    langsmith = Langsmith()
    _send(langsmith, [_delivery(_score("t1"))], [_delivery(_score("t2"))], project="my app & more")
    assert {"/sessions": 1, "/feedback": 2} == langsmith.paths
    assert "name=my+app+%26+more&limit=1&include_stats=false" == langsmith.server.requests[0].query.replace("%20", "+")
    assert [_PROJECT, _PROJECT] == [body["session_id"] for body in langsmith.kept]


@pytest.mark.parametrize(
    ("projects", "error"),
    [
        ([], SinkTargetMissingError),
        ({"detail": "x"}, SinkUnavailableError),
        ([{"name": "p"}], SinkUnavailableError),
        ([{"id": "p"}], SinkUnavailableError),
        ([{"id": None}], SinkUnavailableError),
        ([None], SinkUnavailableError),
        (404, SinkUnavailableError),
        (500, SinkUnavailableError),
        (401, SinkDeniedError),
    ],
)
def test_a_project_that_cannot_be_found(projects, error):
    """A project comes with its first run, so it is waited for; feedback without it is not sent."""
    langsmith = Langsmith(projects=projects)
    with pytest.raises(error) as caught:
        _send(langsmith, [_delivery(_score())], project="p")
    assert error is type(caught.value)
    assert not langsmith.kept


def test_what_becomes_of_each_row():
    """Each row has the answer that it got; what LangSmith has already has arrived."""
    langsmith = Langsmith(statuses={"late": 404, "twice": 409, "bad": 422})
    (errors,) = _send(langsmith, [_delivery(_score(name)) for name in ("good", "late", "twice", "bad", "fine")])
    assert {_score("late").id: SinkTargetMissingError, _score("bad").id: SinkRejectedError} == {
        id_: type(error) for id_, error in errors.items()
    }
    assert {"good", "fine"} == {body["extra"]["trace_id"] for body in langsmith.kept}


def test_an_outage_is_not_tried_row_by_row():
    """Once the server is found to be down, what has not been sent yet is not tried."""
    langsmith = Langsmith()
    langsmith.server.down = True
    batch = [_delivery(_score(f"t{i}")) for i in range(50)]
    (errors,) = _send(langsmith, batch)
    assert {d.outcome.id for d in batch} == set(errors)
    assert {SinkUnavailableError} == {type(error) for error in errors.values()}
    assert langsmith.paths["/feedback"] <= 8


def test_a_missing_run_is_no_outage():
    """The rows behind one whose run is not there yet are sent."""
    langsmith = Langsmith(statuses={f"t{i}": 404 for i in range(20)})
    (errors,) = _send(langsmith, [_delivery(_score(f"t{i}")) for i in range(40)])
    assert 20 == len(errors)
    assert {f"t{i}" for i in range(20, 40)} == {body["extra"]["trace_id"] for body in langsmith.kept}


def test_a_key_that_is_refused():
    """It stops the sink."""
    langsmith = Langsmith(statuses={"t1": 403})
    with pytest.raises(SinkDeniedError, match="403"):
        _send(langsmith, [_delivery(_score())])


@pytest.mark.parametrize("prefix", ["LANGSMITH", "LANGCHAIN"])
def test_the_environment(monkeypatch, prefix):
    """Address, key, project and workspace come from the variables of LangSmith's client, of either name."""
    langsmith = Langsmith()
    monkeypatch.setenv(f"{prefix}_API_KEY", "from the environment")
    assert "langsmith:api.smith.langchain.com:443" == LangsmithSink.from_spec("").name
    monkeypatch.setenv(f"{prefix}_PROJECT", "p")
    monkeypatch.setenv(f"{prefix}_WORKSPACE_ID", "w")

    async def session() -> None:
        monkeypatch.setenv(f"{prefix}_ENDPOINT", f"{langsmith.server.address}/api/v1/")
        sink = LangsmithSink.from_spec("")
        with pytest.raises(SinkUnavailableError):
            await sink.write([_delivery(_score())])  # this server has nothing below /api/v1
        await sink.aclose()
        with pytest.raises(SinkUnavailableError, match="closed"):
            await sink.write([_delivery(_score())])

    langsmith.server._reply = lambda _: Reply(404, "")
    with langsmith.server:
        asyncio.run(session())
    (request,) = langsmith.server.requests
    assert ("/api/v1/sessions", "from the environment", "w") == (
        request.path,
        request.headers["x-api-key"],
        request.headers["x-tenant-id"],
    )


def test_a_missing_key_is_named():
    """The variable is in the message."""
    with pytest.raises(ConfigurationError, match="LANGSMITH_API_KEY"):
        LangsmithSink()


def test_by_name(monkeypatch):
    """`sink_from` finds it, and the name holds no credentials."""
    monkeypatch.setenv("LANGSMITH_API_KEY", "hunter2")
    assert "langsmith:host:443" == sink_from("langsmith:https://user:hunter2@host/api/v1").name
    with pytest.raises(ConfigurationError, match="langsmith:https://"):
        sink_from("langsmith:host")
