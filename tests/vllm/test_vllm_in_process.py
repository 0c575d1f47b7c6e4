"""vLLM inside this process: the promises of every judge, the server's very numbers, and batches that pay."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from typing import Annotated

import pytest
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from ragstone.errors import ConfigurationError, JudgeRejectedError
from ragstone.judges import (
    ChatReader,
    ChatRequest,
    ModelJudge,
    OpenAICompatibleModel,
    Prompt,
    VllmModel,
    judge_from,
    metered,
)
from ragstone.judges import reader_from as make_reader
from ragstone.judges._vllm_thread import EngineThread
from ragstone.testing import JudgeContract

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    # vLLM's and torch's own, from a thread of ours.
    pytest.mark.filterwarnings("ignore"),
]

OPTIONS = {"max_model_len": 2048, "dtype": "float32", "enforce_eager": True}
SAME = 1e-5
"""In probability, between one engine and another on the same weights in float32."""


@pytest.fixture(scope="module", autouse=True)
def small_cache():
    """Gigabytes for keys and values: the tiny models need a fraction of the smallest setting."""
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")


@pytest.fixture(scope="module")
def spec(reader_folder):
    """The reader's model as a user names it."""
    return f"vllm:{reader_folder}?max_model_len=2048&dtype=float32&enforce_eager=true"


@pytest.fixture(scope="module")
def engine(reader_folder):
    """The model in this process."""
    return VllmModel(str(reader_folder), **OPTIONS)


@pytest.fixture(scope="module")
def cases(ships):
    """Questions with one to three passages."""
    rng = random.Random(31)
    return [ships.make_case(rng, ships.random_kinds(rng, 1 + n % 3), held_out=n % 2 == 0) for n in range(90)]


class TestInProcessJudge(JudgeContract):
    """The same promises as over HTTP."""

    @pytest.fixture(autouse=True)
    def named(self, spec):
        self.spec = spec

    def make_judge(self):
        return judge_from(self.spec)


def test_what_it_can_do(engine):
    """All that the server can, found out by asking."""
    can = asyncio.run(engine.capabilities())
    assert ("chain", "exact_sequence", 20, 2048) == (
        can.exact_route, can.estimator, can.top_logprobs, can.context_length,
    )  # fmt: skip
    assert can.logprobs_raw
    assert can.boundary_clean
    assert ("regex",) == can.structured
    assert not can.reasons


def test_json_is_held_to_its_schema(engine):
    """A model that knows no JSON replies with it all the same, and compactly: nothing is left to white space."""
    marks = TypedDict("marks", {"1": Annotated[int, Field(ge=0, le=1)], "2": Annotated[int, Field(ge=0, le=1)]})
    fields = {"evidence": "The ship is blue.", "claims": ("It is blue.", "It is red.")}
    prompt = Prompt(
        construct="entailment", task="Your assignment: hold each claim against the evidence.", fields=fields
    )
    reply = asyncio.run(ModelJudge(engine).ask_json(prompt, TypeAdapter(marks)))
    assert "constrained_reply" == reply.method
    assert {"1", "2"} == reply.value.keys()
    assert json.dumps(reply.value, separators=(",", ":")) == reply.raw


def test_probabilities_are_the_servers(engine, reader_url, ships, cases, record_property):
    """Exact values through the engine and over HTTP are the same, for both events."""

    async def readings(model):
        reader = ChatReader(model, estimator="exact_sequence", **ships.READER)
        return await asyncio.gather(*(reader.estimate_abstention(case.question, case.passages) for case in cases))

    here = asyncio.run(readings(engine))
    there = asyncio.run(readings(OpenAICompatibleModel(reader_url)))
    worst = max(max(abs(a.value - b.value), abs(a.complete - b.complete)) for a, b in zip(here, there, strict=True))
    record_property("in_process_against_server", worst)
    print(f"{len(cases)} contexts: max |difference| to the server {worst:.2g}")
    assert worst <= SAME


