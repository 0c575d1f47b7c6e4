"""What a judge call costs: the tokens of its prompt, compared with the bare question."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from builders import make_sample
from ragstone.demo._chain import load_corpus, load_questions
from ragstone.judges import Prompt
from ragstone.judges._render import number_request, render
from ragstone.metrics import resolve_metrics
from ragstone.metrics.ccrs import CCRS
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

pytestmark = pytest.mark.bench

MAX_RATIO = 1.08
COUNTS: dict[str, Callable[[str], int]] = {
    "words": lambda text: len(text.split()),
    # Words of common tokenizers have up to about ten letters, and punctuation is a token.
    "pieces": lambda text: len(re.findall(r"[^\W\d_]{1,10}|\d{1,3}|[^\w\s]|_", text)),
}


def fields_of_samples():
    """The fields of CCRS prompts: five passages of about 120 words each."""
    sections = [passage.text for passage in load_corpus()]
    for n, question in enumerate(load_questions()[:12]):
        turned = sections[n:] + sections[:n]
        passages = tuple(" ".join(turned[4 * k : 4 * k + 4]) for k in range(5))
        yield {
            "query": question.query,
            "contexts": passages,
            "response": question.reference,
            "reference": (question.reference,),
        }


def test_prompts_against_the_bare_question():
    """Tags, system message and line breaks add at most 8% to passages, texts, task and the request for a number."""
    request = number_request(0, 100)
    for name, count in COUNTS.items():
        sent = bare = calls = 0
        for fields in fields_of_samples():
            for metric in CCRS:
                shown = {
                    key: value for key, value in fields.items() if key != "reference" or "reference" in metric.needs
                }
                prompt = Prompt(construct=metric.construct, task=metric.task, fields=shown)
                sent += count("\n".join(message["content"] for message in render(prompt, request=request)))
                texts = [text for value in shown.values() for text in ([value] if isinstance(value, str) else value)]
                bare += count("\n".join([*texts, metric.task, request]))
                calls += 1
        print(f"\n{name}: {sent / calls:.0f} a call, {sent / bare:.3f} of the bare question")
        assert sent / bare <= MAX_RATIO


EXAMPLES = {"claims": 180, "passage_relevance": 130, "answerability": 140}
"""Most tokens of the examples of a construct, in pieces."""


def test_examples_of_a_task():
    """They add a fixed number of tokens to a call, which stand in front of the sample's texts."""
    count = COUNTS["pieces"]
    judge = FakeJudge()
    names = ["ragas.faithfulness", "ragas.context_recall", "judged.precision@5", "crux.coverage"]
    fields = next(fields_of_samples())
    sample = make_sample(**fields, sub_questions=[fields["query"]])
    asyncio.run(Scorer(resolve_metrics(names), judge).score(sample))
    added: dict[str, set[int]] = {}
    for prompt in judge.prompts:
        bare, sent = render(replace(prompt, examples="")), render(prompt)
        assert bare[1:] == sent[1:]
        added.setdefault(prompt.construct, set()).add(count(sent[0]["content"]) - count(bare[0]["content"]))
    print(f"\npieces that examples add to a call: {added}")
    assert {name: max(each) > 0 for name, each in added.items()} == {name: name in EXAMPLES for name in added}
    assert all(max(added[name]) <= limit for name, limit in EXAMPLES.items())
