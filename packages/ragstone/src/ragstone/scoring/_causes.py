"""Causes: for each answer, the first step of the application that failed, as far as the outcomes show it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from ragstone._util.abstains import OWN_REFUSALS, answer_abstains, is_own_refusal
from ragstone.metrics import MEAN_OF_REPEATS, MetricCard, base_name, resolve_metrics
from ragstone.schema import (
    AnswerCause,
    AnswerMark,
    Failure,
    NotApplicable,
    Outcome,
    Passage,
    Sample,
    Score,
    TraceOutline,
)

_CLAIM_METRICS: Final = ("ragas.faithfulness", "ragchecker.faithfulness", "vera.groundedness")
"""Metrics whose details list claims (or sentences) of the answer with verdicts, in order of preference."""
_LONGEST_KEPT: Final = 400
"""Longest answer and reference, in characters, that is kept until it is needed whether it abstains."""
_JUDGED: Final = "ccrs.ac"
"""The metric of correctness that is preferred."""
_COHERENCE: Final = "ccrs.cc"
_CORRECTNESS_METRICS: Final = frozenset({_JUDGED, "ragchecker.f1"})
_SUPPORT_METRICS: Final = frozenset({_COHERENCE, *_CLAIM_METRICS})
_RELEVANCE_METRICS: Final = ("udcg", "ragas.context_precision", "judged.", "ragchecker.claim_recall")
"""Beginnings of the names of metrics that say which passages are relevant."""
DECIDING_FAILED: Final = "a metric that decides this failed"
_LABELS: Final = "labels of the passages"
_RELEVANT_GRADE: Final = 0.5
"""Smallest grade of a relevant passage, as in UDCG."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A reason why an answer is wrong, or not as good as it could be."""

    name: str
    title: str
    next: str
    """What to work on, as a sentence that starts with a verb."""
    is_wrong: bool = True


_CAUSES: Final = {
    "no_relevant_passage": (
        "No relevant passage was retrieved",
        "Work on the retriever: hybrid search, chunking, or more passages.",
    ),
    "missed_passage": (
        "The model missed a relevant passage",
        "Work on the prompt, the order of the passages, or the model: the passage was there.",
    ),
    "abstained": (
        "The model did not answer",
        "Find out whether a relevant passage was there: label passages, or add the metric udcg.",
    ),
    "should_abstain": (
        "The model answered a question without an answer",
        "Instruct the model to say that it does not know, and test it with such questions.",
    ),
    "unsupported_claims": (
        "The answer makes unsupported claims",
        "Instruct the model to answer from the passages only, and check its claims.",
    ),
    "wrong_passage": ("The answer follows the wrong passage", "Add a reranker, or retrieve fewer passages."),
    "unexplained": (
        "The cause is not known from these metrics",
        "Add metrics that say why: udcg for the passages, ragas.faithfulness for the claims.",
    ),
    "correct_unsupported": (
        "Correct, with an unsupported claim",
        "Instruct the model to answer from the passages only.",
    ),
    "not_scored": ("Not scored", "Run `ragstone doctor` to find out why the judge failed."),
}
CAUSES: Final = tuple(
    Cause(name=name, title=title, next=advice, is_wrong=name not in ("correct_unsupported", "not_scored"))
    for name, (title, advice) in _CAUSES.items()
)
"""All causes, in the order in which they are checked, except the last one."""


Basis = Literal["correctness", "support", "abstention"]
"""What decides whether an answer is wrong: its judged correctness, its support by the passages, or that it abstains."""


