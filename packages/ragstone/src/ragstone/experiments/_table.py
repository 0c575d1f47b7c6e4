"""Scores of systems on the same samples as arrays: what summaries, gates, comparisons and reports are computed from."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._cards import card_for, card_of
from ragstone.experiments._clusters import Clusters
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, Outcome, Score
from ragstone.stats import Estimate, cluster_codes, estimate_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragstone.experiments._spent import Spent

Side = Literal["two-sided", "lower", "upper"]

ABSENT: Final = 0
SCORED: Final = 1
FAILED: Final = 2
NOT_APPLICABLE: Final = 3

RARE: Final = 0.01
"""Largest score that may come from a rating from 0 to 1 of 100, and largest probability that counts as never."""
Reads = tuple[int, int, int, int]
"""Of a score with a reader: passages, those on which it may abstain, drawn replies, those that decline otherwise."""

_NAN: Final = array("d", [math.nan]).tobytes()
_LEAST_ROOM: Final = 64
"""Least number of rows that are added at once."""
_TOLERANCE: Final = 1e-9
"""Tolerance for values that exceed the metric's range by rounding."""


class Origin(NamedTuple):
    """What many outcomes of a metric have in common: where they come from, and why a score is missing."""

    state: int
    """`SCORED`, `FAILED` or `NOT_APPLICABLE`."""
    version: str
    """Version of the metric. For judged metrics it includes the prompt's hash."""
    judge: str | None
    judge_hash: str
    reason: str = ""
    """Kind of a failure, or why the metric is not applicable although no field is missing."""
    missing: tuple[str, ...] = ()
    """Fields that the sample lacks."""
    ranks: tuple[int, int] | None = None
    """Of a score by qrels: passages in the top ranks, and those of them without a grade."""
    method: str = ""
    """How a score of a judge was computed. Without a score: "abstains" if the response declines to answer."""
    reads: Reads | None = None
    """Of a score with a reader: how often it abstained."""


