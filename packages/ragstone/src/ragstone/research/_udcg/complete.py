"""Rows made whole: each passage with its utility, each answer with its grade; what cannot be had is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ragstone.data import SampleSource
from ragstone.errors import ConfigurationError, DataError, JudgeError
from ragstone.judges import Judge, Reader
from ragstone.metrics import LabelMode
from ragstone.research._udcg.ask import CachedModels, is_model_configured, open_models
from ragstone.research._udcg.rows import ContextRow, PassageRating, rating_from, read_contexts
from ragstone.schema import Usage

__all__ = ["RatedContext", "RatedContexts", "complete", "warn_small_sample"]

_FEW: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedContext:
    """One context with everything UDCG's experiments need of it."""

    question: str
    id: str
    ratings: tuple[PassageRating, ...]
    """In prompt order."""
    grade: int
    """Of the answer made from them: 2 correct, 1 abstained, 0 wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedContexts:
    """Rows that are complete, and what became of the others."""

    contexts: tuple[RatedContext, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many rows are in no number, by what they lack."""
    errors: tuple[str, ...] = ()
    """What was said about the first of them."""
    notes: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


def warn_small_sample(n: int) -> tuple[str, ...]:
    """What to say of intervals from resampling `n` questions: from 5 they hold the mean 83 times in 100, from 15, 92."""
    if n >= _FEW:
        return ()
    return (f"intervals rest on {n} questions with different grades, and from fewer than {_FEW} they are too narrow",)


class _IncompleteRow(Exception):  # noqa: N818  never leaves this file
    """A row that cannot be completed."""

    def __init__(self, what: str, why: JudgeError | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.why = why


async def complete(
    data: SampleSource,
    *,
    reader: str | Reader | None,
    judge: str | Judge | None,
    erag: bool = False,
    labels: LabelMode = "auto",
    threshold: float = 0.5,
    concurrency: int = 16,
    progress: Callable[[int, int], None] | None = None,
) -> RatedContexts:
    """Read graded contexts and find out what they lack, from the reader and the judge if they are named.

    Raises:
        ConfigurationError: Something is missing and nobody is named to ask.
        DataError: A row cannot be read, or none is left.
        JudgeError: A model cannot be reached, or answered nothing at all.
    """
    rows = read_contexts(data)
    if not rows:
        raise DataError(
            "there are no rows; each holds one context of a question, with the grade of the answer made from it"
        )
    usage, notes = Usage(), tuple[str, ...]()
    if is_model_configured(reader, judge):
        async with open_models(reader, judge, labels=labels, threshold=threshold, concurrency=concurrency) as asker:

            async def ask(row: ContextRow) -> RatedContext | _IncompleteRow:
                return await _asked(row, asker, erag=erag)

            found = await asker.each(ask, rows, progress)
            usage, notes = asker.spent.total, asker.notes()
    else:
        found = [_as_given(row, threshold, labels) for row in rows]
        unknown = sum(isinstance(one, _IncompleteRow) and one.what != "no passages" for one in found)
        if unknown:
            raise ConfigurationError(
                f"{unknown} of {len(rows)} rows lack a passage's utility or the answer's grade, and nobody is named to ask; "
                "name reader= and judge= (--reader, --judge), or annotate the rows first (ragstone udcg rank --keep-order)"
            )
        if erag:
            raise ConfigurationError(
                "eRAG scores come from the reader's answers, and nobody is named to ask; name reader= (--reader)"
            )
    return _summed(found, usage, notes)


def _summed(found: Sequence[RatedContext | _IncompleteRow], usage: Usage, notes: tuple[str, ...]) -> RatedContexts:
    whole = tuple(one for one in found if isinstance(one, RatedContext))
    lacking = [one for one in found if isinstance(one, _IncompleteRow)]
    why = [one.why for one in lacking if one.why is not None]
    if not whole:
        if why:
            raise JudgeError(
                f"none of {len(found)} rows could be completed; the first says: {why[0]}",
                kind=why[0].kind,
                raw=why[0].raw,
            )
        raise DataError(f"none of {len(found)} rows has passages")
    return RatedContexts(
        contexts=whole,
        left_out=dict(sorted(Counter(one.what for one in lacking).items())),
        errors=tuple(str(error) for error in why[:5]),
        notes=notes,
        usage=usage,
    )


def _as_given(row: ContextRow, threshold: float, labels: LabelMode) -> RatedContext | _IncompleteRow:
    passages = row.sample.contexts
    if not passages:
        return _IncompleteRow("no passages")
    found = (rating_from(p, threshold=threshold, labels=labels) for p in passages)
    ratings = [rating for rating in found if rating is not None]
    if len(ratings) < len(passages):
        return _IncompleteRow("no utility")
    if row.grade is None:
        return _IncompleteRow("no grade")
    return RatedContext(question=row.question, id=row.sample.id, ratings=tuple(ratings), grade=row.grade)


async def _asked(row: ContextRow, asker: CachedModels, *, erag: bool) -> RatedContext | _IncompleteRow:
    sample = row.sample
    if not sample.contexts:
        return _IncompleteRow("no passages")
    if not (sample.query and sample.query.strip()):
        return _IncompleteRow("no query")
    try:
        ratings = await asker.gathered([asker.rate(sample, passage) for passage in sample.contexts])
    except JudgeError as error:
        return _IncompleteRow("no utility", error)
    if erag:
        if not any(reference.strip() for reference in sample.reference):
            return _IncompleteRow("no reference for eRAG")
        missing = [p for p, rating in zip(sample.contexts, ratings, strict=True) if rating.erag is None]
        try:
            scores = iter(await asker.gathered([asker.erag(sample, passage) for passage in missing]))
        except JudgeError as error:
            return _IncompleteRow("no eRAG", error)
        ratings = [rating if rating.erag is not None else replace(rating, erag=next(scores)) for rating in ratings]
    grade = row.grade
    if grade is None:
        try:
            grade = await asker.grade(sample)
        except JudgeError as error:
            return _IncompleteRow("no grade", error)
    return RatedContext(question=row.question, id=sample.id, ratings=tuple(ratings), grade=grade)