@dataclass(slots=True)
class Signals:
    """What is known about one answer. None means that no metric and no label says it."""

    is_known: bool = False
    """Whether it is known what the texts of the sample say. Without them, an answer may abstain, or the reference."""
    references: tuple[str, ...] = ()
    """The references, unless they are known to be answers."""
    is_declined: bool | None = None
    """Whether the reference declines to answer, if the outcomes say so."""
    response: str | None = None
    """The answer, until it is known whether it abstains."""
    is_refusal: bool | None = None
    """Whether the answer abstains, as far as it was looked up. See `abstains`."""
    is_correct: bool | None = None
    correct_by: str | None = None
    """Metric that `is_correct` comes from."""
    has_relevant: bool | None = None
    relevant_by: str | None = None
    n_claims: int | None = None
    n_unsupported: int | None = None
    claims_by: str | None = None
    is_coherent: bool | None = None
    has_failed_correctness: bool = False
    """Whether a metric of correctness failed."""
    has_failed_support: bool = False
    """Whether a metric of support failed."""
    n_scores: int = 0
    n_failures: int = 0
    badness: float = 0.0
    """Sum over the scores of the distance from the best value, as a share of the metric's range."""
    n_rated: int = 0
    """Number of scores in `badness`. Scores of unbounded metrics are not in it."""

    @property
    def abstains(self) -> bool | None:
        """Whether the answer declines to answer. Looked up when it is needed: most correct answers are not asked for it."""
        if self.response is not None:
            self.is_refusal, self.response = answer_abstains(self.response), None
        return self.is_refusal

    @property
    def is_answerable(self) -> bool:
        """False if the reference itself declines to answer."""
        if self.is_declined is None:
            self.is_declined = bool(self.references) and all(map(answer_abstains, self.references))
        return not self.is_declined

    @property
    def rating(self) -> float | None:
        """Mean of the scores on a scale from 0 (worst) to 1 (best). None without scores of metrics with a range."""
        return 1 - self.badness / self.n_rated if self.n_rated else None

    @property
    def is_unsupported(self) -> bool | None:
        """Whether a claim of the answer is not supported by the passages."""
        if self.n_unsupported is not None:
            return self.n_unsupported > 0
        return None if self.is_coherent is None else not self.is_coherent

    @property
    def decided_by(self) -> Basis | None:
        """What decides whether the answer is wrong. None if that is not known.

        If a metric failed that would have decided, nothing else decides. Otherwise a failure would leave out correct
        answers more often than wrong ones, such as those that abstain, and the share of wrong answers would be too
        large. For the same reason, support does not decide if it is not known whether the answer abstains.
        """
        if self.is_correct is not None:
            return "correctness"
        if self.has_failed_correctness or self.abstains is None:
            return None
        if self.is_unsupported is not None:
            return "support"
        return None if self.has_failed_support or self.claims_by else "abstention"

    @property
    def undecided(self) -> str:
        """Why it is not known whether the answer is wrong. Empty if that is known, and without an answer."""
        if self.decided_by is not None:
            return ""
        if self.has_failed_correctness or self.has_failed_support:
            return DECIDING_FAILED
        return "" if self.is_known and self.abstains is None else "what decides this is not known, or repeats differ"


def note_sample(signals: Signals, sample: Sample) -> None:
    """Note what the sample itself says: reference, abstention, and labels of passages."""
    _note_texts(signals, sample.reference, sample.response, _labels(sample))


def note_outline(signals: Signals, outline: TraceOutline) -> None:
    """Note what a captured request says, as `note_sample` does."""
    contexts = outline.prompt_contexts
    found = None if contexts is None else [(each.get("id"), each.get("relevance")) for each in contexts]
    _note_texts(signals, outline.reference, outline.response, _label(found, outline.qrels))


def _note_texts(
    signals: Signals, reference: Sequence[str], response: str | None, labels: Sequence[bool] | None
) -> None:
    references = tuple(text for text in reference if text.strip())
    if any(len(text) > _LONGEST_KEPT for text in references) and not all(map(answer_abstains, references)):
        references = ()
    signals.is_known, signals.references, signals.is_declined = True, references, None
    if response is not None and len(response) > _LONGEST_KEPT:
        signals.is_refusal, signals.response = answer_abstains(response), None
    else:
        signals.is_refusal, signals.response = None, response
    if labels is not None:
        signals.has_relevant, signals.relevant_by = any(labels), _LABELS


def answer_marks(sample: Sample) -> tuple[AnswerMark, ...]:
    """Return what the texts of a sample say about its answer, for its outcomes."""
    signals = Signals()
    note_sample(signals, sample)
    marks: dict[AnswerMark, bool] = {
        "abstains": signals.abstains is True,
        "own_phrase": bool(OWN_REFUSALS.get()) and signals.abstains is True and is_own_refusal(sample.response or ""),
        "unanswerable": not signals.is_answerable,
        "relevant": signals.has_relevant is True,
        "irrelevant": signals.has_relevant is False,
    }
    return tuple(mark for mark, holds in marks.items() if holds)


def _labels(sample: Sample) -> list[bool] | None:
    """Return for each passage whether its label says that it is relevant. None without labels."""
    contexts = sample.contexts
    return _label(None if contexts is None else [(each.id, each.relevance) for each in contexts], sample.qrels)


