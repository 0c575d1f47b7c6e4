"""Answer relevance by embeddings: the cosine of the query and questions that the judge writes from the response.

The judged metrics `vera.answer_relevance` and `ragas.answer_relevancy` ask the judge how far these questions are
equivalent to the query. Here an embedding model compares them. Both kinds share the judge call that writes the
questions.

    value = mean over the questions of cos(e(query), e(question))

`docs/reference/metrics.md` states the cases that the sources do not define.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Annotated, Final, Self

from pydantic import Field

from ragstone.errors import ConfigurationError
from ragstone.judges import Embedder, Judge, Prompt, bounded_number
from ragstone.metrics._base import MetricBase
from ragstone.metrics._card import Metric, WorkedExample
from ragstone.metrics._claim_reason import EMPTY_RESPONSE
from ragstone.metrics._claims import ClaimCheck
from ragstone.metrics._questions import QUESTIONS, WRITE_QUESTION, write_questions
from ragstone.metrics.ragas import ANSWER_RELEVANCY
from ragstone.schema import Interval, Sample, Score
from ragstone.stats import mean_interval


class _QuestionCosine(MetricBase):
    """Mean cosine of the query and questions written from the response."""

    group = "cosine"
    needs = ("query", "response")
    low = -1.0
    judge_calls = 1
    embedder_calls = 1
    n_questions: int

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.embedder = embedder
        """The embedder, or None before it is bound."""

    def with_embedder(self, embedder: Embedder) -> Self:
        """Return the same metric with this embedder."""
        bound = copy.copy(self)
        bound.embedder = embedder
        return bound

    async def compute(self, sample: Sample, judge: Judge) -> Score:
        """Score `sample` between -1 and 1. Raise ConfigurationError if no embedder is bound."""
        if self.embedder is None:
            raise ConfigurationError(f"{self!r} does not have an embedder. Pass one with embedder=")
        response = sample.response or ""
        if not response.strip():
            return self.make_score(sample, 0.0, method="empty_response", explanation=EMPTY_RESPONSE)
        prompt = Prompt(construct="answer_questions", task=self.tasks[0], fields={"response": response})
        reply = await ClaimCheck(sample, judge).ask_texts_once(prompt, most=self.n_questions)
        if not reply.texts:
            return self.make_score(sample, 0.0, method=reply.method, details={"questions": [], "noncommittal": True})
        from ragstone.judges import embed_texts

        query, *questions = await embed_texts(self.embedder, [sample.query or "", *reply.texts])
        cosines = [bounded_number(float(query @ question), -1, 1, what="a cosine") for question in questions]
        mean = mean_interval(cosines, low=-1, high=1)
        several = Interval(low=mean.low, high=mean.high, confidence_level=mean.confidence_level, method=mean.method)
        listed = [{"question": text, "cosine": cosine} for text, cosine in zip(reply.texts, cosines, strict=True)]
        return self.make_score(
            sample,
            mean.value,
            method="cosine",
            n=len(cosines),
            interval=several if len(cosines) > 1 else None,
            details={"embedder": self.embedder.identity.name, "questions": listed},
        )


class VeraAnswerRelevanceCosine(_QuestionCosine):
    """Cosine of the query and the question that the whole response answers.

    Args:
        embedder: The embedding model. None: the one that is bound later (`embedder=`).
    """

    name = "vera.answer_relevance_cosine"
    title = "Answer relevance (whole answer, cosine)"
    _meaning = "the answer addresses another question, to this embedder"
    _next_step = "Compare systems; read the question in details."
    description = "How similar is the one question that the whole response answers to the query, to an embedding model?"
    source = "VERA, section 3.1, answer relevance. Similarity by embeddings"
    formula = "cos(e(query), e(the question that the whole response answers))"
    tasks = (WRITE_QUESTION,)
    n_questions = 1
    example = WorkedExample(
        row={
            "query": "How tall is the lighthouse of Northport?",
            "response": "It is 31 meters tall, and was built in 1884.",
        },
        replies={"answer_questions": {"items": ["How tall is the lighthouse, and when was it built?"]}},
        cosines=(0.8,),
        value=0.8,
        steps="The response answers a question that asks for more than the query. Their embeddings have the cosine 0.8.",
    )


class RagasAnswerRelevancyCosine(_QuestionCosine):
    """Mean cosine of the query and several questions that the response answers.

    Args:
        n_questions: Number of questions, from 1 to 20. Another number than 3 is part of the metric's name
            (`ragas.answer_relevancy_cosine@5`).
        embedder: The embedding model. None: the one that is bound later (`embedder=`).

    Raises:
        ConfigurationError: If `n_questions` is out of range.
    """

    name = "ragas.answer_relevancy_cosine"
    title = "Answer relevancy (generated questions, cosine)"
    _meaning = "the answer fits other questions than the one asked, or is evasive"
    _next_step = "Separate refusals; compare systems."
    description = "How similar are the questions that the response answers to the query, to an embedding model?"
    source = "RAGAS, section 3 (answer relevance)"
    formula = "mean of cos(e(query), e(question)) over 3 questions written from the response"
    # The example of the guide. Its third question is close to the query in words, but not in meaning.
    example: WorkedExample | None = replace(
        ANSWER_RELEVANCY,
        replies={"answer_questions": ANSWER_RELEVANCY.replies["answer_questions"]},
        cosines=(0.92, 0.68, 0.25),
        steps="The cosines of the query and the three questions are 0.92, 0.68 and 0.25: (0.92 + 0.68 + 0.25) / 3 = 0.617.",
    )

    def __init__(
        self, n_questions: Annotated[int, Field(ge=1, le=20)] = QUESTIONS, *, embedder: Embedder | None = None
    ) -> None:
        super().__init__(embedder)
        self.n_questions = n_questions
        self.tasks = (write_questions(n_questions),)
        self.formula = type(self).formula.replace("3 questions", f"{n_questions} questions")
        if n_questions < QUESTIONS:
            self.example = None


COSINE: Final[tuple[Metric, ...]] = (VeraAnswerRelevanceCosine(), RagasAnswerRelevancyCosine())
"""Answer relevance by embeddings, with the definitions of both sources."""
