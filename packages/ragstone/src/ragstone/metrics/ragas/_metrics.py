"""The four metrics of RAGAS, in their common form. The wording is ours.

Sources: S. Es et al., "RAGAS: Automated Evaluation of Retrieval Augmented Generation", EACL 2024, and, for what came
later (context precision by rank, context recall), the definitions in the documentation of the RAGAS library.

| metric | value | needs |
|---|---|---|
| faithfulness | claims of the response that the passages bear out / claims of the response | contexts, response |
| answer_relevancy | mean over questions written from the response of their equivalence to the query | query, response |
| context_precision | sum of P@k over the useful passages / number of useful passages | query, contexts |
| context_recall | claims of the reference that the passages bear out / claims of the reference | contexts, reference |
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from ragstone.errors import JudgeError
from ragstone.judges import Prompt
from ragstone.metrics._card import Metric
from ragstone.metrics._claim_metric import ClaimMetric, ClaimShare, describe_claims, format_supported_claims
from ragstone.metrics._claims import EXTRACTION, IN_PASSAGES, ClaimCheck, gather_or_cancel
from ragstone.metrics._equivalence import EQUIVALENCE, asked_equivalence
from ragstone.metrics._shares import Mark, ShareBounds, best_share, distinct, negated, share
from ragstone.metrics.ragas import _examples as examples

__all__ = ["RAGAS", "average_precision_bounds"]

_QUESTIONS: Final = 3
"""The library's default."""
_MOST_UNKNOWN: Final = 8
"""Of more passages than these the bounds are 0 and 1: they are found by trying all that may be."""

_WRITE_QUESTIONS: Final = (
    f"Your assignment: write {_QUESTIONS} questions to which the response, just as it stands, would be the answer. Each "
    "asks for what the response is mainly about, in another way than the others, and contains nothing but what can be "
    "known from the response.\n"
    "A response that commits to nothing (it evades, says that it does not know or cannot find it, or asks back) answers "
    "no question: then there is no item."
)
_USEFUL_FOR: Final = {
    "reference": (
        "Your assignment: decide whether this passage helps to arrive at the reference, which is the answer to the query. "
        "Where the reference has several parts, each is a correct answer by itself, and one is enough.\n"
        "1: something the reference states, or a step towards it, is in the passage.\n"
        "0: nothing of it; the same topic, names or words are not enough."
    ),
    "response": (
        "Your assignment: decide whether this passage helped to arrive at the response, which answers the query.\n"
        "1: something the response states, or a step towards it, is in the passage.\n"
        "0: nothing of it; the same topic, names or words are not enough."
    ),
    "query": (
        "Your assignment: decide whether this passage helps to answer the query.\n"
        "1: the answer, a part of it, or a step towards it is in the passage.\n"
        "0: nothing of it; the same topic, names or words are not enough."
    ),
}
"""By what there is to hold a passage against; the first there is counts."""


class Faithfulness(ClaimMetric):
    """How much of the response follows from the passages."""

    name = "ragas.faithfulness"
    title = "Claim faithfulness (all passages)"
    advice = (
        "Low means that the answer claims things that the passages do not support. "
        "Next: Read the unsupported claims in details."
    )
    description = "How many of the response's claims follow from the retrieved passages, taken together?"
    group = "ragas"
    source = "RAGAS, section 3 (faithfulness)"
    formula = "claims of the response that the passages bear out / claims of the response"
    needs = ("contexts", "response")
    judge_calls = 2
    tasks = (EXTRACTION, IN_PASSAGES)
    example = examples.FAITHFULNESS

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        claims = await check.of_response()
        if not claims:
            return "the response makes no claim"
        supported = await check.supported_by_contexts(claims)
        return ClaimShare(
            share=share(supported),
            details={"claims": describe_claims(claims, supported=supported)},
            explanation=format_supported_claims("not in the passages", claims, negated(supported)),
        )


class AnswerRelevancy(ClaimMetric):
    """Whether the response answers the question that was asked, by the questions it would answer."""

    name = "ragas.answer_relevancy"
    title = "Answer relevancy (generated questions)"
    advice = (
        "Low means that the answer fits other questions than the one asked, or is evasive. "
        "Next: Separate refusals; check the prompt."
    )
    description = "Do questions that are written from the response ask the same as the query?"
    group = "ragas"
    source = "RAGAS, section 3 (answer relevance); similarity by the judge"
    formula = "mean over 3 questions written from the response of equivalence(query, question) / 100"
    needs = ("query", "response")
    judge_calls = 2
    tasks = (_WRITE_QUESTIONS, EQUIVALENCE)
    example = examples.ANSWER_RELEVANCY

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        response = check.sample.response or ""
        if not response.strip():
            return ClaimShare(share=ShareBounds(0.0, 0.0), method="empty_response")
        prompt = Prompt(construct="answer_questions", task=_WRITE_QUESTIONS, fields={"response": response})
        questions = (await check.ask_texts_once(prompt, most=_QUESTIONS)).texts
        if not questions:
            return ClaimShare(share=ShareBounds(0.0, 0.0), details={"questions": [], "noncommittal": True})
        return await asked_equivalence(check, questions)


