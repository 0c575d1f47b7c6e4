"""Citation precision and recall of ALCE. The prompt is our own.

Source: T. Gao et al., "Enabling Large Language Models to Generate Text with Citations", EMNLP 2023, citation quality.

A sentence is *supported* if the passages that it cites, together, support it. A citation is *needed* if its passage
alone supports the sentence, or if the other cited passages do not.

"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from ragstone.metrics._card import Metric
from ragstone.metrics._claim_metric import ClaimMetric, ClaimShare, describe_claims
from ragstone.metrics._claims import ClaimCheck, gather_or_cancel
from ragstone.metrics._history import question_fields
from ragstone.metrics._prompts import Task
from ragstone.metrics._shares import Mark, any_of, both, negated, share
from ragstone.metrics.citation import _examples as examples
from ragstone.metrics.citation._read import CitedSentence, read_cited_sentences

_IN_CITED: Final = Task(
    "Your assignment: the numbered claims are sentences of the response. The evidence contains the passages that these "
    "sentences cite. For each claim, decide whether the evidence supports it.\n"
    "1: everything in the claim is stated in the evidence, or follows from it.\n"
    "0: a part of the claim is not in the evidence, or the evidence contradicts it.\n"
    "Use query and response only to understand what words like 'it' or 'she' refer to. Do not use your own knowledge. "
    "Texts can be in any language, and claims and evidence can differ in language.",
    "cited_support",
    ("evidence", "claims"),
    ("query", "response"),
)


class _CitationMetric(ClaimMetric):
    source = "ALCE (Gao et al., EMNLP 2023), citation quality"
    needs = ("contexts", "response")
    judge_calls_per_passage = 1
    tasks = (_IN_CITED,)


class CitationRecall(_CitationMetric):
    """Share of the response's sentences that the passages cited in them support."""

    name = "citation.recall"
    title = "Citation recall"
    _meaning = "sentences cite nothing, or passages that do not support them"
    _next_step = "Read them in details; separate refusals; check the prompt."
    description = "How many sentences of the response are supported by the passages that they cite?"
    formula = "sentences that their cited passages support / sentences of the response"
    example = examples.RECALL

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        sentences = read_cited_sentences(check.sample)
        if not sentences:
            return "the response does not contain sentences"
        supported = await _ask(check, [(text, cited) for text, cited, _ in sentences])
        return ClaimShare(share=share(supported), details={"claims": _describe(sentences, supported)})


class CitationPrecision(_CitationMetric):
    """Share of the response's citations that are needed and whose sentence is supported."""

    name = "citation.precision"
    title = "Citation precision"
    _meaning = "citations do not support their sentences, or are not needed"
    _next_step = "Read them in details; check how passages are numbered in the prompt."
    description = "How many citations support the sentence that cites them, and are needed for it?"
    formula = "needed citations of supported sentences / citations"
    example = examples.PRECISION

    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        sentences = [each for each in read_cited_sentences(check.sample) if any(each[1:])]
        if not sentences:
            return "the response does not contain citations"
        supported = await _ask(check, [(text, cited) for text, cited, _ in sentences])
        needed = await self._needed(check, sentences, supported)
        right = [
            mark
            for (*_, unknown), whole, marks in zip(sentences, supported, needed, strict=True)
            for mark in (*both((whole,) * len(marks), marks), *(False for _ in unknown))
        ]
        rows = _describe(sentences, supported)
        for row, (_, cited, _), marks in zip(rows, sentences, needed, strict=True):
            row["not_needed"] = [n for n, mark in zip(cited, marks, strict=True) if mark is False]
        return ClaimShare(share=share(right), details={"claims": rows, "n_citations": len(right)})

    async def _needed(
        self, check: ClaimCheck, sentences: Sequence[CitedSentence], supported: Sequence[Mark]
    ) -> list[tuple[Mark, ...]]:
        """Judge for each sentence which of its citations are needed. All are if the sentence is not supported."""
        several = [
            each for each, mark in zip(sentences, supported, strict=True) if len(each[1]) > 1 and mark is not False
        ]
        alone = dict(
            zip(several, await _ask_each(check, [[(n,) for n in each[1]] for each in several], several), strict=True)
        )
        # If one passage alone supports the sentence, the other citations are not needed.
        unclear = [each for each in several if True not in alone[each]]
        others = [[tuple(m for m in cited if m != n) for n in cited] for _, cited, _ in unclear]
        rest = dict(zip(unclear, await _ask_each(check, others, unclear), strict=True))
        return [
            any_of((alone[each], negated(rest[each])), len(each[1]))
            if each in rest
            else alone.get(each, (True,) * len(each[1]))
            for each in sentences
        ]


def _describe(sentences: Sequence[CitedSentence], supported: Sequence[Mark]) -> list[dict[str, Any]]:
    """Return the sentences, verdicts and citations as plain values for the details of an outcome."""
    none: list[int] = []
    texts, all_cited = [text for text, *_ in sentences], [list(cited) or none for _, cited, _ in sentences]
    rows = describe_claims(texts, supported=supported, cited=all_cited)
    for row, (*_, unknown) in zip(rows, sentences, strict=True):
        if unknown:
            row["unknown"] = list(unknown)
    return rows


async def _ask_each(
    check: ClaimCheck, sets: Sequence[Sequence[tuple[int, ...]]], sentences: Sequence[CitedSentence]
) -> list[tuple[Mark, ...]]:
    """Judge for each sentence which of several sets of passages support it."""
    questions = [(text, each) for (text, *_), several in zip(sentences, sets, strict=True) for each in several]
    marks = iter(await _ask(check, questions))
    return [tuple(itertools.islice(marks, len(several))) for several in sets]


async def _ask(check: ClaimCheck, questions: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[Mark, ...]:
    """Judge if passages (positions from 1) support sentences. Those with the same passages are judged together."""
    sample = check.sample
    texts = [passage.text for passage in sample.contexts or ()]
    about = {**question_fields(sample), "response": sample.response or ""}
    by_set: dict[tuple[int, ...], list[str]] = {}
    for sentence, positions in questions:
        by_set.setdefault(positions, []).append(sentence)

    async def ask(positions: tuple[int, ...], sentences: Sequence[str]) -> dict[str, Mark]:
        evidence = tuple(text for n in positions if (text := texts[n - 1]).strip())
        distinct = tuple(dict.fromkeys(sentences))
        if not evidence:
            return dict.fromkeys(distinct, False)
        fields = {**about, "evidence": evidence}
        return dict(zip(distinct, await check.marked("entailment", _IN_CITED, fields, "claims", distinct), strict=True))

    verdicts = await gather_or_cancel(ask(positions, sentences) for positions, sentences in by_set.items())
    found = dict(zip(by_set, verdicts, strict=True))
    return tuple(found[positions][sentence] for sentence, positions in questions)


CITATION: Final[tuple[Metric, ...]] = (CitationPrecision(), CitationRecall())
"""The two metrics of ALCE."""
