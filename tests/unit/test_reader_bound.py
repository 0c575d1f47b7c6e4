"""Bounds from one greedy reply: they hold the truth, whatever the model and however few alternatives it lists."""

from __future__ import annotations

import asyncio
import math
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fake_servers import FakeModelServer
from ragstone.errors import ConfigurationError, JudgeReplyError
from ragstone.judges import Capabilities, ChatReader, ChatRequest, OpenAICompatibleModel, TokenLogprobs
from ragstone.judges._abstention.bound import bound
from scripted_model import ScriptedModel

ANSWERS = [
    "NO-RESPONSE", " NO-RESPONSE", "NO-RESPONSE.", "\nNO-RESPONSE", "NO-RESPONSE because", "NO-Kappa", "NO-Sigma", "NO",
    "NO-", "NO-RESP", "NO-RESPONDER", "N", "Norway", "no", "Oslo", "Bergen", "42", "", "-RESPONSE", "The answer is Oslo",
    *(f"city {n}" for n in range(25)),
]  # fmt: skip
SCRIPTS = st.dictionaries(
    st.sampled_from(ANSWERS), st.floats(-8, 0).map(math.exp), min_size=1, max_size=len(ANSWERS)
).map(lambda weights: {text: weight / sum(weights.values()) for text, weight in weights.items()})


def truth(replies, phrases=("NO-RESPONSE",)):
    return sum(p for text, p in replies.items() if text.lstrip().startswith(phrases))


def read(model, **options):
    return asyncio.run(
        ChatReader(model, estimator="first_token", **options).estimate_abstention("Where?", ["In Oslo."])
    )


@given(SCRIPTS, st.sampled_from([0.0, 0.05, 0.5]), st.sampled_from([1, 2, 3, 5, 20]))
@example({"NO-Kappa": 0.9, "NO-RESPONSE": 0.1}, 0.0, 20)
@example({"NO-RESPONSE": 0.5, "Oslo": 0.5}, 0.5, 1)
@settings(max_examples=150, deadline=None)
def test_the_bounds_hold_the_truth(replies, split, top):
    """For answers that share first tokens, for other spellings, and for one listed alternative or twenty."""
    reading = read(ScriptedModel(replies, split=split, top_logprobs=top))

    assert reading.interval.low <= truth(replies) <= reading.interval.high
    assert reading.interval.low <= reading.value <= reading.interval.high
    assert ("first_token", "bound", None) == (reading.method, reading.interval.method, reading.complete)


