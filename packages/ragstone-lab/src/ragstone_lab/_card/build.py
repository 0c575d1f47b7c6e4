"""The numbers of a judge card, computed from the scored runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ragstone.experiments import Experiment, read_outcomes
from ragstone.judges import Judge
from ragstone.metrics import MetricCard
from ragstone.reading import LabelRecord
from ragstone.schema import Failure, Usage
from ragstone.stats import (
    VarianceSplit,
    WeightedTerm,
    correlate,
    flip_rate,
    mean_interval,
    split_variance,
    weighted_sum_interval,
)
from ragstone_lab._card.conditions import Run
from ragstone_lab._card.plan import CardPlan
from ragstone_lab._card.report import ConditionEffect, JudgeCard, JudgeReport, MetricReport, RunCost, SelfPreference
from ragstone_lab._card.wordings import WORDINGS_HASH
from ragstone_lab._run import values_of_outcomes
from ragstone_lab._validation.agreement import LabelAgreement, LabelOptions, agreements, estimate_difference

Scored = Sequence[tuple[Judge, Mapping[Run, Experiment]]]

_MODEL: Final = "model"
"""Field of the metadata of a sample with the model that wrote its answer."""
_POINTS: Final = 100.0
"""Differences are stated in points: hundredths of the metric's range."""
_SAME: Final = 1e-9
"""Difference of equal scores, by rounding."""


def build_card(
    plan: CardPlan, scored: Scored, options: LabelOptions, *, flip_threshold: float, called: dict[str, Any]
) -> JudgeCard:
    """Compute the card from the scored runs. `called` are fields of `RunResult`: the calls of all runs."""
    tables = [_Table(judge, runs, plan, options, flip_threshold) for judge, runs in scored]
    names = [table.name for table in tables]
    reports = tuple(
        replace(table.report(), judge=f"{table.name} ({n})" if names.count(table.name) > 1 else table.name)
        for n, table in enumerate(tables, start=1)
    )
    joint: dict[str, VarianceSplit] = {}
    if len(tables) > 1:
        for metric in plan.metrics:
            if (split := _split(tables, metric.card, options.confidence_level)) is not None:
                joint[metric.card.name] = split
    outcomes = {
        report.judge: [o for done in runs.values() for o in done.outcomes]
        for report, (_, runs) in zip(reports, scored, strict=True)
    }
    return JudgeCard(
        judges=reports,
        joint=joint,
        n_samples=len(plan.samples),
        n_crossed=len(plan.crossed),
        repeats=plan.repeats,
        conditions=plan.conditions,
        flip_threshold=flip_threshold,
        confidence_level=options.confidence_level,
        seed=options.seed,
        wordings_hash=WORDINGS_HASH,
        notes=plan.notes,
        outcomes=tuple(o for several in outcomes.values() for o in several),
        **called | values_of_outcomes(outcomes),
    )


