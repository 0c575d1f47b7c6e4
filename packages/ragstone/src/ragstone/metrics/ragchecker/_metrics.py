"""RAGChecker: claims of response and reference, compared with each other and with each passage. The prompts are our own.

Source: D. Ru et al., "RAGChecker: A Fine-grained Framework for Diagnosing Retrieval-Augmented Generation", NeurIPS 2024
(Datasets and Benchmarks): overall, retriever and generator metrics.

A claim of the response is *right* if a reference supports it, and *wrong* otherwise. A claim is *found* if a single
passage supports it. A passage is *relevant* if it supports any claim of a reference.

The sum of precision, both noise sensitivities and hallucination is 1, because each claim of the response is either
right or in one of three classes of wrong claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ragstone.metrics._card import Metric
from ragstone.metrics._claim_metric import ClaimMetric, ClaimShare, describe_claims, rate_references, rate_response
from ragstone.metrics._claims import EXTRACTION, EXTRACTION_EXAMPLES, IN_ANSWER, IN_PASSAGES, ClaimCheck, pair
from ragstone.metrics._shares import (
    Mark,
    ShareBounds,
    any_of,
    best_share,
    both,
    distinct,
    harmonic,
    highest,
    negated,
    share,
    share_among,
)
from ragstone.metrics.ragchecker import _examples as examples

NO_RESPONSE_CLAIM: Final = "the response does not contain claims"
NO_REFERENCE_CLAIM: Final = "the reference does not contain claims"


class _RagChecker(ClaimMetric):
    source = "RAGChecker (Ru et al. 2024), generator metrics"
    needs: tuple[str, ...] = ("contexts", "response", "reference")
    tasks: tuple[str, ...] = (EXTRACTION, EXTRACTION_EXAMPLES, IN_PASSAGES, IN_ANSWER)


class _Overall(_RagChecker):
    """Base class of metrics that compare response and reference, without the passages."""

    source = "RAGChecker (Ru et al. 2024), overall metrics"
    needs = ("response", "reference")
    judge_calls = 2
    tasks = (EXTRACTION, EXTRACTION_EXAMPLES, IN_ANSWER)


class Precision(_Overall):
    """Share of the response's claims that a reference supports."""

    name = "ragchecker.precision"
    title = "Claim precision"
    _meaning = "claims of the answer are wrong"
    _next_step = "Hallucination and noise sensitivity say where they come from."
    description = "How many of the response's claims does the reference support?"
    formula = "claims of the response that a reference supports / claims of the response"
    example = examples.PRECISION

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        return await rate_response(await check.of_response(), "right", check.supported_by_references, unit="claims")


class Recall(_Overall):
    """Share of the reference's claims that the response supports."""

    name = "ragchecker.recall"
    title = "Claim recall (answer)"
    _meaning = "the answer omits claims of the reference"
    _next_step = "Compare with claim recall (retrieval)."
    description = "How many of the reference's claims does the response support?"
    formula = "claims of the reference that the response supports / claims of the reference"
    example = examples.RECALL

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        references = await check.of_references()
        return await rate_references(references, "supported_by_response", check.supported_by_response, unit="claims")


class F1(_Overall):
    """Harmonic mean of claim precision and claim recall."""

    name = "ragchecker.f1"
    title = "Claim F1"
    _meaning = "claims are wrong, missing or both"
    _next_step = "Look at claim precision and claim recall."
    description = "Do the claims of response and reference agree, in both directions?"
    formula = "2 · precision · recall / (precision + recall), 0 if both are 0"
    follows_from = ("ragchecker.precision", "ragchecker.recall")
    judge_calls = 4
    example = examples.F1

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        precision, recall = await pair(Precision()._compute(check), Recall()._compute(check))  # noqa: SLF001
        if isinstance(recall, str):
            return recall
        if not isinstance(precision, str):
            return ClaimShare(
                share=harmonic(precision.share, recall.share), details={**precision.details, **recall.details}
            )
        if recall.share == ShareBounds(0.0, 0.0):
            # F1 is 0 for any precision.
            return ClaimShare(share=recall.share, details=recall.details)
        return precision if recall.share.low else ClaimShare(share=ShareBounds(0.0, 1.0), details=recall.details)


class _Compared(NamedTuple):
    """Claims of each reference, all of them without duplicates, and the verdicts on these by passage."""

    references: Sequence[Sequence[str]]
    claims: Sequence[str]
    by_passage: Sequence[Sequence[Mark]]


class _OfReference(_RagChecker):
    """Base class of shares that depend on which claims of the references each passage supports."""

    tasks: tuple[str, ...] = (EXTRACTION, EXTRACTION_EXAMPLES, IN_PASSAGES)
    judge_calls = 1
    judge_calls_per_passage = 1

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        references = await check.of_references()
        if not references:
            return NO_REFERENCE_CLAIM
        claims = distinct(references)
        return await self._from(check, _Compared(references, claims, await check.supported_by_passages(claims)))

    async def _from(self, check: ClaimCheck, compared: _Compared) -> ClaimShare | str:
        raise NotImplementedError


