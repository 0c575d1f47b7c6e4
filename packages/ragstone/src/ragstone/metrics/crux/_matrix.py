"""What ratings of passages for sub-questions say: pure functions on `ratings[sub_question][passage]`, from 0 to 5."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = [
    "DENSITY_WEIGHT",
    "ETA",
    "RATING_MAX",
    "Answers",
    "PassageAnswers",
    "RatingMatrix",
    "answerable",
    "answers_of",
    "covered_by",
    "relative_density",
    "required_subset",
]

ETA: Final = 3
"""A passage answers a sub-question from this rating on (CRUX, section 3.2, note 3)."""
RATING_MAX: Final = 5
DENSITY_WEIGHT: Final = 0.5
"""The exponent w of density (CRUX, section 3.3, equation 6)."""

RatingMatrix = Mapping[str, Mapping[str, float]]
"""Sub-question to passage id to rating."""


def covered_by(ratings: RatingMatrix, *, rating_threshold: float = ETA) -> dict[str, frozenset[str]]:
    """Sub-question to the passages that answer it; each sub-question is there, also one that nothing answers."""
    return {
        question: frozenset(passage for passage, rating in row.items() if rating >= rating_threshold)
        for question, row in ratings.items()
    }


def answerable(ratings: RatingMatrix, *, rating_threshold: float = ETA) -> tuple[str, ...]:
    """The sub-questions that at least one passage answers, in their order."""
    return tuple(
        question for question, passages in covered_by(ratings, rating_threshold=rating_threshold).items() if passages
    )


def required_subset(ratings: RatingMatrix, *, rating_threshold: float = ETA) -> tuple[str, ...]:
    """Passages that together answer all that is answerable, none of which could go.

    Greedy: first what answers most of the sub-questions still open, of equals the smallest id; then those are struck
    out, last taken first looked at, whose sub-questions the others answer as well. The smallest such set would be too dear
    to find (set cover is NP-hard), so there may be a smaller one.

    Returns:
        Passage ids in the order they were taken; empty where nothing is answerable.

    Source:
        CRUX, section 3.2, "Required subset of relevant passages". It orders the passages once, by all they answer; we
        count at each step what is new, and strike out, which never gives a larger set that could be smaller by itself.

    Example:
        >>> required_subset({"when?": {"a": 5, "b": 4}, "where?": {"b": 3, "c": 1}})
        ('b',)
    """
    answers: dict[str, set[str]] = {}
    for question, passages in covered_by(ratings, rating_threshold=rating_threshold).items():
        for passage in passages:
            answers.setdefault(passage, set()).add(question)
    open_questions: set[str] = set().union(*answers.values())
    taken: list[str] = []
    while open_questions:
        best = min(answers, key=lambda passage: (-len(answers[passage] & open_questions), passage))
        taken.append(best)
        open_questions -= answers[best]
    for passage in reversed(taken[:]):
        others: set[str] = set().union(*(answers[other] for other in taken if other != passage))
        if answers[passage] <= others:
            taken.remove(passage)
    return tuple(taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageAnswers:
    """What one passage answers, in the order of the list it stands in."""

    passage: str
    new: tuple[str, ...]
    """Sub-questions that no passage above it answers."""
    repeated: tuple[str, ...]
    """Sub-questions that a passage above it answers as well."""

    @property
    def verdict(self) -> str:
        """One of "new", "partly redundant", "redundant", and "nothing" for a passage that answers nothing."""
        if self.new:
            return "partly redundant" if self.repeated else "new"
        return "redundant" if self.repeated else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a list of passages answers."""

    passages: tuple[PassageAnswers, ...]
    answered: tuple[str, ...]
    """In the order of the sub-questions."""
    missing: tuple[str, ...]

    @property
    def redundancy(self) -> float | None:
        """Share of the answers that repeat one given above; None where there is no answer."""
        n_repeated = sum(len(passage.repeated) for passage in self.passages)
        n = n_repeated + len(self.answered)
        return n_repeated / n if n else None

    @property
    def novelty(self) -> float | None:
        """Share of the passages that answer something no passage above them does; None where there is no passage."""
        return sum(bool(p.new) for p in self.passages) / len(self.passages) if self.passages else None


def answers_of(
    ranking: Iterable[str], ratings: RatingMatrix, questions: Sequence[str], *, rating_threshold: float = ETA
) -> Answers:
    """Go down a list of passages, and say of each what it adds.

    Args:
        ranking: Passage ids in their order. One that comes again repeats itself.
        ratings: A passage without a rating for a sub-question does not answer it.
        questions: Those that count, each once.
        rating_threshold: What a rating must reach.

    Example:
        >>> found = answers_of(["a", "b"], {"when?": {"a": 5, "b": 4}, "where?": {"b": 2}}, ["when?", "where?"])
        >>> found.missing, found.redundancy, found.novelty
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
        answered=_those(questions, seen),
        missing=tuple(q for q in questions if q not in seen),
    )


def _those(questions: Sequence[str], among: Collection[str]) -> tuple[str, ...]:
    return tuple(question for question in questions if question in among)


def relative_density(
    *, coverage: float, tokens: int, required_coverage: float, required_tokens: int, weight: float = DENSITY_WEIGHT
) -> float | None:
    """Coverage per token over that of the required passages, to the power `weight`; from 0 on, without an upper bound.

    Returns:
        None where it is 0/0: no tokens, or required passages that answer nothing.

    Source:
        CRUX, section 3.3, equation 6.

    Example:
        >>> relative_density(coverage=0.5, tokens=200, required_coverage=1.0, required_tokens=100)
        0.5
        >>> relative_density(coverage=1.0, tokens=25, required_coverage=1.0, required_tokens=100)
        2.0
    """
    if tokens <= 0 or required_tokens <= 0 or required_coverage <= 0:
        return None
    # One division: counts stay exact, where two quotients would each be rounded.
    return float((coverage * required_tokens / (required_coverage * tokens)) ** weight)