def test_replies_are_the_servers(engine, reader_url, cases):
    """Greedy answers, and the log-probabilities that come with them, alike."""

    async def answers(model):
        requests = [
            ChatRequest(messages=case.messages, max_tokens=8, sampling={"temperature": 0.0}, top_logprobs=5)
            for case in cases
        ]
        return [reply for (reply,) in await asyncio.gather(*(model.complete(request) for request in requests))]

    here, there = asyncio.run(answers(engine)), asyncio.run(answers(OpenAICompatibleModel(reader_url)))
    assert [(r.text, r.finish) for r in there] == [(r.text, r.finish) for r in here]
    for one, other in zip(here, there, strict=True):
        assert [t.text for t in other.tokens] == [t.text for t in one.tokens]
        for mine, theirs in zip(one.tokens, other.tokens, strict=True):
            assert theirs.logprob == pytest.approx(mine.logprob, abs=1e-4)
            assert [p for _, p in theirs.top] == pytest.approx([p for _, p in mine.top], abs=1e-3)


def test_draws_have_the_right_frequency(engine, ships, cases):
    """Drawn replies abstain as often as the exact value says, and a seed repeats them."""
    exact = ChatReader(engine, **ships.READER)
    drawn = ChatReader(engine, estimator="monte_carlo", max_draws=40, target_width=None, **ships.READER)

    async def both():
        one = await asyncio.gather(*(exact.estimate_abstention(case.question, case.passages) for case in cases))
        other = await asyncio.gather(*(drawn.estimate_abstention(case.question, case.passages) for case in cases))
        request = ChatRequest(messages=cases[0].messages, max_tokens=8, sampling={"seed": 5}, n=30)
        return one, other, await engine.complete(request), await engine.complete(request)

    one, other, first, again = asyncio.run(both())
    z = sum(b.value - a.value for a, b in zip(one, other, strict=True)) / (
        sum(a.value * (1 - a.value) / 40 for a in one) ** 0.5
    )
    assert abs(z) < 4
    assert first == again
    assert 30 == len(first)


def test_numbers_are_held(engine, cases):
    """Constrained decoding keeps a reply to the range, whatever the model would rather say."""
    reply = asyncio.run(
        engine.complete_number(cases[0].messages, 200, 203, max_tokens=8, sampling={"temperature": 0.0})
    )
    assert reply.text in {"200", "201", "202", "203"}


def test_many_at_once_share_batches(engine, cases, monkeypatch, record_property):
    """Questions of many tasks run in a few batches, and so in a fraction of the time of one after another."""
    batches = []
    answer = EngineThread._answer

    def counted(self, llm, jobs):
        batches.append(len(jobs))
        answer(self, llm, jobs)

    monkeypatch.setattr(EngineThread, "_answer", counted)

    async def one_by_one():
        for case in cases[:30]:
            await engine.reply_logprobs(case.messages, "NO-RESPONSE")

    async def at_once():
        await asyncio.gather(*(engine.reply_logprobs(case.messages, "NO-RESPONSE") for case in cases))

    # Kernels are compiled for the first batches.
    asyncio.run(at_once())
    took = {}
    for work, n in ((one_by_one, 30), (at_once, len(cases))):
        batches.clear()
        start = time.perf_counter()
        asyncio.run(work())
        took[work.__name__] = (time.perf_counter() - start) / n
        assert n == sum(batches)
    factor = took["one_by_one"] / took["at_once"]
    record_property("in_process_batching_factor", factor)
    print(f"{1 / took['at_once']:.0f} exact reads/s at once, {1 / took['one_by_one']:.0f}/s one by one: {factor:.1f}x")
    print(f"{len(batches)} batches for {len(cases)} reads")
    assert len(batches) <= len(cases) / 3


