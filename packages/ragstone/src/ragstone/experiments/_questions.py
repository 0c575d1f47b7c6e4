"""The questions behind ids: outcomes of one id have one question, and rows without an id are found by theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ragstone._util.plural import count
from ragstone.errors import DataError
from ragstone.schema import Failure, NotApplicable, Sample, Score, fingerprint

SHOWN: Final = 3
"""Number of examples in messages."""
_CHARS: Final = 60
NAME_IDS: Final = "--field id=COLUMN, or several columns: --field id=COLUMN+COLUMN"
"""How a caller names the ids of rows."""


def question_number(mark: str | None) -> int:
    """Return a fingerprint as a positive number of 63 bits, or 0 if the question is unknown."""
    return 0 if mark is None else int(mark[:16], 16) >> 1 or 1


def shorten_question(text: str | None) -> str:
    """Return the beginning of a question in quotes, or an empty text if it is unknown."""
    line = " ".join((text or "").split())
    return repr(line if len(line) <= _CHARS else f"{line[:_CHARS]}…") if line else ""


def check_samples(place: str, samples: Iterable[Sample], question_of: Callable[[str], int]) -> None:
    """Check that samples have the questions of the outcomes with their ids.

    Args:
        place: The file of outcomes, for the error.
        samples: The evaluated samples.
        question_of: Returns the number of the question of an id (see `question_number`), or 0 if it is unknown.

    Raises:
        DataError: If an id belongs to another question in the samples than in the outcomes.
    """
    n_known, other = 0, []
    for sample in samples:
        numbers = question_of(sample.id), question_number(fingerprint(sample.query, sample.history))
        n_known += all(numbers)
        if all(numbers) and numbers[0] != numbers[1]:
            other.append(sample)
    if other:
        examples = ", ".join(f"{sample.id!r} is {shorten_question(sample.query)}" for sample in other[:SHOWN])
        raise DataError(
            f"{len(other):,} of {count(n_known, 'common id')} of {place} and its samples (--data) belong to different questions: "
            f"in the samples, {examples}{', ...' if len(other) > SHOWN else ''}. Give the file that was evaluated, with the same ids "
            f"({NAME_IDS})"
        )


def match_samples(outcomes: Iterable[Score | NotApplicable | Failure], samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return samples with the ids of outcomes.

    A sample whose id no outcome has gets the id of the outcomes with its question, if the data was read with other ids at one
    of both times, and only one id has this question.
    """
    scored = {outcome.sample_id: question_number(outcome.fingerprint) for outcome in outcomes}
    known = {sample.id: question_number(fingerprint(sample.query, sample.history)) for sample in samples}
    if not scored.keys() - known.keys():
        return tuple(samples)
    free = _by_question((known[id_], id_) for id_ in known.keys() - scored.keys())
    wanted = _by_question((scored[id_], id_) for id_ in scored.keys() - known.keys())
    new = {free[number]: id_ for number, id_ in wanted.items() if number in free}
    return tuple(sample.model_copy(update={"id": new[sample.id]}) if sample.id in new else sample for sample in samples)


def _by_question(numbered: Iterable[tuple[int, str]]) -> dict[int, str]:
    """Return ids by the number of their question, for questions that one id has."""
    found: dict[int, str | None] = {}
    for number, id_ in numbered:
        if number:
            found[number] = None if number in found else id_
    return {number: id_ for number, id_ in found.items() if id_ is not None}
