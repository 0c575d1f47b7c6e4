"""What we give our users to test with: fakes that keep the promises, a server with the faults asked for, fixtures."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from builders import make_sample, make_trace
from fake_servers import FakeJudgeServer
from memory_sink import MemorySink
from ragstone.errors import JudgeReplyError
from ragstone.judges import Prompt
from ragstone.metrics.ccrs import CCRS
from ragstone.requests import TraceDraft
from ragstone.schema import Passage, sample_from_trace
from ragstone.sinks import Delivery, Sink
from ragstone.testing import FakeJudge, MemoryRecorder

PROMPT = Prompt(construct="relevance", task="t", fields={"query": "Why?"})


def number(judge, prompt=PROMPT):
    return asyncio.run(judge.ask_number(prompt)).value


def post(server, message="Why?", **fields):
    body = {"model": "m", "messages": [{"role": "user", "content": message}], **fields}
    request = urllib.request.Request(  # noqa: S310  loopback
        f"{server.url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=100) as response:  # noqa: S310
        return json.load(response)["choices"][0]


def test_fake_judge_answers_as_told():
    """A constant, by construct, by function, or by a hash that differs between prompts."""
    assert 7 == number(FakeJudge(7))
    assert 8 == number(FakeJudge({"relevance": 8}))
    assert 4 == number(FakeJudge(lambda prompt: len(prompt.fields["query"])))
    others = [Prompt(construct="relevance", task=f"t{n}", fields={}) for n in range(50)]
    assert len({number(FakeJudge(), other) for other in others}) > 20


def test_fake_judge_fails_as_told():
    """On demand, and when the scripted number is out of range."""
    judge = FakeJudge(fail=lambda prompt: JudgeReplyError("no"))
    with pytest.raises(JudgeReplyError, match="no"):
        number(judge)
    with pytest.raises(JudgeReplyError, match="from 0 to 100"):
        number(FakeJudge(101))
    assert [PROMPT] == judge.prompts


def test_fake_judge_writes_text():
    """Within the limit, else the reply is cut, as with a model."""
    assert "a fake answer" == asyncio.run(FakeJudge().ask_text(PROMPT)).text
    with pytest.raises(JudgeReplyError) as caught:
        asyncio.run(FakeJudge(text="one two three").ask_text(PROMPT, max_tokens=2))
    assert "truncated" == caught.value.kind


def test_memory_sink():
    """Keeps deliveries, and tells repetitions apart by the outcome's id."""
    sink = MemorySink()
    assert isinstance(sink, Sink)
    outcome = make_outcome()
    asyncio.run(sink.write([Delivery(outcome=outcome, trace_id="t")]))
    asyncio.run(sink.write([Delivery(outcome=outcome, trace_id="t")]))
    asyncio.run(sink.aclose())
    assert (2, 1, True) == (len(sink.deliveries), len(sink.by_id), sink.closed)


def make_outcome():
    return asyncio.run(CCRS[1].score(make_sample(), FakeJudge()))


@pytest.mark.parametrize("accept", [True, False])
def test_memory_recorder(accept):
    """Takes drafts, or refuses them like a full queue."""
    recorder = MemoryRecorder(accept=accept)
    assert accept is recorder.record(TraceDraft())
    assert int(accept) == len(recorder.drafts)


def test_builders():
    """Complete by default, and the trace projects to the sample."""
    assert make_sample("x", reference=()).contexts == sample_from_trace(make_trace("x")).contexts
    assert (Passage(text="p"),) == make_sample(contexts=[Passage(text="p")]).contexts
    bare = make_trace(contexts=None, response=None, status="error", error="boom", session_id="s")
    assert (None, "error", "boom", "s") == (bare.prompt_contexts, bare.status, bare.error, bare.session_id)


def test_server_is_deterministic():
    """The verdict is the question's, on every server and on every turn; questions differ."""
    verdicts = []
    for seed in (7, 7, 8):
        with FakeJudgeServer(seed=seed) as server:
            verdicts.append([post(server, f"Why {n}?")["message"]["content"] for n in range(20)])
    assert verdicts[0] == verdicts[1] != verdicts[2]
    assert len(set(verdicts[0])) > 10


@pytest.mark.parametrize("structured", ["obeyed", "ignored", "refused"])
def test_server_constraints(structured):
    """Obeyed, ignored with 200, or refused with 400 that names the field."""
    with FakeJudgeServer(structured=structured, reply=lambda body: "words") as server:
        constraint = {"structured_outputs": {"regex": "(2|1|0)"}}
        if structured == "refused":
            with pytest.raises(urllib.error.HTTPError) as caught:
                post(server, **constraint)
            with caught.value as refusal:
                assert "structured_outputs" == json.load(refusal)["error"]["param"]
            return
        assert ("words" == post(server, **constraint)["message"]["content"]) is (structured == "ignored")


def test_server_gives_a_second_try_the_value_of_the_first():
    """A reminder stands in the question's own message, after the shape; the value is drawn from what comes before it."""
    schema = {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "string"}}}}
    question = f"Why?\n\nIt must follow this JSON Schema:\n{json.dumps(schema)}"
    constrained = {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}}
    with FakeJudgeServer() as server:
        replies = [
            post(server, question, **constrained),
            post(server, question),
            post(server, f"{question}\n\nOnly JSON!"),
            post(server, f"Or {question}"),
        ]
    first, unconstrained, reminded, other = [reply["message"]["content"] for reply in replies]
    assert first == unconstrained == reminded != other


@pytest.mark.parametrize(("fault", "kind"), [("truncated_rate", "truncated"), ("malformed_rate", "malformed")])
def test_server_faults_come_at_their_rate(fault, kind):
    """Half of the questions, give or take, and the same ones each time."""
    counts = []
    for _ in range(2):
        with FakeJudgeServer(**{fault: 0.5}) as server:
            for n in range(40):
                post(server, f"Why {n}?")
            counts.append(server.stats.replies[kind])
    assert counts[0] == counts[1]
    assert 8 < counts[0] < 32


def test_plugin_costs_nothing_until_used():
    """Loaded in every pytest run of the environment: none of the rooms comes with it."""
    code = (
        "import sys, ragstone.testing.pytest_plugin;"
        "print(sorted(m for m in ('openai', 'aiohttp', 'numpy', 'http.server', 'unittest.mock') if m in sys.modules))"
    )
    assert "[]\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_fixtures(ragstone_fake_judge, ragstone_recorder):
    """The plugin is found through its entry point, and its fixtures give the fakes."""
    assert (FakeJudge, MemoryRecorder) == (type(ragstone_fake_judge), type(ragstone_recorder))


def test_server_leaves_no_connection_behind(monkeypatch):
    """However early it ends: clients still being accepted, waiting for a reply, or silent are all closed."""
    leaked: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: leaked.append(repr(what.exc_value)))
    for n_clients in range(30):
        with FakeJudgeServer(hang_rate=1.0) as server:
            address = ("127.0.0.1", int(server.url.split(":")[2].partition("/")[0]))
            clients = [socket.create_connection(address) for _ in range(n_clients)]
            for client in clients[::2]:
                client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        for client in clients:
            client.close()
    gc.collect()
    assert [] == leaked
