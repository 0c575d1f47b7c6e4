"""The reader: which estimator it takes, what it asks, what it calls an abstention, and who it is."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.errors import ConfigurationError, JudgeReplyError
from ragstone.judges import Capabilities, ChatReader, OpenAICompatibleModel, Reader, reader_from
from ragstone.judges.lexical import LexicalJudge
from ragstone.testing import FakeJudge
from scripted_model import ScriptedModel

REPLIES = {"NO-RESPONSE": 0.3, "NO Kappa": 0.3, "Oslo": 0.4}


def read(model, **options):
    return asyncio.run(ChatReader(model, **options).estimate_abstention("Where?", ["In Oslo."]))


def answer(replies, **options):
    return asyncio.run(ChatReader(ScriptedModel(replies), **options).answer("Where?", ["In Oslo.", "In Bergen."]))


def test_it_is_a_reader():
    """It has the seam's methods."""
    assert isinstance(ChatReader(ScriptedModel(REPLIES)), Reader)


@pytest.mark.parametrize(
    ("replies", "model", "options", "expected"),
    [
        (REPLIES, {}, {}, "exact_sequence"),
        (REPLIES, {"exact_route": "echo"}, {}, "exact_sequence"),
        # The reply goes elsewhere, and what may be the phrase has 0.3: the bounds are wide.
        ({"NO-RESPONSE": 0.3, "Oslo": 0.7}, {"exact_route": None}, {}, "monte_carlo"),
        ({"NO-RESPONSE": 0.95, "Oslo": 0.05}, {"exact_route": None}, {}, "first_token"),
        ({"NO-RESPONSE": 0.05, "Oslo": 0.95}, {"exact_route": None}, {}, "first_token"),
        (REPLIES, {"exact_route": None, "top_logprobs": 0}, {}, "monte_carlo"),
        (REPLIES, {"exact_route": None}, {"estimator": "first_token"}, "first_token"),
        (REPLIES, {}, {"estimator": "exact"}, "exact_sequence"),
        (REPLIES, {}, {"estimator": "monte_carlo"}, "monte_carlo"),
        (REPLIES, {}, {"refusal_judge": FakeJudge(0)}, "monte_carlo"),
    ],
)
def test_the_estimator(replies, model, options, expected):
    """The best that the endpoint can do; draws where bounds are wide; what was demanded, where it was."""
    assert expected == read(ScriptedModel(replies, **model), **options).method


def test_a_model_that_reasons_first_is_drawn_from():
    """Its first tokens are its thoughts."""
    model = ScriptedModel(REPLIES)
    model._capabilities = Capabilities(model="m", exact_route="chain", top_logprobs=20, logprobs_raw=True, reasons=True)

    assert "monte_carlo" == read(model).method
    with pytest.raises(ConfigurationError, match="begin with reasoning"):
        read(model, estimator="exact")


def test_what_was_spent_is_told_whole():
    """Bounds that were too wide were paid for as well."""
    model = ScriptedModel({"NO-RESPONSE": 0.4, "Oslo": 0.6}, exact_route=None)
    reader = ChatReader(model, max_draws=10, target_width=None)
    reading = asyncio.run(reader.estimate_abstention("Where?", ["In Oslo."]))

    assert ("monte_carlo", 2) == (reading.method, reading.usage.calls)
    assert reader.usage == reading.usage


def test_an_answer():
    """The likeliest reply, greedy, from all passages; the reasoning before it is no part of it."""
    model = ScriptedModel({"Oslo": 0.6, "Bergen": 0.4})
    reader = ChatReader(model, prompt="{context}?{question}", separator=" / ", sampling={"user": "x"})
    reply = asyncio.run(reader.answer("Where?", ["In Oslo.", "In Bergen."]))

    assert "Oslo" == reply.text
    assert {"temperature": 0.0, "user": "x"} == model.requests[0].sampling
    assert "In Oslo. / In Bergen.?Where?" == model.requests[0].messages[0]["content"]
    assert "Oslo" == answer({"<think>Norway. Oslo</think>\n\nOslo": 1.0}).text


def test_an_answer_that_is_cut():
    """Half an answer is none."""
    with pytest.raises(JudgeReplyError, match="cut at 3 tokens") as caught:
        answer({"Oslo, which is the capital": 1.0}, max_tokens=3)
    assert "truncated" == caught.value.kind


