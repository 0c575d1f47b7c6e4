"""Tests of hypotheses stated before looking at the data, corrected for their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.experiments._table import MetricScores, ScoreTable
from ragstone.metrics import full_name, split_metrics
from ragstone.settings import Analysis
from ragstone.stats import holm, simultaneous_tukey

Hypotheses = Mapping[str, str | Sequence[str]] | Sequence[str]
"""Terms by the hypothesis's name, or a sequence of terms, each a separate hypothesis. A term is "B > A" (B is better than A)
or "B != A", on all metrics, or on those that are named: "B > A on ccrs.qr, ccrs.ir". "on some metric" and "on some of ccrs.qr,
ccrs.ir" state at least one of them."""

_OPERATORS: Final = ("!=", ">")
_SOME: Final = "some metric"
_SOME_OF: Final = "some of"


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisTerm:
    """One term of a hypothesis: two systems on one metric."""

    system: str
    other: str
    metric: str
    """The metric, or "some of" several: at least one of them."""
    directed: bool
    """Whether `system` is stated to be better. Otherwise the term states only a difference."""
    p_value: float | None
    """P-value of this term alone, or None if untestable. For several metrics, that of the largest standardized difference."""
    n: int
    """Number of samples with a score of both systems, on the metric with the smallest p-value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """A hypothesis, which is supported only if all its terms are."""

    name: str
    claims: tuple[HypothesisTerm, ...]
    p_value: float
    """The largest p-value of the terms. An untestable term counts as 1."""
    adjusted: float
    """P-value after Holm's correction for the number of hypotheses."""
    supported: bool


def judge_hypotheses(table: ScoreTable, hypotheses: Hypotheses, analysis: Analysis) -> tuple[Hypothesis, ...]:
    """Test hypotheses, so that the probability of supporting any false one is at most 1 - the confidence level.

    A hypothesis is supported only if all its terms are, so its p-value is the largest of its terms, and the terms do not need a
    correction (intersection-union test). Hypotheses are corrected with Holm's procedure.

    Raises:
        ConfigurationError: If a term cannot be parsed, or a system or metric is unknown.

    Source:
        Berger 1982 (largest p-value). Holm 1979. CCRS, section 4.2, uses the largest of p-values adjusted for all pairs,
        which is more conservative than needed.
    """
    if isinstance(hypotheses, str):
        hypotheses = [hypotheses]
    if not isinstance(hypotheses, Mapping):
        hypotheses = {text: text for text in hypotheses}
    tested = []
    for name, texts in hypotheses.items():
        parts = [part for text in ([texts] if isinstance(texts, str) else texts) for part in _read(text, table)]
        if not parts:
            raise ConfigurationError(f"the hypothesis {name!r} is empty. Give it terms such as {_example(table)!r}.")
        claims = tuple(_test(metrics, table, pair, analysis, directed=directed) for pair, directed, metrics in parts)
        tested.append((name, claims, max(1.0 if c.p_value is None else c.p_value for c in claims)))
    corrected = holm([p for _, _, p in tested], confidence_level=analysis.confidence_level)
    return tuple(
        Hypothesis(name=name, claims=claims, p_value=p, adjusted=adjusted, supported=supported)
        for (name, claims, p), adjusted, supported in zip(tested, corrected.adjusted, corrected.rejected, strict=True)
    )


def _read(text: str, table: ScoreTable) -> list[tuple[tuple[int, int], bool, list[MetricScores]]]:
    """Parse a term: pair, direction, and the metrics of which one must differ. Names of systems may contain operators and blanks, so both sides are matched with known names."""
    columns = {name: i for i, name in enumerate(table.systems)}
    for operator in _OPERATORS:
        pieces = text.split(operator)
        for cut in range(1, len(pieces)):
            left, right = operator.join(pieces[:cut]).strip(), operator.join(pieces[cut:]).strip()
            for other, metrics in _readings(right):
                if left in columns and other in columns and left != other:
                    pair = (columns[left], columns[other])
                    return [(pair, operator == ">", chosen) for chosen in _chosen(metrics, text, table)]
    raise ConfigurationError(
        f"{text!r} is not a hypothesis about these systems ({', '.join(map(repr, table.systems))}). Write "
        f"{_example(table)!r} for better, '!=' for different, and append 'on METRIC, METRIC' or 'on {_SOME}' to select metrics."
    )


def _chosen(names: str | None, text: str, table: ScoreTable) -> list[list[MetricScores]]:
    """Return lists of metrics: of each list, at least one metric must differ."""
    if names is None:
        return [[metric] for metric in table.metrics.values()]
    if names == _SOME:
        return [list(table.metrics.values())]
    found = [_metric(full_name(name), text, table) for name in split_metrics(names.removeprefix(_SOME_OF))]
    if not found:
        raise ConfigurationError(f"the hypothesis {text!r} names no metric. Write 'on METRIC, METRIC' or 'on {_SOME}'")
    return [found] if names.startswith(_SOME_OF) else [[metric] for metric in found]


def _readings(right: str) -> list[tuple[str, str | None]]:
    """Return the possible readings of the right side: a system, or a system and metrics."""
    readings: list[tuple[str, str | None]] = [(right, None)]
    other, on, metrics = right.rpartition(" on ")
    if on:
        readings.append((other.strip(), metrics.strip()))
    return readings


def _metric(name: str, text: str, table: ScoreTable) -> MetricScores:
    if name in table.metrics:
        return table.metrics[name]
    raise ConfigurationError(
        f"unknown metric {name!r} in the hypothesis {text!r}. Compared: {', '.join(table.metrics)}."
    )


def _example(table: ScoreTable) -> str:
    return f"{table.systems[1]} > {table.systems[0]}"


def _test(
    metrics: Sequence[MetricScores],
    table: ScoreTable,
    pair: tuple[int, int],
    analysis: Analysis,
    *,
    directed: bool,
) -> HypothesisTerm:
    tables = simultaneous_tukey(
        # The sign makes higher values better for every metric.
        [(1 if metric.higher_is_better else -1) * metric.values[:, list(pair)] for metric in metrics],
        pairs=[(0, 1)],
        clusters=table.clusters_of(),
        weights=table.weights,
        alternative="greater" if directed else "two-sided",
        n_resamples=analysis.n_permutations,
        seed=analysis.seed or 0,
    )
    # P-values are adjusted for all these metrics, so the smallest one is that of the global test.
    result = min((tested.pairs[0] for tested in tables), key=lambda each: 1.0 if each.p_value is None else each.p_value)
    names = ", ".join(metric.name for metric in metrics)
    return HypothesisTerm(
        system=table.systems[pair[0]],
        other=table.systems[pair[1]],
        metric=names if len(metrics) == 1 else f"{_SOME_OF} {names}",
        directed=directed,
        p_value=result.p_value,
        n=result.n,
    )
