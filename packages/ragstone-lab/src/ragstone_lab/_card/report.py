"""`JudgeCard`: agreement, effects of conditions, variance and cost of judges, sentences from them, and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from ragstone.extension import text_table
from ragstone.judges import BASELINE_NOTE
from ragstone.schema import Outcome, Usage
from ragstone.stats import Estimate, FlipRate, VarianceSplit, landis_koch
from ragstone_lab._card.conditions import Condition
from ragstone_lab._report import plain_fields, points, result_table, share
from ragstone_lab._run import RunResult
from ragstone_lab._validation.agreement import LabelAgreement
from ragstone_lab._validation.report import label_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionEffect:
    """How the scores of one metric change under a condition, on the same samples."""

    condition: str
    difference: Estimate
    """Mean difference condition - usual, in points (hundredths of the metric's range)."""
    changed: Estimate
    """Share of samples whose score changes by more than the flip threshold."""
    correlation: Estimate | None
    """Spearman's correlation of both scores, or None if one of them is constant."""
    n: int
    n_unscored: int
    """Number of samples without a score in one of both. They are excluded."""
    people: LabelAgreement | None = None
    """Agreement with people under the condition, for "reasoned"."""
    people_usual: LabelAgreement | None = None
    """Agreement of the usual scores with people, on the same samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfPreference:
    """Whether a judge rates answers of its own model better than people do, compared with answers of other models."""

    difference: Estimate | None
    """judge - people for answers of the judge's model, minus the same for other models, in points. None: not known."""
    n_own: int
    n_other: int
    n_unknown: int
    """Labeled answers whose model is not known. No other number includes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricReport:
    """What the card says about one metric of one judge."""

    metric: str
    range: tuple[float, float]
    agreement: LabelAgreement | None
    """Agreement with people, bias, and the estimated human mean. None without labels of this metric."""
    parts: LabelAgreement | None
    """Agreement with labels of claims, sub-questions, or passages and sub-questions, in their own numbers. None
    without."""
    self_preference: SelfPreference
    repeats: FlipRate | None
    """Variation of repeated scores, as shares of the metric's range."""
    effects: tuple[ConditionEffect, ...]
    variance: VarianceSplit | None
    """Variance by question, wording and repeat, in squared points. None with fewer than two complete samples."""

    def effects_of(self, condition: Condition) -> tuple[ConditionEffect, ...]:
        """Return the effects of a condition: one for each wording or order."""
        return tuple(effect for effect in self.effects if effect.condition.split()[0] == condition)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """Usage of all runs with one condition."""

    condition: str
    n_samples: int
    usage: Usage

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"condition": self.condition, "n_samples": self.n_samples, **self.usage.model_dump()}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReport:
    """What the card says about one judge."""

    judge: str
    judge_hash: str
    is_baseline: bool
    refused_parameters: tuple[str, ...]
    metrics: tuple[MetricReport, ...]
    costs: tuple[RunCost, ...]
    n_failed: int
    """Number of failed outcomes, over all runs."""
    is_complete: bool
    """False if the budget was exhausted before the last run."""


_Z: Final = 1.96
_SHOWN: Final = 0.05
"""Smallest number of points that is not printed as 0.0."""
_COMPARED: Final = 100
"""Number of questions for which the noise of a comparison is stated."""


def findings_of(judges: Sequence[JudgeReport], joint: Mapping[str, VarianceSplit]) -> tuple[str, ...]:
    """Return the findings about each judge and metric, and about all judges together."""
    found: list[str] = []
    for judge in judges:
        prefix = f"{judge.judge}, " if len(judges) > 1 else ""
        for metric in judge.metrics:
            found += [f"{prefix}{metric.metric}: {sentence}" for sentence in _about(metric)]
        if judge.is_baseline:
            found.append(f"{judge.judge}: {BASELINE_NOTE}")
        if not judge.is_complete:
            found.append(f"{judge.judge}: the budget was exhausted, so that some conditions were not measured")
        if judge.refused_parameters:
            refused = ", ".join(judge.refused_parameters)
            found.append(f"{judge.judge} refuses {refused}: the settings of its server applied")
    for name, split in joint.items():
        own, single = split.component("judge"), split.component("question", "judge")
        if own is not None and single is not None:
            found.append(
                f"{name}: the judge accounts for {own.share:.0%} of the variance, and {single.share:.0%} is "
                "disagreement of the judges about single answers. Compare systems only with scores of the same judge"
            )
    return tuple(found)


