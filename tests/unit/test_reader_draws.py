"""Drawn replies: how many, which count, and what a server has to be told so that they are the model's own."""

from __future__ import annotations

import asyncio
import json

import pytest

from fake_servers import FakeModelServer
from intervals import ends
from ragstone.errors import JudgeReplyError
from ragstone.judges import Capabilities, ChatReader, ChatRequest, Completion, OpenAICompatibleModel
from ragstone.stats import stopped_proportion, stopping_paths, wilson_interval
from ragstone.testing import FakeJudge
from scripted_model import ScriptedModel

MIXED = {"NO-RESPONSE": 0.3, "Oslo": 0.7}


class Replies:
    """A chat model that says what the test wrote down, in order and over again."""

    name = "replies"
    settings = {"model": "replies"}  # noqa: RUF012

    def __init__(self, *replies, **can):
        self._replies = [r if isinstance(r, Completion) else Completion(text=r) for r in replies]
        self._can = Capabilities(**{"model": "replies", "several_replies": True} | can)
        self.requests: list[ChatRequest] = []
        self._n = 0

    async def prepare(self):
        pass

    async def capabilities(self, *, fresh=False):
        return self._can

    async def complete(self, request):
        self.requests.append(request)
        start, self._n = self._n, self._n + request.n
        return tuple(self._replies[i % len(self._replies)] for i in range(start, self._n))

    async def aclose(self):
        pass


def draw(model, **options):
    return asyncio.run(
        ChatReader(model, estimator="monte_carlo", **options).estimate_abstention("Where?", ["In Oslo."])
    )


def test_a_clear_case_stops_early():
    """Ten equal replies give an interval narrower than 0.4, and the rest is not drawn."""
    model = Replies("Oslo")
    reading = draw(model)

    assert (0.0, "monte_carlo", 10, 0) == (reading.value, reading.method, reading.n, reading.n_missing)
    assert (0.0, pytest.approx(1 - 0.025**0.1)) == (reading.interval.low, reading.interval.high)
    assert "stopped" == reading.interval.method
    assert [10] == [request.n for request in model.requests]


def test_an_undecided_case_stops_at_the_cap():
    """The interval is as wide as it is."""
    model = Replies("Oslo", "NO-RESPONSE")
    reading = draw(model, max_draws=22, confidence_level=0.9)

    assert (0.5, 22) == (reading.value, reading.n)
    assert [8, 5, 5, 4] == [request.n for request in model.requests]
    assert 1 == pytest.approx(reading.interval.low + reading.interval.high)
    assert reading.interval.high - reading.interval.low < 0.4
    assert reading.interval.confidence_level == 0.9


def test_one_abstention_in_twenty_counts_for_the_draws_that_stopped_without_any():
    """If p is 0.05, six in ten readings stop after ten answers with 0. One in twenty is therefore 0.1 and not 0.05."""
    reading = draw(Replies("Oslo", "NO-RESPONSE", *["Oslo"] * 18))

    assert (0.1, 20) == (reading.value, reading.n)
    assert 0 < reading.interval.low < 0.05 < reading.interval.high < 0.33


def test_unusable_draws_are_not_looks():
    """Two of ten replies are cut before the answer: looks are at 8, 13 and 18 usable draws."""
    cut = Completion(text="", finish="length")
    reading = draw(Replies(cut, cut, *["Oslo"] * 7, "NO-RESPONSE", *["Oslo"] * 10))

    paths = stopping_paths([8, 13, 18], lambda successes, n: not (successes in (0, n) and n >= 10))
    expected = stopped_proportion(1, 18, paths)
    assert (18, 2) == (reading.n, reading.n_missing)
    assert (expected.value, expected.low, expected.high) == pytest.approx(
        (reading.value, reading.interval.low, reading.interval.high)
    )


def test_a_fixed_number_has_wilsons_interval():
    """All at once, and no looking in between."""
    model = Replies("Oslo", "NO-RESPONSE", "Oslo")
    reading = draw(model, target_width=None, max_draws=9)

    assert (1 / 3, 9) == (reading.value, reading.n)
    assert ends(wilson_interval(3, 9)) == (reading.interval.low, reading.interval.high)
    assert "wilson" == reading.interval.method
    assert [9] == [request.n for request in model.requests]


def test_one_reply_a_request_where_there_are_no_more():
    """Each request has its own seed: equal seeds are one draw, however many requests there are."""
    model = Replies("Oslo", several_replies=False)
    draw(model, seed=3)
    seeds = [request.sampling["seed"] for request in model.requests]

    assert {1} == {request.n for request in model.requests}
    assert (10, 10) == (len(seeds), len(set(seeds)))
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_seeds_repeat_the_draws_and_differ_between_passages():
    """The same reader draws the same again; another passage or another seed draws again."""

    def seeds(passage, seed):
        model = Replies("Oslo")
        reader = ChatReader(model, estimator="monte_carlo", seed=seed)
        asyncio.run(reader.estimate_abstention("Where?", [passage]))
        return [request.sampling["seed"] for request in model.requests]

    assert seeds("In Oslo.", 1) == seeds("In Oslo.", 1)
    assert set(seeds("In Oslo.", 1)).isdisjoint(seeds("In Bergen.", 1))
    assert set(seeds("In Oslo.", 1)).isdisjoint(seeds("In Oslo.", 2))


def test_no_seed_unless_one_is_wanted():
    """Some servers cannot take one."""
    model = Replies("Oslo")
    draw(model)

    assert all("seed" not in request.sampling for request in model.requests)


