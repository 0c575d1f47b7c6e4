"""Measures of whole runs: vectorized computation over all queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from ragstone.metrics._arguments import arguments_of, parse_values
from ragstone.metrics.ranking._grades import THRESHOLD
from ragstone.metrics.ranking._measures import Measure, measure_from
from ragstone.metrics.ranking._ndcg import MAX_GRADE
from ragstone.stats import Estimate, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Run: TypeAlias = Mapping[str, Mapping[str, float] | Sequence[str]]
"""Query id to its retrieved passages: passage id to score, or passage ids, best first."""

Qrels: TypeAlias = Mapping[str, Mapping[str, float]]
"""Query id to passage id to grade."""

_DEFAULT = ("precision@5", "recall@5", "f1@5", "hit_rate@5", "reciprocal_rank", "average_precision", "ndcg@10")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingMeasures:
    """Measures of a run, per query."""

    values: Mapping[str, Mapping[str, float]]
    """Measure to query to value, for the queries for which it is defined, in the order of the qrels."""
    undefined: Mapping[str, tuple[str, ...]]
    """Measure to the judged queries for which it is undefined, because no passage is relevant. Means omit them."""
    not_retrieved: tuple[str, ...]
    """Judged queries that are missing from the run. Their values are 0."""
    not_judged: tuple[str, ...]
    """Queries of the run without qrels. They do not have values."""

    def mean(self, measure: str) -> Estimate | None:
        """Compute the mean over queries with its 95% confidence interval, or None if the measure is always undefined.

        Raises:
            KeyError: If the measure was not requested.
        """
        values = self.values[measure]
        return mean_interval(list(values.values())) if values else None


def ranking_measures(
    run: Run, qrels: Qrels, measures: Sequence[str] = _DEFAULT, *, threshold: float = THRESHOLD
) -> RankingMeasures:
    """Measure a whole run, with the same values as the functions of one query, but many times faster.

    Args:
        run: Query id to passage id to score (higher scores first), or query id to passage ids, best first. Passages with
            equal scores keep the order of the mapping (other tools order them by id). A repeated passage counts only at
            its first rank.
        qrels: Query id to passage id to grade. All of these queries are measured.
        measures: "precision@5", "ndcg@10", "ndcg_linear@10", "average_precision", ..., with or without a cutoff.
        threshold: Smallest grade that means relevant.

    Raises:
        ConfigurationError: If a measure is unknown.
        ValueError: If a score or a grade is not finite, or a grade is too large for `ndcg`.

    Examples:
        >>> result = ranking_measures({"q1": {"a": 2.0, "b": 1.0}}, {"q1": {"b": 1}}, ["reciprocal_rank"])
        >>> result.values["reciprocal_rank"]["q1"]
        0.5
    """
    requested = [_read_measure(name) for name in measures]
    queries = list(qrels)
    table = _Table(run, qrels, queries, threshold)
    values: dict[str, Mapping[str, float]] = {}
    undefined: dict[str, tuple[str, ...]] = {}
    for measure in requested:
        value, defined = table.compute(measure)
        values[measure.name] = {q: v for q, v, ok in zip(queries, value.tolist(), defined.tolist(), strict=True) if ok}
        undefined[measure.name] = tuple(q for q, ok in zip(queries, defined.tolist(), strict=True) if not ok)
    return RankingMeasures(
        values=values,
        undefined=undefined,
        not_retrieved=tuple(query for query in queries if query not in run),
        not_judged=tuple(query for query in run if query not in qrels),
    )


def _read_measure(text: str) -> Measure:
    name, at, k = text.partition("@")
    return measure_from(name, parse_values(name, k, arguments_of(measure_from)[1:])["k"] if at else None)


class _Table:
    """Judged passages of all queries: one entry per passage, with query index, rank and grade."""

    def __init__(self, run: Run, qrels: Qrels, queries: Sequence[str], threshold: float) -> None:
        import numpy as np

        self.n = len(queries)
        self.threshold = threshold
        judged = [qrels[query] for query in queries]
        self.judged_query, self.judged_grade = _flat([grades.values() for grades in judged])
        _check_finite(self.judged_grade, "grade", queries, self.judged_query)
        retrieved = [run.get(query, ()) for query in queries]
        self.lengths = np.fromiter(map(len, retrieved), dtype=np.intp, count=self.n)
        query, grade = _flat(
            [_grades(docs, grades) for docs, grades in zip(retrieved, judged, strict=True)], self.lengths
        )
        starts = np.cumsum(self.lengths) - self.lengths
        grade = grade[_order(retrieved, query, starts, queries)]
        # Passages without a grade do not affect any measure.
        graded = np.flatnonzero(~np.isnan(grade))
        self.query, self.grade = query[graded], grade[graded]
        self.rank = graded - starts[self.query] + 1

    @cached_property
    def relevant(self) -> NDArray[np.intp]:
        """Number of relevant passages per query."""
        import numpy as np

        return np.bincount(self.judged_query[self.judged_grade >= self.threshold], minlength=self.n)

    @cached_property
    def hits(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Query indices and ranks of the relevant passages that were retrieved, sorted by both."""
        rows = self.grade >= self.threshold
        return self.query[rows], self.rank[rows]

    def compute(self, measure: Measure) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Compute the value for each query, and whether it is defined."""
        import numpy as np

        gain, k = measure.kind.gain, measure.k
        if gain is not None:
            ideal = self._ideal(gain, k)
            return self._divide(self._dcg(self.query, self.rank, self.grade, gain, k), ideal, ideal > 0)
        places = self.lengths if k is None else np.full(self.n, k)
        if measure.kind.name == "judged_share":
            rows = slice(None) if k is None else self.rank <= k
            judged = np.bincount(self.judged_query, minlength=self.n) > 0
            return self._divide(np.bincount(self.query[rows], minlength=self.n), places, judged & (places > 0))
        query, rank = self.hits
        if k is not None:
            query, rank = query[rank <= k], rank[rank <= k]
        hits = np.bincount(query, minlength=self.n)
        defined = self.relevant > 0
        kind = measure.kind.name
        if kind == "precision":
            return self._divide(hits, places, defined & (places > 0))
        if kind == "recall":
            return self._divide(hits, self.relevant, defined)
        if kind == "f1":
            return self._divide(2 * hits, places + self.relevant, defined)
        if kind == "hit_rate":
            return (hits > 0).astype(float), defined
        first = np.ones(query.size, dtype=bool)
        first[1:] = query[1:] != query[:-1]
        if kind == "reciprocal_rank":
            value = np.zeros(self.n)
            value[query[first]] = 1 / rank[first]
            return value, defined
        nth = np.arange(query.size) - np.flatnonzero(first).repeat(hits[hits > 0]) + 1
        return self._divide(np.bincount(query, weights=nth / rank, minlength=self.n), self.relevant, defined)

    def _ideal(self, gain: str, k: int | None) -> NDArray[np.float64]:
        import numpy as np

        rows = self.judged_grade > 0
        query, grade = self.judged_query[rows], self.judged_grade[rows]
        order = np.lexsort((-grade, query))
        query, grade = query[order], grade[order]
        counts = np.bincount(query, minlength=self.n)
        rank = np.arange(query.size) - (np.cumsum(counts) - counts)[query] + 1
        return self._dcg(query, rank, grade, gain, k)

    def _dcg(
        self, query: NDArray[np.intp], rank: NDArray[np.intp], grade: NDArray[np.float64], gain: str, k: int | None
    ) -> NDArray[np.float64]:
        import numpy as np

        if gain == "exp" and grade.size and grade.max() > MAX_GRADE:
            raise ValueError(
                f"2**grade is too large for grades above {MAX_GRADE:g}, got {grade.max()}. Use ndcg_linear"
            )
        rows = grade > 0 if k is None else (grade > 0) & (rank <= k)
        gains = 2.0 ** grade[rows] - 1 if gain == "exp" else grade[rows]
        total = np.bincount(query[rows], weights=gains / np.log2(rank[rows] + 1.0), minlength=self.n)
        return total.astype(float, copy=False)

    def _divide(
        self, numerator: NDArray[Any], denominator: NDArray[Any], defined: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        import numpy as np

        return np.divide(numerator, denominator, out=np.zeros(self.n), where=defined), defined


def _flat(
    parts: Sequence[Any], lengths: NDArray[np.intp] | None = None
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Concatenate the numbers of all parts. Returns the index of the part of each number, and the numbers."""
    import numpy as np

    if lengths is None:
        lengths = np.fromiter(map(len, parts), dtype=np.intp, count=len(parts))
    values = np.fromiter(chain.from_iterable(parts), dtype=float, count=int(lengths.sum()))
    return np.repeat(np.arange(len(parts)), lengths), values


