"""Requests for log-probabilities of given tokens, and of the most probable tokens, at the same time at one server."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.judges import ChatRequest, OpenAICompatibleModel

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

N = 32
QUESTION = [{"role": "user", "content": "Where does the ship lie?"}]
TOP = ChatRequest(messages=QUESTION, max_tokens=1, sampling={"temperature": 0.0}, top_logprobs=5)


def test_mixed_requests_have_the_values_that_they_have_alone(reader_url):
    """VLLM 0.32 replaces the most probable tokens of a batch in which another request asks for tokens by id."""

    async def read():
        model = OpenAICompatibleModel(reader_url, max_concurrent_requests=16)
        await model.capabilities()
        (alone,) = await model.complete(TOP)
        pairs = [(model.complete(TOP), model.reply_logprobs(QUESTION, "NO-RESPONSE")) for _ in range(N)]
        replies = await asyncio.gather(*(call for pair in pairs for call in pair))
        await model.aclose()
        return alone.tokens[0].top, [reply.tokens[0].top for (reply,) in replies[::2]]

    alone, mixed = asyncio.run(read())
    assert len(alone) >= 5
    for top in mixed:
        assert [name for name, _ in alone] == [name for name, _ in top]
        assert [value for _, value in alone] == pytest.approx([value for _, value in top], abs=1e-4)
