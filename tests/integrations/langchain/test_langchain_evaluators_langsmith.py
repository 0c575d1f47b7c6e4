"""The installed LangSmith runs our evaluators unchanged; whatever it sends goes to a server of this test."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import uuid
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langsmith import Client, aevaluate, evaluate
from langsmith.evaluation import run_evaluator
from langsmith.run_helpers import tracing_context
from langsmith.schemas import Example, Run

from langchain_ragstone import RagstoneEvaluator
from ragstone.errors import JudgeUnavailableError
from ragstone.testing import FakeJudge

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = {"How tall is the lighthouse?": "It is 31 metres tall.", "When does the ferry leave?": "It leaves at noon."}
SEVERAL = ["ccrs.qr", "exact_match", "ccrs.cc"]


class _Sink(BaseHTTPRequestHandler):
    """Takes everything, knows nothing, and notes where it was sent."""

    def _answer(self) -> None:
        self.server.sent.append(f"{self.command} {self.path}")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.dumps({}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_PUT = _answer  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def sent() -> list[str]:
    """Method and path of each request to LangSmith."""
    return []


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> Iterator[Client]:
    """LangSmith's client, whose world is one server on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Sink)
    server.sent = sent
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("LANGSMITH_ENDPOINT", url)
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    client = Client(api_url=url, api_key="none", auto_batch_tracing=False)
    yield client
    client.cleanup()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def beta() -> Iterator[None]:
    """LangSmith warns that evaluating without an upload is new; that is its business."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*beta.*")
        yield


EXAMPLES = [
    Example(
        id=uuid.uuid4(),
        dataset_id=uuid.uuid4(),
        inputs={"question": question},
        outputs={"answer": fact},
        created_at=NOW,
    )
    for question, fact in FACTS.items()
]


def target(inputs: dict[str, Any]) -> dict[str, Any]:
    """A RAG application: finds the fact and repeats it."""
    fact = FACTS[inputs["question"]]
    return {"answer": fact, "context": [Document(fact, id="a")]}


async def atarget(inputs: dict[str, Any]) -> dict[str, Any]:
    """The same, asynchronously."""
    return target(inputs)


def told(rows: Any) -> list[dict[str, Any]]:
    """What LangSmith keeps of each example: key to score."""
    return [{result.key: result.score for result in row["evaluation_results"]["results"]} for row in rows]


def test_evaluate_takes_evaluators_as_they_are(client):
    """`evaluate` runs one metric and several side by side, and keeps score, comment and metadata of each."""
    evaluators = [
        RagstoneEvaluator("ccrs.qr", judge=FakeJudge(80)),
        RagstoneEvaluator(["exact_match", "ccrs.cc"], judge=FakeJudge(60)),
        RagstoneEvaluator("recall@5"),
    ]
    rows = list(evaluate(target, data=EXAMPLES, evaluators=evaluators, client=client, upload_results=False))
    assert [{"ccrs.qr": 0.8, "exact_match": 1.0, "ccrs.cc": 0.6, "recall@5": None}] * 2 == told(rows)
    last = rows[0]["evaluation_results"]["results"][-1]
    assert "not applicable: the sample has no qrels" == last.comment
    assert "not_applicable" == last.metadata["outcome"]


@pytest.mark.parametrize("upload", [False, True])
def test_chat_model_that_judges_is_traced_where_tracing_is_wanted(client, sent, upload):
    """Inside LangSmith's tracing the judge's call is a run of its own; where nothing is to be uploaded, nothing is."""
    judge = FakeListChatModel(responses=["80"])
    adapted = RagstoneEvaluator("ccrs.qr", judge=judge)
    with tracing_context(enabled=True if upload else "local", client=client):
        found = adapted(inputs={"question": "?"}, outputs={"answer": "!"})
    assert 0.8 == found["score"]
    assert upload is any("/runs" in each for each in sent)


def test_evaluating_without_an_upload_sends_nothing(client, sent):
    """The whole of `evaluate(upload_results=False)` with a chat model as judge stays here."""
    evaluators = [RagstoneEvaluator("ccrs.qr", judge=FakeListChatModel(responses=["80"]))]
    rows = list(evaluate(target, data=EXAMPLES, evaluators=evaluators, client=client, upload_results=False))
    assert [{"ccrs.qr": 0.8}] * 2 == told(rows)
    assert [] == [each for each in sent if "/runs" in each]


def test_evaluate_goes_on_when_a_judge_fails(client, caplog):
    """A failing judge costs its own scores; nothing is logged as an error of the evaluator's, and the others score."""
    broken = FakeJudge(fail=lambda _: JudgeUnavailableError("the line is dead"))
    evaluators = [RagstoneEvaluator("ccrs.qr", judge=broken), RagstoneEvaluator("exact_match")]
    with caplog.at_level(logging.ERROR, logger="langsmith"):
        rows = list(evaluate(target, data=EXAMPLES, evaluators=evaluators, client=client, upload_results=False))
    assert [{"ccrs.qr": None, "exact_match": 1.0}] * 2 == told(rows)
    assert [] == caplog.records


