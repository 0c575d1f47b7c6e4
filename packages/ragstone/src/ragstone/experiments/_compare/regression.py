"""Regression gates: tests if a candidate is worse than the baseline."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from typing_extensions import override

from ragstone._util.table import text_table
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._cards import titles_of
from ragstone.experiments._clusters import AUTO_CLUSTER, NO_CLUSTER
from ragstone.experiments._compare.align import align
from ragstone.experiments._compare.pairs import permute_pairs, possible_differences
from ragstone.experiments._compare.text import format_difference, format_p_value
from ragstone.experiments._gates import GateCase, GateCheck
from ragstone.experiments._outcomes import OutcomeSource
from ragstone.experiments._summary import check_level
from ragstone.experiments._table import FAILED, NOT_APPLICABLE, SCORED, MetricScores, ScoreTable
from ragstone.metrics import full_name, selects
from ragstone.settings import Analysis, read_table
from ragstone.stats import holm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGate:
    """The gate's result for one candidate on one metric."""

    candidate: str
    metric: str
    state: Literal["ok", "worse", "not shown", "untestable"]
    """ "worse": significantly worse. "not shown": a loss of the margin or more is not excluded. "untestable": no sample
    has scores of both, which fails the gate too."""
    n: int
    """Number of samples with a score of both."""
    gain: float | None
    """Mean of candidate - baseline, positive if the candidate is better."""
    low: float | None
    """One-sided lower confidence bound of the gain, for the worst scores of failed samples. None if unknown."""
    high: float | None
    """One-sided upper confidence bound of the gain, for the best scores of failed samples, if equivalence is tested."""
    p_value: float | None
    """P-value of the randomization test that the candidate is worse. Without a margin, adjusted for all metrics and
    candidates."""
    margin: float | None
    n_failed: int
    """Number of samples on which at least one of the two failed."""
    n_not_applicable: int
    """Number of samples with a score of the baseline to which the metric is not applicable for the candidate."""
    worst: float | None
    """The gain for the worst possible scores of failed samples."""
    in_points: bool

    @property
    def ok(self) -> bool:
        """Whether this metric passes the gate."""
        return self.state == "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionCheck(GateCheck):
    """The result of a regression gate."""

    baseline: str
    gates: tuple[MetricGate, ...]
    confidence_level: float
    equivalence: bool = False
    """Whether a gain of the margin must be excluded too, so that only equivalent systems pass."""
    notes: tuple[str, ...] = ()

    suite: ClassVar[str] = "ragstone regression"

    @override
    def cases(self) -> list[GateCase]:
        return [
            GateCase(
                metric=g.metric,
                system=g.candidate,
                state="passed" if g.ok else "error" if g.state == "untestable" else "failed",
                value="no common score"
                if g.gain is None
                else f"gain {format_difference(g.gain, points=g.in_points, sign=True)} (n = {g.n:,})",
                verdict=_verdict(g, equivalence=self.equivalence),
            )
            for g in self.gates
        ]

    @override
    def head(self) -> str:
        # `assert_no_regression` names its systems "baseline" and "candidate".
        against = "baseline" if self.baseline == "baseline" else f"baseline {self.baseline}"
        n_bad = sum(not g.ok for g in self.gates)
        good = "equivalent on all metrics" if self.equivalence else "no regression found"
        return f"{against}: " + (good if self.ok else f"FAILED on {n_bad} of {len(self.gates)}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        gates = [
            asdict(g) | {"worst": g.worst if g.worst is not None and math.isfinite(g.worst) else None}
            for g in self.gates
        ]
        return {"ok": self.ok, **asdict(self), "gates": gates}

    def __str__(self) -> str:
        return self.describe()

    def describe(self, *, printed: Collection[str] = ()) -> str:
        """Return the result as text, without notes that were printed already, as those of the comparison."""
        most = ["at most"] if self.equivalence else []
        rows = [("metric", "candidate", "gain over the baseline", "at least", *most, "n", "verdict")]
        rows += [
            (
                g.metric,
                g.candidate,
                "no common score" if g.gain is None else format_difference(g.gain, points=g.in_points, sign=True),
                *(
                    "unknown" if end is None else format_difference(end, points=g.in_points, sign=True)
                    for end in ([g.low, g.high] if self.equivalence else [g.low])
                ),
                str(g.n),
                _verdict(g, equivalence=self.equivalence),
            )
            # Failed gates come first.
            for g in sorted(self.gates, key=lambda gate: gate.ok)
        ]
        margins = any(g.margin is not None for g in self.gates)
        rule = (
            f"A metric passes if both one-sided {self.confidence_level:.0%} confidence bounds of its gain are closer "
            "to 0 than the margin (two one-sided tests)."
            if self.equivalence
            else f"A metric passes if the lower {self.confidence_level:.0%} confidence bound of its gain is above minus the margin."
            if margins
            else f"A metric fails if it is significantly worse (confidence level {self.confidence_level:.0%} for all metrics together)."
        )
        failed = [
            f"{g.metric}: the gain of {g.candidate} excludes {g.n_failed} failed samples. With their worst possible "
            f"scores, it would be {format_difference(g.worst, points=g.in_points, sign=True)}."
            for g in self.gates
            if g.n_failed and g.worst is not None
        ]
        absent = [
            f"{g.metric}: the gain excludes {g.n_not_applicable} samples with a score of {self.baseline}, to which the "
            f"metric is not applicable for {g.candidate}."
            for g in self.gates
            if g.n_not_applicable
        ]
        table = text_table(rows, n_keys=2, titles=titles_of(g.metric for g in self.gates))
        notes = [note for note in self.notes if note not in printed]
        return "\n".join([self.head(), "", table, "", rule, *failed, *absent, *notes])


