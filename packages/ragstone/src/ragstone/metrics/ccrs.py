"""CCRS: five zero-shot judgements of one answer. Prompts, aggregation and cards; the wording is ours.

Source: "CCRS: A Zero-Shot LLM-as-a-Judge Framework for Comprehensive RAG Evaluation", section 2.3.

With response r, question q, contexts C, reference g and a judge on a scale of 0-100:

| metric | value | needs |
|---|---|---|
| `ccrs.cc` contextual coherence | judge(r, C) / 100 | contexts, response |
| `ccrs.qr` question relevance | judge(r, q) / 100 | query, response |
| `ccrs.id` information density | judge(r, q, C) / 100 | query, response |
| `ccrs.ac` answer correctness | λ·EM(r, g) + (1 - λ)·judge(r, g, C) / 100, λ = 0.7 | response, reference |
| `ccrs.ir` information recall | judge(r, g, C) / 100 | response, reference |

What the source leaves open is decided so:

- An empty response (or white space) scores 0 on all five, and the judge is not asked.
- EM is 1 only for r = g, letter by letter; white space around either is not compared, case and punctuation are.
- Several references: any one counts. EM is 1 when one is equal, and the judge sees all and takes the best fitting.
- A missing field is `NotApplicable`; a blank one (query, reference) is missing. Retrieval that found nothing leaves
  contextual coherence without a meaning, and the others as they are.
- The question, contexts and response stand at the head of all five prompts, so that a server computes them once; the
  reference follows where it is judged against, and is not shown elsewhere.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from ragstone.errors import ConfigurationError
from ragstone.judges import Judge, NumberReply, Prompt
from ragstone.metrics._base import MetricBase
from ragstone.metrics._card import WorkedExample
from ragstone.schema import Interval, NotApplicable, Sample, Score

__all__ = [
    "CCRS",
    "AnswerCorrectness",
    "ContextualCoherence",
    "InformationDensity",
    "InformationRecall",
    "QuestionRelevance",
]

_ROW: Final = {
    "query": "How tall is the lighthouse?",
    "contexts": ["The lighthouse of Northport is 31 metres tall.", "Ferries leave at noon."],
    "response": "31 metres, and it was built in 1890.",
    "reference": "31 metres",
}


class _Ccrs(MetricBase):
    """What the five have in common: one question to the judge, on the same material."""

    group = "ccrs"
    source = "CCRS, section 2.3.2"
    judge_calls = 1
    construct: ClassVar[str]
    task: ClassVar[str]
    """The judge's assignment, in our own words. What kind of reply is wanted, the judge adds."""

    def __init_subclass__(cls) -> None:
        cls.tasks = (cls.construct, cls.task)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:
        """Score `sample` between 0 and 1.

        Raises:
            JudgeError: The judge gave no usable answer.
        """
        fields = _fields(sample)
        if reason := self._find_not_applicable_reason(fields):
            return self.make_not_applicable(sample, reason)
        if not fields["response"]:
            return self.make_score(sample, 0.0, method="empty_response")
        shown = {name: value for name, value in fields.items() if name != "reference" or "reference" in self.needs}
        reply = await judge.ask_number(Prompt(construct=self.construct, task=self.task, fields=shown))
        return self._judged(sample, fields, reply)

    def _find_not_applicable_reason(self, fields: dict[str, str | tuple[str, ...]]) -> str | None:  # noqa: ARG002
        """Why the metric has no meaning although nothing is missing; None when it has one."""
        return None

    def _judged(self, sample: Sample, fields: dict[str, str | tuple[str, ...]], reply: NumberReply) -> Score:  # noqa: ARG002
        return self._from_reply(sample, reply.value / 100, reply)

    def _from_reply(
        self,
        sample: Sample,
        value: float,
        reply: NumberReply,
        *,
        scale: tuple[float, float] = (0.0, 0.01),
        details: dict[str, Any] | None = None,
    ) -> Score:
        """Make the score; `scale` (offset and factor) takes the judge's interval to the metric's range."""
        return self.make_score(
            sample,
            value,
            method=reply.method,
            details={**(details or {}), **_describe_reply(reply)},
            n=reply.n,
            raw=reply.raw,
            usage=reply.usage,
            interval=_scaled(reply.interval, *scale),
        )


