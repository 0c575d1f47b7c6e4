"""Requests for log-probabilities of given tokens, and of the most probable tokens, at the same time at one server."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.judges import ChatRequest, OpenAICompatibleModel

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

N_TASKS, N_STEPS = 16, 10
QUESTION = [{"role": "user", "content": "Where does the ship lie?"}]
TOP = ChatRequest(messages=QUESTION, max_tokens=1, sampling={"temperature": 0.0}, top_logprobs=5)


def test_mixed_requests_have_the_values_that_they_have_alone(reader_url):
    """VLLM 0.32 replaces the most probable tokens of a batch in which another request asks for tokens by id."""

    async def read():
        model = OpenAICompatibleModel(reader_url, max_concurrent_requests=16)
        await model.capabilities()
        (alone,) = await model.complete(TOP)

        async def alternate(start):
            # Reads that begin at the same time are one request.
            tops = []
            for step in range(N_STEPS):
                if (start + step) % 2:
                    tops += [reply.tokens[0].top for reply in await model.complete(TOP)]
                else:
                    await model.reply_logprobs(QUESTION, f"{start} {step}")
            return tops

        found = await asyncio.gather(*map(alternate, range(N_TASKS)))
        await model.aclose()
        return alone.tokens[0].top, [top for tops in found for top in tops]

    alone, mixed = asyncio.run(read())
    assert len(alone) >= 5
    for top in mixed:
        assert [name for name, _ in alone] == [name for name, _ in top]
        assert [value for _, value in alone] == pytest.approx([value for _, value in top], abs=1e-4)