def check_regression(
    table: ScoreTable,
    analysis: Analysis,
    *,
    baseline: str,
    metrics: Sequence[str] | str | None = None,
    margin: float | Mapping[str, float] | None = None,
    equivalence: bool = False,
    notes: Sequence[str] = (),
) -> RegressionCheck:
    """Compare every other system with the baseline, one-sided.

    Without a margin, a metric fails if the candidate is significantly worse. The probability that any metric fails
    although none became worse is at most 1 - the confidence level (Holm). With a margin, a metric passes only if a loss
    of the margin or more is excluded for any scores of failed samples. Because all metrics must pass, the probability
    of passing in spite of such a loss on any metric is at most 1 - the confidence level without a correction
    (intersection-union test). With `equivalence`, a gain of the margin or more must be excluded too (two one-sided tests, Schuirmann 1987).
    """
    confidence_level = analysis.confidence_level
    check_level(confidence_level, decides_gate=True)
    at = table.column_of(baseline, "baseline")
    chosen, left_out = _chosen(table, at, [metrics] if isinstance(metrics, str) else metrics)
    if isinstance(margin, Mapping):
        margin = {full_name(name): value for name, value in margin.items()}
    if isinstance(margin, Mapping) and (missing := sorted({m.name for m in chosen} - margin.keys())):
        raise ConfigurationError(
            f"margin lacks {', '.join(missing)}. Give a margin for every metric of the gate, or one number for all."
        )
    gates = [
        _gate(
            metric,
            table,
            (i, at),
            analysis,
            margin=margin[metric.name] if isinstance(margin, Mapping) else margin,
            equivalence=equivalence,
        )
        for metric in chosen
        for i in range(len(table.systems))
        if i != at
    ]
    if margin is None:
        corrected = holm([gate.p_value for gate in gates], confidence_level=confidence_level)
        gates = [
            gate if gate.p_value is None else replace(gate, p_value=p, state="worse" if worse else "ok")
            for gate, p, worse in zip(gates, corrected.adjusted, corrected.rejected, strict=True)
        ]
    return RegressionCheck(
        baseline=baseline,
        gates=tuple(gates),
        confidence_level=confidence_level,
        equivalence=equivalence,
        notes=(*left_out, *notes),
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
    cluster: str | None = AUTO_CLUSTER,
) -> None:
    """Raise AssertionError if a candidate is worse than the baseline.

    Args:
        baseline: The current system: an `Experiment`, a file of outcomes (`ragstone evaluate --output`), or a store.
        candidate: The new system, evaluated on the same samples.
        metrics: Names or groups that the gate checks. Default: all.
        margin: None fails significantly worse metrics: with few samples, even a large loss can pass. With a
            number in the metric's own units (or with numbers by metric), the check fails unless a loss of the margin or
            more is excluded. For a metric from 0 to 1, 0.01 is one point. This gate is stricter: it needs enough
            samples, and each failed sample counts with its worst possible score.
        confidence_level: One minus the probability of an error: of failing although nothing became worse, or with a
            margin, of passing in spite of such a loss.
        n_permutations: Number of permutations.
        seed: Seed of the random numbers. The same seed gives the same result on any machine.
        allow_different_judges: Compare scores of different judges or metric versions.
        cluster: Key of the clusters of samples, as for `compare`.

    Raises:
        AssertionError: If the candidate is worse, a loss is not excluded, or a metric is untestable. The message is a table.
        ConfigurationError: If a source does not exist, or scores are on different scales.
        DataError: If the sources do not share samples.

    Examples:
        >>> import ragstone
        >>> rows = [{"id": str(i), "query": "Why?", "contexts": ["Rain."], "response": "Rain."} for i in range(9)]
        >>> result = ragstone.evaluate(rows, ["ccrs.qr"], judge="lexical")
        >>> ragstone.assert_no_regression(result, result)
    """
    __tracebackhide__ = True  # pytest then shows the caller's line
    check_level(confidence_level, decides_gate=True)
    stated = {
        "cluster": NO_CLUSTER if cluster is None else cluster,
        "confidence_level": confidence_level,
        "n_permutations": n_permutations,
        "seed": seed,
        "allow_different_judges": allow_different_judges,
    }
    analysis = read_table(Analysis, stated, source="assert_no_regression()")
    scores = align({"baseline": baseline, "candidate": candidate}, analysis, metrics=metrics)
    check = check_regression(scores.table, analysis, baseline="baseline", margin=margin, notes=scores.notes)
    if not check.ok:
        raise AssertionError(str(check))


