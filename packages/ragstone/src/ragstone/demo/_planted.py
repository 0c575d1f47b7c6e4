"""Planted traffic of 14 days: invented requests, a release that loses half of the handbook, and the release that repairs it."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Final

from ragstone.demo._chain import Bm25, DemoPassage, extract_answer, load_corpus, load_questions
from ragstone.experiments import PLANTED
from ragstone.schema import Captured, Outcome, Passage, Retrieval, Trace, Usage, sample_from_trace
from ragstone.scoring import run_async
from ragstone.store import Completion, open_store
from ragstone.worker import ScoringSetup, open_setup

APP: Final = "handbook"
RELEASES: Final = (("1.0", 0), ("1.1", 6), ("1.2", 9))
"""Each release with its first day. The index of the second one lacks every second section."""
TARGETS: Final = {"ccrs.qr": 0.5}
"""Required means, of which the second release falls short, so that an alarm is raised."""
_DAYS: Final = 14
_PER_DAY: Final = 40
_DAY_S: Final = 86_400.0
_CHANNELS: Final = ("web", "web", "phone")


def plant_traffic(store: str | os.PathLike[str], metrics: Sequence[str], *, now: float) -> None:
    """Fill a new store with scored requests of the 14 days before `now` (Unix seconds).

    Each question is answered and scored once by each kind of release. Requests repeat these, in an order and with times
    that follow from a fixed seed.
    """
    setup, corpus, rng = open_setup(metrics, judge="lexical"), load_corpus(), random.Random(1)  # noqa: S311  not secret
    whole, half = (run_async(_score_questions(setup, passages)) for passages in (corpus, corpus[::2]))
    captured, completions = [], []
    for number in range(_DAYS * _PER_DAY):
        day = number / _PER_DAY
        release = max((first, name) for name, first in RELEASES if first <= day)[1]
        answered, outcomes = rng.choice(half if release == RELEASES[1][0] else whole)
        # Every second request follows the one before within minutes, in the same session.
        started = now + (number // 2 * 2 / _PER_DAY - _DAYS) * _DAY_S + (number % 2 + rng.random()) * 300
        id_ = f"planted-{number + 1:03d}"
        planted = {
            "trace_id": id_,
            "release": release,
            "session_id": f"visit-{number // 2 + 1}",
            "started_at": started,
            "ended_at": started + rng.lognormvariate(0.2, 0.4),
            "metadata": answered.metadata | {"channel": rng.choice(_CHANNELS)},
        }
        captured.append(Captured(trace=answered.model_copy(update=planted)))
        copies = [outcome.model_copy(update={"sample_id": id_}) for outcome in outcomes]
        completions.append(Completion(trace_id=id_, outcomes=copies))
    with open_store(store, mode="own") as opened:
        opened.plan.set(setup.planned_metrics(), [])
        opened.traces.ingest(PLANTED, 1, captured)
        opened.outcomes.complete_many(completions)


async def _score_questions(
    setup: ScoringSetup, passages: Sequence[DemoPassage]
) -> list[tuple[Trace, tuple[Outcome, ...]]]:
    """Answer all questions from these sections, and score the answers."""
    index, scored = Bm25(passages), []
    for question in load_questions():
        found = tuple(
            Passage(id=one.id, text=one.text, score=score, rank=rank)
            for rank, (one, score) in enumerate(index.search(question.query))
        )
        texts = [passage.text for passage in found]
        answer = extract_answer(question.query, texts)
        words = [len(" ".join(part).split()) for part in (texts, [answer])]
        trace = Trace(
            trace_id=question.id,
            name="handbook",
            source=PLANTED,
            app=APP,
            query=question.query,
            retrievals=(Retrieval(query=question.query, passages=found, name="bm25"),),
            response=answer,
            reference=(question.reference,),
            started_at=0.0,
            model="extractive-demo",
            usage=Usage(input_tokens=words[0], output_tokens=words[1], calls=1),
            metadata={"question_id": question.id, "question_kind": question.kind},
        )
        scored.append((trace, tuple(await setup.scorer.score(sample_from_trace(trace)))))
    return scored
