"""A server with OpenAI's chat API, and no telemetry of the databases."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fake_servers import RecordingServer, Reply, Request

ANSWERS = {"lit": "It was lit for the first time in 1874.", "ferry": "The ferry leaves at nine and at three."}


def reply(request: Request) -> Reply:
    """Answer the question at the end of a prompt, whole or as a stream."""
    asked = json.loads(request.content)
    question = asked["messages"][-1]["content"].rpartition("\n")[2]
    answer = next(answer for word, answer in ANSWERS.items() if word in question)
    usage = {"prompt_tokens": 30, "completion_tokens": 9, "total_tokens": 39}
    common = {"id": "1", "created": 1, "model": "tiny-1"}
    if not asked.get("stream"):
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}
        return Reply(200, {**common, "object": "chat.completion", "choices": [choice], "usage": usage})
    events = [
        {**common, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": f"{word} "}}]}
        for word in answer.split()
    ]
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return Reply(200, "".join([*lines, "data: [DONE]\n\n"]), headers={"Content-Type": "text/event-stream"})


@pytest.fixture
def model_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingServer]:
    """Return a server that the OpenAI client finds by itself."""
    monkeypatch.setenv("ANONYMIZED_TELEMETRY", "False")
    with RecordingServer(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("MODEL", "tiny-1")
        yield server