def _label(
    passages: Sequence[tuple[str | None, float | None]] | None, qrels: Mapping[str, float] | None
) -> list[bool] | None:
    """Return for each passage, given by its id and its label, whether it is relevant. None without labels."""
    if passages is None:
        return None
    if qrels is not None:
        # Passages that are not in the qrels are not relevant, as in TREC. Of one without an id, this is unknown.
        ids = [id_ for id_, _ in passages if id_ is not None]
        return [qrels.get(id_, 0.0) >= _RELEVANT_GRADE for id_ in ids] if len(ids) == len(passages) else None
    if passages and all(relevance is not None for _, relevance in passages):
        return [(relevance or 0.0) >= _RELEVANT_GRADE for _, relevance in passages]
    return None


def relevant_positions(sample: Sample | None, outcomes: Sequence[Outcome]) -> tuple[Mapping[int, bool], str | None]:
    """Return by 1-based position whether a passage is relevant, and where that is known from."""
    labels = None if sample is None else _labels(sample)
    if labels is not None:
        return dict(enumerate(labels, start=1)), _LABELS
    for outcome in outcomes:
        if isinstance(outcome, NotApplicable):
            continue
        found = _judged_labels(outcome)
        if found is not None:
            return found, f"{outcome.metric} (judge)"
    return {}, None


def _judged_labels(outcome: Score | Failure) -> Mapping[int, bool] | None:
    """Return the relevance of passages, by position, from the details of an outcome."""
    details = outcome.details
    if outcome.metric.startswith("udcg"):
        labels = {
            entry["position"]: entry["relevance"] > 0
            for entry in _entries(details.get("passages"))
            if isinstance(entry.get("position"), int) and isinstance(entry.get("relevance"), int | float)
        }
        return labels or None
    if outcome.metric == "ragas.context_precision":
        useful = details.get("useful")
        if isinstance(useful, list) and useful and all(isinstance(mark, bool) for mark in useful):
            return dict(enumerate(useful, start=1))
    return None


def note_outcome(signals: Signals, outcome: Outcome, card: MetricCard | None) -> None:
    """Note what one outcome says. Without a card, its value is not in the rating."""
    if isinstance(outcome, Score) and outcome.method == MEAN_OF_REPEATS:  # the sample has the texts of one of them
        signals.is_known, signals.response, signals.is_refusal = False, None, None
        if signals.relevant_by == _LABELS:
            signals.has_relevant = signals.relevant_by = None
    if outcome.answer is not None:
        marks = outcome.answer
        signals.is_known, signals.response = True, None
        signals.is_refusal, signals.is_declined = "abstains" in marks, "unanswerable" in marks
        if "relevant" in marks or "irrelevant" in marks:
            signals.has_relevant, signals.relevant_by = "relevant" in marks, _LABELS
    if isinstance(outcome, NotApplicable):
        return
    name = base_name(outcome.metric)
    if isinstance(outcome, Failure):
        signals.n_failures += 1
        signals.has_failed_correctness |= name in _CORRECTNESS_METRICS
        signals.has_failed_support |= name in _SUPPORT_METRICS
    else:
        signals.n_scores += 1
        if card is not None and math.isfinite(card.high - card.low):
            signals.badness += min(max(1 - card.goodness(outcome.value), 0.0), 1.0)
            signals.n_rated += 1
        if name in _CORRECTNESS_METRICS:
            good = (card or _default_card(outcome.metric)).is_good(outcome)
            if good is not None and (name == _JUDGED or signals.correct_by is None):
                signals.is_correct, signals.correct_by = good, outcome.metric
        elif name in _SUPPORT_METRICS:
            _note_support(signals, outcome, card or _default_card(outcome.metric))
    if outcome.metric.startswith(_RELEVANCE_METRICS):
        _note_relevance(signals, outcome)


@cache
def _default_card(metric: str) -> MetricCard:
    """Return the card of a metric of correctness or support, whose arguments do not change what decides."""
    (resolved,) = resolve_metrics(base_name(metric))
    return resolved.card