def _about(metric: MetricReport) -> Iterator[str]:
    yield from _about_people(metric)
    if effects := metric.effects_of("wording"):
        n, means = len(effects) + 1, [0.0, *(effect.difference.value for effect in effects)]
        if any(map(_is_shift, effects)):
            size = max(means) - min(means)
            yield (
                f"a difference below {_whole_points(size)} points between systems is within what this judge's wording "
                f"moves (the means of {n} wordings of the same task are up to {size:.1f} points apart)"
            )
        else:
            limit = _whole_points(_largest_shift(effects))
            yield f"no effect of {n} wordings on the mean found (a shift above {limit} points is excluded)"
    if (noise := _noise(metric)) is not None and noise >= _SHOWN:
        yield (
            f"with {_COMPARED} questions and the same wording for both systems, the judge's own variation adds up to {noise:.1f} "
            "points to a difference (95%)"
        )
    yield from _about_order(metric)
    if metric.repeats is not None:
        rate = metric.repeats
        yield (
            f"{rate.pairs.value:.0%} [{100 * rate.pairs.low:.0f}, {100 * rate.pairs.high:.0f}] of the pairs of "
            f"repeated scores differ by more than {rate.threshold:g} points"
        )
    for effect in metric.effects_of("reasoned"):
        yield _about_variant(effect)


def _about_people(metric: MetricReport) -> Iterator[str]:
    found = metric.agreement
    if found is None:
        return
    name, value = found.coefficient
    if value is None:
        yield f"agreement with people is undefined, because all {found.n} labels or scores are equal"
    else:
        shown = f"({name} {value.value:.2f} [{value.low:.2f}, {value.high:.2f}], {found.n} labels)"
        if value.low <= 0:
            yield f"agreement with people is not significantly better than chance {shown}"
        elif name == "Spearman":
            yield f"scores and labels are correlated {shown}"
        else:
            yield f"agreement with people is {landis_koch(value.value)} {shown}"
    people = None if found.people is None else found.people.coefficient
    judge = found.krippendorff.coefficient
    if people is not None and judge is not None:
        yield (
            f"people agree with each other with alpha {people.value:.2f} [{people.low:.2f}, {people.high:.2f}], and "
            f"the judge with people with alpha {judge.value:.2f} [{judge.low:.2f}, {judge.high:.2f}]"
        )
    yield _about_own_model(metric.self_preference)
    if found.bias is not None:
        width = 100 / (metric.range[1] - metric.range[0])
        bias = found.bias
        size, limit = abs(bias.value) * width, max(abs(bias.low), abs(bias.high)) * width
        if bias.low > 0 or bias.high < 0:
            side = "higher" if bias.value > 0 else "lower"
            yield (
                f"the judge scores {size:.1f} points {side} than people "
                f"[{bias.low * width:+.1f}, {bias.high * width:+.1f}]. Correct means by this, or report the corrected mean"
            )
        else:
            yield f"no bias found (a bias above {_whole_points(limit)} points is excluded)"


def _about_own_model(found: SelfPreference) -> str:
    unknown = f", {found.n_unknown} of an unknown model left out" if found.n_unknown else ""
    counts = f"{found.n_own} labeled answers of its own model, {found.n_other} of other models{unknown}"
    if found.difference is None:
        return f"self-preference is not known ({counts}; a column 'model' of the data names the model of each answer)"
    size, shown = found.difference.value, points(found.difference)
    if found.difference.low <= 0 <= found.difference.high:
        return f"no self-preference found: judge - people for its own model, minus others, {shown} points ({counts})"
    side = "better" if size > 0 else "worse"
    return f"the judge rates answers of its own model {side}, compared with people and other models: {shown} points ({counts})"


def _noise(metric: MetricReport) -> float | None:
    """Return the 95% limit of what wording and repeats add to a difference of two systems, each with other answers."""
    split = metric.variance
    if split is None:
        return None
    parts = [split.component("question", "wording"), split.component("repeat")]
    known = [part.variance.value for part in parts if part is not None]
    return _Z * math.sqrt(2 * math.fsum(known) / _COMPARED) if known else None


def _about_order(metric: MetricReport) -> Iterator[str]:
    effects = metric.effects_of("order")
    shifted = [effect for effect in effects if _is_shift(effect)]
    for effect in shifted:
        yield f"passages in {effect.condition.split()[1]} order change the mean by {points(effect.difference)} points"
    if effects and not shifted:
        limit = math.ceil(_largest_shift(effects))
        yield f"no effect of the order of the passages on the mean found (a shift above {limit} points is excluded)"


def _whole_points(size: float) -> int:
    """Return the smallest whole number of points that is not smaller, at least 1."""
    return max(1, math.ceil(size - _SHOWN))


