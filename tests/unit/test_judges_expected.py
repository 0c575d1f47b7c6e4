"""Numbers as distributions: the expectation against brute force, draws with their interval, and what is fallen back to."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import make_sample
from fake_servers import FakeModelServer
from ragstone.errors import ConfigurationError, JudgeReplyError
from ragstone.judges import ModelJudge, OpenAICompatibleJudge, Prompt
from ragstone.judges._expected import NumberDistribution, build_spellings
from ragstone.metrics.ccrs import AnswerCorrectness, QuestionRelevance
from scripted_model import ScriptedModel

PROMPT = Prompt(construct="relevance", task="The task.", fields={"query": "Why?"})


def ask(model, *, low=0, high=100, **options):
    """One number from a judge made of `model`."""
    return asyncio.run(
        ModelJudge(model, **{"score_mode": "expected", **options}).ask_number(PROMPT, low=low, high=high)
    )


def numbers_of(script, low, high):
    """Brute force: the probability of each whole number as a reply by itself."""
    found = dict.fromkeys(range(low, high + 1), 0.0)
    for text, p in script.items():
        numeral = text.removeprefix(" ").removesuffix("\n")
        if numeral in map(str, found):
            found[int(numeral)] += p
    return found


def normalised(weights):
    total = math.fsum(weights.values())
    return {text: weight / total for text, weight in weights.items()}


numerals = st.integers(0, 100).map(str)
replies = st.one_of(
    numerals,
    numerals,
    numerals.map(" {}".format),
    numerals.map("{}\n".format),
    numerals.map("{} points".format),
    st.sampled_from(["850", "1000", "007", "8.5", "-5", "no idea", "85%", "10 0", "1\n0", "  5", "5\n\n"]),
)
scripts = st.dictionaries(replies, st.floats(1e-7, 1.0), min_size=1, max_size=30).map(normalised)


@settings(max_examples=150, deadline=None)
@given(script=scripts, token_digits=st.sampled_from([1, 2, 3]), split=st.sampled_from([0.0, 0.4]))
def test_expectation_against_brute_force(script, token_digits, split):
    """Mass and value are those of the script up to what was not followed, and the interval holds the true value."""
    reply = ask(ScriptedModel(script, token_digits=token_digits, split=split))
    truth = numbers_of(script, 0, 100)
    mass = math.fsum(truth.values())
    assert reply.mass == pytest.approx(mass, abs=3e-3)
    if reply.method != "expected":
        assert reply.mass < 0.5
        return
    mean = math.fsum(number * p for number, p in truth.items()) / mass
    assert reply.interval.method == "exact"
    assert reply.interval.confidence_level > 0.99
    assert reply.interval.low - 1e-9 <= mean <= reply.interval.high + 1e-9
    assert reply.interval.low <= reply.value <= reply.interval.high
    assert reply.interval.high - reply.interval.low < 1.0
    if min(script.values()) > 1e-4:
        assert (mean, mass) == (pytest.approx(reply.value, abs=1e-9), pytest.approx(reply.mass, abs=1e-9))


@pytest.mark.parametrize(("token_digits", "calls", "rows"), [(1, 4, 1 + 2 + 2 + 2), (3, 3, 1 + 4 + 1)])
def test_one_request_a_token(token_digits, calls, rows):
    """The beginnings of one length go into one request, and only likely ones: 1, 10 and 100 are told apart."""
    model = ScriptedModel({"1": 0.25, "10": 0.25, "100": 0.25, "40\n": 0.25}, token_digits=token_digits)
    reply = ask(model)
    assert (pytest.approx(37.75), 1.0) == (reply.value, pytest.approx(reply.mass))
    assert "1: 0.25, 10: 0.25, 40: 0.25" == reply.raw
    assert (calls, rows, [], 1) == (reply.usage.calls, model.rows, model.requests, reply.n)
    assert pytest.approx(reply.interval.low) == reply.interval.high


def test_what_is_not_followed_widens_the_interval():
    """A beginning of one in a million is left out of the value, and might hold any number it can lead to."""
    reply = ask(ScriptedModel({"80": 0.999999, "0": 1e-6}))
    assert 80.0 == pytest.approx(reply.value, abs=1e-12)
    assert 0.999999 == pytest.approx(reply.mass)
    assert reply.interval.low <= 80 * 0.999999 < reply.value
    assert 80.0 == pytest.approx(reply.interval.high)


def test_bounds_take_the_worst_within_reach():
    """By hand: only beginnings beyond the mean move it, each to the number that is farthest away."""
    read = NumberDistribution({50: 0.8, 60: 0.0}, ((0.1, 0, 9), (0.05, 40, 49), (0.05, 90, 90)))
    assert (50.0, 0.8) == (read.value, read.mass)
    assert pytest.approx((0.8 * 50 + 0.05 * 40) / 0.95) == read.interval.low
    assert pytest.approx((0.8 * 50 + 0.05 * 90) / 0.85) == read.interval.high


@pytest.mark.parametrize("token_digits", [1, 3])
def test_over_http(token_digits):
    """An endpoint that reads token-id prompts gives the same distribution; one request a token is all it takes."""
    script = {"100": 0.2, "10": 0.1, "1": 0.1, " 70": 0.2, "85\n": 0.1, "No idea": 0.3}
    exact = ask(ScriptedModel(script, token_digits=token_digits, split=0.3))

    async def session(url):
        judge = OpenAICompatibleJudge(url, model="scripted-model", score_mode="expected")
        try:
            await judge.model.capabilities()
            return await judge.ask_number(PROMPT)
        finally:
            await judge.aclose()

    with FakeModelServer(ScriptedModel(script, token_digits=token_digits, split=0.3)) as server:
        reply = asyncio.run(session(server.url))
    assert ("expected", exact.raw) == (reply.method, reply.raw)
    assert (pytest.approx(exact.value, abs=1e-6), pytest.approx(0.7, abs=1e-6)) == (reply.value, reply.mass)
    assert reply.usage.calls == exact.usage.calls


def test_range_with_more_numbers_than_one_row_can_ask_for():
    """Three-digit tokens on a scale to 1000: more than 128 of them are asked for in several rows."""
    script = {"999": 0.5, "1000": 0.25, "7": 0.25}
    reply = ask(ScriptedModel(script, token_digits=3), high=1000)
    assert (pytest.approx(0.5 * 999 + 0.25 * 1000 + 0.25 * 7), "expected") == (reply.value, reply.method)


def test_negative_scale():
    """Signs are part of the numeral."""
    reply = ask(ScriptedModel({"-2": 0.5, "2": 0.25, "0": 0.25}), low=-2, high=2)
    assert (pytest.approx(-0.5), "expected") == (reply.value, reply.method)


@pytest.mark.parametrize(
    "model",
    [
        ScriptedModel({"70": 1.0}, exact_route=None),
        ScriptedModel({"70": 1.0}, exact_route="echo"),
        ScriptedModel({"70": 1.0}, exact_route=None, top_logprobs=0),
    ],
    ids=["top logprobs only", "echo", "nothing"],
)
def test_without_the_route_the_reply_counts(model):
    """What cannot be read exactly is not guessed from first tokens: the parsed number, and the method says so."""
    reply = ask(model)
    assert (70, "single_reply_no_probabilities", None, None) == (reply.value, reply.method, reply.interval, reply.mass)


@pytest.mark.parametrize(("low", "high"), [(0, 0.5), (0, 5000)])
def test_scales_without_a_list_of_numbers(low, high):
    """Fractions and very long scales fall back as well."""
    assert "single_reply_no_probabilities" == ask(ScriptedModel({"0": 1.0}), low=low, high=high).method


def test_little_mass_falls_back_and_is_told():
    """A judge that mostly replies otherwise has no expectation worth its name."""
    reply = ask(ScriptedModel({"Score: 70": 0.6, "10": 0.4}))
    assert (70, "single_reply") == (reply.value, reply.method)
    assert 0.4 == pytest.approx(reply.mass)
    assert reply.interval is None


class ReasoningModel(ScriptedModel):
    """Begins its replies with reasoning."""

    async def capabilities(self, *, fresh=False):
        return (await super().capabilities(fresh=fresh)).model_copy(update={"reasons": True})


def test_reasoning_models_fall_back():
    """Their first tokens say nothing about the answer."""
    assert "single_reply_no_probabilities" == ask(ReasoningModel({"70": 1.0})).method


class MarkedModel(ScriptedModel):
    """A tokeniser that puts a mark before every text, as SentencePiece does."""

    def _encode(self, text):
        return [self._id("▁"), *super()._encode(text)]


class GluedMarkModel(ScriptedModel):
    """A tokeniser whose mark is part of the first token, and that takes no notice of spaces before it."""

    def _encode(self, text):
        first, *rest = super()._encode(text.lstrip(" ") or " ")
        return [self._id("▁" + self._pieces[first]), *rest]


class BlindModel(ScriptedModel):
    """A tokeniser without digits."""

    def _encode(self, text):
        return [self._id("?") if self._pieces[token].isdigit() else token for token in super()._encode(text)]


@pytest.mark.parametrize("kind", [MarkedModel, GluedMarkModel])
def test_tokenisers_with_a_mark(kind):
    """Tokens that cannot be strung together are not: only the tokeniser's own spelling of each number is read."""
    model = kind({"8": 1.0})
    spellings = asyncio.run(build_spellings(model, 0, 100))
    bare = asyncio.run(model.text_ids("85"))
    assert 85 == spellings.numbers[tuple(bare)]
    eight, five = (tuple(asyncio.run(model.text_ids(digit))) for digit in "85")
    assert (*eight, *five) not in spellings.numbers


