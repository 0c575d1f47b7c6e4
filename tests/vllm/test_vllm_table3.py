"""The protocol of the UDCG paper's Table 3 in the tiny reader's world: which metric predicts the reader's answer?"""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path

import pytest

from ragstone.judges import ChatReader, OpenAICompatibleModel
from ragstone_lab import correlate_udcg

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]

N_QUESTIONS = int(os.environ.get("RAGSTONE_TABLE3_QUESTIONS", "40"))
N_CONTEXTS = 10
N_PASSAGES = 5
POOL = ("gold", "gold", "hard", "hard", "hard", "weak", "weak", "weak", "other", "unrelated", "unrelated", "unrelated")
"""What a search could find for a question; each context is five of them in chance order."""


def graded(reply, case, ships):
    """The grade of an answer: labels are known, and so is the truth."""
    if reply.startswith(ships.PHRASE):
        return "abstain"
    return "correct" if reply.strip() == case.truth else "wrong"


@pytest.fixture(scope="module")
def reader(reader_url, ships):
    """The tiny reader, asked as anybody asks a reader."""
    return ChatReader(OpenAICompatibleModel(reader_url), **ships.READER)


@pytest.fixture(scope="module")
def rows(ships, reader):
    """Contexts of questions about ships that training never asked about, with the reader's own answers, graded."""
    rng = random.Random(300)
    cases = [ships.make_case(rng, POOL, held_out=True) for _ in range(N_QUESTIONS)]
    contexts = []
    for n, case in enumerate(cases):
        for _ in range(N_CONTEXTS):
            places = rng.sample(range(len(POOL)), N_PASSAGES)
            contexts.append((n, case, places))

    async def answers():
        slots = asyncio.Semaphore(32)

        async def answer(case, places):
            async with slots:
                reply = await reader.answer(case.question, [case.passages[place] for place in places])
                return reply.text

        return await asyncio.gather(*(answer(case, places) for _, case, places in contexts))

    return [
        {
            "question_id": f"ship-{n}",
            "query": case.question,
            "contexts": [
                {"text": case.passages[place], "relevance": float(case.kinds[place] == "gold")} for place in places
            ],
            "response": reply,
            "reference": [case.truth],
            "grade": graded(reply, case, ships),
        }
        for (n, case, places), reply in zip(contexts, asyncio.run(answers()), strict=True)
    ]


def test_which_metric_foretells_the_answer(rows, reader, record_property):
    """All metrics are measured, each answer is in the numbers; what comes out is recorded, whoever wins."""
    found = correlate_udcg(rows, reader=reader, erag=True, labels="data")
    print(found)
    if path := os.environ.get("RAGSTONE_TABLE3_FILE"):
        Path(path).write_text(f"{found}\n\n{json.dumps(found.to_dict(), indent=1)}", encoding="utf-8")
    for metric in found.metrics:
        if metric.all is not None:
            record_property(f"spearman_{metric.metric}", metric.all.value)
            record_property(f"spearman_{metric.metric}_interval", [metric.all.low, metric.all.high])
    record_property("grades", dict(found.grades))
    assert N_QUESTIONS == found.n_questions
    assert N_QUESTIONS * N_CONTEXTS == found.n_contexts
    assert {} == dict(found.left_out)
    # The world has all three ends, or there would be nothing to predict.
    assert all(found.grades[grade] >= 0.03 * found.n_contexts for grade in ("correct", "abstained", "wrong"))
    udcg = found.metrics[0]
    assert "udcg" == udcg.metric
    assert udcg.all.low > 0
