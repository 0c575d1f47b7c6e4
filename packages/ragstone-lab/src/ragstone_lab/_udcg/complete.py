"""Completion of rows: passage utilities and answer grades. Incomplete rows are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Final, NamedTuple

from ragstone.errors import ConfigurationError, DataError, JudgeError
from ragstone.judges import Judge, Reader
from ragstone.metrics import LabelMode
from ragstone.reading import SampleSource
from ragstone.scoring import run_async
from ragstone_lab._run import Run, RunResult, all_failed, gathered
from ragstone_lab._udcg.ask import Models, is_model_configured, open_models
from ragstone_lab._udcg.rows import RANKS, ContextRow, Grade, PassageRating, rating_from, read_contexts

_FEW: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedContext:
    """One context with the utilities and the grade for UDCG's experiments."""

    question: str
    id: str
    ratings: tuple[PassageRating, ...]
    """Ratings of the passages, in prompt order."""
    grade: Grade
    """Grade of the answer from this context."""

    @property
    def rank(self) -> int:
        """Position of the grade in their order: 2 correct, 1 abstained or partially correct, 0 wrong."""
        return RANKS[self.grade]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedContexts(RunResult):
    """Complete rows, and counts of the others."""

    contexts: tuple[RatedContext, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of excluded rows, by reason."""

    def values(self) -> dict[str, Any]:
        """Return the counts of excluded rows and the fields of `RunResult`, for a result that is computed from the rows."""
        names = ("left_out", *(each.name for each in fields(RunResult)))
        return {name: getattr(self, name) for name in names}


def warn_small_sample(n: int) -> tuple[str, ...]:
    """Return a note if bootstrap intervals over `n` questions are too narrow (coverage 83% for 5, 92% for 15)."""
    if n >= _FEW:
        return ()
    return (f"the intervals use {n} questions with different grades. Below {_FEW} they are too narrow.",)


class _IncompleteRow(NamedTuple):
    """Why a row cannot be completed."""

    what: str
    error: JudgeError | None = None


def complete(
    data: SampleSource,
    *,
    reader: str | Reader | None,
    judge: str | Judge | None,
    erag: bool = False,
    labels: LabelMode = "auto",
    threshold: float = 0.5,
    concurrency: int = 16,
    stop_early: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> RatedContexts:
    """Read graded contexts, and compute missing values with the reader and the judge if they are named."""
    rows = read_contexts(data)
    if not rows:
        raise DataError(
            "the data does not contain rows. Each row needs one context of a question and the grade of the answer from it."
        )
    if not is_model_configured(reader, judge):
        known = [_from_annotations(row, threshold, labels) for row in rows]
        n_missing = sum(isinstance(one, _IncompleteRow) and one.what != "no passages" for one in known)
        if n_missing:
            raise ConfigurationError(
                f"{n_missing} of {len(rows)} rows lack a passage's utility or the answer's grade. Set reader= and "
                "judge= (--reader, --judge), or annotate the rows first (ragstone lab udcg rank --keep-order)."
            )
        if erag:
            raise ConfigurationError("eRAG scores need the reader's answers. Set reader= (--reader).")
        return _summarize(known)

    async def work() -> RatedContexts:
        async with Run(concurrency=concurrency, stop_early=stop_early) as run:
            asker = await open_models(run, reader, judge, labels=labels, threshold=threshold)
            results = await run.each(rows, partial(_complete_row, asker=asker, erag=erag), progress=progress)
            run.errors += [one.error for one in results if isinstance(one, _IncompleteRow) and one.error is not None]
            return _summarize(results, notes=asker.notes(), **run.values())

    return run_async(work())


def _summarize(results: Sequence[object], **called: Any) -> RatedContexts:
    contexts = tuple(one for one in results if isinstance(one, RatedContext))
    incomplete = [one for one in results if isinstance(one, _IncompleteRow)]
    if not contexts:
        if errors := [one.error for one in incomplete if one.error is not None]:
            raise all_failed(errors, f"none of {len(results)} rows could be completed")
        raise DataError(f"none of {len(results)} rows has passages")
    left_out = dict(sorted(Counter(one.what for one in incomplete).items()))
    return RatedContexts(contexts=contexts, left_out=left_out, **called)


def _from_annotations(row: ContextRow, threshold: float, labels: LabelMode) -> RatedContext | _IncompleteRow:
    passages = row.sample.contexts
    if not passages:
        return _IncompleteRow("no passages")
    known = (rating_from(p, threshold=threshold, labels=labels) for p in passages)
    ratings = tuple(rating for rating in known if rating is not None)
    if len(ratings) < len(passages):
        return _IncompleteRow("no utility")
    if row.grade is None:
        return _IncompleteRow("no grade")
    return RatedContext(question=row.question, id=row.sample.id, ratings=ratings, grade=row.grade)


async def _complete_row(row: ContextRow, *, asker: Models, erag: bool) -> RatedContext | _IncompleteRow:
    sample = row.sample
    if not sample.contexts:
        return _IncompleteRow("no passages")
    if not (sample.query and sample.query.strip()):
        return _IncompleteRow("no query")
    missing = "no utility"
    try:
        ratings = await gathered(asker.rate(sample, passage) for passage in sample.contexts)
        if erag:
            if not any(reference.strip() for reference in sample.reference):
                return _IncompleteRow("no reference for eRAG")
            missing = "no eRAG"
            unscored = [p for p, rating in zip(sample.contexts, ratings, strict=True) if rating.erag is None]
            scores = iter(await gathered(asker.erag(sample, passage) for passage in unscored))
            ratings = [rating if rating.erag is not None else replace(rating, erag=next(scores)) for rating in ratings]
        missing = "no grade"
        grade = row.grade or await asker.grade(sample, has_relevant=any(rating.relevant for rating in ratings))
    except JudgeError as error:
        return _IncompleteRow(missing, error)
    return RatedContext(question=row.question, id=sample.id, ratings=tuple(ratings), grade=grade)
