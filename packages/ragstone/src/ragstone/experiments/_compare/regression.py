"""The gate: is a candidate worse than the baseline?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from ragstone._util.table import text_table
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._compare.align import (
    FAILED,
    NOT_APPLICABLE,
    SCORED,
    AlignedMetric,
    AlignedScores,
    Sources,
    align,
)
from ragstone.experiments._compare.pairs import possible_differences
from ragstone.experiments._compare.text import format_difference, format_p_value
from ragstone.experiments._outcomes import OutcomeSource, titles_of
from ragstone.stats import holm, mean_interval, randomized_tukey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MetricGate", "RegressionCheck", "assert_no_regression", "check_regression"]

_LEAST_LEVEL: Final = 0.5
"""A one-sided bound at a level of 1/2 is the mean itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGate:
    """What the gate found for one candidate on one metric."""

    candidate: str
    metric: str
    state: Literal["ok", "worse", "not shown", "untestable"]
    """ "worse": significantly worse. "not shown": a loss of the margin or more cannot be ruled out. "untestable": no sample
    has scores of both, so nothing is known; that fails the gate too."""
    n: int
    """Samples with a score of both."""
    gain: float | None
    """Mean of candidate - baseline in the direction that is better: below 0 the candidate is worse."""
    low: float | None
    """One-sided bound: the gain is at least this, also on samples not seen, and whatever failed samples had scored. None
    where nothing can be said."""
    p_value: float | None
    """Of the randomisation test that the candidate is worse; without a margin adjusted for all metrics and candidates."""
    margin: float | None
    n_failed: int
    """Samples on which one of both, or both, failed."""
    n_not_applicable: int
    """Samples that the baseline has a score of, and the candidate none, as the metric is not applicable: no claim to check, say."""
    worst: float | None
    """The gain, had those gone as badly for the candidate as they can."""
    in_points: bool

    @property
    def ok(self) -> bool:
        """Whether the gate lets this through."""
        return self.state == "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionCheck:
    """Whether candidates may replace a baseline."""

    baseline: str
    gates: tuple[MetricGate, ...]
    confidence_level: float
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every gate is passed."""
        return all(gate.ok for gate in self.gates)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        gates = [
            asdict(g) | {"worst": g.worst if g.worst is not None and math.isfinite(g.worst) else None}
            for g in self.gates
        ]
        return {
            "baseline": self.baseline,
            "ok": self.ok,
            "confidence_level": self.confidence_level,
            "gates": gates,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        rows = [("metric", "candidate", "gain over the baseline", "at least", "n", "verdict")]
        rows += [
            (
                g.metric,
                g.candidate,
                "no common score" if g.gain is None else format_difference(g.gain, points=g.in_points, sign=True),
                "unknown" if g.low is None else format_difference(g.low, points=g.in_points, sign=True),
                str(g.n),
                _verdict(g),
            )
            # What failed is read first.
            for g in sorted(self.gates, key=lambda gate: gate.ok)
        ]
        margins = any(g.margin is not None for g in self.gates)
        # What `assert_no_regression` compares is called just that.
        against = "baseline" if self.baseline == "baseline" else f"baseline {self.baseline}"
        n_bad = sum(not g.ok for g in self.gates)
        head = f"{against}: " + ("no regression found" if self.ok else f"FAILED on {n_bad} of {len(self.gates)}")
        rule = (
            f"a metric passes if its gain is above minus the margin with {self.confidence_level:.0%} confidence"
            if margins
            else f"a metric fails if it is worse with {self.confidence_level:.0%} confidence, for all of them together"
        )
        failed = [
            f"{g.metric}: {g.n_failed} samples failed and are not in the gain of {g.candidate}; had they gone as badly as can "
            f"be, it would be {format_difference(g.worst, points=g.in_points, sign=True)}"
            for g in self.gates
            if g.n_failed and g.worst is not None
        ]
        absent = [
            f"{g.metric}: not applicable to {g.n_not_applicable} of the samples of {g.candidate} that {self.baseline} has a "
            "score of; they are not in the gain"
            for g in self.gates
            if g.n_not_applicable
        ]
        table = text_table(rows, n_keys=2, titles=titles_of(g.metric for g in self.gates))
        return "\n".join([head, "", table, "", rule, *failed, *absent, *self.notes])


def check_regression(
    scores: AlignedScores,
    *,
    baseline: str,
    metrics: Sequence[str] | str | None = None,
    margin: float | Mapping[str, float] | None = None,
    confidence_level: float = 0.95,
    n_permutations: int = 10_000,
    seed: int = 0,
) -> RegressionCheck:
    """Compare every other system with the baseline, one-sided.

    Without a margin a metric fails where the candidate is significantly worse; the chance that any of them fails although
    nothing became worse is at most 1 - `confidence_level` (Holm). With a margin it passes only where a loss of the margin or more is
    ruled out, whatever failed samples had scored; since all have to pass, the chance of letting through a loss that
    large on any of them is at most 1 - `confidence_level` without a correction (an intersection-union test).

    Raises:
        ConfigurationError: A system, metric or margin that cannot be.
        DataError: The baseline has no score of any metric.
    """
    if baseline not in scores.systems:
        raise ConfigurationError(
            f"there is no system {baseline!r} to be the baseline; there are {', '.join(map(repr, scores.systems))}"
        )
    if not _LEAST_LEVEL < confidence_level < 1:
        raise ConfigurationError(f"a gate is one-sided and needs a level in (0.5, 1), got {confidence_level!r}")
    at = scores.systems.index(baseline)
    chosen, notes = _chosen(scores, at, [metrics] if isinstance(metrics, str) else metrics)
    if isinstance(margin, Mapping) and (lost := sorted({m.name for m in chosen} - margin.keys())):
        raise ConfigurationError(
            f"margin names no margin for {', '.join(lost)}; name one for every metric of the gate, or give one number"
        )
    gates = [
        _gate(
            metric,
            scores.systems[i],
            (i, at),
            margin=margin[metric.name] if isinstance(margin, Mapping) else margin,
            confidence_level=confidence_level,
            n_permutations=n_permutations,
            seed=seed,
        )
        for metric in chosen
        for i in range(len(scores.systems))
        if i != at
    ]
    if margin is None:
        corrected = holm([gate.p_value for gate in gates], confidence_level=confidence_level)
        gates = [
            gate if gate.p_value is None else replace(gate, p_value=p, state="worse" if worse else "ok")
            for gate, p, worse in zip(gates, corrected.adjusted, corrected.rejected, strict=True)
        ]
    return RegressionCheck(
        baseline=baseline, gates=tuple(gates), confidence_level=confidence_level, notes=(*notes, *scores.notes)
    )


def assert_no_regression(
    baseline: OutcomeSource,
    candidate: OutcomeSource,
    metrics: Sequence[str] | str | None = None,
    *,
    margin: float | Mapping[str, float] | None = None,
    confidence_level: float = 0.95,
    n_permutations: int = 10_000,
    seed: int = 0,
    allow_different_judges: bool = False,
) -> None:
    """Fail a test where a candidate is worse than the baseline.

    Args:
        baseline: What is in use: an `Experiment`, a file of outcomes (`ragstone evaluate --output`), or a store.
        candidate: What is to replace it, evaluated on the same samples.
        metrics: Names or groups that must not become worse; None takes all.
        margin: Without one it fails where the candidate is significantly worse: few samples show little, and let much
            through. With one, in the metric's own units (0.01 is one point of a metric from 0 to 1) or by metric, it
            fails unless a loss of the margin or more is ruled out: the stricter gate, which needs enough samples, and
            few that failed, as each counts as badly as it can.
        confidence_level: One less the chance of an error: of a failure though nothing became worse; with a margin, of passing though
            something lost that much.
        n_permutations: Permutations drawn.
        seed: Of the random numbers; the same seed gives the same result on any machine.
        allow_different_judges: Compare scores of different judges or versions of a metric all the same.

    Raises:
        AssertionError: The candidate is worse, is not shown to be no worse, or cannot be tested; the message is a table.
        ConfigurationError: Sources that are not there, or whose scores are not one scale.
        DataError: Sources without a common sample.

    Example:
        >>> import ragstone
        >>> rows = [{"id": str(i), "query": "Why?", "contexts": ["Rain."], "response": "Rain."} for i in range(9)]
        >>> result = ragstone.evaluate(rows, ["ccrs.qr"], judge="lexical")
        >>> ragstone.assert_no_regression(result, result)
    """
    sources: Sources = {"baseline": baseline, "candidate": candidate}
    scores = align(sources, metrics=metrics, allow_different_judges=allow_different_judges)
    check = check_regression(
        scores,
        baseline="baseline",
        margin=margin,
        confidence_level=confidence_level,
        n_permutations=n_permutations,
        seed=seed,
    )
    if not check.ok:
        raise AssertionError(str(check))


def _chosen(
    scores: AlignedScores, baseline: int, wanted: Sequence[str] | None
) -> tuple[list[AlignedMetric], list[str]]:
    """The metrics of the gate: those named, or all that the baseline was scored on, or failed on."""
    if wanted is None:
        had = [m for m in scores.metrics if _scorable(m, baseline)]
        new = [m.name for m in scores.metrics if m not in had]
        if not had:
            raise DataError(
                f"the baseline {scores.systems[baseline]!r} has no score of any metric; there is nothing to hold to"
            )
        return had, [f"not in the gate, as the baseline has no score of it: {', '.join(new)}"] if new else []
    for name in wanted:
        if not any(_means(name, m) for m in scores.metrics):
            raise ConfigurationError(
                f"there is no metric {name!r} to gate; compared are {', '.join(m.name for m in scores.metrics)}"
            )
    return [m for m in scores.metrics if any(_means(name, m) for name in wanted)], []


def _scorable(metric: AlignedMetric, system: int) -> bool:
    import numpy as np

    return bool(np.isin(metric.states[:, system], (SCORED, FAILED)).any())


def _means(wanted: str, metric: AlignedMetric) -> bool:
    return (
        wanted == metric.name
        or metric.name.startswith(f"{wanted}.")
        or (metric.card is not None and metric.card.group == wanted)
    )


def _gate(
    metric: AlignedMetric,
    candidate: str,
    pair: tuple[int, int],
    *,
    margin: float | None,
    confidence_level: float,
    n_permutations: int,
    seed: int,
) -> MetricGate:
    if margin is not None and not (math.isfinite(margin) and margin > 0):
        raise ConfigurationError(
            f"a margin is a loss that can be borne, above 0 and in the metric's own units, got {margin!r}"
        )
    sign = 1 if metric.higher_is_better else -1
    better = sign * metric.values[:, list(pair)]
    (found,) = randomized_tukey(
        better,
        pairs=[(0, 1)],
        alternative="less",
        n_resamples=n_permutations,
        confidence_level=confidence_level,
        seed=seed,
    ).pairs
    candidates, baselines = metric.states[:, list(pair)].T
    # What a failed sample would have scored is not known, so what is to be ruled out must be ruled out for the worst.
    n_failed, lowest, highest = possible_differences(metric, *pair)
    worst = lowest if metric.higher_is_better else -highest
    low = _at_least(worst, width=metric.high - metric.low, confidence_level=confidence_level)
    state: Literal["ok", "not shown", "untestable"] = "ok"
    if not found.n:
        state = "untestable"
    elif margin is not None and (low is None or low <= -margin):
        state = "not shown"
    return MetricGate(
        candidate=candidate,
        metric=metric.name,
        state=state,
        n=found.n,
        gain=found.difference,
        low=low,
        p_value=found.p_value,
        margin=margin,
        n_failed=n_failed,
        n_not_applicable=int(((candidates == NOT_APPLICABLE) & (baselines == SCORED)).sum()),
        worst=float(worst.mean()) if worst.size else None,
        in_points=(metric.low, metric.high) == (0.0, 1.0),
    )


def _at_least(difference: NDArray[np.float64], *, width: float, confidence_level: float) -> float | None:
    """Bound the mean of differences from below, one-sided.

    Differences are often 0 with a few large ones among them, and then neither permutations nor the normal approximation
    bound what other samples would show. The interval of a bounded mean does, at any number of samples; it gives half its
    error to each side. Where no sample differs at all, the share of those that do is bounded by the chance to see none,
    and none of them costs more than the range.
    """
    n = difference.size
    if not n or math.isinf(difference.min()):
        return None
    if math.isfinite(width) and not difference.any():
        return -width * (1 - math.pow(1 - confidence_level, 1 / n))
    low = mean_interval(difference.tolist(), low=-width, high=width, confidence_level=2 * confidence_level - 1).low
    return low if math.isfinite(low) else None


def _verdict(gate: MetricGate) -> str:
    match gate.state:
        case "worse":
            return f"WORSE (p {format_p_value(gate.p_value)})"
        case "not shown":
            return f"NOT SHOWN to lose less than {format_difference(gate.margin or 0.0, points=gate.in_points)}"
        case "untestable":
            return "UNTESTABLE: no sample has a score of both"
    if gate.margin is not None:
        return f"loses less than {format_difference(gate.margin, points=gate.in_points)}"
    return f"not shown to be worse (p {format_p_value(gate.p_value)})"
