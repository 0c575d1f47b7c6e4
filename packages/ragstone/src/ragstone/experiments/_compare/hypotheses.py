"""Hypotheses that were named beforehand: claims about pairs of systems and metrics, corrected for their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.experiments._compare.align import AlignedMetric, AlignedScores
from ragstone.stats import holm, randomized_tukey

__all__ = ["Hypotheses", "Hypothesis", "HypothesisTerm", "judge_hypotheses"]

Hypotheses = Mapping[str, str | Sequence[str]] | Sequence[str]
"""Claims by the hypothesis's name; or claims alone, each a hypothesis of its own. A claim is "B > A" (B is better than A),
or "B != A"; of all metrics, or "B > A on ccrs.qr, ccrs.ir"."""

_OPERATORS: Final = ("!=", ">")


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisTerm:
    """One part of a hypothesis: two systems on one metric."""

    system: str
    other: str
    metric: str
    directed: bool
    """Whether `system` is claimed to be the better one; else only that they differ."""
    p_value: float | None
    """Of this claim alone; None where it could not be tested."""
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """A statement that holds only if all its claims do."""

    name: str
    claims: tuple[HypothesisTerm, ...]
    p_value: float
    """The largest of the claims'; a claim that could not be tested counts as 1."""
    adjusted: float
    """After Holm's correction for the number of hypotheses."""
    supported: bool


def judge_hypotheses(
    scores: AlignedScores, hypotheses: Hypotheses, *, confidence_level: float, n_permutations: int, seed: int
) -> tuple[Hypothesis, ...]:
    """Test hypotheses, so that the chance of supporting any false one is at most 1 - `confidence_level`.

    A hypothesis holds only if all its claims do, so that its p-value is the largest of theirs, and the claims need no
    correction among themselves (an intersection-union test). Hypotheses are corrected by Holm.

    Raises:
        ConfigurationError: A claim that cannot be read, or names a system or metric that there is not.

    Source:
        Berger 1982 for the largest p-value; Holm 1979. CCRS, section 4.2, takes the largest of p-values that are adjusted for
        all pairs, which asks for more than needed.
    """
    if isinstance(hypotheses, str):
        hypotheses = [hypotheses]
    if not isinstance(hypotheses, Mapping):
        hypotheses = {text: text for text in hypotheses}
    found = []
    for name, texts in hypotheses.items():
        parts = [part for text in ([texts] if isinstance(texts, str) else texts) for part in _read(text, scores)]
        if not parts:
            raise ConfigurationError(
                f"the hypothesis {name!r} claims nothing; give it claims such as {_example(scores)!r}"
            )
        claims = tuple(
            _test(metric, scores.systems, pair, directed=directed, n_permutations=n_permutations, seed=seed)
            for pair, directed, metric in parts
        )
        found.append((name, claims, max(1.0 if c.p_value is None else c.p_value for c in claims)))
    corrected = holm([p for _, _, p in found], confidence_level=confidence_level)
    return tuple(
        Hypothesis(name=name, claims=claims, p_value=p, adjusted=adjusted, supported=supported)
        for (name, claims, p), adjusted, supported in zip(found, corrected.adjusted, corrected.rejected, strict=True)
    )


def _read(text: str, scores: AlignedScores) -> list[tuple[tuple[int, int], bool, AlignedMetric]]:
    """Read a claim; names of systems may themselves hold operators and blanks, so what matters is that both are known."""
    columns = {name: i for i, name in enumerate(scores.systems)}
    for operator in _OPERATORS:
        pieces = text.split(operator)
        for cut in range(1, len(pieces)):
            left, right = operator.join(pieces[:cut]).strip(), operator.join(pieces[cut:]).strip()
            for other, metrics in _where(right):
                if left in columns and other in columns and left != other:
                    chosen = scores.metrics if metrics is None else [_metric(m, text, scores) for m in metrics]
                    return [((columns[left], columns[other]), operator == ">", metric) for metric in chosen]
    raise ConfigurationError(
        f"{text!r} is no claim about these systems ({', '.join(map(repr, scores.systems))}); write {_example(scores)!r} for "
        "better, '!=' for different, and 'on METRIC, METRIC' behind it for some metrics alone"
    )


def _where(right: str) -> list[tuple[str, list[str] | None]]:
    """The readings of what stands behind the operator: a system, or a system and metrics."""
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
        f"the claim {text!r} names the metric {name!r}; compared are {', '.join(m.name for m in scores.metrics)}"
    )


def _example(scores: AlignedScores) -> str:
    return f"{scores.systems[1]} > {scores.systems[0]}"


def _test(
    metric: AlignedMetric,
    systems: Sequence[str],
    pair: tuple[int, int],
    *,
    directed: bool,
    n_permutations: int,
    seed: int,
) -> HypothesisTerm:
    # What is better lies above, whichever way the metric runs.
    sign = 1 if metric.higher_is_better else -1
    (found,) = randomized_tukey(
        sign * metric.values[:, list(pair)],
        pairs=[(0, 1)],
        alternative="greater" if directed else "two-sided",
        n_resamples=n_permutations,
        seed=seed,
    ).pairs
    return HypothesisTerm(
        system=systems[pair[0]],
        other=systems[pair[1]],
        metric=metric.name,
        directed=directed,
        p_value=found.p_value,
        n=found.n,
    )
