"""A server whose batches have the log-probabilities of one request, as vLLM's can: no number of Ragstone changes.

Such a server gives wrong values to a request for the most probable tokens if a request for tokens by id is in its batch.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from fake_servers import FakeModelServer
from ragstone.judges import ChatRequest, OpenAICompatibleModel
from scripted_model import ScriptedModel

REPLIES = {"NO-RESPONSE": 0.25, "Oslo": 0.5, "Bergen": 0.25}
QUESTION = [{"role": "user", "content": "Where?"}]
TOP = ChatRequest(messages=QUESTION, max_tokens=1, sampling={"temperature": 0.0}, top_logprobs=5)


class OneKindServer(FakeModelServer):
    """Its replies to requests for the most probable tokens are wrong if requests for tokens by id overlap with them."""

    def __init__(self) -> None:
        super().__init__(ScriptedModel(REPLIES), latency_s=0.01)
        self.open = {"id": 0, "top": 0, None: 0}
        self.most = dict(self.open)
        """Maximum number of requests at once, by what they read."""
        self.n_mixed = 0

    async def _answer(self, request):
        body = json.loads(request.content or b"{}")
        reads = None if not body.get("logprobs") else "id" if body.get("logprob_token_ids") else "top"
        other = {"id": "top", "top": "id"}.get(reads)
        self.open[reads] += 1
        self.most[reads] = max(self.most[reads], self.open[reads])
        is_mixed = other is not None and self.open[other] > 0
        try:
            reply = await super()._answer(request)
        finally:
            self.open[reads] -= 1
        if is_mixed or (other is not None and self.open[other] > 0):
            self.n_mixed += 1
            if reads == "top":
                for entry in reply.body["choices"][0]["logprobs"]["content"]:
                    entry["top_logprobs"] = [{**entry, "token": "<pad>", "logprob": -9999.0}]
        return reply


@pytest.mark.parametrize("n", [1, 40])
def test_requests_with_different_log_probabilities_are_not_sent_together(n):
    """Both kinds have the values that they have alone, and requests of one kind are still sent at once."""

    async def read(server):
        model = OpenAICompatibleModel(server.url, max_concurrent_requests=8)
        await model.capabilities()
        server.n_mixed, server.most = 0, dict.fromkeys(server.most, 0)
        calls = []
        for _ in range(n):
            calls += [model.complete(TOP), model.reply_logprobs(QUESTION, "NO-RESPONSE"), model.complete(ChatRequest(
                messages=QUESTION, max_tokens=1, sampling={"temperature": 0.0}))]  # fmt: skip
        replies = await asyncio.gather(*calls)
        await model.aclose()
        return replies

    with OneKindServer() as server:
        replies = asyncio.run(read(server))
        n_mixed, most = server.n_mixed, server.most
    tops, exact = [reply.tokens[0].top for (reply,) in replies[::3]], replies[1::3]
    assert n_mixed == 0
    assert "<pad>" not in dict(tops[0])
    assert {tops[0]} == set(tops)
    assert all(other.logprobs == exact[0].logprobs for other in exact)
    assert n == 1 or min(most.values()) > 1
