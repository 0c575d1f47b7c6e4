"""The lexical baseline: what its numbers are, and what it refuses."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from ragstone.errors import JudgeError
from ragstone.judges import JudgeIdentity, Prompt, is_baseline
from ragstone.judges.lexical import LexicalJudge


def ask(construct, **fields):
    judge = LexicalJudge()
    return asyncio.run(judge.ask_number(Prompt(construct=construct, task="", fields=fields))).value


@pytest.mark.parametrize(
    ("construct", "fields", "expected"),
    [
        ("contextual_coherence", {"response": "blue whales sing", "contexts": ("Blue whales.", "Cats.")}, 200 / 3),
        ("contextual_coherence", {"response": "blue", "contexts": ()}, 0),
        ("question_relevance", {"query": "How tall is the tower?", "response": "The tower: 31 m tall"}, 100),
        ("question_relevance", {"query": "What is it?", "response": "it is blue"}, 200 / 3),
        ("information_density", {"response": "seven whales sing blue songs"}, 100),
        ("information_density", {"response": "blue blue blue blue"}, 100 * 1 / 4 * 1 / 5),
        ("answer_correctness", {"response": "blue whales", "reference": ("red cats", "blue cats")}, 50),
        ("information_recall", {"response": "blue whales", "reference": ("blue whales sing softly",)}, 50),
        ("information_recall", {"response": "Straße", "reference": "STRASSE"}, 100),
        ("information_recall", {"response": "灯塔高三十一米", "reference": ("灯塔",)}, 100),
        ("information_recall", {"response": "маяк высокий", "reference": ("Маяк",)}, 100),
    ],
)
def test_numbers(construct, fields, expected):
    """Shares of words, by construct, in any script."""
    assert pytest.approx(expected) == ask(construct, **fields)


@pytest.mark.parametrize(
    ("construct", "fields"),
    [
        ("sarcasm", {"response": "well done"}),
        ("question_relevance", {"query": "???", "response": "blue"}),
        ("contextual_coherence", {"response": "...", "contexts": ("blue",)}),
        ("information_density", {"response": "!"}),
        ("answer_correctness", {"response": "blue", "reference": ("…",)}),
    ],
)
def test_refuses_what_it_cannot_compare(construct, fields):
    """Another construct, or 0 words of 0: no number."""
    with pytest.raises(JudgeError) as caught:
        ask(construct, **fields)
    assert "unsupported" == caught.value.kind


@pytest.mark.parametrize(
    ("construct", "fields", "expected"),
    [
        ("answer_grade", {"response": "The blue whale.", "reference": ("A blue whale",)}, {"grade": "correct"}),
        ("answer_grade", {"response": "A shrimp.", "reference": ("A blue whale",)}, {"grade": "wrong"}),
        ("answer_grade", {"response": "?", "reference": ("?",)}, {"grade": "wrong"}),
        ("answer_grade", {"response": "I don't know.", "reference": ("A blue whale",)}, {"grade": "abstain"}),
        ("claims", {"text": "It is tall. It is red!"}, {"items": ["It is tall.", "It is red!"]}),
        ("claims", {"text": "x" * 1500}, {"items": ["x" * 1000]}),
        ("entailment", {"evidence": "A tall tower", "claims": ("tall tower", "red tower roof")}, {"1": 1, "2": 0}),
        ("answer_questions", {"response": "It is tall. It is red."}, {"items": ["It is tall."]}),
        ("question_equivalence", {"query": "tall tower?", "questions": ("a tall tower", "tall", "??")}, [100, 50, 0]),
        ("sentence_relevance", {"query": "tall tower?", "sentences": ("A tower.", "Red.")}, {"1": 1, "2": 0}),
        ("sentence_relevance", {"query": "??", "sentences": ("A tower.",)}, {"1": 0}),
    ],
)
def test_values(construct, fields, expected):
    """Sentences, and shares of words, by construct."""
    if isinstance(expected, list):
        expected = {str(n): value for n, value in enumerate(expected, start=1)}
    prompt = Prompt(construct=construct, task="", fields=fields)
    assert expected == asyncio.run(LexicalJudge().ask_json(prompt, TypeAdapter(dict[str, Any]))).value


def test_writes_no_text():
    """A table that shows its "explanation" would be a lie."""
    with pytest.raises(JudgeError, match="does not generate text"):
        asyncio.run(LexicalJudge().ask_text(Prompt(construct="x", task="", fields={})))


def test_says_that_it_is_a_baseline():
    """Tables and reports rely on it."""
    assert LexicalJudge().identity.is_baseline
    assert is_baseline(LexicalJudge().identity.name)


def test_a_baseline_is_named_so():
    """Outcomes contain only the name, so that of a user's baseline says it once, also with a reader's."""
    identity = JudgeIdentity(name="coin", hash="1", is_baseline=True)
    assert "coin (baseline)" == identity.name == replace(identity).name
    assert is_baseline(None, f"qwen3, read by {identity.name}")
    assert not is_baseline(JudgeIdentity(name="baseline-7b at localhost", hash="2").name, None)
