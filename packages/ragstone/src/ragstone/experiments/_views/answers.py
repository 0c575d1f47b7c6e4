"""Views of single answers: text with marked claims, passages with their roles, scores with reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from ragstone._util.words import split_words
from ragstone.metrics import MetricCard, base_name
from ragstone.reading import CASE
from ragstone.schema import Failure, Outcome, Sample, Score
from ragstone.scoring import (
    CAUSES,
    Signals,
    answer_probabilities,
    claims_of,
    find_cause,
    list_positions,
    relevant_positions,
    used_positions,
    why_wrong,
)
from ragstone.views import AnswerView, PassageView, ScoreView, Span, describe_low

_DISTRACTS_FROM: Final = 0.3
"""Smallest probability to answer from an irrelevant passage alone that makes it distracting."""
_OVERLAP: Final = 0.5
"""Smallest share of a claim's words in the sentence that makes the claim."""
_MAX_COMPARED: Final = 1_000_000
"""Words of sentences that the claims of one answer are compared with. Further claims are listed without a sentence."""
_MARKS: Final = "[.!?\u2026]++[\"'\u201d\u2019)\\]]*+"
_SENTENCE: Final = re.compile(
    rf".(?:[^.!?\u2026\u3002\uff01\uff1f\n]++|(?!{_MARKS}(?:\s|$))[.!?\u2026]++)*(?:{_MARKS}|[\u3002\uff01\uff1f]|\n|$)\s*+",
    re.DOTALL,
)


def build_answer(
    sample_id: str,
    sample: Sample | None,
    outcomes: Sequence[Outcome],
    signals: Signals,
    cards: Mapping[str, MetricCard],
    *,
    time: float | None,
) -> AnswerView:
    """Build the view of one answer. Without a sample, its texts are not known. `time` is the start of the request, Unix seconds."""
    claims = _claims(outcomes)
    response, unmatched = _mark(sample.response if sample else None, [text for text, ok in claims if ok is False])
    passages = _passages(sample, outcomes)
    cause = find_cause(signals)
    scores = tuple(_score(outcome, cards.get(outcome.metric)) for outcome in outcomes)
    return AnswerView(
        id=sample_id,
        query=sample.query if sample else None,
        response=response,
        unsupported=unmatched,
        reference=sample.reference if sample else (),
        passages=passages,
        scores=scores,
        rating=signals.rating,
        cause=cause,
        cause_title=next((each.title for each in CAUSES if each.name == cause), None),
        why=why_wrong(cause, signals, sample, outcomes) or describe_low(scores),
        metadata={key: value for key, value in sample.metadata.items() if key != CASE} if sample else {},
        time=time,
        history=tuple(f"{turn.role.capitalize()}: {turn.text}" for turn in sample.history) if sample else (),
    )


def _claims(outcomes: Sequence[Outcome]) -> list[tuple[str, bool | None]]:
    """Return the claims of the first metric that lists them with verdicts about the passages."""
    for outcome in outcomes:
        if isinstance(outcome, Score):
            claims = claims_of(outcome.details)
            if any(verdict is not None for _, verdict in claims):
                return claims
    return []


def _mark(response: str | None, unsupported: Sequence[str]) -> tuple[tuple[Span, ...] | None, tuple[str, ...]]:
    """Mark the sentence that makes each claim, and return the claims without such a sentence."""
    if response is None:
        return None, tuple(filter(None, unsupported))  # the text of a claim may have been removed
    sentences = _SENTENCE.findall(response) or [response]
    places: dict[str, list[int]] = {}
    for n, sentence in enumerate(sentences):
        for word in set(split_words(sentence)):
            places.setdefault(word, []).append(n)
    marked, unmatched, left = set(), [], _MAX_COMPARED
    for claim in unsupported:
        wanted = set(split_words(claim))
        left -= sum(len(places.get(word, ())) for word in wanted)
        shared = Counter(n for word in wanted for n in places.get(word, ())) if left >= 0 else Counter[int]()
        best = min(shared, key=lambda n: (-shared[n], n), default=None)
        if best is not None and shared[best] / len(wanted) >= _OVERLAP:
            marked.add(best)
        else:
            unmatched.append(claim)
    spans = tuple(Span(text=text, unsupported=n in marked) for n, text in enumerate(sentences))
    return spans, tuple(unmatched)


def _passages(sample: Sample | None, outcomes: Sequence[Outcome]) -> tuple[PassageView, ...] | None:
    if sample is None or sample.contexts is None:
        return None
    relevant, source = relevant_positions(sample, outcomes)
    answers = answer_probabilities(outcomes)
    used = used_positions(sample, outcomes)
    views = []
    for position, passage in enumerate(sample.contexts, start=1):
        marks: list[Literal["relevant", "used", "distracting"]] = []
        if relevant.get(position):
            marks.append("relevant")
        if position in used:
            marks.append("used")
        p_answer, interval = answers.get(position, (None, None))
        if relevant.get(position) is False and p_answer is not None and p_answer >= _DISTRACTS_FROM:
            marks.append("distracting")
        views.append(
            PassageView(
                position=position,
                id=passage.id,
                text=passage.text,
                marks=tuple(marks),
                label_source=source if position in relevant else None,
                p_answer=p_answer,
                p_answer_interval=interval,
            )
        )
    return tuple(views)


def _score(outcome: Outcome, card: MetricCard | None) -> ScoreView:
    title = card.title if card is not None else outcome.metric
    if not isinstance(outcome, Score):
        failed = isinstance(outcome, Failure)
        reason = f"{outcome.kind}: {outcome.reason}" if isinstance(outcome, Failure) else outcome.reason
        return ScoreView(
            metric=outcome.metric,
            title=title,
            outcome="failure" if failed else "not_applicable",
            reason=reason,
            reason_source="failure" if failed else None,
            is_low=False,
        )
    evidence = _evidence(outcome)
    low, high = (None, None) if outcome.interval is None else (outcome.interval.low, outcome.interval.high)
    return ScoreView(
        metric=outcome.metric,
        title=title,
        outcome="score",
        value=outcome.value,
        low=low,
        high=high,
        reason=outcome.explanation or evidence,
        reason_source="judge" if "explanation_source" in outcome.details else "evidence" if evidence else None,
        is_low=None if card is None or card.decision(outcome) is None else card.is_good(outcome) is False,
    )


def _evidence(score: Score) -> str | None:
    """Write the evidence in a score's details in words."""
    details = score.details
    if score.explanation:
        return score.explanation
    if base_name(score.metric) == "ccrs.ac" and isinstance(details.get("judge"), int | float):
        exact = "identical to a reference" if details.get("em") == 1.0 else "not identical to a reference"
        return f"judged {details['judge']:.2f}, {exact}"
    if claims := claims_of(details):
        return f"{sum(verdict is True for _, verdict in claims)} of {len(claims)} claims are supported"
    if isinstance(ranks := details.get("relevant"), list) and all(type(rank) is int for rank in ranks):
        return f"relevant at rank {', '.join(map(str, ranks))}" if ranks else "no passage is relevant"
    if score.metric.startswith("udcg"):
        return _describe_utility(score)
    return None


def _describe_utility(score: Score) -> str:
    relevant, _ = relevant_positions(None, [score])
    answers = answer_probabilities([score])
    draws = [position for position, (p_answer, _) in answers.items() if p_answer >= _DISTRACTS_FROM]
    helps = [position for position in draws if relevant.get(position)]
    distracts = [position for position in draws if relevant.get(position) is False]
    text = f"helpful: {list_positions(helps)}" if helps else "no passage helps"
    return f"{text}. Distracting: {list_positions(distracts)}" if distracts else text
