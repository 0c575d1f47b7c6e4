"""`compare`: systems in, differences and a verdict out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ragstone.errors import ConfigurationError
from ragstone.experiments._compare.align import AlignedScores, Sources, align
from ragstone.experiments._compare.hypotheses import Hypotheses, Hypothesis, judge_hypotheses
from ragstone.experiments._compare.overview import overview
from ragstone.experiments._compare.pairs import Family, MetricComparison, adjust_across_metrics, compare_metric
from ragstone.experiments._compare.regression import RegressionCheck, check_regression
from ragstone.experiments._compare.text import format_p_value, format_verdicts, means_table, pairs_table
from ragstone.experiments._compare.unpaired import compare_unpaired
from ragstone.judges import BASELINE_NOTE

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Systems side by side: what differs, by how much, and what cannot be said."""

    systems: tuple[str, ...]
    metrics: tuple[MetricComparison, ...]
    hypotheses: tuple[Hypothesis, ...]
    baseline: str | None
    """Whom the others were compared with; None where all pairs were."""
    n_samples: Mapping[str, int]
    """By system."""
    n_common: int
    """Samples that every system has."""
    paired: bool
    """Whether samples were compared each with itself; else systems were, each with its own requests."""
    confidence_level: float
    """The chance of no false claim is at least this: for each metric, or for all if `across_metrics`."""
    across_metrics: bool
    n_permutations: int
    seed: int
    notes: tuple[str, ...]
    scores: AlignedScores = field(repr=False, compare=False)
    """What was compared, aligned by sample."""

    @property
    def verdict(self) -> tuple[str, ...]:
        """What can be claimed, and then what cannot, one sentence each."""
        return format_verdicts(self.metrics)

    def check_regression(
        self,
        gate_metrics: Sequence[str] | str | None = None,
        *,
        baseline: str | None = None,
        margin: float | Mapping[str, float] | None = None,
    ) -> RegressionCheck:
        """Check whether any other system is worse than the baseline, one-sided; see `assert_no_regression`.

        Args:
            gate_metrics: Names or groups that must not become worse; None takes all.
            baseline: A system; None takes the comparison's, else the first.
            margin: A loss that must be ruled out, in the metric's own units; None fails what is significantly worse.

        Raises:
            ConfigurationError: A system, metric or margin that cannot be.
        """
        _paired_only(self.scores, "a gate")
        return check_regression(
            self.scores,
            baseline=baseline or self.baseline or self.systems[0],
            metrics=gate_metrics,
            margin=margin,
            confidence_level=self.confidence_level,
            n_permutations=self.n_permutations,
            seed=self.seed,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "systems": list(self.systems),
            "baseline": self.baseline,
            "n_samples": dict(self.n_samples),
            "n_common": self.n_common,
            "paired": self.paired,
            "confidence_level": self.confidence_level,
            "across_metrics": self.across_metrics,
            "seed": self.seed,
            "verdict": list(self.verdict),
            "metrics": [_finite(asdict(m)) for m in self.metrics],
            "hypotheses": [asdict(h) for h in self.hypotheses],
            "judge_is_baseline": BASELINE_NOTE in self.notes,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [
            *overview(self.metrics, confidence_level=self.confidence_level, across_metrics=self.across_metrics),
            "",
        ]
        for h in self.hypotheses:
            told = "supported" if h.supported else "not supported"
            lines.append(f"hypothesis {h.name}: {told} (p {format_p_value(h.adjusted)} after Holm's correction)")
        if self.hypotheses:
            lines.append("")
        lines += [means_table(self.metrics), "", pairs_table(self.metrics, paired=self.paired), ""]
        lines += [
            f"{m.metric} tells {d.n_significant} of {d.n_pairs} pairs of systems apart (discriminative power {d.value:.3f})"
            for m in self.metrics
            if (d := m.discriminative_power) is not None and d.n_pairs > 1
        ]
        return "\n".join([*lines, _method(self), *self.notes])


def compare(
    systems: Sources,
    *,
    metrics: Sequence[str] | str | None = None,
    baseline: str | None = None,
    hypotheses: Hypotheses = (),
    across_metrics: bool = False,
    min_effect: float | None = None,
    confidence_level: float = 0.95,
    n_permutations: int = 10_000,
    seed: int = 0,
    allow_different_judges: bool = False,
    paired: bool | None = None,
) -> Comparison:
    """Compare systems that were evaluated on the same samples, or traffic of different times.

    Samples are matched by their ids, never by their position. For each metric all pairs of systems are compared by the
    paired randomized Tukey test: whatever number of systems there is, the chance of any false claim about a metric is at
    most 1 - `confidence_level`, and the intervals hold the differences of all pairs together. A sample that failed or was not
    applicable in one system is left out of that system's pairs, and counted; bounds say what the failed ones could change.

    Traffic of two weeks has no request in common. Stores that share none, or `TimeRange`s of them, are compared as
    independent groups: by the largest standardised difference under permutation, with means that undo sampling. That needs
    more requests for the same certainty, and takes them as independent of each other.

    Args:
        systems: Systems by name, or in a row: experiments, files of outcomes (`ragstone evaluate --output`), stores,
            or `TimeRange`s of stores.
        metrics: Names or groups ("ccrs"); None takes all that there are.
        baseline: The name of a system with which alone the others are compared: fewer pairs, more power.
        hypotheses: Claims named before the data were seen, by name: {"H1": ["e5 > bm25 on ccrs.qr, ccrs.ir"]}. A
            hypothesis holds if all its claims do; hypotheses are corrected for their number (Holm).
        across_metrics: Hold the level for all metrics together, instead of for each.
        min_effect: The difference that matters, in the metric's own units: how many more samples would show it is part of
            the verdict. None is one hundredth of the metric's range.
        confidence_level: One less the chance of a false claim, in (0, 1).
        n_permutations: Permutations drawn.
        seed: Of the random numbers; the same seed gives the same result on any machine.
        allow_different_judges: Compare scores of different judges or versions of a metric all the same, with a warning.
        paired: Whether samples are compared each with itself; None does so unless all systems are stores without a
            request in common.

    Raises:
        ConfigurationError: Fewer than two systems; a system, metric or claim that is not there; scores of different judges.
        DataError: Systems without a common sample, or with the same ids for different questions.
        ValueError: An option out of range.

    Source:
        Carterette 2012 for the test; Holm 1979; CCRS, section 4.2 and appendix F.

    Example:
        >>> import ragstone
        >>> rows = [{"id": f"{i}", "query": "Why?", "contexts": ["Rain."], "response": "Rain."} for i in range(9)]
        >>> dry = [row | {"response": "The sun."} for row in rows]
        >>> old, new = (ragstone.evaluate(r, ["ccrs.cc"], judge="lexical") for r in (dry, rows))
        >>> ragstone.compare({"old": old, "new": new}).verdict
        ('new beats old on ccrs.cc by 100 points [44.4, 100]',)
    """
    if min_effect is not None and not (math.isfinite(min_effect) and min_effect > 0):
        raise ConfigurationError(
            f"min_effect is a difference that matters, above 0 in the metric's own units, got {min_effect!r}"
        )
    if not 0 < confidence_level < 1:
        raise ConfigurationError(f"confidence_level must lie in (0, 1), got {confidence_level!r}")
    scores = align(systems, metrics=metrics, allow_different_judges=allow_different_judges, paired=paired)
    if hypotheses:
        _paired_only(scores, "a hypothesis")
    if baseline is not None and baseline not in scores.systems:
        raise ConfigurationError(
            f"there is no system {baseline!r} to be the baseline; there are {', '.join(map(repr, scores.systems))}"
        )
    family = Family.of(
        len(scores.systems),
        baseline=None if baseline is None else scores.systems.index(baseline),
        # Intervals of several metrics hold together if each metric's miss with its share of the error.
        confidence_level=1 - (1 - confidence_level) / len(scores.metrics) if across_metrics else confidence_level,
        n_permutations=n_permutations,
        seed=seed,
    )
    found = tuple(
        compare_metric(metric, scores.systems, family, min_effect=min_effect)
        if scores.paired
        else compare_unpaired(metric, scores.systems, family, scores.inclusion_probabilities, min_effect=min_effect)
        for metric in scores.metrics
    )
    return Comparison(
        systems=scores.systems,
        metrics=adjust_across_metrics(found, confidence_level=confidence_level) if across_metrics else found,
        hypotheses=judge_hypotheses(
            scores, hypotheses, confidence_level=confidence_level, n_permutations=n_permutations, seed=seed
        ),
        baseline=baseline,
        n_samples=scores.n_samples,
        n_common=scores.n_common,
        paired=scores.paired,
        confidence_level=confidence_level,
        across_metrics=across_metrics,
        n_permutations=n_permutations,
        seed=seed,
        notes=scores.notes,
        scores=scores,
    )


def _method(comparison: Comparison) -> str:
    together = "all metrics and pairs" if comparison.across_metrics else "all pairs of a metric"
    if not comparison.paired:
        return _method_unpaired(comparison, together)
    against = "" if comparison.baseline is None else f" with {comparison.baseline!r}"
    return (
        f"differences{against}: paired randomized Tukey test; p-values and intervals hold for {together} together with "
        f"{comparison.confidence_level:.4g} probability (seed {comparison.seed}, up to {comparison.n_permutations:,} permutations); effect "
        "is Hedges' g of the differences"
    )


def _method_unpaired(comparison: Comparison, together: str) -> str:
    return (
        "no sample is compared with itself: differences of independent groups, largest standardised difference under "
        f"permutation (its normal limit from 5,000 each); p-values and intervals hold for {together} together with "
        f"{comparison.confidence_level:.4g} probability (seed {comparison.seed}), if requests are independent of each other; effect is "
        "Hedges' g of two groups"
    )


def _paired_only(scores: AlignedScores, what: str) -> None:
    if not scores.paired:
        raise ConfigurationError(
            f"{what} needs systems that were evaluated on the same samples; these have none in common"
        )


def _finite(value: Any) -> Any:
    """JSON has no infinity: None is no bound on that side."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and math.isinf(value) else value
