"""CCRS: five zero-shot judge ratings of one response, with their prompts, aggregation and cards. The prompts are our own.

Source: "CCRS: A Zero-Shot LLM-as-a-Judge Framework for Comprehensive RAG Evaluation", section 2.3.

`docs/reference/metrics.md` states the cases that the source does not define.

All five prompts start with query, contexts and response, so that servers can cache this prefix. The reference
follows, only in the prompts of the metrics that need it. With `fields="formula"`, each prompt has only the fields of
its metric's formula, as in the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Final, Literal

from ragstone._util.unicode import normalize
from ragstone.judges import Judge, NumberReply, Prompt, ask_number
from ragstone.metrics._arguments import Share
from ragstone.metrics._base import MetricBase
from ragstone.metrics._card import WorkedExample
from ragstone.metrics._claim_reason import EMPTY_RESPONSE
from ragstone.metrics._history import question_fields
from ragstone.metrics._prompts import Task
from ragstone.metrics._rated import make_rated_score
from ragstone.metrics._shared import compute_once
from ragstone.schema import NotApplicable, Sample, Score

_ROW: Final = {
    "query": "How tall is the lighthouse?",
    "contexts": ["The lighthouse of Northport is 31 meters tall.", "Ferries leave at noon."],
    "response": "31 meters, and it was built in 1890.",
    "reference": "31 meters",
}

Fields = Literal["all", "formula"]


class CcrsMetric(MetricBase):
    """Base class of the five metrics: one judge call about the same fields, or about those of the formula.

    Args:
        fields: "all" for query, contexts and response in each prompt (and the reference if the metric needs it),
            "formula" for the fields of the metric's formula alone. Scores of the two are different metrics
            (`ccrs.qr@fields=formula`).
    """

    source = "CCRS, section 2.3.2"
    judge_calls = 1
    construct: ClassVar[str]
    task: ClassVar[str]
    """The task text for the judge. The judge adds the instructions about the reply format."""
    in_formula: ClassVar[frozenset[str]]
    """Fields of the formula, except the response."""

    def __init__(self, *, fields: Fields = "all") -> None:
        self.fields = fields
        if fields == "formula":
            self.version = f"{self.version},formula"

    def __init_subclass__(cls) -> None:
        cls.tasks = (cls.construct, cls.task)

    @property
    def prompts(self) -> tuple[Task, ...]:
        """The prompt of the metric. It may show the fields that the built-in prompt shows."""
        shown = [name for name in ("query", "contexts", "response", "reference") if self._shows(name)]
        allowed = [name for name in shown if name not in self.needs]
        return (Task(self.task, "rating", [name for name in shown if name in self.needs], allowed),)

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:
        """Score `sample` between 0 and 1."""
        fields = _fields(sample)
        if reason := self._find_not_applicable_reason(fields):
            return self.make_not_applicable(sample, reason)
        if not fields["response"]:
            details = dict.fromkeys(self.decided_by, 0.0)
            return self.make_score(sample, 0.0, method="empty_response", explanation=EMPTY_RESPONSE, details=details)
        return self._judged(sample, fields, await self._ask(fields, judge))

    async def _ask(self, fields: dict[str, str | tuple[str, ...]], judge: Judge) -> NumberReply:
        """Return the judge's rating from 0 to 100."""
        shown = {name: value for name, value in fields.items() if self._shows(name)}
        prompt = Prompt(construct=self.construct, task=self.task, fields=shown)
        # The composite of these metrics uses the same ratings.
        key = ("ccrs", judge.identity.hash, self.task, tuple(shown.items()))
        return await compute_once(key, partial(ask_number, judge, prompt))

    def _shows(self, field: str) -> bool:
        """Return whether the prompt has a field."""
        if self.fields == "all":
            return field != "reference" or "reference" in self.needs
        return field == "response" or (field if field != "earlier_turns" else "query") in self.in_formula

    def _find_not_applicable_reason(self, fields: dict[str, str | tuple[str, ...]]) -> str | None:  # noqa: ARG002
        """Return the reason why the metric is not applicable although no field is missing, or None."""
        return None

    def _judged(self, sample: Sample, fields: dict[str, str | tuple[str, ...]], reply: NumberReply) -> Score:  # noqa: ARG002
        return make_rated_score(self, sample, reply.value / 100, reply)


