"""What the numbers of a judge card mean, in sentences that are computed from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ragstone.judges import BASELINE_NOTE
from ragstone.stats import VarianceSplit, landis_koch
from ragstone_lab._card.model import ConditionEffect, JudgeReport, MetricReport, SelfPreference
from ragstone_lab._report import points

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