@given(SCRIPTS, st.sampled_from([1, 3, 20]), st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_any_reply_will_do(replies, top, seed):
    """An endpoint that knows no temperature gives a drawn reply, and the bounds hold the truth all the same."""
    model = ScriptedModel(replies, top_logprobs=top, seed=seed)
    request = ChatRequest(messages=[{"role": "user", "content": "?"}], max_tokens=12, top_logprobs=top)
    (completion,) = asyncio.run(model.complete(request))
    # What ends at once has no token to look at.
    low, seen, high = bound(completion.tokens or (), ["NO-RESPONSE"])

    assert low <= truth(replies) <= high
    assert low <= seen <= high


@given(SCRIPTS, st.sampled_from([0.0, 0.3]))
@settings(max_examples=60, deadline=None)
def test_the_bounds_hold_the_exact_reading(replies, split):
    """The two estimators agree about what they estimate."""
    exact = asyncio.run(ChatReader(ScriptedModel(replies, split=split)).estimate_abstention("Where?", ["In Oslo."]))
    reading = read(ScriptedModel(replies, split=split, top_logprobs=5))

    assert "exact_sequence" == exact.method
    assert reading.interval.low <= exact.value <= reading.interval.high


WORDS = ["NO", "NO ANSWER", "No", "Not found", "Norway", "I do not know.", "I do not know", "NOTE", "NO-RESPONSE"]


@given(
    st.dictionaries(
        st.builds(
            str.format,
            st.sampled_from(["{}", " {}", "{}.", "{}, sorry", "{}\n\n{}"]),
            word := st.sampled_from(WORDS),
            word,
        ),
        st.floats(0.001, 1),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True),
    st.sampled_from([1, 2, 5, 20]),
)
@settings(max_examples=100, deadline=None)
def test_the_bounds_hold_the_exact_reading_of_any_phrases(weights, phrases, top):
    """Phrases that begin alike, that end in a mark, and that other words begin with."""
    replies = {text: weight / sum(weights.values()) for text, weight in weights.items()}
    model = ScriptedModel(replies, top_logprobs=top)
    exact = asyncio.run(
        ChatReader(model, abstention=phrases, estimator="exact").estimate_abstention("Where?", ["In Oslo."])
    )
    interval = read(model, abstention=phrases).interval

    assert interval.low <= exact.value <= interval.high


def test_an_abstaining_reply_gives_a_narrow_interval():
    """The reply's own tokens are followed, so that other answers with the first token are told apart."""
    reading = read(ScriptedModel({"NO-RESPONSE": 0.7, "NO-Kappa": 0.2, "Oslo": 0.1}))

    assert (0.7, 0.7, 0.7) == pytest.approx((reading.interval.low, reading.value, reading.interval.high), abs=2e-5)


def test_a_long_phrase_is_followed_to_its_end():
    """The greedy reply is as long as the phrase needs."""
    phrase = "The documents that were found do not hold an answer to this question"
    reading = read(ScriptedModel({phrase: 0.8, "Oslo": 0.2}), abstention=phrase)

    assert (0.8, 0.8) == pytest.approx((reading.interval.low, reading.interval.high), abs=2e-5)


def test_another_reply_gives_an_upper_bound():
    """What shares the phrase's first token might be it, and nothing is certain."""
    reading = read(ScriptedModel({"NO-RESPONSE": 0.1, "NO Kappa": 0.2, "Oslo": 0.7}))

    assert (0.0, 0.3, 0.3) == pytest.approx((reading.interval.low, reading.value, reading.interval.high), abs=2e-5)


def test_what_is_not_listed_counts_at_the_upper_end():
    """As much as is left of 1, or as many spellings as there may be of the least likely listed probability."""
    few = (TokenLogprobs(text="Oslo", logprob=math.log(0.6), top=(("Oslo", math.log(0.6)), ("Rome", math.log(0.3)))),)
    low, seen, high = bound(few, ["NO"])

    assert (0.0, 0.0, 0.1) == pytest.approx((low, seen, high), abs=2e-5)

    many = tuple((f"x{n}", math.log(0.001)) for n in range(19))
    one = (TokenLogprobs(text="Oslo", logprob=math.log(0.6), top=(("Oslo", math.log(0.6)), *many)),)
    low, seen, high = bound(one, ["NO"])

    # "", " ", "\n" and "\n\n" before "", "N" and "NO", but for the empty one, and four that run past the end.
    assert (0.0, 0.0, 0.015) == pytest.approx((low, seen, high), abs=2e-5)


def test_a_reply_that_stops_on_the_way_leaves_what_it_had():
    """How likely the end was instead of the rest is not reported, so all of it may be the phrase."""
    reading = read(ScriptedModel({"NO": 0.6, "NO-RESPONSE": 0.1, "Oslo": 0.3}))

    assert (0.0, 0.0, 0.7) == pytest.approx((reading.interval.low, reading.value, reading.interval.high), abs=2e-5)


def test_a_reply_that_ends_at_once_tells_nothing():
    """It has no token, and so no alternatives to one."""
    reading = read(ScriptedModel({"": 0.6, "NO-RESPONSE": 0.4}))

    assert (0.0, 1.0) == (reading.interval.low, reading.interval.high)


def test_a_reply_without_its_own_token_among_the_listed():
    """Some servers list the likeliest tokens only; the one that was drawn is known as well."""
    token = TokenLogprobs(text="NO", logprob=math.log(0.05), top=(("Oslo", math.log(0.9)),))
    rest = TokenLogprobs(text="-RESPONSE", logprob=0.0, top=(("-RESPONSE", 0.0),))

    low, seen, high = bound((token, rest), ["NO-RESPONSE"])

    assert (0.05, 0.05, 0.1) == pytest.approx((low, seen, high), abs=2e-5)


def test_an_unlikely_reply_says_nothing_of_the_tail():
    """A drawn token is reported beside the likeliest ones; others that are not listed may be likelier than it."""
    top = (("Oslo", math.log(0.5)), ("Rome", math.log(0.3)), ("x", math.log(1e-6)))
    low, seen, high = bound((TokenLogprobs(text="x", logprob=math.log(1e-6), top=top),), ["NO"])

    assert (0.0, 0.0, 0.2) == pytest.approx((low, seen, high), abs=2e-5)


def test_log_probabilities_that_do_not_come_are_an_error():
    """Nothing to look at is no probability of nought."""
    with FakeModelServer(ScriptedModel({"Oslo": 1.0}), "ollama", changes={"logprobs": "dropped"}) as server:

        async def ask():
            model = OpenAICompatibleModel(server.url)
            model._capabilities = Capabilities(model="m", top_logprobs=20, logprobs_raw=True)
            try:
                await ChatReader(model, estimator="first_token").estimate_abstention("Where?", ["In Oslo."])
            finally:
                await model.aclose()

        with pytest.raises(JudgeReplyError, match="sent no log-probabilities"):
            asyncio.run(ask())


@pytest.mark.parametrize(
    ("can", "reason"),
    [
        ({"top_logprobs": 0}, "no log-probabilities"),
        ({"logprobs_raw": False}, "depend on the temperature"),
        ({"logprobs_raw": None}, "could not be measured"),
        ({"reasons": True}, "begin with reasoning"),
    ],
)
def test_where_it_cannot_be_done(can, reason):
    """The message says why, and what can be done there."""
    model = ScriptedModel({"Oslo": 1.0}, exact_route=None)
    model._capabilities = Capabilities(**{"model": "m", "top_logprobs": 20, "logprobs_raw": True} | can)

    with pytest.raises(ConfigurationError, match=rf"{reason}.*Use 'monte_carlo'"):
        asyncio.run(ChatReader(model, estimator="first_token").prepare())


@pytest.mark.parametrize("dialect", ["vllm", "openai", "sglang", "llamacpp"])
def test_over_http(dialect):
    """Servers report the end of the turn, or do not; the bounds hold the truth with each."""
    rng = random.Random(5)
    scripts = [
        {text: w / sum(weights) for text, w in zip(ANSWERS, weights, strict=True)}
        for weights in ([rng.random() ** 6 for _ in ANSWERS] for _ in range(6))
    ]

    async def ask(url):
        model = OpenAICompatibleModel(url)
        model._capabilities = Capabilities(model="m", top_logprobs=5, logprobs_raw=True)
        try:
            return await ChatReader(model, estimator="first_token").estimate_abstention("Where?", ["In Oslo."])
        finally:
            await model.aclose()

    for replies in scripts:
        with FakeModelServer(ScriptedModel(replies), dialect) as server:
            reading = asyncio.run(ask(server.url))

        assert reading.interval.low <= truth(replies) <= reading.interval.high


@pytest.mark.parametrize("top", [1, 2, 5, 20])
def test_a_longer_word_is_not_the_phrase(top):
    """The tokens "NOTE" and "NOW" begin with "NO", and say something else: so say the exact reading and the draws."""
    model = ScriptedModel({"NO": 0.1, "NOTE": 0.6, "NOW it is": 0.2, "Oslo": 0.1}, top_logprobs=top)
    reading = read(model, abstention="NO")

    assert reading.interval.low <= 0.1 <= reading.interval.high
    assert reading.interval.high < 0.5


def test_a_script_without_blanks_leaves_it_open_where_the_word_ends():
    """A token that continues after the phrase is possible, and not certain."""
    tokens = [
        TokenLogprobs(text="不明だ", logprob=math.log(0.6), top=(("不明だ", math.log(0.6)), ("不明", math.log(0.3))))
    ]
    low, seen, high = bound(tokens, ["不明"])

    assert (0.3, 0.9) == pytest.approx((low, seen), abs=2e-5)
    assert high >= 0.9


def test_half_a_character_may_lead_on():
    """Tokens that are bytes of a letter arrive as replacement marks; what they spell is open."""
    token = TokenLogprobs(
        text="\ufffd", logprob=math.log(0.9), top=(("\ufffd", math.log(0.9)), ("Oslo", math.log(0.1)))
    )

    assert (0.0, 0.9, 0.9) == pytest.approx(bound([token], ["不明"]), abs=2e-5)
    # Letters of this phrase are single bytes.
    assert (0.0, 0.0, 0.0) == pytest.approx(bound([token], ["NO-RESPONSE"]), abs=2e-5)


def test_the_mark_at_the_end_of_a_phrase_is_not_waited_for():
    """Tokenisers join it with the white space after it, and drawn replies are looked at without it."""
    replies = {"I do not know.\n\nSorry": 0.5, "I do not know, sorry": 0.4, "Oslo": 0.1}
    reading = read(ScriptedModel(replies), abstention="I do not know.")

    assert (0.9, 0.9) == pytest.approx((reading.interval.low, reading.interval.high), abs=3e-5)