def test_a_seed_over_requests_that_give_fewer_replies():
    """An endpoint that ignores `n` is asked again, with another seed."""
    sent = []
    with FakeModelServer(ScriptedModel(MIXED), changes={"several": "ignored"}) as server:
        answer = server._answer

        async def recorded(request):
            if request.path.endswith("completions"):
                sent.append(json.loads(request.content)["seed"])
            return await answer(request)

        server._answer = recorded

        async def ask():
            model = OpenAICompatibleModel(server.url)
            request = ChatRequest(
                messages=[{"role": "user", "content": "?"}], max_tokens=8, n=4, sampling={"temperature": 1, "seed": 7}
            )
            try:
                return await model.complete(request)
            finally:
                await model.aclose()

        assert 4 == len(asyncio.run(ask()))
    assert [7, 8, 9, 10] == sent


def test_the_models_own_distribution_is_drawn_from():
    """A server with sampling defaults of its own is told every field, and the share of abstentions is the script's."""
    changes = {"generation_config": {"temperature": 0.2, "top_k": 1, "top_p": 0.3}}

    async def ask(url):
        model = OpenAICompatibleModel(url)
        model._capabilities = Capabilities(model="m", several_replies=True)
        reader = ChatReader(model, max_draws=2000, target_width=None)
        try:
            return await reader.estimate_abstention("Where?", ["In Oslo."])
        finally:
            await model.aclose()

    with FakeModelServer(ScriptedModel(MIXED), changes=changes) as server:
        reading = asyncio.run(ask(server.url))

    assert 0.3 == pytest.approx(reading.value, abs=0.04)
    assert reading.interval.low <= 0.3 <= reading.interval.high


@pytest.mark.parametrize(
    ("dialect", "changes", "left_out"),
    [
        ("vllm", {}, set()),
        ("openai", {}, {"top_k", "min_p", "repetition_penalty"}),
        ("ollama", {}, set()),
        ("llamacpp", {}, set()),
        ("openai-reasoning", {"reasoning_tokens": 2}, {"top_k", "min_p", "repetition_penalty"}),
    ],
)
def test_fields_that_a_server_refuses_are_left_out(dialect, changes, left_out):
    """One after the other, in the first request, and never sent again."""

    async def ask(url):
        model = OpenAICompatibleModel(url)
        model._capabilities = Capabilities(model="m", several_replies=dialect not in ("ollama", "llamacpp"))
        try:
            return await ChatReader(model, max_draws=6).estimate_abstention("Where?", ["In Oslo."]), model.dialect
        finally:
            await model.aclose()

    with FakeModelServer(ScriptedModel(MIXED), dialect, changes=changes) as server:
        reading, learned = asyncio.run(ask(server.url))

    assert 6 == reading.n
    assert left_out == {name for _, name in learned.omitted}


def test_what_cannot_be_looked_at_is_missing():
    """Declined replies, and those cut before they begin, are in no share; those cut later are judged by their start."""
    reading = draw(
        Replies(
            Completion(text="Oslo is the capi", finish="length"),
            Completion(text="", finish="length"),
            Completion(text="NO-RESP", finish="length"),
            Completion(text="I cannot", finish="refused"),
            Completion(text="<think>Let me see", finish="length"),
            Completion(text="NO-RESPONSE, as noth", finish="length"),
            Completion(text=""),
            Completion(text="<think>NO</think> Oslo"),
            Completion(text="<think>Oslo</think>\n**NO-RESPONSE**"),
        ),
        max_draws=9,
        target_width=None,
    )

    # Usable: cut answer, cut abstention, the empty reply, and two that reason first.
    assert (5, 4, 2 / 5) == (reading.n, reading.n_missing, reading.value)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [(Completion(text="", finish="refused"), "refused"), (Completion(text="", finish="length"), "truncated")],
)
def test_too_few_usable_draws(reply, kind):
    """With less than half of them there is no telling."""
    with pytest.raises(JudgeReplyError, match="11 of 20 sampled replies") as caught:
        draw(Replies(*[reply] * 11, *["Oslo", "NO-RESPONSE"] * 4, "Oslo"))
    assert kind == caught.value.kind


def test_refusals_in_other_words_are_the_judges():
    """The judge is asked once for each reply without a phrase; above one half is an abstention."""
    judge = FakeJudge(lambda prompt: 0.9 if "sorry" in prompt.fields["response"] else 0.1)
    reading = draw(
        Replies("I am sorry, I do not know.", "Oslo", "NO-RESPONSE", "Oslo"),
        refusal_judge=judge,
        max_draws=8,
        target_width=None,
    )

    assert (0.5, 8) == (reading.value, reading.n)
    assert {"abstention"} == {prompt.construct for prompt in judge.prompts}
    assert {("Where?", "I am sorry, I do not know."), ("Where?", "Oslo")} == {
        (prompt.fields["query"], prompt.fields["response"]) for prompt in judge.prompts
    }
    assert 2 == len(judge.prompts)


@pytest.mark.parametrize(
    ("options", "can", "expected"),
    [
        ({}, {}, 27),
        ({"abstention": ["NO", "I do not know"]}, {}, 29),
        ({"refusal_judge": FakeJudge(0)}, {}, 512),
        ({}, {"reasons": True}, 4096),
        ({"max_tokens": 9000}, {"reasons": True}, 9000),
        ({"draw_max_tokens": 5}, {"reasons": True}, 5),
    ],
)
def test_length_of_draws(options, can, expected):
    """As long as it takes to see a phrase, a whole reply for a judge, or the reasoning before it."""
    model = Replies("Oslo", **can)
    draw(model, **options)

    assert {expected} == {request.max_tokens for request in model.requests}