def test_tokenisers_that_cannot_tell_numbers_apart():
    """No distribution over what looks all the same."""
    assert asyncio.run(build_spellings(BlindModel({"8": 1.0}), 0, 9)) is None


def test_all_spellings_of_a_number():
    """The numeral 100 in tokens of up to three digits: four ways to cut it, with and without a space and a newline."""
    model = ScriptedModel({"8": 1.0}, token_digits=3)
    spellings = asyncio.run(build_spellings(model, 0, 100))
    assert 4 * 2 * 2 == list(spellings.numbers.values()).count(100)
    assert (0, 100) == spellings.reach[()]


def test_spellings_are_found_out_once():
    """Concurrent and later questions share them; another event loop does too."""
    model = ScriptedModel({"70": 1.0})
    asked = []
    original = model.text_ids

    async def counted(text):
        asked.append(text)
        return await original(text)

    model.text_ids = counted
    judge = ModelJudge(model, score_mode="expected")

    async def many():
        return await asyncio.gather(*(judge.ask_number(PROMPT) for _ in range(5)))

    asyncio.run(many())
    asyncio.run(many())
    assert len(set(asked)) == len(asked)


def test_sampled_mean():
    """All draws in one request at temperature 1 with every field spelt out; the mean with its interval."""
    model = ScriptedModel({"80": 0.5, "60": 0.5})
    reply = ask(model, score_mode="sampled", draws=40)
    (request,) = model.requests
    assert (40, 1.0, 1.0, -1) == (
        request.n,
        request.sampling["temperature"],
        request.sampling["top_p"],
        request.sampling["top_k"],
    )
    values = [float(value) for value in reply.raw.split(", ")]
    assert {60.0, 80.0} == set(values)
    assert (pytest.approx(sum(values) / 40), "sampled", 40, 0) == (reply.value, reply.method, reply.n, reply.n_missing)
    assert 0 <= reply.interval.low < reply.value < reply.interval.high <= 100
    assert 0.95 == reply.interval.confidence_level