def _fields(sample: Sample) -> dict[str, str | tuple[str, ...]]:
    """Return the fields of the sample, in the order of all CCRS prompts."""
    fields = question_fields(sample)
    if sample.contexts is not None:
        fields["contexts"] = tuple(passage.text for passage in sample.contexts)
    if sample.response is not None:
        fields["response"] = sample.response if sample.response.strip() else ""
    if references := tuple(reference for reference in sample.reference if reference.strip()):
        fields["reference"] = references
    return fields


class ContextualCoherence(CcrsMetric):
    """Judged support of the response by the retrieved contexts, without contradictions."""

    name = "ccrs.cc"
    title = "Contextual coherence"
    _meaning = "the answer is not supported by its passages, or contradicts them"
    _next_step = "Read the worst ten; check context coverage before you change the prompt."
    description = "Do the retrieved passages support the response, without contradictions to them or within it?"
    needs = ("contexts", "response")
    formula = "judge(r, C) / 100"
    example = WorkedExample(
        row=_ROW,
        replies={"contextual_coherence": 55},
        value=0.55,
        steps="The passages support the height but not the year. The judge rates 55 of 100: 55 / 100 = 0.55.",
    )
    construct, in_formula = "contextual_coherence", frozenset({"contexts"})
    task = (
        "Your assignment: check how much of the response the numbered passages of the contexts support, statement by statement.\n"
        "100: the passages support every statement, and no statement contradicts another.\n"
        "50: they support about half of the statements.\n"
        "0: the response contradicts the passages, is unrelated to them, or is empty.\n"
        "Treat the passages as true. It does not matter if the response answers the query."
    )

    def _find_not_applicable_reason(self, fields: dict[str, str | tuple[str, ...]]) -> str | None:
        if not any(text.strip() for text in fields["contexts"]):
            return "retrieval returned no passages with text"
        return None


class QuestionRelevance(CcrsMetric):
    """Judged relevance of the response to the query."""

    name = "ccrs.qr"
    title = "Question relevance"
    _meaning = "the answer misses the question; refusals count as a miss"
    _next_step = "Separate refusals, then check query rewriting and prompt."
    description = "Does the response answer the query, directly and completely?"
    needs = ("query", "response")
    formula = "judge(r, q) / 100"
    example = WorkedExample(
        row=_ROW,
        replies={"question_relevance": 90},
        value=0.9,
        steps="The response answers the query and adds a statement. The judge rates 90 of 100: 90 / 100 = 0.9.",
    )
    construct, in_formula = "question_relevance", frozenset({"query"})
    task = (
        "Your assignment: rate how completely and directly the response answers the query.\n"
        "100: it answers everything that was asked, directly.\n"
        "50: it answers a part or a similar question, or the answer is hard to find in it.\n"
        "0: it is about something else, avoids the question, or is empty.\n"
        "It does not matter if the answer is true or where it comes from. Ignore the contexts."
    )


class InformationDensity(CcrsMetric):
    """Judged balance of completeness and length of the response."""

    name = "ccrs.id"
    title = "Information density"
    _meaning = "the answer says too little, or is padded"
    _next_step = "Change the length instruction."
    description = "Does the response contain enough information without unnecessary text?"
    needs = ("query", "response")
    formula = "judge(r, q, C) / 100"
    example = WorkedExample(
        row=_ROW,
        replies={"information_density": 80},
        value=0.8,
        steps="Half of the short response was not asked for. The judge rates 80 of 100: 80 / 100 = 0.8.",
    )
    construct, in_formula = "information_density", frozenset({"query", "contexts"})
    task = (
        "Your assignment: compare the useful information in the response with its length.\n"
        "100: it has everything that is useful for the query, and every sentence is needed.\n"
        "50: it is useful, but padded or repetitive, or so short that needed details are missing.\n"
        "0: it has nothing useful for the query, or is empty.\n"
        "The contexts, if there are any, show which details were available. It does not matter if the response is true."
    )


