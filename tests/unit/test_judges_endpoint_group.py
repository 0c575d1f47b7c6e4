"""Several endpoints of one judge: every sample is scored while one of them dies, and prompts keep to their cache."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import ragstone
from fake_servers import FakeJudgeServer
from ragstone.errors import ConfigurationError, JudgeUnavailableError
from ragstone.judges import OpenAICompatibleJudge, Prompt, judge_from, read_endpoint, reader_from
from ragstone.judges._http.endpoint_group import split_urls
from ragstone.schema import Score
from ragstone.settings import resolve

pytestmark = pytest.mark.usefixtures("virtual_time")

ROWS = [
    {"query": f"How tall is tower {n}?", "contexts": [f"Tower {n} is {n} meters tall."], "response": f"{n} meters"}
    for n in range(40)
]


class MortalServer(FakeJudgeServer):
    """A server that can die and come back at the same URL: while it is dead, it closes each connection."""

    def __init__(self, *, dies_after: int | None = None, **options):
        super().__init__(**options)
        self.dies_after = dies_after
        self.refused = 0

    @property
    def dead(self) -> bool:
        return self.dies_after is not None and self.calls >= self.dies_after

    async def _answer(self, request):
        if self.dead:
            self.refused += 1
            raise ConnectionResetError
        return await super()._answer(request)


def joined(*servers) -> str:
    """The value of `judge=`."""
    return ",".join(server.url for server in servers)


def prompt(n: int, task: str = "Rate it.") -> Prompt:
    """One of several prompts about sample `n`."""
    fields = {"query": f"How tall is tower {n}?", "contexts": (f"Tower {n} is {n} meters tall. " * 60,)}
    return Prompt(construct="relevance", task=task, fields=fields)


async def ask_all(judge, prompts):
    try:
        return await asyncio.gather(*map(judge.ask_number, prompts))
    finally:
        await judge.aclose()


def test_one_endpoint_dies():
    """All samples are scored, as one server would score them, while one of two servers dies in the middle of the run."""
    with MortalServer(latency_s=0.05) as one, MortalServer(latency_s=0.05, dies_after=30) as two:
        judge = judge_from(joined(one, two), connection={"backoff_s": 0.05})
        result = ragstone.evaluate(ROWS, judge=judge, metrics="ccrs")
        assert two.dead
        assert two.refused
    with FakeJudgeServer() as alone:
        expected = ragstone.evaluate(ROWS, judge=alone.url, metrics="ccrs")
    scores = [outcome for outcome in result.outcomes if isinstance(outcome, Score)]
    assert 40 * 3 == len(scores)
    assert [outcome.value for outcome in scores] == [o.value for o in expected.outcomes if isinstance(o, Score)]


def test_it_comes_back():
    """An endpoint that is back gets requests again, without a failure."""
    with MortalServer(latency_s=0.01) as one, MortalServer(latency_s=0.01, dies_after=5) as two:
        judge = judge_from(joined(one, two), connection={"backoff_s": 0.05})

        async def session():
            await ask_all(judge, [prompt(n) for n in range(40)])
            while_dead = one.calls
            two.dies_after = None
            await asyncio.sleep(5)
            await ask_all(judge, [prompt(n) for n in range(40, 42)])
            await asyncio.sleep(5)
            await ask_all(judge, [prompt(n) for n in range(42, 82)])
            return while_dead

        while_dead = asyncio.run(session())
        assert while_dead >= 35
        assert two.calls >= 10


def test_another_model_comes_back():
    """An endpoint that comes back with another model gets no more requests. If no other is left, that is the error."""
    with MortalServer() as one, MortalServer(dies_after=0) as two:
        judge = OpenAICompatibleJudge(joined(one, two), model="fake-judge", backoff_s=0.05, max_outage_s=2)

        async def session():
            await asyncio.gather(*(judge.ask_number(prompt(n)) for n in range(20)))
            two.dies_after, two._models = None, ("another",)
            await asyncio.sleep(5)
            await judge.ask_number(prompt(20))
            await asyncio.sleep(5)
            await asyncio.gather(*(judge.ask_number(prompt(n)) for n in range(21, 40)))
            one.dies_after = 0
            try:
                with pytest.raises(JudgeUnavailableError, match="none of 2 endpoints replies"):
                    await asyncio.gather(*(judge.ask_number(prompt(n)) for n in range(40, 60)))
            finally:
                await judge.aclose()

        asyncio.run(session())
        assert 0 == two.calls


def test_one_is_dead_at_the_start():
    """A run starts with one of two endpoints."""
    with MortalServer(dies_after=0) as dead, MortalServer() as alive:
        replies = asyncio.run(
            ask_all(judge_from(joined(dead, alive), connection={"backoff_s": 0.05}), [prompt(n) for n in range(20)])
        )
    assert 20 == len(replies)


def test_all_are_dead():
    """If no endpoint replies, the error names each of them."""
    with MortalServer(dies_after=0) as one, MortalServer(dies_after=0) as two:
        judge = OpenAICompatibleJudge(joined(one, two), model="fake-judge", backoff_s=0.05, max_outage_s=2)
        with pytest.raises(JudgeUnavailableError) as caught:
            asyncio.run(ask_all(judge, [prompt(n) for n in range(8)]))
        assert "none of 2 endpoints replies" in str(caught.value)
        assert all(server.url.removesuffix("/v1") in str(caught.value) for server in (one, two))


def test_load_and_affinity():
    """The load is spread, and the prompts of one sample go to one endpoint."""
    with FakeJudgeServer(latency_s=0.02) as one, FakeJudgeServer(latency_s=0.02) as two:
        judge = judge_from(joined(one, two), connection={"max_concurrent_requests": 64})
        tasks = [f"Task {k}." for k in range(5)]

        async def session():
            for start in range(0, 60, 3):
                asked = [prompt(n, task) for n in range(start, start + 3) for task in tasks]
                await asyncio.gather(*map(judge.ask_number, asked))
            await judge.aclose()

        asyncio.run(session())
        places = [
            Counter(body["messages"][1]["content"].partition("</query>")[0] for body in server.stats.requests)
            for server in (one, two)
        ]
        together = sum((sample in places[0]) != (sample in places[1]) for sample in places[0] | places[1])
        assert 300 == one.calls + two.calls
        assert min(one.calls, two.calls) > 300 / 4
    assert together >= 0.9 * 60


def test_a_slow_endpoint_gets_less():
    """Requests move from an endpoint that is much slower to the other one."""
    with FakeJudgeServer(latency_s=0.5) as slow, FakeJudgeServer(latency_s=0.02) as fast:
        judge = judge_from(joined(slow, fast))
        places = asyncio.Semaphore(24)

        async def ask(n):
            async with places:
                await judge.ask_number(prompt(n))

        async def session():
            await asyncio.gather(*map(ask, range(200)))
            await judge.aclose()

        asyncio.run(session())
        assert fast.calls > 1.5 * slow.calls


def test_rate_limits_move_requests():
    """Requests that one endpoint refuses with 429 go to the other one."""
    with FakeJudgeServer(rate_limit_rpm=6, retry_after_s=30) as limited, FakeJudgeServer(latency_s=0.01) as free:
        replies = asyncio.run(ask_all(judge_from(joined(limited, free)), [prompt(n) for n in range(60)]))
        assert (60, True) == (len(replies), free.calls >= 50)


def test_identity():
    """The identity is that of the first endpoint, whatever their number is."""
    with FakeJudgeServer() as one, FakeJudgeServer() as two:
        judges = [judge_from(spec) for spec in (one.url, joined(one, two), joined(two, one))]
        for judge in judges:
            asyncio.run(judge.prepare())
        alone, both, reversed_ = [judge.identity for judge in judges]
        assert isinstance(reader_from(joined(one, two), judge=judges[0]).identity.hash, str)
    assert alone == both
    assert alone != reversed_


@pytest.mark.parametrize("model", [None, "one"])
def test_different_models(model):
    """Endpoints that serve different models are an error before anything is spent, which names the models."""
    with FakeJudgeServer(models=("one",)) as one, FakeJudgeServer(models=("two", "three")) as two:
        judge = OpenAICompatibleJudge(joined(one, two), model=model)
        with pytest.raises(ConfigurationError, match=r"serves three and two.* must serve the same model"):
            asyncio.run(ask_all(judge, [prompt(1)]))
        assert (0, 0) == (one.calls, two.calls)


def test_common_model():
    """Of several models, the one that all endpoints serve is used."""
    with FakeJudgeServer(models=("one", "two")) as one, FakeJudgeServer(models=("two", "three")) as two:
        judge = judge_from(joined(one, two))
        asyncio.run(ask_all(judge, [prompt(n) for n in range(10)]))
        assert {"two"} == {body["model"] for server in (one, two) for body in server.stats.requests}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("http://a/v1", ["http://a/v1"]),
        ("http://a/v1,http://b/v1 , https://c", ["http://a/v1", "http://b/v1", "https://c"]),
        ("http://a/v1?list=1,2", ["http://a/v1?list=1,2"]),
    ],
)
def test_split_urls(text, parts):
    """A comma separates URLs only in front of another URL."""
    assert parts == split_urls(text)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("http://a/v1,openai:gpt", "a list of endpoints consists of URLs.* got 'openai:gpt'"),
        ("http://a/v1,http://a", "contains http://a/v1 twice"),
    ],
)
def test_invalid_lists(spec, message):
    """A list with something else, or with an endpoint twice, is an error."""
    with pytest.raises(ConfigurationError, match=message):
        judge_from(spec)


def test_tables(tmp_path):
    """A TOML file lists endpoints, in a table or as a value."""
    (tmp_path / "table.toml").write_text('[judge]\nurl = ["http://a/v1", "http://b/v1"]\n')
    (tmp_path / "value.toml").write_text('judge = ["http://a/v1", "http://b/v1"]\n')
    assert ["http://a/v1,http://b/v1"] * 2 == [
        resolve(file=tmp_path / f"{name}.toml").judge.url for name in ("table", "value")
    ]
    options = read_endpoint("judge", {"url": ["http://a/v1", "http://b/v1"]}, source="x")
    assert "http://a/v1,http://b/v1" == options.url
