"""The four metrics of RAGAS, in their common form. The prompts are our own.

Sources: S. Es et al., "RAGAS: Automated Evaluation of Retrieval Augmented Generation", EACL 2024. For the later metrics
(context precision by rank, context recall): the definitions in the documentation of the RAGAS library.

"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from ragstone.errors import JudgeError
from ragstone.judges import Prompt
from ragstone.metrics._card import Metric
from ragstone.metrics._claim_metric import ClaimMetric, ClaimShare, rate_references, rate_response
from ragstone.metrics._claims import EXTRACTION, EXTRACTION_EXAMPLES, IN_PASSAGES, ClaimCheck, gather_or_cancel
from ragstone.metrics._history import question_fields
from ragstone.metrics._prompts import Task
from ragstone.metrics._questions import EQUIVALENCE, QUESTIONS, rate_equivalence, write_questions
from ragstone.metrics._shares import Mark, ShareBounds
from ragstone.metrics.ragas import _examples as examples

_MOST_UNKNOWN: Final = 8
"""Maximum number of unknown passages for which all combinations are tried. With more, the bounds are 0 and 1."""


_WRITE_QUESTIONS: Final = write_questions(QUESTIONS)
_USEFUL_FOR: Final = {
    "reference": Task(
        "Your assignment: decide whether this passage helps to find the reference, which is the answer to the query. "
        "If the reference has several parts, each is a correct answer by itself, and one is enough.\n"
        "1: the passage contains something that the reference states, or a step to it, in any words or language.\n"
        "0: it does not. The same topic, names or words are not enough.\n"
        "Use only 1 and 0.",
        "useful_for_reference",
        ("query", "reference", "passage"),
    ),
    "response": Task(
        "Your assignment: decide whether this passage helped to write the response, which answers the query.\n"
        "1: the passage contains something that the response states, or a step to it, in any words or language.\n"
        "0: it does not. The same topic, names or words are not enough.\n"
        "Use only 1 and 0.",
        "useful_for_response",
        ("query", "response", "passage"),
    ),
    "query": Task(
        "Your assignment: decide whether this passage helps to answer the query.\n"
        "1: the passage contains the answer, a part of it, or a step to it, in any words or language.\n"
        "0: it does not. The same topic, names or words are not enough.\n"
        "Use only 1 and 0.",
        "useful_for_query",
        ("query", "passage"),
    ),
}
"""Task by the text with which a passage is compared. The first available text is used."""


class Faithfulness(ClaimMetric):
    """Share of the response's claims that the passages support."""

    name = "ragas.faithfulness"
    title = "Claim faithfulness (all passages)"
    _meaning = "the answer claims things that the passages do not support"
    _next_step = "Read the unsupported claims in details."
    description = "How many of the response's claims are supported by all retrieved passages together?"
    source = "RAGAS, section 3 (faithfulness)"
    formula = "claims of the response that the passages support / claims of the response"
    needs = ("contexts", "response")
    judge_calls = 2
    tasks = (EXTRACTION, EXTRACTION_EXAMPLES, IN_PASSAGES)
    example = examples.FAITHFULNESS

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        return await rate_response(await check.of_response(), "supported", check.supported_by_contexts, unit="claims")


class AnswerRelevancy(ClaimMetric):
    """Relevance of the response, from the equivalence of the query and the questions that the response answers."""

    name = "ragas.answer_relevancy"
    title = "Answer relevancy (generated questions)"
    _meaning = "the answer fits other questions than the one asked, or is evasive"
    _next_step = "Separate refusals; check the prompt."
    description = "Are questions that the judge writes from the response equivalent to the query?"
    source = "RAGAS, section 3 (answer relevance). Similarity by the judge"
    formula = "mean of equivalence(query, question) / 100 over 3 questions written from the response"
    needs = ("query", "response")
    judge_calls = 2
    tasks = (_WRITE_QUESTIONS, EQUIVALENCE)
    example = examples.ANSWER_RELEVANCY

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        return await rate_equivalence(check, _WRITE_QUESTIONS, most=QUESTIONS)


class ContextPrecision(ClaimMetric):
    """Mean precision at the ranks of the useful passages."""

    name = "ragas.context_precision"
    title = "Context precision (by rank)"
    _meaning = "useful passages rank below useless ones"
    _next_step = "Rerank; check judged_by before you compare."
    description = "Are useful passages ranked above other passages?"
    source = "RAGAS library, context precision (mean of precision@k over useful passages)"
    formula = "sum over useful passages of (useful in the top k / k) / useful passages, 0 without useful passages"
    needs = ("query", "contexts")
    judge_calls_per_passage = 1
    tasks = tuple(_USEFUL_FOR.values())
    example = examples.CONTEXT_PRECISION

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        sample = check.sample
        texts = [passage.text for passage in sample.contexts or ()]
        if not texts:
            return "retrieval returned no passages"
        by = "query"
        fields = question_fields(sample)
        if references := tuple(reference for reference in sample.reference if reference.strip()):
            by = "reference"
            fields[by] = references
        elif sample.response is not None and sample.response.strip():
            by = "response"
            fields[by] = sample.response
        distinct = list(dict.fromkeys(texts))
        marks = await gather_or_cancel(self._useful(check, by, fields, text) for text in distinct)
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
    """Compute the lowest and highest possible mean of P@k over useful passages, given unknown passages."""
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
    ranks = [k for k, mark in enumerate(useful, start=1) if mark]
    # Without useful passages, all precisions are 0.
    return sum(hits / k for hits, k in enumerate(ranks, start=1)) / len(ranks) if ranks else 0.0


class ContextRecall(ClaimMetric):
    """Share of the reference's claims that the passages support."""

    name = "ragas.context_recall"
    title = "Context recall (claims)"
    _meaning = "the passages do not support the reference's claims"
    _next_step = "Improve retrieval."
    description = "How many of the reference's claims are supported by all retrieved passages together?"
    source = "RAGAS library, context recall"
    formula = "claims of the reference that the passages support / claims of the reference"
    needs = ("contexts", "reference")
    judge_calls = 2
    tasks = (EXTRACTION, EXTRACTION_EXAMPLES, IN_PASSAGES)
    example = examples.CONTEXT_RECALL

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        references = await check.of_references()
        return await rate_references(references, "supported", check.supported_by_contexts, unit="claims")


RAGAS: Final[tuple[Metric, ...]] = (Faithfulness(), AnswerRelevancy(), ContextPrecision(), ContextRecall())
