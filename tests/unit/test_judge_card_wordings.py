"""The paraphrases: every task of a judged metric has two, and they ask for the same fields and scale."""

from __future__ import annotations

import asyncio
import re

import pytest

from ragstone.judges import Prompt
from ragstone.metrics import Criterion, EmbedderMetric, ReaderMetric, all_metrics, resolve_metrics
from ragstone.reading import sample_from_row
from ragstone.schema import Passage, Sample
from ragstone.testing import FakeJudge
from ragstone_lab._card.conditions import Run, judge_of, reordered
from ragstone_lab._card.wordings import _PARAPHRASES, N_WORDINGS, _key, reword

JUDGED = [
    metric
    for metric in all_metrics()
    if metric.card.asks_judge and metric.card.extra is None and not isinstance(metric, ReaderMetric | EmbedderMetric)
]


def prompts_of(metric, **changes):
    """The prompts of a metric for the sample of its worked example, without stored ratings."""
    judge = FakeJudge(json=_reply_of(metric))
    sample = sample_from_row(metric.card.example.row, position=1).model_copy(update={"ratings": None, **changes})
    asyncio.run(metric.score(sample, judge))
    return judge.prompts


def _reply_of(metric):
    """The JSON replies of the metric's worked example, or ratings for each sub-question."""
    queues = {
        key: list(value) if isinstance(value, tuple) else value for key, value in metric.card.example.replies.items()
    }

    def reply(prompt):
        if prompt.construct == "answerability":
            return {str(n): 3 for n in range(1, len(prompt.fields["sub_questions"]) + 1)}
        if prompt.construct == "sub_questions":
            return {"items": ["How tall is it?"]}
        queue = queues[prompt.construct]
        return queue.pop(0) if isinstance(queue, list) else queue

    return reply


@pytest.mark.parametrize("metric", JUDGED, ids=lambda metric: metric.card.name)
def test_every_task_has_paraphrases(metric):
    """A metric with a new task fails here: write its paraphrases in `_card/wordings.py` of the lab."""
    prompts = prompts_of(metric)
    # Stored ratings are required, and then the judge is not called.
    assert prompts or "ratings" in metric.card.needs
    for prompt in prompts:
        assert _key(prompt) in _PARAPHRASES, prompt.construct
        texts = {prompt.task, *(reword(prompt, n) for n in range(1, N_WORDINGS + 1))}
        assert 1 + N_WORDINGS == len(texts)
        # Fields are named in the task, so a paraphrase that names another field belongs to another task.
        known = {"reference", "response", "passage", "contexts", "query", "evidence"}
        for text in texts - {prompt.task}:
            named = set(re.findall(r"[a-z]+", text)) & {"reference", "response", "contexts", "evidence"}
            assert named <= set(prompt.fields) & known | {"contexts", "query", "passage"}, (prompt.construct, text)


def test_every_paraphrase_belongs_to_a_task():
    """Texts that no metric uses would only look maintained."""
    texts = {"query": "Why?", "response": "So.", "reference": ("So.",)}
    variants = (
        {},
        {**texts, "sub_questions": ()},
        {**texts, "sub_questions": (), "reference": ()},
        {"reference": (), "response": None},
    )
    used = {
        _key(prompt)
        for metric in JUDGED
        for changes in variants
        if "ratings" not in metric.card.needs
        for prompt in prompts_of(metric, **changes)
    }
    assert _PARAPHRASES.keys() <= used


def test_tasks_of_one_construct_have_their_own_paraphrases():
    """Claims against passages or answers, one question or three, and useful or sufficient passages."""
    texts = [
        reword(prompt, 1)
        for name in (
            "ragas.context_precision",
            "ragas.answer_relevancy",
            "vera.answer_relevance",
            "ragchecker.precision",
        )
        for prompt in prompts_of(resolve_metrics(name)[0])
    ]
    assert any(text.startswith("Task: write 3 different questions") for text in texts)
    assert any(text.startswith("Task: write the single question") for text in texts)
    assert any("contributes to the reference" in text for text in texts)
    (metric,) = resolve_metrics("judged.hit_rate")
    for changes, expected in (
        ({"reference": ()}, "could give an answer to the query"),
        ({"reference": ("a",)}, "could give the answer in the reference"),
    ):
        assert expected in reword(prompts_of(metric, **changes)[0], 1)
    passages = [reword(prompt, 1) for prompt in prompts_of(resolve_metrics("ragas.faithfulness")[0])]
    answers = [reword(prompt, 1) for prompt in prompts_of(resolve_metrics("ragchecker.precision")[0])]
    assert not any("The evidence answers the query" in text for text in passages)
    assert any("The evidence answers the query" in text for text in answers)


def test_a_prompt_of_the_user_gets_a_sentence_around_it():
    """It is not replaced by a paraphrase of the built-in prompt, and its placeholders stay."""
    (metric,) = resolve_metrics("ccrs.qr")
    (prompt,) = prompts_of(metric.with_prompts({"rating": "Does {response} answer {query}? 0 to 100."}))
    for number in (1, 2):
        assert prompt.task in reword(prompt, number)
        assert prompt.task != reword(prompt, number)


def test_own_criteria_get_a_sentence_around_their_text():
    """Their text is the user's, so it is not paraphrased."""
    metric = Criterion("Does the answer name the version?", needs=("query", "response"))
    (prompt,) = prompts_of(metric)
    assert _key(prompt) not in _PARAPHRASES
    for number in (1, 2):
        text = reword(prompt, number)
        assert prompt.task in text
        assert text != prompt.task


def test_reworded_judge_passes_everything_else_on():
    """All three kinds of request, and the preparation."""
    judge = FakeJudge(50, text="text", json={"claims": {"items": []}})
    reworded = judge_of(judge, Run(condition="wording", level=2))
    prompt = Prompt(construct="claims", task="List.", fields={"text": "A."})

    async def ask():
        await reworded.prepare()
        return (await reworded.ask_text(prompt, max_tokens=9)).text, (
            await reworded.ask_number(prompt, low=0, high=60)
        ).value

    assert ("text", 50) == asyncio.run(ask())
    assert {reword(prompt, 2)} == {asked.task for asked in judge.prompts}
    asyncio.run(reworded.aclose())


@pytest.mark.parametrize(
    ("texts", "reverse", "shuffled"),
    [
        ("AB", "BA", True),
        ("ABC", "CBA", True),
        ("ABA", None, True),
        ("A", None, False),
        ("AA", None, False),
        ("", None, False),
    ],
)
def test_reordered(texts, reverse, shuffled):
    """An order that shows the judge the same prompt is none."""
    sample = Sample(id="s", contexts=tuple(Passage(text=text) for text in texts))
    changed = reordered(sample, Run(condition="order", level=1), 0)
    assert reverse == (None if changed is None else "".join(passage.text for passage in changed.contexts))
    orders = {
        None
        if (other := reordered(sample, Run(condition="order", level=2), seed)) is None
        else "".join(p.text for p in other.contexts)
        for seed in range(30)
    }
    assert texts not in orders
    assert shuffled == (None not in orders)
    assert all(sorted(order) == sorted(texts) for order in orders if order is not None)