class ContextPrecision(ClaimMetric):
    """Whether the useful passages come first."""

    name = "ragas.context_precision"
    title = "Context precision (by rank)"
    advice = "Low means that useful passages rank below useless ones. Next: Rerank; check judged_by before you compare."
    description = "Are the passages that are useful for the answer ranked above those that are not?"
    group = "ragas"
    source = "RAGAS library, context precision (mean of precision@k over useful passages)"
    formula = "sum over useful passages of (useful among the first k / k) / useful passages; 0 when none is useful"
    needs = ("query", "contexts")
    judge_calls_per_passage = 1
    tasks = tuple(_USEFUL_FOR.values())
    example = examples.CONTEXT_PRECISION

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        sample = check.sample
        texts = [passage.text for passage in sample.contexts or ()]
        if not texts:
            return "no context: retrieval found nothing to put in order"
        by = "query"
        fields: dict[str, str | tuple[str, ...]] = {"query": sample.query or ""}
        if references := tuple(reference for reference in sample.reference if reference.strip()):
            by = "reference"
            fields[by] = references
        elif sample.response is not None and sample.response.strip():
            by = "response"
            fields[by] = sample.response
        distinct = list(dict.fromkeys(texts))
        marks = await gather_or_cancel(*(self._useful(check, by, fields, text) for text in distinct))
        by_text = dict(zip(distinct, marks, strict=True))
        useful = [by_text[text] for text in texts]
        low, high = average_precision_bounds(texts, by_text)
        return ClaimShare(share=ShareBounds(low, high), details={"judged_by": by, "useful": useful})

    async def _useful(self, check: ClaimCheck, by: str, fields: dict[str, str | tuple[str, ...]], passage: str) -> Mark:
        if not passage.strip():
            return False
        prompt = Prompt(construct="passage_relevance", task=_USEFUL_FOR[by], fields={**fields, "passage": passage})
        try:
            return (await check.ask_number_once(prompt)) >= 0.5
        except JudgeError as error:
            check.errors.append(error)
            return None


def average_precision_bounds(texts: Sequence[str], useful: dict[str, Mark]) -> tuple[float, float]:
    """Between what and what the mean of P@k over useful passages lies, whatever the unknown ones are."""
    unknown = [text for text, mark in useful.items() if mark is None]
    if len(unknown) > _MOST_UNKNOWN:
        return 0.0, 1.0
    known = {text: bool(mark) for text, mark in useful.items() if mark is not None}
    values = [
        _average_precision([{**known, **dict(zip(unknown, guess, strict=True))}[text] for text in texts])
        for guess in itertools.product((False, True), repeat=len(unknown))
    ]
    return min(values), max(values)


def _average_precision(useful: Sequence[bool]) -> float:
    hits = 0
    total = 0.0
    for k, mark in enumerate(useful, start=1):
        if mark:
            hits += 1
            total += hits / k
    # Where nothing is useful, no precision in the sum is above 0.
    return total / hits if hits else 0.0


class ContextRecall(ClaimMetric):
    """How much of the reference was retrieved."""

    name = "ragas.context_recall"
    title = "Context recall (claims)"
    advice = "Low means that the passages do not support the reference's claims. Next: Improve retrieval."
    description = "How many of the reference's claims follow from the retrieved passages, taken together?"
    group = "ragas"
    source = "RAGAS library, context recall"
    formula = "claims of the reference that the passages bear out / claims of the reference"
    needs = ("contexts", "reference")
    judge_calls = 2
    tasks = (EXTRACTION, IN_PASSAGES)
    example = examples.CONTEXT_RECALL

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        references = await check.of_references()
        if not references:
            return "the reference makes no claim"
        claims = distinct(references)
        supported = await check.supported_by_contexts(claims)
        return ClaimShare(
            share=best_share(references, claims, supported),
            details={"reference_claims": describe_claims(claims, supported=supported)},
            explanation=format_supported_claims("not in the passages", claims, negated(supported)),
        )


RAGAS: Final[tuple[Metric, ...]] = (Faithfulness(), AnswerRelevancy(), ContextPrecision(), ContextRecall())