class ClaimRecall(_OfReference):
    """Share of the reference's claims that a passage supports."""

    name = "ragchecker.claim_recall"
    title = "Claim recall (retrieval)"
    _meaning = "retrieval misses the evidence"
    _next_step = "Improve retrieval before the prompt."
    description = "How many of the reference's claims does a retrieved passage support?"
    source = "RAGChecker (Ru et al. 2024), retriever metrics"
    formula = "claims of the reference that a passage supports / claims of the reference"
    needs = ("contexts", "reference")
    example = examples.CLAIM_RECALL

    async def _from(self, check: ClaimCheck, compared: _Compared) -> ClaimShare | str:  # noqa: ARG002
        references, claims, by_passage = compared
        found = any_of(by_passage, len(claims))
        details = {
            "reference_claims": describe_claims(claims, found=found, passages=_supporting_passages(claims, by_passage))
        }
        return ClaimShare(share=best_share(references, claims, found), details=details)


class ContextPrecision(_OfReference):
    """Share of the retrieved passages that are relevant."""

    name = "ragchecker.context_precision"
    title = "Context precision (share of passages)"
    _meaning = "many passages support nothing in the reference"
    _next_step = "Retrieve fewer, or rerank."
    description = "How many of the retrieved passages support any claim of the reference?"
    source = "RAGChecker (Ru et al. 2024), retriever metrics"
    formula = "passages that support a claim of the reference / passages"
    needs = ("contexts", "reference")
    example = examples.CONTEXT_PRECISION

    async def _from(self, check: ClaimCheck, compared: _Compared) -> ClaimShare | str:  # noqa: ARG002
        _, claims, by_passage = compared
        if not by_passage:
            return "retrieval returned no passages"
        relevant = _relevant(by_passage)
        details = {
            "reference_claims": describe_claims(claims, passages=_supporting_passages(claims, by_passage)),
            "relevant": list(relevant),
        }
        return ClaimShare(share=share(relevant), details=details)


class ContextUtilization(_OfReference):
    """Share of the reference's claims in the passages that the response contains."""

    name = "ragchecker.context_utilization"
    title = "Context utilization"
    _meaning = "evidence was retrieved and not used"
    _next_step = "Fix the generator: prompt, order of contexts, model."
    description = "How many of the reference's claims that a passage supports does the response contain?"
    formula = "claims of the reference that a passage and the response support / those that a passage supports"
    judge_calls = 2
    tasks = (EXTRACTION, EXTRACTION_EXAMPLES, IN_PASSAGES, IN_ANSWER)
    example = examples.CONTEXT_UTILIZATION

    async def _from(self, check: ClaimCheck, compared: _Compared) -> ClaimShare | str:
        references, claims, by_passage = compared
        found = any_of(by_passage, len(claims))
        used = await check.supported_by_response(claims)
        by_claim = dict(zip(claims, zip(used, found, strict=True), strict=True))
        shares = [share_among(*zip(*map(by_claim.__getitem__, reference), strict=True)) for reference in references]
        defined = [one for one in shares if one is not None]
        if not defined:
            return "no passage supports a claim of the reference"
        passages = _supporting_passages(claims, by_passage)
        details = {
            "reference_claims": describe_claims(claims, found=found, supported_by_response=used, passages=passages)
        }
        return ClaimShare(share=highest(defined), details=details)


class _OfResponse(_RagChecker):
    """Base class of the shares of the response's claims that no passage supports, and that are right or wrong."""

    counts_right: bool
    direction = "lower"
    judge_calls = 2
    judge_calls_per_passage = 1

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        claims = await check.of_response()
        if not claims:
            return NO_RESPONSE_CLAIM
        right, by_passage = await pair(check.supported_by_references(claims), check.supported_by_passages(claims))
        missing = negated(any_of(by_passage, len(claims)))
        details = {"claims": describe_claims(claims, right=right, passages=_supporting_passages(claims, by_passage))}
        return ClaimShare(share=share(both(right if self.counts_right else negated(right), missing)), details=details)


class Hallucination(_OfResponse):
    """Share of the response's claims that neither a reference nor a passage supports."""

    name = "ragchecker.hallucination"
    title = "Hallucination"
    _meaning = "wrong claims appear in no passage"
    _next_step = "Instruct the generator to abstain; try another model."
    description = "How many of the response's claims does neither the reference nor a passage support?"
    formula = "claims of the response that no reference and no passage supports / claims of the response"
    example = examples.HALLUCINATION
    counts_right = False