def _scaled(interval: Interval | None, offset: float, factor: float) -> Interval | None:
    if interval is None:
        return None
    low, high = (min(1.0, max(0.0, offset + factor * end)) for end in (interval.low, interval.high))
    return interval.model_copy(update={"low": low, "high": high})


def _describe_reply(reply: NumberReply) -> dict[str, Any]:
    """What a reply says of itself beyond its number, where it says anything."""
    told: dict[str, Any] = {}
    if reply.mass is not None:
        told["format_mass"] = reply.mass
    if reply.n_missing:
        told["n_missing"] = reply.n_missing
    return told


def _fields(sample: Sample) -> dict[str, str | tuple[str, ...]]:
    """What is known of the sample, in the order of all CCRS prompts."""
    fields: dict[str, str | tuple[str, ...]] = {}
    if sample.query is not None and sample.query.strip():
        fields["query"] = sample.query
    if sample.contexts is not None:
        fields["contexts"] = tuple(passage.text for passage in sample.contexts)
    if sample.response is not None:
        fields["response"] = sample.response if sample.response.strip() else ""
    if references := tuple(reference for reference in sample.reference if reference.strip()):
        fields["reference"] = references
    return fields


class ContextualCoherence(_Ccrs):
    """How far the response follows from the retrieved contexts and agrees with them."""

    name = "ccrs.cc"
    title = "Contextual coherence"
    advice = (
        "Low means that the answer is not supported by its passages, or contradicts them. "
        "Next: Read the worst ten; check context coverage before you change the prompt."
    )
    description = "Does the response follow from the retrieved passages, without contradicting them or itself?"
    needs = ("contexts", "response")
    formula = "judge(r, C) / 100"
    example = WorkedExample(
        row=_ROW,
        replies={"contextual_coherence": 55},
        value=0.55,
        steps="The passages back the height and not the year; the judge gives 55 of 100, so 55 / 100 = 0.55.",
    )
    construct = "contextual_coherence"
    task = (
        "Your assignment: compare the response with the numbered passages of the contexts, statement by statement.\n"
        "100: each statement is backed by the passages, and the whole is free of contradictions.\n"
        "50: about half of it is backed; the rest is added from elsewhere, or does not fit together.\n"
        "0: the response contradicts the passages, or has nothing to do with them, or is empty.\n"
        "Take the passages as given, even where you know better, and do not ask whether the question is answered."
    )

    def _find_not_applicable_reason(self, fields: dict[str, str | tuple[str, ...]]) -> str | None:
        if not any(text.strip() for text in fields["contexts"]):
            return "no context: retrieval found nothing to be coherent with"
        return None


class QuestionRelevance(_Ccrs):
    """How directly the response answers the question that was asked."""

    name = "ccrs.qr"
    title = "Question relevance"
    advice = (
        "Low means that the answer misses the question; refusals count as a miss. "
        "Next: Separate refusals, then check query rewriting and prompt."
    )
    description = "Does the response answer the question that was asked, directly and in full?"
    needs = ("query", "response")
    formula = "judge(r, q) / 100"
    example = WorkedExample(
        row=_ROW,
        replies={"question_relevance": 90},
        value=0.9,
        steps="It answers what was asked, with an addition; the judge gives 90 of 100, so 0.9.",
    )
    construct = "question_relevance"
    task = (
        "Your assignment: decide whether the response is an answer to this query.\n"
        "100: it answers what was asked, all of it, and to the point.\n"
        "50: it answers a part, or a neighbouring question, or buries the answer.\n"
        "0: it is about something else, or avoids the question, or is empty.\n"
        "Leave aside whether the answer is true and where it comes from; other material above is there for other "
        "assignments."
    )


class InformationDensity(_Ccrs):
    """How well the response balances completeness against length."""

    name = "ccrs.id"
    title = "Information density"
    advice = "Low means that the answer says too little, or is padded. Next: Change the length instruction."
    description = "Does the response say enough, and no more than enough?"
    needs = ("query", "response")
    formula = "judge(r, q, C) / 100"
    example = WorkedExample(
        row=_ROW,
        replies={"information_density": 80},
        value=0.8,
        steps="Half of the short response was not asked for; the judge gives 80 of 100, so 0.8.",
    )
    construct = "information_density"
    task = (
        "Your assignment: weigh what the response tells the person who sent the query against the words it takes.\n"
        "100: everything useful is said, and no sentence could go without a loss.\n"
        "50: useful, but padded, repetitive or wandering; or so brief that needed details are missing.\n"
        "0: nothing useful for this query in it, or empty.\n"
        "The contexts, where there are any, show which details were at hand. Truth is not the matter here."
    )


