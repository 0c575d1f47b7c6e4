"""VERA's judged metrics: one verdict on the whole response, and metrics on sentences. The prompts are our own.

Source: T. Ding et al., "VERA: Validation and Evaluation of Retrieval-Augmented Systems", KDD 2024 workshop on
    evaluation
of generative AI, section 3.1.

The source uses two of its names for two definitions each. Ragstone uses a separate name for each definition.
"""

from __future__ import annotations

import itertools
from typing import Final

from ragstone._util.words import split_sentences
from ragstone.metrics._card import Metric
from ragstone.metrics._claim_metric import ClaimMetric, ClaimShare, describe_claims, rate_references, rate_response
from ragstone.metrics._claims import IN_PASSAGES, ClaimCheck, gather_or_cancel
from ragstone.metrics._history import question_fields
from ragstone.metrics._prompts import Task
from ragstone.metrics._questions import EQUIVALENCE, WRITE_QUESTION, rate_equivalence
from ragstone.metrics._shares import share
from ragstone.metrics.vera import _examples as examples

_RELEVANT: Final = Task(
    "Your assignment: the numbered sentences are a passage, in its order. For each sentence, decide whether it helps "
    "to answer the query.\n"
    "1: it states the answer, a part of it, or something that must be known to find it. It can be in another language.\n"
    "0: the answer would be as good without it. The same topic, names or words are not enough.",
    "sentence_relevance",
    ("query", "sentences"),
)


class _Vera(ClaimMetric):
    judge_calls = 1
    needs: tuple[str, ...] = ("contexts", "response")
    tasks: tuple[str, ...] = (IN_PASSAGES,)


class Faithfulness(_Vera):
    """Verdict whether the passages support the whole response."""

    name = "vera.faithfulness"
    title = "Fully supported answers"
    _meaning = "many answers contain at least one unsupported statement"
    _next_step = "Use claim faithfulness to see which one."
    # The composite's model reads the descriptions of its parts. A change would change the composite's version.
    description = "Do the retrieved passages support the response as a whole: yes or no?"
    source = "VERA, section 3.1, faithfulness (one label per answer)"
    formula = "1 if the passages support the whole response, else 0"
    example = examples.FAITHFULNESS

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        response = (check.sample.response or "").strip()
        if not response:
            return "the response is empty"
        return ClaimShare(share=share(await check.supported_by_contexts((response,))))


class Groundedness(_Vera):
    """Share of the response's sentences that the passages support."""

    name = "vera.groundedness"
    title = "Supported answer sentences"
    _meaning = "sentences of the answer lack support"
    _next_step = "Read them in details; check retrieval first."
    description = "How many sentences of the response do the retrieved passages support?"
    source = 'VERA, section 3.1, "retrieval recall"'
    formula = "sentences of the response that the passages support / sentences of the response"
    example = examples.GROUNDEDNESS

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        sentences = split_sentences(check.sample.response or "")
        return await rate_response(sentences, "supported", check.supported_by_contexts, unit="sentences")


class RetrievalRecall(_Vera):
    """Share of the reference's sentences that the passages support."""

    name = "vera.retrieval_recall"
    title = "Retrieval recall (reference sentences)"
    _meaning = "the passages lack what the reference says"
    _next_step = "Improve retrieval."
    description = "How many sentences of the reference do the retrieved passages support?"
    source = "VERA, section 3.2 (context recall in the enriched text)"
    formula = "sentences of the reference that the passages support / sentences of the reference"
    needs = ("contexts", "reference")
    example = examples.RETRIEVAL_RECALL

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        references = [part for text in dict.fromkeys(check.sample.reference) if (part := split_sentences(text))]
        return await rate_references(references, "supported", check.supported_by_contexts, unit="sentences")


class RetrievalPrecision(_Vera):
    """Share of the passages' sentences that are relevant to the query."""

    name = "vera.retrieval_precision"
    title = "Retrieval precision (passage sentences)"
    _meaning = "much of the retrieved text is irrelevant"
    _next_step = "Use smaller chunks or a reranker."
    description = "How many sentences of the retrieved passages are relevant to the query?"
    source = "VERA, section 3.1, retrieval precision"
    formula = "sentences of the passages that are relevant to the query / sentences of the passages"
    needs = ("query", "contexts")
    judge_calls = 0
    judge_calls_per_passage = 1
    tasks = (_RELEVANT,)
    example = examples.RETRIEVAL_PRECISION

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        passages = [tuple(split_sentences(passage.text)) for passage in check.sample.contexts or ()]
        if not any(passages):
            return "the retrieved passages do not contain sentences"
        fields = question_fields(check.sample)
        distinct = list(dict.fromkeys(passages))
        columns = await gather_or_cancel(
            check.marked("sentence_relevance", _RELEVANT, fields, "sentences", sentences) for sentences in distinct
        )
        by_passage = dict(zip(distinct, columns, strict=True))
        relevant = tuple(itertools.chain.from_iterable(by_passage[sentences] for sentences in passages))
        details = {"sentences": [describe_claims(sentences, relevant=by_passage[sentences]) for sentences in passages]}
        return ClaimShare(share=share(relevant), details=details)


class AnswerRelevance(_Vera):
    """Equivalence of the query and the question that the whole response answers."""

    name = "vera.answer_relevance"
    title = "Answer relevance (whole answer)"
    _meaning = "the answer addresses another question, or adds unrelated content"
    _next_step = "Check the prompt; compare with question relevance."
    description = "Is the one question that the whole response answers the same as the query?"
    source = "VERA, section 3.1, answer relevance. Similarity by the judge"
    formula = "equivalence(query, the question that the whole response answers) / 100"
    needs = ("query", "response")
    judge_calls = 2
    tasks = (WRITE_QUESTION, EQUIVALENCE)
    example = examples.ANSWER_RELEVANCE

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        return await rate_equivalence(check, WRITE_QUESTION, most=1)


JUDGED: Final[tuple[Metric, ...]] = (
    Faithfulness(),
    Groundedness(),
    RetrievalRecall(),
    RetrievalPrecision(),
    AnswerRelevance(),
)
"""VERA's metrics that call a judge. The composite uses a cross-encoder."""
