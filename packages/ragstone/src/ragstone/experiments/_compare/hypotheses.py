"""Tests of hypotheses stated before looking at the data, corrected for their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.experiments._compare.align import AlignedMetric, AlignedScores
from ragstone.stats import holm, simultaneous_tukey

__all__ = ["Hypotheses", "Hypothesis", "HypothesisTerm", "judge_hypotheses"]

Hypotheses = Mapping[str, str | Sequence[str]] | Sequence[str]
"""Terms by the hypothesis's name, or a sequence of terms, each a separate hypothesis. A term is "B > A" (B is better than A)
or "B != A", on all metrics, or on some: "B > A on ccrs.qr, ccrs.ir"."""

_OPERATORS: Final = ("!=", ">")


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisTerm:
    """One term of a hypothesis: two systems on one metric."""

    system: str
    other: str
    metric: str
    directed: bool
    """Whether `system` is stated to be better. Otherwise the term states only a difference."""
    p_value: float | None
    """P-value of this term alone, or None if untestable."""
    n: int


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


def judge_hypotheses(
    scores: AlignedScores, hypotheses: Hypotheses, *, confidence_level: float, n_permutations: int, seed: int
) -> tuple[Hypothesis, ...]:
    """Test hypotheses, so that the probability of supporting any false one is at most 1 - `confidence_level`.

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
        parts = [part for text in ([texts] if isinstance(texts, str) else texts) for part in _read(text, scores)]
        if not parts:
            raise ConfigurationError(f"the hypothesis {name!r} is empty. Give it terms such as {_example(scores)!r}.")
        claims = tuple(
            _test(metric, scores, pair, directed=directed, n_permutations=n_permutations, seed=seed)
            for pair, directed, metric in parts
        )
        tested.append((name, claims, max(1.0 if c.p_value is None else c.p_value for c in claims)))
    corrected = holm([p for _, _, p in tested], confidence_level=confidence_level)
    return tuple(
        Hypothesis(name=name, claims=claims, p_value=p, adjusted=adjusted, supported=supported)
        for (name, claims, p), adjusted, supported in zip(tested, corrected.adjusted, corrected.rejected, strict=True)
    )


def _read(text: str, scores: AlignedScores) -> list[tuple[tuple[int, int], bool, AlignedMetric]]:
    """Parse a term. Names of systems may contain operators and blanks, so both sides are matched with known names."""
    columns = {name: i for i, name in enumerate(scores.systems)}
    for operator in _OPERATORS:
        pieces = text.split(operator)
        for cut in range(1, len(pieces)):
            left, right = operator.join(pieces[:cut]).strip(), operator.join(pieces[cut:]).strip()
            for other, metrics in _readings(right):
                if left in columns and other in columns and left != other:
                    chosen = scores.metrics if metrics is None else [_metric(m, text, scores) for m in metrics]
                    return [((columns[left], columns[other]), operator == ">", metric) for metric in chosen]
    raise ConfigurationError(
        f"{text!r} is not a hypothesis about these systems ({', '.join(map(repr, scores.systems))}). Write "
        f"{_example(scores)!r} for better, '!=' for different, and append 'on METRIC, METRIC' to select metrics."
    )


def _readings(right: str) -> list[tuple[str, list[str] | None]]:
    """Return the possible readings of the right side: a system, or a system and metrics."""
    readings: list[tuple[str, list[str] | None]] = [(right, None)]
    other, on, metrics = right.rpartition(" on ")
    if on:
        readings.append((other.strip(), [name.strip() for name in metrics.split(",") if name.strip()]))
    return readings


def _metric(name: str, text: str, scores: AlignedScores) -> AlignedMetric:
    for metric in scores.metrics:
        if metric.name == name:
            return metric
    raise ConfigurationError(
        f"unknown metric {name!r} in the hypothesis {text!r}. Compared: {', '.join(m.name for m in scores.metrics)}."
    )


def _example(scores: AlignedScores) -> str:
    return f"{scores.systems[1]} > {scores.systems[0]}"


def _test(
    metric: AlignedMetric,
    scores: AlignedScores,
    pair: tuple[int, int],
    *,
    directed: bool,
    n_permutations: int,
    seed: int,
) -> HypothesisTerm:
    # The sign makes higher values better for every metric.
    sign = 1 if metric.higher_is_better else -1
    ((result,),) = (
        table.pairs
        for table in simultaneous_tukey(
            [sign * metric.values[:, list(pair)]],
            pairs=[(0, 1)],
            clusters=scores.clusters,
            weights=1 / scores.inclusion_probabilities,
            alternative="greater" if directed else "two-sided",
            n_resamples=n_permutations,
            seed=seed,
        )
    )
    return HypothesisTerm(
        system=scores.systems[pair[0]],
        other=scores.systems[pair[1]],
        metric=metric.name,
        directed=directed,
        p_value=result.p_value,
        n=result.n,
    )