class ScoreRows:
    """Outcomes of one metric of one system, by row, while they are read: 12 bytes each, for millions of samples."""

    def __init__(self, card: MetricCard) -> None:
        self.card = card
        self.values = array("d")
        self.codes = array("i")
        """By row the number of its origin, from 1. 0 without an outcome."""
        self.decisions = array("d") if card.decided_by else self.values
        """Decision values by row, NaN if unknown. The values of most metrics."""
        self.origins: dict[Origin, int] = {}
        """Numbers of the origins of all outcomes, also of those that were replaced."""
        self.ends: dict[int, tuple[float, float]] = {}

    def put(self, row: int, outcome: Outcome) -> bool:
        """Set the outcome of a row, and return False if it replaces one."""
        value = decision = math.nan
        state, reason, method = SCORED, "", ""
        missing: tuple[str, ...] = ()
        ranks = reads = ends = None
        if isinstance(outcome, Score):
            ranks = _ranks_of(outcome) if self.card.group == "ranking" else None
            reads = _reads_of(outcome) if self.card.group == "udcg" else None
            method = "" if outcome.judge is None else outcome.method
            value = outcome.value
            if self.decisions is not self.values and (found := self.card.decision(outcome)) is not None:
                decision = found
        elif isinstance(outcome, Failure):
            state, reason, ends = FAILED, outcome.kind, self.card.bounds_of(outcome)
        else:
            state, missing = NOT_APPLICABLE, tuple(outcome.missing)
            reason = "" if missing else outcome.reason
            method = "abstains" if "abstains" in (outcome.answer or ()) else ""
        # A tuple equals its `Origin`, and is made faster.
        version, judge = outcome.metric_version, outcome.judge
        origin = (state, version, judge, outcome.judge_hash, reason, missing, ranks, method, reads)
        code = self.origins.get(origin)  # type: ignore[call-overload]
        if code is None:
            code = self.origins[Origin(*origin)] = len(self.origins) + 1
        if row >= len(self.codes):
            self._extend(row)
        is_new = not self.codes[row]
        self.values[row], self.codes[row] = value, code
        if self.decisions is not self.values:
            self.decisions[row] = decision
        if ends is not None:
            self.ends[row] = ends
        elif self.ends:
            self.ends.pop(row, None)
        return is_new

    def _extend(self, row: int) -> None:
        """Add rows without an outcome, at least up to a row."""
        # Most rows are added one by one, so there is room for more of them.
        gap = row + 1 - len(self.codes) + max(_LEAST_ROOM, len(self.codes) // 8)
        self.codes.frombytes(bytes(gap * self.codes.itemsize))
        self.values.frombytes(_NAN * gap)
        if self.decisions is not self.values:
            self.decisions.frombytes(_NAN * gap)

    def move(self, source: int, row: int) -> None:
        """Put the outcome of a row into another one, if there is one."""
        if source < len(self.codes) and self.codes[source]:
            if row >= len(self.codes):
                self._extend(row)
            self.values[row], self.codes[row] = self.values[source], self.codes[source]
            self.decisions[row] = self.decisions[source]
            if source in self.ends:
                self.ends[row] = self.ends[source]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetricScores:
    """The scores of all systems on one metric, as arrays of shape (samples, systems)."""

    card: MetricCard
    is_known: bool
    """Whether the source or this installation describes the metric. Otherwise it is unbounded, and higher is better."""
    values: NDArray[np.float64]
    """NaN if the sample does not have a score."""
    decisions: NDArray[np.float64]
    """The values that decide whether a score is good, NaN if unknown. `values` itself for most metrics."""
    states: NDArray[np.int8]
    """`SCORED`, `FAILED`, `NOT_APPLICABLE` or `ABSENT`."""
    ends: Mapping[tuple[int, int], tuple[float, float]]
    """Bounds (lowest and highest possible value) of failures that report them, by row and system."""
    origins: tuple[Mapping[Origin, int], ...]
    """Numbers of outcomes by origin, by system. 0 for origins of outcomes that a later one replaces."""

    @property
    def name(self) -> str:
        """Name of the metric."""
        return self.card.name

    @property
    def low(self) -> float:
        """Smallest value of the metric. Infinite if unknown."""
        return self.card.low

    @property
    def high(self) -> float:
        """Largest value of the metric."""
        return self.card.high

    @property
    def higher_is_better(self) -> bool:
        """Whether higher values are better."""
        return self.card.direction == "higher"

    def count(self, state: int, system: int = 0) -> int:
        """Return the number of samples with a state."""
        return int((self.states[:, system] == state).sum())

    def counts(self, system: int = 0) -> dict[str, int]:
        """Return the numbers of samples by state, as summaries name them."""
        states = {"n_scored": SCORED, "n_failed": FAILED, "n_not_applicable": NOT_APPLICABLE}
        return {name: self.count(state, system) for name, state in states.items()}

    def scored(self, system: int = 0) -> NDArray[np.intp]:
        """Return the rows with a score."""
        import numpy as np

        return np.flatnonzero(self.states[:, system] == SCORED)

    def good(self, system: int = 0) -> NDArray[np.float64]:
        """Return by row 1 if the score is good, 0 if not, and NaN without a score, a decision value or a threshold."""
        import numpy as np

        decisions, threshold = self.decisions[:, system], self.card.threshold
        if threshold is None:
            return np.full(decisions.size, np.nan)
        return np.where(np.isnan(decisions), np.nan, self.card.reaches(decisions, threshold))

    def possible(self, system: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lowest and the highest possible value of each sample: equal for scores, NaN without a failure.

        These are worst-case bounds under missing data (Manski 1989).
        """
        lowest, highest = self.values[:, system].copy(), self.values[:, system].copy()
        failed = self.states[:, system] == FAILED
        lowest[failed], highest[failed] = self.low, self.high
        for (row, column), ends in self.ends.items():
            if column == system:
                lowest[row], highest[row] = ends
        return lowest, highest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreTable:
    """Scores by sample, metric and system, with what makes samples count more or less than one independent sample."""

    systems: tuple[str, ...]
    sample_ids: Collection[str]
    """Ids of the rows, in order."""
    metrics: Mapping[str, MetricScores]
    probabilities: NDArray[np.float64] | None = None
    """Sampling probability of each row. None if all are 1."""
    own: NDArray[np.float64] | None = None
    """Sampling probabilities, rows by systems, if those of several systems differ. `probabilities` are the smallest."""
    clusters: NDArray[np.intp] | None = None
    """Number of the cluster of each row. None if rows are independent."""
    by_system: tuple[Mapping[str, Spent], ...] = ()
    """What the application of each system needed, by sample id."""

    @property
    def spent(self) -> NDArray[np.float64]:
        """What the applications needed: rows by systems by the fields of `Spent`, NaN if unknown."""
        import numpy as np

        from ragstone.experiments._spent import Spent

        unknown = Spent()
        return np.array(
            [[known.get(id_, unknown) for known in self.by_system] for id_ in self.sample_ids], dtype=float
        ).reshape(len(self.sample_ids), len(self.by_system), len(unknown))

    def column_of(self, system: str, role: str = "system") -> int:
        """Return the column of a system. Raise ConfigurationError, which names its role, if it is unknown."""
        if system not in self.systems:
            raise ConfigurationError(f"unknown {role} {system!r}. Systems: {', '.join(map(repr, self.systems))}.")
        return self.systems.index(system)

    def depend(self, probabilities: Mapping[str, float], clusters: Clusters | None) -> ScoreTable:
        """Return the table with the sampling probabilities (below 1, by sample id) and the clusters of its rows."""
        import numpy as np

        ids, shares = self.sample_ids, None
        if probabilities:
            shares = np.fromiter((probabilities.get(id_, 1.0) for id_ in ids), dtype=float, count=len(ids))
        codes = None if clusters is None else cluster_codes(clusters.of(ids))
        return replace(self, probabilities=shares, clusters=codes)

    @property
    def inclusion(self) -> NDArray[np.float64]:
        """Sampling probability of each row."""
        import numpy as np

        return np.ones(len(self.sample_ids)) if self.probabilities is None else self.probabilities

    def inclusion_of(self, system: int) -> NDArray[np.float64]:
        """Return the sampling probability of each row in one system."""
        return self.inclusion if self.own is None else self.own[:, system]

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each row: 1 / sampling probability."""
        return 1 / self.inclusion

    def clusters_of(self, rows: Sequence[int] | NDArray[np.intp] | None = None) -> list[int] | None:
        """Return the clusters of rows, by default of all. None if they are independent."""
        import numpy as np

        if self.clusters is None:
            return None
        found: list[int] = (self.clusters if rows is None else self.clusters[np.asarray(rows, dtype=np.intp)]).tolist()
        return found

    def estimate(
        self,
        values: Sequence[float] | NDArray[np.float64],
        rows: Sequence[int] | NDArray[np.intp],
        *,
        low: float = 0.0,
        high: float = 1.0,
        confidence_level: float,
        side: Side = "two-sided",
        system: int | None = None,
    ) -> Estimate | None:
        """Estimate the mean of values of rows in [low, high]: weighted, and over clusters. None without a value.

        `side` is as for `mean_interval`. The values are those of a system, or differences.
        """
        import numpy as np

        shares = self.probabilities if self.own is None or system is None else self.own[:, system]
        return estimate_mean(
            values,
            low=low,
            high=high,
            probabilities=None if shares is None else shares[np.asarray(rows, dtype=np.intp)],
            clusters=self.clusters_of(rows),
            confidence_level=confidence_level,
            side=side,
        )

    def by_sample(self, metric: str, *, decisions: bool = False) -> dict[str, float]:
        """Return the scores of the first system on a metric, or their decision values, by sample id."""
        scores = self.metrics[metric]
        values = (scores.decisions if decisions else scores.values)[:, 0].tolist()
        return {id_: value for id_, value in zip(self.sample_ids, values, strict=True) if not math.isnan(value)}

    def mean(
        self, metric: MetricScores, confidence_level: float, system: int = 0, *, decisions: bool = False
    ) -> Estimate | None:
        """Estimate the mean of a system's scores on a metric, or of their decision values."""
        import numpy as np

        values = (metric.decisions if decisions else metric.values)[:, system]
        rows = np.flatnonzero(~np.isnan(values))
        ends = metric.low, metric.high
        return self.estimate(
            values[rows], rows, low=ends[0], high=ends[1], confidence_level=confidence_level, system=system
        )


@dataclass(slots=True)
class TableReader:
    """Reads outcomes into a `ScoreTable`. The last outcome of a sample and metric counts."""

    systems: tuple[str, ...] = ("",)
    cards: Mapping[str, MetricCard] = field(default_factory=dict)
    """Cards of the metrics that the sources describe."""
    rows: dict[str, int] = field(default_factory=dict)
    """Row by sample id."""
    columns: dict[str, dict[int, ScoreRows]] = field(default_factory=dict)
    """Outcomes by metric and system."""

    def row(self, sample_id: str) -> int:
        """Return the row of a sample."""
        return self.rows.setdefault(sample_id, len(self.rows))

    def put(self, outcome: Outcome, system: int = 0) -> bool:
        """Add an outcome, and return False if it replaces one."""
        return self.column(outcome, system).put(self.row(outcome.sample_id), outcome)

    def column(self, outcome: Outcome, system: int = 0) -> ScoreRows:
        """Return the column of an outcome."""
        columns = self.columns.get(outcome.metric) or self.columns.setdefault(outcome.metric, {})
        if system not in columns:
            known = next(iter(columns.values())).card if columns else card_for(outcome, self.cards)
            columns[system] = ScoreRows(known)
        return columns[system]

    def count_failures(self) -> Counter[str]:
        """Return the number of failures by kind."""
        failures = Counter[str]()
        for column in (column for columns in self.columns.values() for column in columns.values()):
            kinds = {number: origin.reason for origin, number in column.origins.items() if origin.state == FAILED}
            failures.update(kinds[code] for code in column.codes if code in kinds)
        return failures

    def presence(self) -> NDArray[np.bool_]:
        """Return a boolean array (rows, systems): whether the system has an outcome of the row."""
        import numpy as np

        has = np.zeros((len(self.rows), len(self.systems)), dtype=bool)
        for columns in self.columns.values():
            for system, column in columns.items():
                codes = np.frombuffer(column.codes, np.int32)[: len(self.rows)]
                has[: codes.size, system] |= codes != 0
        return has

    def merge(self, rows: Mapping[int, int]) -> None:
        """Put the outcomes of rows into others, which are the same sample."""
        for columns in self.columns.values():
            for column in columns.values():
                for source, row in rows.items():
                    column.move(source, row)

    def expect(self, cards: Iterable[MetricCard]) -> None:
        """Add metrics to the table, also without an outcome of them."""
        self.cards = dict(self.cards)
        for card in cards:
            self.cards.setdefault(card.name, card)
            self.columns.setdefault(card.name, {})

    def table(
        self,
        probabilities: Mapping[str, float] | None = None,
        clusters: Clusters | None = None,
        *,
        ids: Collection[str] | None = None,
        order: Sequence[int] | None = None,
        is_strict: bool = False,
    ) -> ScoreTable:
        """Return what was read so far. Values are cut to the range of their metric.

        `probabilities` are below 1, by sample id. `ids` are those of all rows, if outcomes were put by the number of
        the row, and `order` are the rows of the table (None: all, as they were read). If `is_strict`, a value outside
        of its range is a DataError.
        """
        import numpy as np

        if ids is None:
            ids = tuple(self.rows)
        at = np.arange(len(ids)) if order is None else np.asarray(order, dtype=np.intp)
        if order is not None:
            ids = tuple(map(tuple(ids).__getitem__, order))
        metrics = {}
        for name, columns in self.columns.items():
            card = next(iter(columns.values())).card if columns else self.cards[name]
            values = np.full((at.size, len(self.systems)), np.nan)
            decisions = values.copy() if card.decided_by else None
            states = np.zeros(values.shape, dtype=np.int8)
            origins: list[Mapping[Origin, int]] = [{} for _ in self.systems]
            ends: dict[tuple[int, int], tuple[float, float]] = {}
            for system, column in columns.items():
                filled = np.flatnonzero(at < len(column.values))
                codes = np.frombuffer(column.codes, np.int32)[at[filled]]
                values[filled, system] = np.frombuffer(column.values)[at[filled]]
                if decisions is not None:
                    decisions[filled, system] = np.frombuffer(column.decisions)[at[filled]]
                states[filled, system] = np.asarray([ABSENT, *(o.state for o in column.origins)], np.int8)[codes]
                counts = np.bincount(codes, minlength=len(column.origins) + 1).tolist()
                origins[system] = dict(zip(column.origins, counts[1:], strict=True))
                if column.ends:
                    ends |= {
                        (new, system): column.ends[row] for new, row in enumerate(at.tolist()) if row in column.ends
                    }
            if is_strict:
                self._check_range(card, values, tuple(ids))
            metrics[name] = MetricScores(
                card=card,
                is_known=name in self.cards or card_of(name) is not None or math.isfinite(card.high - card.low),
                values=(clipped := np.clip(values, card.low, card.high)),
                decisions=clipped if decisions is None else decisions,
                states=states,
                ends=ends,
                origins=tuple(origins),
            )
        table = ScoreTable(systems=self.systems, sample_ids=ids, metrics=metrics)
        return table.depend(probabilities or {}, clusters)

    def _check_range(self, card: MetricCard, values: NDArray[np.float64], ids: Sequence[str]) -> None:
        import numpy as np

        invalid = np.argwhere((values < card.low - _TOLERANCE) | (values > card.high + _TOLERANCE))
        if invalid.size:
            row, system = invalid[0].tolist()
            raise DataError(
                f"{self.systems[system]!r} has the value {values[row, system]:g} of {card.name!r} for {ids[row]!r}, outside of "
                f"the range from {card.low:g} to {card.high:g}. These are scores of another metric or on another scale."
            )


def _ranks_of(score: Score) -> tuple[int, int] | None:
    match score.details:
        case {"n_ranks": int(n_ranks), "n_unjudged": int(n_unjudged)}:
            return n_ranks, n_unjudged
    return None


def _reads_of(score: Score) -> Reads | None:
    """Return how often the reader of a UDCG score abstained, and declined in other words."""
    passages = [passage for passage in score.details.get("passages", ()) if passage.get("p_abstain") is not None]
    n_abstaining = sum(passage["p_abstain"] > RARE for passage in passages)
    n_drawn, n_declined = (sum(passage.get(name, 0) for passage in passages) for name in ("n_drawn", "n_declined"))
    return (len(passages), n_abstaining, n_drawn, n_declined) if passages else None


def describe_unjudged(table: ScoreTable, system: int = 0) -> str | None:
    """Describe how many of the top passages do not have a grade, for the metric with most of them, or return None."""
    share, text = 0.0, None
    for name, metric in table.metrics.items():
        counts = [(*origin.ranks, n) for origin, n in metric.origins[system].items() if origin.ranks]
        n_ranks, n_unjudged = (sum(one[part] * one[2] for one in counts) for part in (0, 1))
        if n_unjudged > share * n_ranks:
            share, n_all = n_unjudged / n_ranks, sum(n for ranks, unjudged, n in counts if unjudged >= ranks)
            text = (
                f"{n_unjudged:,} of {count(n_ranks, 'passage')} in the top ranks of {name} do not have a grade and "
                f"count as irrelevant, in {n_all:,} of {count(sum(n for *_, n in counts), 'sample')} all of them. "
                f"judged_share{name[name.find('@') :] * ('@' in name)} measures this"
            )
    return text