class AnswerCorrectness(_Ccrs):
    """Agreement of the response with the reference: exact match and judged, weighted.

    Args:
        em_weight: λ, the weight of the exact match, between 0 and 1.

    Raises:
        ConfigurationError: `em_weight` lies outside.
    """

    name = "ccrs.ac"
    title = "Answer correctness"
    advice = (
        "Low means that the answer is not identical to the reference; then at most 0.3 is possible. "
        "Next: Read the judged part in details, or set em_weight=0."
    )
    description = "Is what the response states right, measured against the reference answer?"
    needs = ("response", "reference")
    formula = "λ EM(r, g) + (1 - λ) judge(r, g, C) / 100, λ = 0.7"
    example = WorkedExample(
        row=_ROW,
        replies={"answer_correctness": 70},
        value=0.21,
        steps="The response is not the reference letter by letter, so EM = 0; the judge gives 70: 0.7 * 0 + 0.3 * 0.7 = 0.21.",
    )
    construct = "answer_correctness"
    task = (
        "Your assignment: check the facts in the response against the reference. Where it has several parts, each is a "
        "correct answer by itself: use the one closest to the response.\n"
        "100: all that the response states agrees with the reference, in whatever words.\n"
        "50: right in part, with mistakes or claims the reference does not bear out beside it.\n"
        "0: the answer is wrong, or contradicts the reference, or is missing.\n"
        "Use the contexts, where there are any, only to understand names and terms. What the response leaves out is not "
        "the matter here."
    )

    def __init__(self, *, em_weight: float = 0.7) -> None:
        if not 0 <= em_weight <= 1:
            raise ConfigurationError(f"em_weight must be between 0 and 1, got {em_weight!r}")
        self.em_weight = em_weight
        self.version = f"1({em_weight:g})"

    def __repr__(self) -> str:
        return f"AnswerCorrectness(em_weight={self.em_weight!r})"

    def _judged(self, sample: Sample, fields: dict[str, str | tuple[str, ...]], reply: NumberReply) -> Score:
        response = str(fields["response"]).strip()
        em = 1.0 if response in {reference.strip() for reference in fields["reference"]} else 0.0
        judged = reply.value / 100
        offset, factor = self.em_weight * em, 1 - self.em_weight
        return self._from_reply(
            sample,
            offset + factor * judged,
            reply,
            scale=(offset, factor / 100),
            details={"em": em, "judge": judged},
        )


class InformationRecall(_Ccrs):
    """How much of what the reference says is in the response."""

    name = "ccrs.ir"
    title = "Information recall (answer)"
    advice = (
        "Low means that the answer omits content of the reference. "
        "Next: If context recall is high, fix the generator, else retrieval."
    )
    description = "How much of what matters in the reference answer does the response contain?"
    needs = ("response", "reference")
    formula = "judge(r, g, C) / 100"
    example = WorkedExample(
        row=_ROW,
        replies={"information_recall": 100},
        value=1.0,
        steps="Everything in the reference is in the response; the judge gives 100 of 100, so 1.",
    )
    construct = "information_recall"
    task = (
        "Your assignment: list for yourself the points that matter in the reference, and look for each in the response. "
        "Where the reference has several parts, each is a correct answer by itself: use the one closest to the "
        "response.\n"
        "100: every point is there, in whatever words.\n"
        "50: about half of the points are there.\n"
        "0: none is there, or the response is empty.\n"
        "A point counts as there only if it is stated rightly. Anything the response says beyond the reference neither "
        "helps nor harms. Use the contexts, where there are any, only to understand names and terms."
    )


CCRS: Final = (
    ContextualCoherence(),
    QuestionRelevance(),
    InformationDensity(),
    AnswerCorrectness(),
    InformationRecall(),
)
"""The five metrics as the source defines them."""