def _note_support(signals: Signals, score: Score, card: MetricCard) -> None:
    if base_name(score.metric) == _COHERENCE:
        signals.is_coherent = card.is_good(score)
    if score.metric not in _CLAIM_METRICS:
        return
    known = signals.claims_by
    if known is not None and _CLAIM_METRICS.index(known) <= _CLAIM_METRICS.index(score.metric):
        return
    verdicts = [verdict for _, verdict in claims_of(score.details)]
    signals.claims_by = score.metric
    signals.n_claims = len(verdicts)
    signals.n_unsupported = sum(verdict is False for verdict in verdicts)
    if score.method == MEAN_OF_REPEATS:
        signals.n_unsupported = _agreed(value < 1 for value in card.decisions(score))


def _note_relevance(signals: Signals, outcome: Score | Failure) -> None:
    if signals.relevant_by is not None:
        return
    labels = _judged_labels(outcome)
    if labels is None and isinstance(outcome, Score) and outcome.metric.startswith("judged."):
        relevant = outcome.details.get("relevant")
        labels = {1: bool(relevant)} if isinstance(relevant, list) else None
    if labels is None and isinstance(outcome, Score) and outcome.metric == "ragchecker.claim_recall":
        relevant = _agreed(value > 0 for value in _default_card(outcome.metric).decisions(outcome))
        labels = None if relevant is None else {1: relevant}
    if labels is not None:
        signals.has_relevant, signals.relevant_by = any(labels.values()), outcome.metric


def _agreed(repeats: Iterable[bool]) -> bool | None:
    """Return what holds for all repeats, or None if they differ."""
    found = set(repeats)
    return found.pop() if len(found) == 1 else None


def claims_of(details: Mapping[str, Any]) -> list[tuple[str, bool | None]]:
    """Return the claims of the answer with their verdicts from the details of an outcome."""
    found = []
    for entry in _entries(details.get("claims")):
        claim = entry.get("claim")
        verdict = entry.get("supported", entry.get("found"))
        if isinstance(claim, str):
            found.append((claim, verdict if isinstance(verdict, bool) else None))
    return found


def _entries(values: object) -> list[Mapping[str, Any]]:
    # Details of third-party metrics may have any structure.
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list | tuple) else []


def find_cause(signals: Signals) -> str | None:
    """Return the cause of a wrong answer, or None if the answer is not wrong as far as the signals show.

    With a judgment of correctness, an answer is wrong if it is judged so. Without one, an answer is wrong if it
    abstains or makes an unsupported claim. If that judgment failed, it is not known whether the answer is wrong.
    Without the texts of the sample and what its outcomes say about them, the cause of a wrong answer is not known.
    """
    if signals.n_scores == 0:
        return "not_scored" if signals.n_failures else None
    unsupported = signals.is_unsupported
    if signals.is_correct is True:
        return "correct_unsupported" if signals.is_known and signals.n_unsupported and not signals.abstains else None
    if not signals.is_known:
        return "unexplained" if signals.is_correct is False or (signals.decided_by and unsupported) else None
    if signals.decided_by is None or (signals.is_correct is None and not signals.abstains and not unsupported):
        return None
    if not signals.is_answerable:
        return None if signals.abstains else "should_abstain"
    if signals.has_relevant is False:
        return "no_relevant_passage"
    if signals.abstains:
        return "missed_passage" if signals.has_relevant else "abstained"
    if unsupported:
        return "unsupported_claims"
    return "wrong_passage" if unsupported is False else "unexplained"


def diagnose(sample: Sample | None, outcomes: Sequence[Outcome]) -> AnswerCause | None:
    """Return the cause of one answer, or None if no outcome says that it is wrong. Its texts may be unknown."""
    signals = Signals()
    if sample is not None:
        note_sample(signals, sample)
    for outcome in outcomes:
        note_outcome(signals, outcome, None)
    name = find_cause(signals)
    cause = next((each for each in CAUSES if each.name == name), None)
    if cause is None:
        return None
    why = why_wrong(cause.name, signals, sample, outcomes)
    return AnswerCause(name=cause.name, title=cause.title, why=why, next=cause.next)