class _Table:
    """The scores of one judge in all runs."""

    def __init__(
        self, judge: Judge, runs: Mapping[Run, Experiment], plan: CardPlan, options: LabelOptions, flip_threshold: float
    ) -> None:
        self.plan = plan
        self.runs = runs
        self.identity = judge.identity
        self.name = self.identity.name
        self._options = options
        self._flip_threshold = flip_threshold
        self._systems = {run: read_outcomes(done, name=self.name) for run, done in runs.items()}

    def report(self) -> JudgeReport:
        """Compute everything about this judge."""
        outcomes = [o for done in self.runs.values() for o in done.outcomes]
        return JudgeReport(
            judge=self.name,
            judge_hash=self.identity.hash,
            is_baseline=self.identity.is_baseline,
            refused_parameters=self.identity.refused_parameters,
            metrics=tuple(self._metric(metric.card) for metric in self.plan.metrics),
            costs=self._costs(),
            n_failed=sum(isinstance(o, Failure) for o in outcomes),
            is_complete=all(run in self.runs for run in self.plan.runs if self.plan.samples_of(run)),
        )

    def points(self, run: Run, card: MetricCard) -> dict[str, float]:
        """Return the scores of a run by sample, in points of the metric's range."""
        system = self._systems.get(run)
        values = {} if system is None else system.values(card.name)
        return {id_: _POINTS * (value - card.low) / (card.high - card.low) for id_, value in values.items()}

    def cells(self, card: MetricCard) -> list[list[dict[str, float]]]:
        """Return the scores by wording and repeat."""
        levels = [Run(), *(run for run in self.plan.runs if run.condition == "wording" and not run.repeat)]
        return [
            [self.points(replace(level, repeat=repeat), card) for repeat in range(self.plan.repeats)]
            for level in levels
        ]

    def _metric(self, card: MetricCard) -> MetricReport:
        level = self._options.confidence_level
        cells = self.cells(card)
        rows = [[by.get(sample.id) for by in cells[0]] for sample in self.plan.crossed]
        effects = (self._effect(run, card) for run in self.plan.runs if run.condition != "base" and not run.repeat)
        return MetricReport(
            metric=card.name,
            range=(card.low, card.high),
            agreement=self._agreement(Run(), card.name, self.plan.labels),
            parts=self._agreement(Run(), card.name, self.plan.labels, of_parts=True),
            self_preference=self._self_preference(card),
            repeats=flip_rate(rows, threshold=_POINTS * self._flip_threshold, confidence_level=level),
            effects=tuple(effect for effect in effects if effect is not None),
            variance=_split([self], card, level) if sum(map(len, cells)) > 1 else None,
        )

    def _effect(self, run: Run, card: MetricCard) -> ConditionEffect | None:
        """Compare the scores of a condition with the usual ones, on the samples that have both."""
        if run not in self.runs:
            return None
        usual, changed = self.points(Run(), card), self.points(run, card)
        ids = [sample.id for sample in self.plan.samples_of(run)]
        both = [id_ for id_ in ids if id_ in usual and id_ in changed]
        if not both:
            return None
        before, after = [usual[id_] for id_ in both], [changed[id_] for id_ in both]
        differences = [b - a for a, b in zip(before, after, strict=True)]
        level = self._options.confidence_level
        flips = [float(abs(d) > _POINTS * self._flip_threshold + _SAME) for d in differences]
        has_people = run.condition == "reasoned"
        labels = [label for label in self.plan.labels if {*label.sample_ids} <= {*both}] if has_people else []
        return ConditionEffect(
            condition=run.name,
            difference=estimate_difference(differences, bound=_POINTS, confidence_level=level),
            changed=mean_interval(flips, confidence_level=level),
            correlation=correlate(
                before, after, "spearman", x_range=(0, _POINTS), y_range=(0, _POINTS), confidence_level=level
            ),
            n=len(both),
            n_unscored=len(ids) - len(both),
            people=self._agreement(run, card.name, labels, of_some=True),
            people_usual=self._agreement(Run(), card.name, labels, of_some=True),
        )

    def _agreement(
        self, run: Run, metric: str, labels: Iterable[LabelRecord], *, of_some: bool = False, of_parts: bool = False
    ) -> LabelAgreement | None:
        """Compare the scores of a run with labels, those `of_some` samples on the scale of all labels of the metric."""
        own = [label for label in labels if label.metric in (None, metric)]
        system = self._systems.get(run)
        if system is None:
            return None
        values = system.values(metric)
        if not any(all(id_ in values for id_ in label.sample_ids) for label in own):
            return None
        options = self._options
        if of_some and (usual := self._agreement(Run(), metric, self.plan.labels)) is not None:
            options = replace(options, label_range=usual.label_range)
        found = agreements([system], [metric], own, options)
        return next((each for each in found if (each.level != "answer") == of_parts), None)

    def _self_preference(self, card: MetricCard) -> SelfPreference:
        """Compare judge - people of answers of the judge's model with that of other models."""
        own_model = _model_name(self.name)
        models = {sample.id: sample.metadata.get(_MODEL) for sample in self.plan.samples}
        is_own = {id_: _model_name(m) == own_model if isinstance(m, str) else None for id_, m in models.items()}
        mine = [label for label in self.plan.labels if label.metric in (None, card.name) and label.other_id is None]
        groups = {key: [label for label in mine if is_own[label.key] is key] for key in (True, False, None)}
        n = {key: len({label.key for label in labels}) for key, labels in groups.items()}
        found = [self._agreement(Run(), card.name, groups[key], of_some=True) for key in (True, False)]
        own, other = (each.bias if each is not None and each.n > 1 else None for each in found)
        difference = None
        if own is not None and other is not None:
            factor = _POINTS / (card.high - card.low)
            terms = [
                WeightedTerm(weight=sign * factor, value=each.value, low=each.low, high=each.high, certain=False)
                for sign, each in ((1, own), (-1, other))
            ]
            value, low, high = weighted_sum_interval(terms)
            difference = replace(own, value=value, low=low, high=high, method="mover", n=own.n + other.n)
        return SelfPreference(difference=difference, n_own=n[True], n_other=n[False], n_unknown=n[None])

    def _costs(self) -> tuple[RunCost, ...]:
        costs: dict[str, RunCost] = {}
        for run, done in self.runs.items():
            name = run.name if not run.repeat else "repeats"
            known = costs.get(name, RunCost(condition=name, n_samples=0, usage=Usage()))
            costs[name] = replace(known, n_samples=known.n_samples + len(done.samples), usage=known.usage + done.usage)
        return tuple(costs.values())


def _model_name(text: str) -> str:
    """Return the name of a model without the endpoint, the organization and the score mode."""
    return text.partition(" at ")[0].partition(" (")[0].rpartition("/")[2].strip().casefold()


def _split(tables: Sequence[_Table], card: MetricCard, confidence_level: float) -> VarianceSplit | None:
    """Split the variance over the samples that have a score in every cell."""
    cells = [table.cells(card) for table in tables]
    flat = [by for table in cells for wording in table for by in wording]
    ids = [sample.id for sample in tables[0].plan.crossed if all(sample.id in by for by in flat)]
    if len(ids) < 2:
        return None
    values = [[[[by[id_] for by in wording] for wording in table] for table in cells] for id_ in ids]
    return split_variance(values, ("question", "judge", "wording"), confidence_level=confidence_level)
