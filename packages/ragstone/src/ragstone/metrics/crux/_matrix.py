"""Functions on ratings of passages for sub-questions: `ratings[sub_question][passage]`, from 0 to 5."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

ETA: Final = 3
"""Smallest rating that means that a passage answers a sub-question (CRUX, section 3.2, note 3)."""
RATING_MAX: Final = 5
DENSITY_WEIGHT: Final = 0.5
"""The exponent w of density (CRUX, section 3.3, equation 6)."""

RatingMatrix = Mapping[str, Mapping[str, float]]
"""Sub-question to passage id to rating."""


def covered_by(ratings: RatingMatrix, *, rating_threshold: float = ETA) -> dict[str, frozenset[str]]:
    """Return for each sub-question the passages that answer it, possibly none."""
    return {
        question: frozenset(passage for passage, rating in row.items() if rating >= rating_threshold)
        for question, row in ratings.items()
    }


def answerable(ratings: RatingMatrix, *, rating_threshold: float = ETA) -> tuple[str, ...]:
    """Return the sub-questions that at least one passage answers, in their order."""
    return tuple(
        question for question, passages in covered_by(ratings, rating_threshold=rating_threshold).items() if passages
    )


def required_subset(ratings: RatingMatrix, *, rating_threshold: float = ETA) -> tuple[str, ...]:
    """Select a minimal set of passages that together answer all answerable sub-questions.

    The algorithm is greedy. Each step adds the passage that answers most of the open sub-questions (the smallest id if
    several are equal). Then passages are removed, starting with the last one, if the others answer all of their
    sub-questions. No passage of the result can be removed, but a smaller set may exist, because finding the smallest
    set is NP-hard (set cover).

    Returns:
        Passage ids in the order of selection. Empty if no sub-question is answerable.

    Source:
        CRUX, section 3.2, "Required subset of relevant passages". The source orders the passages once, by the number of
        all sub-questions that they answer. Ragstone counts the new sub-questions in each step, and removes passages
        that are not needed.

    Examples:
        >>> required_subset({"when?": {"a": 5, "b": 4}, "where?": {"b": 3, "c": 1}})
        ('b',)
    """
    answers: dict[str, set[str]] = {}
    for question, passages in covered_by(ratings, rating_threshold=rating_threshold).items():
        for passage in passages:
            answers.setdefault(passage, set()).add(question)
    open_questions: set[str] = set().union(*answers.values())
    selected: list[str] = []
    while open_questions:
        best = min(answers, key=lambda passage: (-len(answers[passage] & open_questions), passage))
        selected.append(best)
        open_questions -= answers[best]
    for passage in reversed(selected[:]):
        others: set[str] = set().union(*(answers[other] for other in selected if other != passage))
        if answers[passage] <= others:
            selected.remove(passage)
    return tuple(selected)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageAnswers:
    """Sub-questions that one passage of a ranking answers."""

    passage: str
    new: tuple[str, ...]
    """Sub-questions that no higher-ranked passage answers."""
    repeated: tuple[str, ...]
    """Sub-questions that a higher-ranked passage also answers."""

    @property
    def verdict(self) -> str:
        """Class of the passage: "new", "partly redundant", "redundant", or "nothing" if it answers no sub-question."""
        if self.new:
            return "partly redundant" if self.repeated else "new"
        return "redundant" if self.repeated else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Sub-questions that a ranking of passages answers."""

    passages: tuple[PassageAnswers, ...]
    answered: tuple[str, ...]
    """Answered sub-questions, in their order."""
    missing: tuple[str, ...]

    @property
    def redundancy(self) -> float | None:
        """Share of the answers that repeat one of a higher-ranked passage, or None without answers."""
        n_repeated = sum(len(passage.repeated) for passage in self.passages)
        n = n_repeated + len(self.answered)
        return n_repeated / n if n else None

    @property
    def novelty(self) -> float | None:
        """Share of the passages that answer a sub-question first, or None without passages."""
        return sum(bool(p.new) for p in self.passages) / len(self.passages) if self.passages else None


def answers_of(
    ranking: Iterable[str], ratings: RatingMatrix, questions: Sequence[str], *, rating_threshold: float = ETA
) -> Answers:
    """Determine for each passage of a ranking which sub-questions it answers first, and which it repeats.

    A repeated id repeats its answers. A passage without a rating for a sub-question does not answer it.

    Examples:
        >>> answers = answers_of(["a", "b"], {"when?": {"a": 5, "b": 4}, "where?": {"b": 2}}, ["when?", "where?"])
        >>> answers.missing, answers.redundancy, answers.novelty
        (('where?',), 0.5, 0.5)
    """
    seen: set[str] = set()
    passages = []
    for passage in ranking:
        answers = [q for q in questions if ratings.get(q, {}).get(passage, 0.0) >= rating_threshold]
        new, repeated = (tuple(q for q in answers if (q in seen) is old) for old in (False, True))
        passages.append(PassageAnswers(passage=passage, new=new, repeated=repeated))
        seen.update(answers)
    return Answers(
        passages=tuple(passages),
        answered=tuple(q for q in questions if q in seen),
        missing=tuple(q for q in questions if q not in seen),
    )


def relative_density(
    *, coverage: float, tokens: int, required_coverage: float, required_tokens: int, weight: float = DENSITY_WEIGHT
) -> float | None:
    """Compute coverage per token, relative to that of the required passages, to the power `weight`.

    Returns:
        A value of at least 0 without an upper bound, or None if the ratio is undefined: one of the texts has 0 tokens,
        or the required passages do not answer any sub-question.

    Raises:
        ValueError: If a number is negative or not finite.

    Source:
        CRUX, section 3.3, equation 6.

    Examples:
        >>> relative_density(coverage=0.5, tokens=200, required_coverage=1.0, required_tokens=100)
        0.5
        >>> relative_density(coverage=1.0, tokens=25, required_coverage=1.0, required_tokens=100)
        2.0
    """
    given = {
        "coverage": coverage,
        "tokens": tokens,
        "required_coverage": required_coverage,
        "required_tokens": required_tokens,
        "weight": weight,
    }
    for name, number in given.items():
        if not 0 <= number < math.inf:
            raise ValueError(f"{name} must be finite and at least 0, got {number}")
    if not (tokens and required_tokens and required_coverage):
        return None
    # A single division keeps counts exact. Two quotients would each be rounded.
    return float((coverage * required_tokens / (required_coverage * tokens)) ** weight)