def _chosen(table: ScoreTable, baseline: int, names: Sequence[str] | None) -> tuple[list[MetricScores], list[str]]:
    """Return the metrics of the gate (the named ones, or all that the baseline was scored or failed on) and notes."""
    metrics = table.metrics.values()
    if names is None:
        scored = [m for m in metrics if m.count(SCORED, baseline) or m.count(FAILED, baseline)]
        new = [m.name for m in metrics if m not in scored]
        if not scored:
            raise DataError(f"the baseline {table.systems[baseline]!r} does not have a score of any metric")
        return scored, [f"not in the gate, because the baseline does not have scores: {', '.join(new)}"] if new else []
    for name in names:
        if not any(selects(name, m.name, m.card) for m in metrics):
            raise ConfigurationError(f"unknown metric {name!r} for the gate. Compared: {', '.join(table.metrics)}.")
    return [m for m in metrics if any(selects(name, m.name, m.card) for name in names)], []


def check_margin(metric: MetricScores, margin: float | None) -> None:
    """Check a margin. None: without a margin.

    Raise ConfigurationError if it is not a finite number above 0 and below the width of the metric's range.
    """
    if margin is not None and not (math.isfinite(margin) and margin > 0):
        raise ConfigurationError(f"margin must be a finite number above 0, in the metric's own units, got {margin!r}")
    if margin is not None and margin >= metric.high - metric.low:
        raise ConfigurationError(
            f"margin must be below the range of {metric.name}, which is {metric.high - metric.low:g}, got {margin!r}: "
            "every change would pass. Give it in the metric's own units: 0.02 is two points of a metric from 0 to 1"
        )