@pytest.mark.parametrize(
    "reply",
    [
        "NO RESPONSE",
        "no_response.",
        "NO-RESPONSE",
        "no-response",
        "  \n**NO-RESPONSE**",
        '"NO-RESPONSE."',
        "`NO-RESPONSE`",
        "NO-RESPONSE: the passages say nothing of it",
        "NO\u2011RESPONSE",
        "\u201cNo-Response\u201d",
        "<think>Oslo, or\nBergen?</think>\nNO-RESPONSE",
        "Oslo? No.</think>NO-RESPONSE",
        "[NO-RESPONSE]",
        "> NO-RESPONSE\n",
        "\ufeffNO-RESPONSE\u3002",
        "I don\u2019t know.",
        "i don't know, sorry",
        "\u56de\u7b54\u4e0d\u80fd\u3067\u3059",
    ],
)
def test_abstentions(reply):
    """However the phrase is dressed up."""
    phrases = ["NO-RESPONSE", "I don't know.", "\u56de\u7b54\u4e0d\u80fd"]

    assert ChatReader(ScriptedModel(REPLIES), abstention=phrases).is_abstention(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Oslo",
        "",
        "NO-RESPONSES were given",
        "NO-RESPONSE-Kappa",
        "NO-Kappa",
        "NO RESPONSES were given",
        "The answer is NO-RESPONSE",
        "<think>NO-RESPONSE</think>Oslo",
        "<think>NO-RESPONSE",
        "NO-RESP",
    ],
)
def test_other_replies(reply):
    """Another word, a longer one, or the phrase somewhere else."""
    assert not ChatReader(ScriptedModel(REPLIES)).is_abstention(reply)


def test_identity_changes_with_all_that_shapes_the_probability():
    """Model, prompt, phrases, estimator, draws, refusal judge; and with nothing else."""

    def identity(model="m", **options):
        return ChatReader(ScriptedModel(REPLIES, name=model), **options).identity.hash

    variants = [
        {"model": "other"},
        {"prompt": "{context}{question}"},
        {"prompt": "{context} {question}"},
        {"prompt": "{context} {question}", "separator": "\n"},
        {"prompt": lambda query, passages: [{"role": "user", "content": query + "".join(passages)}]},
        {"prompt": lambda query, passages: [{"role": "user", "content": "".join(passages) + query}]},
        {"abstention": "NONE"},
        {"abstention": ["NO-RESPONSE", "NONE"]},
        {"estimator": "monte_carlo"},
        {"max_draws": 40},
        {"target_width": None},
        {"confidence_level": 0.9},
        {"max_tokens": 64},
        {"draw_max_tokens": 64},
        {"seed": 1},
        {"sampling": {"user": "x"}},
        {"refusal_judge": FakeJudge(0)},
        {"refusal_judge": FakeJudge(0, name="another")},
    ]
    hashes = [identity(), *(identity(**options) for options in variants)]

    assert len(hashes) == len(set(hashes))
    assert identity() == identity(abstention=["NO-RESPONSE"], estimator="auto")
    assert identity(estimator="exact") == identity(estimator="exact_sequence")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "guess"}, "one of 'auto'"),
        ({"max_draws": 0}, "max_draws must be an integer of at least 1"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"draw_max_tokens": 0}, "draw_max_tokens"),
        ({"target_width": 1.0}, "target_width"),
        ({"confidence_level": 95}, "level"),
        ({"abstention": []}, "at least one"),
        ({"abstention": "..."}, "letter or digit"),
        ({"sampling": {"temperature": 0.7}}, "'temperature'"),
        ({"refusal_judge": FakeJudge(0), "estimator": "exact"}, "does not sample"),
        ({"prompt": "{question}"}, r"needs a placeholder for the passages. Add \{context\}"),
        ({"prompt": "{documents}"}, r"needs a placeholder for the question. Add \{question\}"),
        ({"prompt": [{"role": "user", "text": "{context}{question}"}]}, "list of messages"),
        ({"prompt": []}, "list of messages"),
        ({"prompt": lambda query, passages: query}, "list of messages"),
        ({"prompt": lambda query: query}, "failed with a question"),
    ],
)
def test_what_cannot_work(options, message):
    """Each is named when the reader is made, not at the first sample."""
    with pytest.raises(ConfigurationError, match=message):
        ChatReader(ScriptedModel(REPLIES), **options)


def test_made_of_a_model():
    """`reader_from` makes the model that a URL names; `ChatReader` takes a model, and says how to make one."""
    reader = reader_from("http://127.0.0.1:1/v1", judge=LexicalJudge())

    assert isinstance(reader, ChatReader)
    assert isinstance(reader.model, OpenAICompatibleModel)
    for wrong in ("http://127.0.0.1:1/v1", "lexical", 5, ScriptedModel):
        with pytest.raises(ConfigurationError, match="OpenAICompatibleModel"):
            ChatReader(wrong)
