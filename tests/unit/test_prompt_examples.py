"""Examples in prompts: in front of the sample's texts, in the form of the reply, and with more than one kind of reply."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from builders import make_sample
from ragstone.judges._render import render
from ragstone.metrics import resolve_metrics
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge


def prompts(names, **fields):
    judge = FakeJudge()
    asyncio.run(Scorer(resolve_metrics(names), judge).score(make_sample(**fields)))
    return judge.prompts


def examples(construct, names, **fields):
    """The examples of a construct, which are those of all its prompts."""
    (found,) = {prompt.examples for prompt in prompts(names, **fields) if prompt.construct == construct}
    return found


def replies(text):
    return [json.loads(reply) for reply in re.findall(r"^Reply: (.*)$", text, re.MULTILINE)]


def test_claims():
    """Lists of texts, one in another language and an empty one."""
    lists = [reply["items"] for reply in replies(examples("claims", ["ragas.faithfulness"]))]
    assert [3, 1, 0] == [len(items) for items in lists]
    assert lists[1][0].startswith("Der ")


@pytest.mark.parametrize(("reference", "lines"), [("31 metres", 3), ((), 0)])
def test_relevance(reference, lines):
    """Only 1 and 0, with a reference for each if the sample has one."""
    text = examples("passage_relevance", ["judged.precision@5"], reference=reference)
    assert ["1", "0", "0"] == re.findall(r"^Number: (.*)$", text, re.MULTILINE)
    assert lines == len(re.findall(r"^Reference: ", text, re.MULTILINE))


def test_answerability():
    """One rating for each numbered sub-question, within the scale."""
    text = examples("answerability", ["crux_reference_free.coverage"])
    numbered = [re.findall(r"(\d)\. ", line) for line in re.findall(r"^Sub-questions: (.*)$", text, re.MULTILINE)]
    assert numbered == [list(reply) for reply in replies(text)]
    assert {0, 2, 3, 5} == {rating for reply in replies(text) for rating in reply.values()}


def test_examples_come_before_the_texts_of_the_sample():
    """In the system message, so that all samples share the beginning of the prompt; other prompts do not change."""
    shown = prompts(["ragas.faithfulness"], response="One.") + prompts(["ragas.faithfulness"], response="Two.")
    with_examples = [render(prompt) for prompt in shown if prompt.examples]
    without = [render(prompt) for prompt in shown if not prompt.examples]
    assert (2, 2) == (len(with_examples), len(without))
    (system,) = {messages[0]["content"] for messages in with_examples}
    (bare,) = {messages[0]["content"] for messages in without}
    assert system.startswith(f"{bare}\n\nExamples of claims:")
    assert all("Examples" not in messages[1]["content"] for messages in with_examples)


def test_examples_are_part_of_the_version():
    """A changed example is a changed metric."""
    for name in ("ragas.faithfulness", "ragchecker.precision", "crux.coverage"):
        (metric,) = resolve_metrics(name)
        assert any(text.startswith("Examples of") for text in metric.tasks)