def test_reads_and_replies_at_once(engine, cases):
    """Requests for tokens by id do not cost their neighbors the top log-probabilities, as they do on the server."""

    async def mixed():
        request = [ChatRequest(messages=case.messages, max_tokens=4, top_logprobs=20) for case in cases]
        asked = [
            engine.complete(r) if n % 2 else engine.reply_logprobs(r.messages, "NO-RESPONSE")
            for n, r in enumerate(request)
        ]
        return (await asyncio.gather(*asked))[1::2]

    assert {20, 21} >= {len(token.top) for (reply,) in asyncio.run(mixed()) for token in reply.tokens} >= {20}


def test_mistakes_fail_alone(engine, cases):
    """A prompt that does not fit, a field with a wrong value, an id that is no token: rejected, and the rest answered."""

    async def session():
        long = [{"role": "user", "content": "x" * 9000}]
        good = ChatRequest(messages=cases[0].messages, max_tokens=4)
        return await asyncio.gather(
            engine.complete(ChatRequest(messages=long, max_tokens=4)),
            engine.complete(ChatRequest(messages=cases[0].messages, max_tokens=4, sampling={"temperature": -1})),
            engine.next_logprobs([[1, 2]], [[10**6]]),
            engine.complete(ChatRequest(messages=cases[0].messages, max_tokens=4, sampling={"no_such_field": 1})),
            *(engine.complete(good) for _ in range(8)),
            return_exceptions=True,
        )

    long, negative, foreign, unknown, *fine = asyncio.run(session())
    assert [JudgeRejectedError] * 3 == [type(each) for each in (long, negative, foreign)]
    assert "2048" in str(long)
    assert ConfigurationError is type(unknown)
    assert all(isinstance(each, tuple) for each in fine)


def test_a_cancelled_question_leaves_the_engine_well(engine, cases):
    """A deadline ends the waiting of one task; the next question is answered."""

    async def session():
        request = ChatRequest(messages=cases[0].messages, max_tokens=120, sampling={"min_tokens": 100}, n=20)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await engine.complete(request)
        return await engine.complete(ChatRequest(messages=cases[0].messages, max_tokens=4))

    assert 1 == len(asyncio.run(session()))


def test_usage_is_metered(engine, cases):
    """Calls and tokens, to whoever asked."""

    async def session():
        with metered() as meter:
            await engine.complete(ChatRequest(messages=cases[0].messages, max_tokens=4, n=3))
        return meter.total, await engine.chat_ids(cases[0].messages)

    spent, ids = asyncio.run(session())
    assert (1, len(ids)) == (spent.calls, spent.input_tokens)
    assert 3 <= spent.output_tokens <= 12


def test_judge_and_reader_share_one_engine(spec):
    """Named alike, they are one: nothing is loaded twice."""
    judge = judge_from(spec)
    assert isinstance(judge, ModelJudge)
    reader = make_reader(spec, judge=judge)

    async def session():
        await judge.prepare()
        start = time.perf_counter()
        await reader.prepare()
        return judge.model._of is reader.model._of, time.perf_counter() - start

    shared, _ = asyncio.run(session())
    assert shared


def test_random_numbers_of_the_program_stay(reader_folder):
    """Loading an engine does not set the seed of whoever loads it; in a process of its own, which then ends well."""
    code = (
        "import asyncio, random, sys\n"
        "from ragstone.judges import VllmModel\n"
        "random.seed(77)\n"
        "model = VllmModel(sys.argv[1], max_model_len=2048, dtype='float32', enforce_eager=True, seed=3)\n"
        "asyncio.run(model.prepare())\n"
        "print(random.random())\n"
        "model.unload()\n"
        "asyncio.run(model.prepare())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(reader_folder)], capture_output=True, text=True, check=False, timeout=600
    )
    assert 0 == ended.returncode, ended.stderr[-3000:]
    assert random.Random(77).random() == float(ended.stdout.split()[-1])


def test_a_model_that_is_not_there(tmp_path):
    """A mistake of configuration, with the reason, and not a hang."""
    with pytest.raises(ConfigurationError, match="could not be loaded"):
        asyncio.run(VllmModel(str(tmp_path / "nothing")).prepare())