def _grades(docs: Mapping[str, float] | Sequence[str], grades: Mapping[str, float]) -> Iterator[float] | list[float]:
    """Return the grade of each passage in order. NaN for passages without one, and repeated passages."""
    if isinstance(docs, Mapping) or len(set(docs)) == len(docs):
        return map(grades.get, docs, repeat(math.nan))
    remaining = dict(grades)
    return [remaining.pop(doc, math.nan) for doc in docs]


def _order(
    retrieved: Sequence[Mapping[str, float] | Sequence[str]],
    query: NDArray[np.intp],
    starts: NDArray[np.intp],
    queries: Sequence[str],
) -> NDArray[np.intp] | slice:
    """Return the index that sorts entries by query, then by descending score. Equal scores keep their order."""
    import numpy as np

    scores = np.fromiter(
        chain.from_iterable(
            docs.values() if isinstance(docs, Mapping) else range(len(docs), 0, -1) for docs in retrieved
        ),
        dtype=float,
        count=query.size,
    )
    _check_finite(scores, "score", queries, query)
    rising = (scores[1:] > scores[:-1]) & (query[1:] == query[:-1])
    if not rising.any():
        return slice(None)
    order = np.arange(query.size)
    # Sort per query: a sort of all entries by two keys takes five times as long.
    for part in np.unique(query[1:][rising]).tolist():
        start = starts[part]
        stop = start + len(retrieved[part])
        order[start:stop] = start + np.argsort(-scores[start:stop], kind="stable")
    return order


def _check_finite(values: NDArray[np.float64], what: str, queries: Sequence[str], query: NDArray[np.intp]) -> None:
    import numpy as np

    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(
            f"query {queries[query[bad[0]]]!r} has a {what} of {values[bad[0]]}, which must be a finite number"
        )