def test_aevaluate_takes_the_asynchronous_twin(client):
    """`aevaluate` awaits `acall` on its own loop, and takes the evaluator itself as well."""
    asynchronous = RagstoneEvaluator(SEVERAL, judge=FakeJudge(80))
    plain = RagstoneEvaluator("reciprocal_rank")

    async def rows() -> list[Any]:
        found = await aevaluate(
            atarget, data=EXAMPLES, evaluators=[asynchronous.acall, plain], client=client, upload_results=False
        )
        return [row async for row in found]

    expected = {"ccrs.qr": 0.8, "exact_match": 1.0, "ccrs.cc": 0.8, "reciprocal_rank": None}
    assert [expected] * 2 == told(asyncio.run(rows()))


def run_of(question: str) -> Run:
    """A finished run of the application, as LangSmith keeps it."""
    return Run(
        id=uuid.uuid4(),
        name="app",
        start_time=NOW,
        run_type="chain",
        inputs={"question": question},
        outputs=target({"question": question}),
        trace_id=uuid.uuid4(),
    )


@pytest.mark.parametrize("asynchronous", [False, True])
def test_run_evaluator_takes_evaluators_unchanged(client, asynchronous):
    """`run_evaluator` adapts both forms to a run and its example, by nothing but their signature."""
    evaluator = RagstoneEvaluator("ccrs.qr", judge=FakeJudge(80))
    adapted = run_evaluator(evaluator.acall if asynchronous else evaluator)
    found = adapted.evaluate_run(run_of("How tall is the lighthouse?"), EXAMPLES[0])
    assert ("ccrs.qr", 0.8) == (found.key, found.score)
    assert "fake judge" == found.metadata["judge"]


def test_run_evaluator_takes_groups(client):
    """Several metrics become several results."""
    adapted = run_evaluator(RagstoneEvaluator(SEVERAL, judge=FakeJudge(80)))
    found = adapted.evaluate_run(run_of("How tall is the lighthouse?"), EXAMPLES[0])
    assert SEVERAL == [result.key for result in found["results"]]


def test_run_without_example_has_no_question(client):
    """LangSmith shows evaluators the inputs of the example, not of the run: without one, the score is missing with its reason."""
    adapted = run_evaluator(RagstoneEvaluator("ccrs.qr", judge=FakeJudge(80)))
    found = adapted.evaluate_run(run_of("How tall is the lighthouse?"), None)
    assert (None, "not applicable: the sample has no query") == (found.score, found.comment)


def test_an_evaluator_that_fails_says_so_under_the_names_of_its_metrics(client, monkeypatch):
    """LangSmith would name the feedback of a function that raises after the function."""
    evaluator = RagstoneEvaluator(["exact_match", "recall@5"])

    async def fail(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(evaluator._scorer, "score", fail)

    async def run() -> list[Any]:
        rows = await aevaluate(
            atarget, data=EXAMPLES, evaluators=[evaluator.acall], client=client, upload_results=False
        )
        return [row async for row in rows]

    rows = asyncio.run(run())
    assert [{"exact_match": None, "recall@5": None}] * 2 == told(rows)
    assert "failed (bug): RuntimeError: a bug" == rows[0]["evaluation_results"]["results"][0].comment