class AnswerCorrectness(CcrsMetric):
    """Weighted agreement of the response with the reference: exact match and a judge rating.

    Args:
        em_weight: λ, the weight of the exact match, between 0 and 1. Another weight than 0.7 is part of the metric's
            name (`ccrs.ac@em_weight=0`).
        fields: As for the other metrics.
    """

    name = "ccrs.ac"
    title = "Answer correctness"
    description = "Are the statements of the response correct, compared with the reference?"
    needs = ("response", "reference")
    decided_by = ("em", "judge")
    replies: ClassVar[Mapping[str, object]] = {"answer_correctness": 70}
    """Reply of the judge in the example."""
    construct, in_formula = "answer_correctness", frozenset({"reference", "contexts"})
    task = (
        "Your assignment: check the statements of the response against the reference. If it has several parts, each is "
        "a correct answer by itself: use the one closest to the response.\n"
        "100: everything that the response states agrees with the reference, in any words.\n"
        "50: a part is correct, and the rest is wrong or not in the reference.\n"
        "0: the answer is wrong, contradicts the reference, or is missing.\n"
        "Use the contexts, if there are any, only to understand names and terms. Omissions do not matter."
    )

    def __init__(self, *, em_weight: Share = 0.7, fields: Fields = "all") -> None:
        self.em_weight = em_weight
        self.version = f"1({em_weight:g})"
        super().__init__(fields=fields)
        rest = 1 - em_weight
        self.advice = (
            f"Low means that the answer is not identical to the reference; then at most {rest:.2g} is possible. "
            "Next: Read the judged part in details, or set em_weight=0."
            if em_weight
            else "Low means that the judge finds the answer wrong. Next: Read the worst ten; check the passages first."
        )
        if em_weight:
            self.reachable = f"0 to {rest:.3g}, and {em_weight:.3g} to 1 if the response is identical to a reference"
        self.formula = f"λ EM(r, g) + (1 - λ) judge(r, g, C) / 100, λ = {em_weight:g}"
        self.example = WorkedExample(
            row=_ROW,
            replies=self.replies,
            value=round(rest * 0.7, 6),
            steps="Response and reference are not identical, so EM = 0. The judge rates 70 of 100: "
            f"{em_weight:g} * 0 + {rest:.3g} * 0.7 = {rest * 0.7:.3g}.",
        )

    def _judged(self, sample: Sample, fields: dict[str, str | tuple[str, ...]], reply: NumberReply) -> Score:
        # Canonically equivalent texts are identical to a reader, whichever way their accents are encoded.
        response = normalize("NFC", str(fields["response"]).strip())
        em = 1.0 if response in {normalize("NFC", reference.strip()) for reference in fields["reference"]} else 0.0
        judged = reply.value / 100
        offset, factor = self.em_weight * em, 1 - self.em_weight
        return make_rated_score(
            self,
            sample,
            offset + factor * judged,
            reply,
            offset=offset,
            factor=factor / 100,
            details={"em": em, "judge": judged},
        )


class InformationRecall(CcrsMetric):
    """Judged share of the reference's content that the response contains."""

    name = "ccrs.ir"
    title = "Information recall (answer)"
    _meaning = "the answer omits content of the reference"
    _next_step = "If context recall is high, fix the generator, else retrieval."
    description = "How much of the important content of the reference does the response contain?"
    needs = ("response", "reference")
    formula = "judge(r, g, C) / 100"
    example = WorkedExample(
        row=_ROW,
        replies={"information_recall": 100},
        value=1.0,
        steps="The response contains everything in the reference. The judge rates 100 of 100: 100 / 100 = 1.",
    )
    construct, in_formula = "information_recall", frozenset({"reference", "contexts"})
    task = (
        "Your assignment: find the important points of the reference, and look for each of them in the response. If "
        "the reference has several parts, each is a correct answer by itself: use the one closest to the response.\n"
        "100: every point is in the response, in any words.\n"
        "50: about half of the points are in the response.\n"
        "0: none is, or the response is empty.\n"
        "A point counts only if it is stated correctly. Additional content does not matter. Use the contexts, if there "
        "are any, only to understand names and terms."
    )


CCRS: Final = (
    ContextualCoherence(),
    QuestionRelevance(),
    InformationDensity(),
    AnswerCorrectness(),
    InformationRecall(),
)
"""The five metrics as the source defines them."""