def test_sampled_seed_is_sent():
    """A judge with a seed draws with it."""
    model = ScriptedModel({"80": 1.0})
    ask(model, score_mode="sampled", seed=3)
    assert 3 == model.requests[0].sampling["seed"]


def test_sampled_counts_what_it_cannot_read():
    """Draws without a number are left out of the mean and counted."""
    model = ScriptedModel({"80": 0.7, "who knows": 0.3}, seed=1)
    reply = ask(model, score_mode="sampled", draws=30)
    assert 80 == reply.value
    assert 30 == reply.n + reply.n_missing
    assert 0 < reply.n_missing < 15


@pytest.mark.parametrize(
    ("script", "max_tokens", "kind"),
    [({"who knows": 1.0}, 64, "unparseable"), ({"a b c d e f g": 1.0}, 3, "truncated")],
)
def test_sampled_without_enough_numbers(script, max_tokens, kind):
    """Fewer than half is an error with a reply in it, never a mean of the few."""
    with pytest.raises(JudgeReplyError, match="0 of 5 replies") as caught:
        ask(ScriptedModel(script), score_mode="sampled", max_tokens=max_tokens)
    assert (kind, True) == (caught.value.kind, bool(caught.value.raw))


def test_sampled_with_a_few_numbers_only():
    """Some numbers, but fewer than half: still an error."""
    model = ScriptedModel({"80": 0.2, "who knows": 0.8}, seed=1)
    with pytest.raises(JudgeReplyError, match=r"[1-9] of 30 replies") as caught:
        ask(model, score_mode="sampled", draws=30)
    assert ("unparseable", "who knows") == (caught.value.kind, caught.value.raw)


