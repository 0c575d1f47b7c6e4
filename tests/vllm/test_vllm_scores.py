"""Scores as distributions on a real vLLM server, against brute force over all numbers of the scale."""

from __future__ import annotations

import asyncio
import math

import pytest

from ragstone.judges import OpenAICompatibleJudge, OpenAICompatibleModel, Prompt
from ragstone.judges._render import number_request, render
from ragstone.metrics import resolve_metrics

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

N_PROMPTS = 8


@pytest.fixture(scope="module")
def prompts(trainer):
    """Questions that the tiny judge was taught to answer with a number."""
    task = resolve_metrics(["ccrs.qr"])[0].task
    return [
        Prompt(construct="question_relevance", task=task, fields={"query": sample.query, "response": sample.response})
        for sample in trainer.demo_samples()[:N_PROMPTS]
    ]


async def brute_force(model, prompt):
    """(mass, expectation, variance) over the 101 numbers, each read as a whole reply with the end of its turn."""
    messages = render(prompt, request=number_request(0, 100))
    readings = await asyncio.gather(*(model.reply_logprobs(messages, str(number)) for number in range(101)))
    p = [math.exp(sum(reading.logprobs) + reading.end_logprob) for reading in readings]
    mass = sum(p)
    return mass, sum(number * each for number, each in enumerate(p)) / mass


def test_expected_scores_are_the_expectation(judge_url, prompts, record_property):
    """The pruned read gives the expectation and the format mass of the full distribution."""

    async def session():
        judge = OpenAICompatibleJudge(judge_url, score_mode="expected")
        model = OpenAICompatibleModel(judge_url)
        try:
            replies = [await judge.ask_number(prompt) for prompt in prompts]
            return replies, [await brute_force(model, prompt) for prompt in prompts]
        finally:
            await judge.aclose()
            await model.aclose()

    replies, full = asyncio.run(session())
    # Where the model hardly ever replies with a number, the judge asks for one instead of taking a mean of what is left.
    assert [mass >= 0.5 for mass, _ in full] == [reply.method == "expected" for reply in replies]
    read = [(reply, mean) for reply, (_, mean) in zip(replies, full, strict=True) if reply.method == "expected"]
    assert len(read) >= N_PROMPTS / 2
    worst = max(abs(reply.value - mean) for reply, mean in read)
    worst_mass = max(abs(reply.mass - mass) for reply, (mass, _) in zip(replies, full, strict=True))
    calls = sum(reply.usage.calls for reply in replies) / len(replies)
    record_property("expected_score_max_difference", worst)
    record_property("expected_score_max_mass_difference", worst_mass)
    record_property("expected_score_calls", calls)
    print(f"expected scores: max |difference| {worst:.2g} points, mass {worst_mass:.2g}, {calls:.1f} calls a score")
    assert worst <= 0.05
    assert worst_mass <= 0.002
    assert all(reply.interval.low - 1e-3 <= mean <= reply.interval.high + 1e-3 for reply, mean in read)
    # Expectations that all sit on one number would be no test of a distribution.
    assert any(abs(mean - round(mean, -1)) > 0.5 for _, mean in full)