def why_wrong(cause: str | None, signals: Signals, sample: Sample | None, outcomes: Sequence[Outcome]) -> str:
    """State the evidence for a cause in one sentence. It does not quote texts of the sample."""
    n_claims, n_unsupported = signals.n_claims or 0, signals.n_unsupported or 0
    n_passages = 0 if sample is None else len(sample.contexts or ())
    match cause:
        case "no_relevant_passage":
            text = (
                f"None of the {n_passages} passages is relevant" if n_passages else "No relevant passage was retrieved"
            )
            if n_passages == 1:
                text = "The only passage is not relevant"
            return f"{text}. {'The model did not answer' if signals.abstains else 'The answer has another source'}."
        case "missed_passage":
            found = relevant_positions(sample, outcomes)[0] if n_passages else {}
            relevant = [position for position, is_relevant in found.items() if is_relevant and position <= n_passages]
            start = (
                f"{list_positions(relevant).capitalize()} {'is' if len(relevant) == 1 else 'are'}"
                if relevant
                else "A passage is"
            )
            return f"{start} relevant, and the model did not answer."
        case "abstained":
            return "The model did not answer. It is not known whether a passage was relevant."
        case "should_abstain":
            return "The reference declines to answer, and the model gave an answer."
        case "unsupported_claims" | "correct_unsupported" if n_claims:
            verb = "has" if n_unsupported == 1 else "have"
            return f"{n_unsupported} of {n_claims} claims {verb} no support in the passages."
        case "unsupported_claims":
            return "The judge does not find the answer supported by the passages."
        case "wrong_passage":
            return "The passages support the answer, which does not agree with the reference."
        case "unexplained":
            judged = f"Judged wrong by {signals.correct_by or signals.claims_by or 'a metric'}."
            return judged if signals.is_known else f"{judged} Without its texts, the cause is not known."
        case "not_scored":
            kinds = sorted({outcome.kind for outcome in outcomes if isinstance(outcome, Failure)})
            return f"No metric has a score. Failures: {', '.join(kinds)}."
    if signals.undecided == DECIDING_FAILED:
        return f"It is not known whether the answer is wrong: {DECIDING_FAILED}."
    return "Judged correct." if signals.is_correct else ""


def list_positions(positions: Sequence[int]) -> str:
    """Write the positions of passages in words: "passages 1, 3"."""
    return ("passage " if len(positions) == 1 else "passages ") + ", ".join(map(str, sorted(positions)))


def describe_signals(all_signals: Sequence[Signals]) -> tuple[str, ...]:
    """Name the signals that the causes are computed from, in words."""
    correct = sorted({s.correct_by for s in all_signals if s.correct_by})
    relevant = sorted({s.relevant_by for s in all_signals if s.relevant_by})
    claims = sorted({s.claims_by for s in all_signals if s.claims_by})
    lines = []
    if correct:
        lines.append(f"correctness: {', '.join(f'{name} ({_default_card(name).rule})' for name in correct)}")
    if relevant:
        lines.append(f"relevant passages: {', '.join(relevant)}")
    if claims:
        lines.append(f"supported claims: {', '.join(claims)}")
    elif any(s.is_coherent is not None for s in all_signals):
        lines.append(f"support: ccrs.cc ({_default_card('ccrs.cc').rule})")
    if any(s.abstains is not None for s in all_signals):
        lines.append("abstentions: the wording of the answer")
    if unknown := sum(not s.is_known and s.n_scores > 0 for s in all_signals):
        lines.append(f"unknown, or repeats differ: texts of {unknown} answers, and whether they abstain")
    return tuple(lines)


def answer_probabilities(
    outcomes: Sequence[Outcome],
) -> dict[int, tuple[float, tuple[float, float] | None]]:
    """Return by position the probability that the reader answers from a passage alone, with its interval."""
    found: dict[int, tuple[float, tuple[float, float] | None]] = {}
    for outcome in outcomes:
        if isinstance(outcome, NotApplicable) or not outcome.metric.startswith("udcg"):
            continue
        for entry in _entries(outcome.details.get("passages")):
            position, p_abstain = entry.get("position"), entry.get("p_abstain")
            if isinstance(position, int) and isinstance(p_abstain, int | float):
                found[position] = (1 - p_abstain, _complement(entry.get("interval")))
    return found


def _complement(interval: object) -> tuple[float, float] | None:
    match interval:
        case [int() | float() as low, int() | float() as high]:
            return 1 - high, 1 - low
    return None


def used_positions(sample: Sample, outcomes: Sequence[Outcome]) -> set[int]:
    """Return the positions of passages that support a claim of the answer, according to a metric of claims."""
    passages: Sequence[Passage] = sample.contexts or ()
    return {
        position
        for outcome in outcomes
        if isinstance(outcome, Score)
        for entry in _entries(outcome.details.get("claims"))
        if isinstance(listed := entry.get("passages"), list)
        for position in listed
        if isinstance(position, int) and 1 <= position <= len(passages)
    }