def test_ccrs_carries_interval_and_mass():
    """On the metric's range: a hundredth of the judge's, for answer correctness shifted and scaled by its weights."""
    model = ScriptedModel({"80": 0.5, "60": 0.5 - 1e-6, "no": 1e-6}, token_digits=2)
    judge = ModelJudge(model, score_mode="expected")
    sample = make_sample(response="31 metres", reference="31 metres")
    relevance = asyncio.run(QuestionRelevance().score(sample, judge))
    assert (pytest.approx(0.7, abs=1e-5), "expected") == (relevance.value, relevance.method)
    assert 1 - 1e-6 == pytest.approx(relevance.details["format_mass"], abs=1e-9)
    assert "exact" == relevance.interval.method

    sampled = ModelJudge(ScriptedModel({"80": 0.5, "60": 0.5}), score_mode="sampled", draws=20)
    outcome = asyncio.run(AnswerCorrectness().score(sample, sampled))
    drawn = asyncio.run(
        ModelJudge(ScriptedModel({"80": 0.5, "60": 0.5}), score_mode="sampled", draws=20).ask_number(PROMPT)
    )
    assert (20, pytest.approx(0.7 + 0.3 * drawn.value / 100)) == (outcome.n, outcome.value)
    assert pytest.approx(0.7 + 0.3 * drawn.interval.low / 100) == outcome.interval.low
    assert pytest.approx(0.7 + 0.3 * drawn.interval.high / 100) == outcome.interval.high
    assert {"em": 1.0, "judge": pytest.approx(drawn.value / 100)} == outcome.details


def test_ccrs_counts_draws_without_a_number():
    """What was left out stands in the details."""
    judge = ModelJudge(ScriptedModel({"80": 0.7, "who knows": 0.3}, seed=1), score_mode="sampled", draws=30)
    outcome = asyncio.run(QuestionRelevance().score(make_sample(), judge))
    assert 30 == outcome.n + outcome.details["n_missing"]


def test_identity_follows_the_mode():
    """Another mode is another judge, another number of draws too where there are draws."""
    model = ScriptedModel({"80": 1.0})
    hashes = [
        ModelJudge(model, **options).identity.hash
        for options in (
            {},
            {"score_mode": "expected"},
            {"score_mode": "sampled"},
            {"score_mode": "sampled", "draws": 9},
        )
    ]
    assert 4 == len(set(hashes))
    assert hashes[1] == ModelJudge(model, score_mode="expected", draws=9).identity.hash
    assert hashes[0] == ModelJudge(model, draws=9).identity.hash


@pytest.mark.parametrize("options", [{"score_mode": "mean"}, {"draws": 1}])
def test_impossible_options(options):
    """They are refused by name."""
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        ModelJudge(ScriptedModel({"80": 1.0}), **options)
