"""Parts of a judge card: agreement, effects of conditions, variance and cost of one judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragstone.schema import Usage
from ragstone.stats import Estimate, FlipRate, VarianceSplit
from ragstone_lab._card.conditions import Condition
from ragstone_lab._validation.agreement import LabelAgreement


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
    """Agreement with labels of claims, sub-questions, or passages and sub-questions, in their own numbers. None without."""
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