def _gate(
    metric: MetricScores,
    table: ScoreTable,
    pair: tuple[int, int],
    analysis: Analysis,
    *,
    margin: float | None,
    equivalence: bool,
) -> MetricGate:
    import numpy as np

    check_margin(metric, margin)
    sign = 1 if metric.higher_is_better else -1
    better = sign * metric.values[:, list(pair)]
    (result,) = permute_pairs([better], table, [(0, 1)], analysis, "less")
    (test,) = result.pairs
    candidates, baselines = metric.states[:, list(pair)].T
    n_failed, rows, lowest, highest = possible_differences(metric, *pair)
    worst = lowest if metric.higher_is_better else -highest
    low = least_gain(metric, table, pair, analysis.confidence_level)
    high = None
    if equivalence:
        most = least_gain(metric, table, (pair[1], pair[0]), analysis.confidence_level)
        high = None if most is None else -most
    state: Literal["ok", "not shown", "untestable"] = "ok"
    if not test.n:
        state = "untestable"
    elif margin is not None and (low is None or low <= -margin or (equivalence and (high is None or high >= margin))):
        state = "not shown"
    return MetricGate(
        candidate=table.systems[pair[0]],
        metric=metric.name,
        state=state,
        n=test.n,
        gain=test.difference,
        low=low,
        high=high,
        p_value=test.p_value,
        margin=margin,
        n_failed=n_failed,
        n_not_applicable=int(((candidates == NOT_APPLICABLE) & (baselines == SCORED)).sum()),
        worst=float(np.average(worst, weights=table.weights[rows])) if worst.size else None,
        in_points=(metric.low, metric.high) == (0.0, 1.0),
    )


def least_gain(metric: MetricScores, table: ScoreTable, pair: tuple[int, int], confidence_level: float) -> float | None:
    """Return a one-sided lower confidence bound of the mean gain of the first system, weighted and over clusters.

    The scores of failed samples are unknown, so the bound is for their worst possible scores.

    Most differences are often 0 and a few are large. Then neither permutations nor the normal approximation give a
    valid bound. The one-sided interval of a bounded mean does for any number of samples. If no sample differs, the
    bound follows from the probability to observe no differing sample, each of which costs at most the range.
    """
    import numpy as np

    _, rows, lowest, highest = possible_differences(metric, *pair)
    difference, width = lowest if metric.higher_is_better else -highest, metric.high - metric.low
    if not difference.size or math.isinf(difference.min()):
        return None
    if math.isfinite(width) and not difference.any():
        weights: NDArray[np.float64] = table.weights[rows]
        if table.clusters is not None:
            weights = np.bincount(table.clusters[rows], weights=weights).astype(float)
        n = float(weights.sum() ** 2 / (weights**2).sum())  # effective number of independent clusters
        return -width * (1 - math.pow(1 - confidence_level, 1 / n))
    estimate = table.estimate(difference, rows, low=-width, high=width, confidence_level=confidence_level, side="lower")
    return estimate.low if estimate is not None and math.isfinite(estimate.low) else None


def _verdict(gate: MetricGate, *, equivalence: bool = False) -> str:
    what, verb = ("difference", "differs by") if equivalence else ("loss", "loses")
    match gate.state:
        case "worse":
            return f"WORSE (p {format_p_value(gate.p_value)})"
        case "not shown":
            return (
                f"NOT SHOWN: the {what} may be {format_difference(gate.margin or 0.0, points=gate.in_points)} or more"
            )
        case "untestable":
            return "UNTESTABLE: no sample has a score of both"
    if gate.margin is not None:
        return f"{verb} less than {format_difference(gate.margin, points=gate.in_points)}"
    return f"not shown to be worse (p {format_p_value(gate.p_value)})"
