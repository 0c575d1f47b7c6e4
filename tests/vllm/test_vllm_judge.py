"""The CCRS metrics through a real vLLM server: every number is the model's own, and none goes missing."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections import Counter

import pytest

from builders import make_sample
from ragstone.experiments import evaluate
from ragstone.judges import OpenAICompatibleJudge, Prompt
from ragstone.metrics import resolve_metrics
from ragstone.schema import Failure, Score

# Starting a server takes most of a minute on two quiet cores.
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def samples(trainer):
    """The demo's questions with what the demo retrieves and answers."""
    return trainer.demo_samples()


@pytest.fixture(scope="module")
def experiment(judge_url, samples):
    """The demo's samples, scored by the served model in one go."""
    return evaluate(samples, ["ccrs"], judge=judge_url)


def test_every_sample_has_one_outcome_a_metric(experiment, samples):
    """One outcome for each sample and metric; what is not a score says why."""
    wanted = Counter((sample.id, metric.card.name) for sample in samples for metric in resolve_metrics(["ccrs"]))
    assert wanted == Counter((outcome.sample_id, outcome.metric) for outcome in experiment.outcomes)
    assert [] == [outcome for outcome in experiment.outcomes if isinstance(outcome, Failure) and not outcome.reason]


def test_nearly_all_replies_are_numbers(experiment):
    """The model was taught to reply with numbers: nine in ten replies are read at the first go, and no number is invented."""
    first = [o for o in experiment.outcomes if isinstance(o, Score) and o.method == "single_reply"]
    assert len(first) >= 0.9 * len(experiment.outcomes)
    assert all(0 <= outcome.value <= 1 for outcome in first)


def test_scores_are_what_transformers_says(experiment, samples, trainer, transformers_reply):
    """A plain forward pass on the same chats gives the same tokens in, the same reply out, and so the same scores."""
    exercises = {(exercise.sample_id, exercise.construct): exercise for exercise in trainer.exercises(samples)}
    constructs = {metric.card.name: metric.construct for metric in resolve_metrics(["ccrs"])}
    compared = counted = 0
    for outcome in experiment.outcomes:
        if not isinstance(outcome, Score) or outcome.method != "single_reply":
            continue
        exercise = exercises[outcome.sample_id, constructs[outcome.metric]]
        text, prompt_tokens = transformers_reply(exercise.messages, max_tokens=8)
        assert text == outcome.raw
        # One outcome pays for a second call, which measures that prompts arrive whole: to this tokenizer, a few words are one token.
        if outcome.usage.calls == 1:
            assert prompt_tokens == outcome.usage.input_tokens
            counted += 1
        number = int(text) / 100
        if outcome.metric == "ccrs.ac":
            number = 0.7 * outcome.details["em"] + 0.3 * number
        assert outcome.value == pytest.approx(number, abs=1e-12)
        compared += 1
    assert compared >= 20
    assert counted >= compared - 1


def test_the_model_learned_something(experiment, samples):
    """A right answer is judged more correct than a wrong one: the prompts reach the model with their material."""
    right = {s.id for s in samples if s.response == s.reference[0]}
    judged = {True: [], False: []}
    for outcome in experiment.outcomes:
        if outcome.metric == "ccrs.ac" and isinstance(outcome, Score):
            judged[outcome.sample_id in right].append(outcome.details["judge"])
    assert sum(judged[True]) / len(judged[True]) > sum(judged[False]) / len(judged[False]) + 0.2


def test_a_useless_reply_is_asked_again_under_constraint(judge_url, trainer, samples):
    """The model knows the numbers to 100; asked for one from 200 to 203, vLLM's structured outputs hold it to that."""

    async def ask(prompt):
        judge = OpenAICompatibleJudge(judge_url)
        try:
            return await judge.ask_number(prompt, low=200, high=203)
        finally:
            await judge.aclose()

    fields = {"query": samples[0].query, "response": samples[0].response}
    prompt = Prompt(construct="question_relevance", task=resolve_metrics(["ccrs.qr"])[0].task, fields=fields)
    reply = asyncio.run(ask(prompt))
    assert reply.method == "forced_reply"
    assert reply.value in {200, 201, 202, 203}


def test_verdicts_are_held_to_their_shape(judge_url):
    """The model knows no JSON; the server's grammar makes it give one mark for each sentence, and nothing besides."""
    (outcome,) = evaluate(
        [make_sample(response="It is tall. It is red.")], ["vera.groundedness"], judge=judge_url
    ).outcomes
    assert isinstance(outcome, Score), outcome
    assert "constrained_reply" == outcome.method
    assert 2 == len(outcome.details["claims"])


@pytest.fixture(scope="module")
def dead_engine_url(trainer, serving, model_folder, tmp_path_factory):
    """A server that is up and healthy by its own account, whose engine dies of its first prompt.

    vLLM's attention on CPUs has no kernel for heads of 16, and notices only when it runs.
    """
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("failed")
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    trainer.new_model(tokenizer, head_size=16).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    with serving(folder / "model", folder / "server.log") as (url, process):
        health = url.removesuffix("/v1") + "/health"
        while True:
            assert process.poll() is None, (folder / "server.log").read_text()[-4000:]
            try:
                urllib.request.urlopen(health, timeout=5).close()  # noqa: S310
                break
            except OSError:
                time.sleep(0.5)
        yield url


def test_a_dead_engine_is_counted_and_explained(dead_engine_url, samples):
    """A server whose engine died gives failures with their reason: no score, no gap, no crash."""
    judge = OpenAICompatibleJudge(dead_engine_url, max_retries=1, backoff_s=0.01, timeout_s=20)
    experiment = evaluate(samples[:3], ["ccrs"], judge=judge, max_outage_s=10)
    assert ["failure"] * 15 == [outcome.outcome for outcome in experiment.outcomes]
    # The request that killed it is answered, and so are later ones; those in between may hang.
    assert {outcome.kind for outcome in experiment.outcomes} <= {"unavailable", "timeout"}
    assert all(outcome.reason for outcome in experiment.outcomes)