def _is_shift(effect: ConditionEffect) -> bool:
    return not effect.difference.low <= 0 <= effect.difference.high


def _largest_shift(effects: Sequence[ConditionEffect]) -> float:
    """Return the largest shift that the intervals do not exclude."""
    return max(max(abs(effect.difference.low), abs(effect.difference.high)) for effect in effects)


def _about_variant(effect: ConditionEffect) -> str:
    text = f"reasons before the number ({effect.condition}): mean {points(effect.difference)} points"
    if effect.correlation is not None:
        text += f", correlation with the usual scores {effect.correlation.value:.2f}"
    if effect.people is not None and effect.people_usual is not None:
        name, value = effect.people.coefficient
        _, usual = effect.people_usual.coefficient
        if value is not None and usual is not None:
            text += f", agreement with people {name} {value.value:.2f} (usual: {usual.value:.2f})"
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCard(RunResult):
    """The result of `judge_card`."""

    counted: ClassVar = "judged outcomes"

    judges: tuple[JudgeReport, ...]
    joint: Mapping[str, VarianceSplit]
    """Variance by question, judge, wording and repeat, by metric, in squared points. Empty with one judge."""
    n_samples: int
    n_crossed: int
    repeats: int
    conditions: tuple[Condition, ...]
    flip_threshold: float
    confidence_level: float
    seed: int
    wordings_hash: str
    """Hash of the paraphrases. Cards with different hashes do not measure the same wordings."""
    outcomes: tuple[Outcome, ...]
    """All outcomes of all runs."""

    def findings(self) -> tuple[str, ...]:
        """Return what the numbers mean, as sentences."""
        return findings_of(self.judges, self.joint)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return plain_fields(self, "outcomes", "counts") | {"findings": [*self.findings()]}

    def __str__(self) -> str:
        ci = f"[{self.confidence_level:.0%} CI]"
        metrics = [(judge.judge, metric) for judge in self.judges for metric in judge.metrics]
        found = [(name, each) for name, metric in metrics for each in (metric.agreement, metric.parts)]
        agreed = [replace(each, system=name) for name, each in found if each is not None]
        parts = ["\n".join(f"- {finding}" for finding in self.findings()), label_tables(agreed, ci)]
        for judge in self.judges:
            splits = {metric.metric: metric.variance for metric in judge.metrics if metric.variance is not None}
            costs = result_table(judge.costs, _COSTS, align="lrrrrrr")
            parts += [f"judge {judge.judge}", _effects(judge, ci), _variance(splits, ci), costs]
        if self.joint:
            parts += ["all judges", _variance(self.joint, ci)]
        conditions = (
            f"conditions: {self.n_crossed} labeled samples, {self.repeats} repeats. A score changes if it differs by "
            f"more than {100 * self.flip_threshold:g} points"
        )
        notes = ["points: hundredths of the metric's range", conditions, *self.run_lines()]
        return "\n\n".join(filter(None, [*parts, "\n".join(notes)]))


def _effects(judge: JudgeReport, ci: str) -> str:
    rows = [("metric", "condition", "n", f"mean change, points {ci}", f"changed scores {ci}")]
    for metric in judge.metrics:
        if (flips := metric.repeats) is not None:
            spread = f"SD of a reply {flips.spread:.1f}"
            rows.append((metric.metric, "repeats", str(flips.n), spread, share(flips.items)))
        for effect in metric.effects:
            n = f"{effect.n}" + (f" ({effect.n_unscored} not scored)" if effect.n_unscored else "")
            rows.append((metric.metric, effect.condition, n, points(effect.difference), share(effect.changed)))
    return "" if len(rows) == 1 else text_table(rows, n_keys=2)


def _variance(splits: Mapping[str, VarianceSplit], ci: str) -> str:
    rows = [("variance", "source", "share", f"SD in points {ci}", "df")]
    for metric, split in splits.items():
        for component in split.components:
            is_both = split.is_confounded and component is split.components[-1]
            name = component.name + (" + repeat" if is_both else "")
            rows.append((metric, name, f"{component.share:.0%}", points(component.sd, sign=""), str(component.df)))
    return text_table(rows, n_keys=2) if splits else ""


_COSTS: Final[dict[str, Callable[[RunCost], str]]] = {
    "cost": lambda cost: cost.condition,
    "samples": lambda cost: str(cost.n_samples),
    "calls": lambda cost: str(cost.usage.calls),
    "from cache": lambda cost: str(cost.usage.cached),
    "input tokens": lambda cost: str(cost.usage.input_tokens),
    "output tokens": lambda cost: str(cost.usage.output_tokens),
    "USD": lambda cost: cost.usage.cost_text,
}
