"""Whether scores of different systems may be compared at all: one scale, and the same questions."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from ragstone._util.words import split_words
from ragstone.errors import ConfigurationError, DataError

__all__ = ["ScoreProvenance", "judge_notes", "query_notes"]


class ScoreProvenance(NamedTuple):
    """What a score was made with. A plain tuple, as there is one for each of millions of scores."""

    version: str
    """Of the metric; for judged metrics with the hash of its prompt."""
    judge: str
    """In words; empty for a plain metric."""
    judge_hash: str


_MIXED: Final = (
    ("different versions of a metric", "version"),
    ("different judges", "judge"),
    ("a judge with different settings", "judge_hash"),
)


def judge_notes(metric: str, scales: Mapping[str, Collection[ScoreProvenance]], *, allowed: bool) -> list[str]:
    """Refuse scores of a metric that are not one scale, or note them where they are allowed.

    Args:
        metric: Its name, for messages.
        scales: By system what its scores were made with.
        allowed: Whether the caller wants to compare them all the same.

    Raises:
        ConfigurationError: They are not one scale, and not allowed.
    """
    found = [_by_part(scales, part) for _, part in _MIXED]
    mixed = [(what, by) for (what, _), by in zip(_MIXED, found, strict=True) if len(set().union(*by.values())) > 1]
    if not mixed:
        return []
    what, by = mixed[0]
    told = "; ".join(f"{system}: {', '.join(map(repr, sorted(values)))}" for system, values in by.items() if values)
    note = f"{metric}: scores of {what} are not one scale ({told})"
    if not allowed:
        raise ConfigurationError(
            f"{note}; score all systems alike, leave the metric out, or say allow_different_judges "
            "(--allow-different-judges) and read the differences with care"
        )
    return [f"WARNING {note}: differences may be those of the judges, not of the systems"]


def _by_part(scales: Mapping[str, Collection[ScoreProvenance]], part: str) -> dict[str, set[str]]:
    return {system: {getattr(scale, part) for scale in made_with} for system, made_with in scales.items()}


def query_notes(queries: Mapping[str, Mapping[str, str]]) -> list[str]:
    """See to it that the same id means the same question, where sources tell what was asked.

    Args:
        queries: By system and sample id what was asked.

    Raises:
        DataError: Most ids mean different questions: they count rows, and do not name samples.
    """
    notes = []
    for (first, asked), (second, others) in itertools.combinations(queries.items(), 2):
        common = [id_ for id_ in asked if id_ in others]
        # A blank more or less is no other question.
        different = [id_ for id_ in common if split_words(asked[id_]) != split_words(others[id_])]
        if not different:
            continue
        at = different[0]
        note = (
            f"{len(different)} of {len(common)} ids mean different questions: {at!r} is {asked[at]!r} in {first} and "
            f"{others[at]!r} in {second}"
        )
        if 2 * len(different) > len(common):
            raise DataError(
                f"{note}; samples are compared by their ids, so give each row an id that stays the same from run to run"
            )
        notes.append(f"WARNING {note}")
    return notes