class SelfKnowledge(_OfResponse):
    """Share of the response's claims that a reference but no passage supports."""

    name = "ragchecker.self_knowledge"
    title = "Self-knowledge"
    _meaning = "correct claims appear in no passage"
    _next_step = "Decide if that is allowed; if not, restrict the prompt to the contexts."
    description = "How many of the response's claims are correct although no passage supports them?"
    formula = "claims of the response that a reference but no passage supports / claims of the response"
    example = examples.SELF_KNOWLEDGE
    counts_right = True


class Faithfulness(_RagChecker):
    """Share of the response's claims that a single passage supports."""

    name = "ragchecker.faithfulness"
    title = "Claim faithfulness (single passage)"
    _meaning = "claims have no single passage that supports them"
    _next_step = "If the all-passages value is high, answers combine passages."
    description = "How many of the response's claims does a single passage support?"
    formula = "claims of the response that a passage supports / claims of the response"
    needs = ("contexts", "response")
    judge_calls = 1
    judge_calls_per_passage = 1
    tasks = (EXTRACTION, EXTRACTION_EXAMPLES, IN_PASSAGES)
    example = examples.FAITHFULNESS

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        claims = await check.of_response()
        if not claims:
            return NO_RESPONSE_CLAIM
        by_passage = await check.supported_by_passages(claims)
        found = any_of(by_passage, len(claims))
        return ClaimShare(
            share=share(found),
            details={"claims": describe_claims(claims, found=found, passages=_supporting_passages(claims, by_passage))},
        )


class _NoiseSensitivity(_RagChecker):
    """Base class of the shares of wrong claims that come from one class of passages."""

    counts_relevant: bool
    direction = "lower"
    judge_calls = 3
    judge_calls_per_passage = 2

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        claims, references = await pair(check.of_response(), check.of_references())
        if not claims:
            return NO_RESPONSE_CLAIM
        if not references:
            return f"{NO_REFERENCE_CLAIM}, so the relevance of passages is undefined"
        right, (by_passage, reference_by_passage) = await pair(
            check.supported_by_references(claims),
            pair(check.supported_by_passages(claims), check.supported_by_passages(distinct(references))),
        )
        relevant = _relevant(reference_by_passage)
        n = len(claims)
        in_relevant = any_of([both(c, (r,) * n) for c, r in zip(by_passage, relevant, strict=True)], n)
        wrong = negated(right)
        outside = both(wrong, any_of(by_passage, n), negated(in_relevant))
        details = {
            "claims": describe_claims(claims, right=right, passages=_supporting_passages(claims, by_passage)),
            "relevant": list(relevant),
        }
        counted = both(wrong, in_relevant) if self.counts_relevant else outside
        return ClaimShare(share=share(counted), details=details)


class NoiseSensitivityRelevant(_NoiseSensitivity):
    """Share of the response's claims that are wrong and supported by a relevant passage."""

    name = "ragchecker.noise_sensitivity_relevant"
    title = "Noise sensitivity (relevant passages)"
    _meaning = "wrong claims come from passages that also hold the evidence"
    _next_step = "Use smaller chunks; try another generator."
    description = "How many of the response's claims are wrong and supported by a relevant passage?"
    formula = "claims of the response that are wrong and found in a relevant passage / claims of the response"
    example = examples.NOISE_RELEVANT
    counts_relevant = True


class NoiseSensitivityIrrelevant(_NoiseSensitivity):
    """Share of the response's claims that are wrong and supported only by irrelevant passages."""

    name = "ragchecker.noise_sensitivity_irrelevant"
    title = "Noise sensitivity (irrelevant passages)"
    _meaning = "wrong claims come from irrelevant passages"
    _next_step = "Filter or rerank; look at UDCG."
    description = "How many of the response's claims are wrong and supported only by irrelevant passages?"
    formula = "claims of the response that are wrong and found only in irrelevant passages / claims of the response"
    example = examples.NOISE_IRRELEVANT
    counts_relevant = False


def _relevant(by_passage: Sequence[Sequence[Mark]]) -> tuple[Mark, ...]:
    """Return for each passage whether it supports any claim."""
    return tuple(any_of([(mark,) for mark in column], 1)[0] for column in by_passage)


def _supporting_passages(claims: Sequence[str], by_passage: Sequence[Sequence[Mark]]) -> list[list[int]]:
    """Return for each claim the positions, from 1, of the passages that support it."""
    return [
        [position for position, column in enumerate(by_passage, start=1) if column[row]] for row in range(len(claims))
    ]


RAGCHECKER: Final[tuple[Metric, ...]] = (
    Precision(),
    Recall(),
    F1(),
    ClaimRecall(),
    ContextPrecision(),
    ContextUtilization(),
    NoiseSensitivityRelevant(),
    NoiseSensitivityIrrelevant(),
    Hallucination(),
    SelfKnowledge(),
    Faithfulness(),
)
