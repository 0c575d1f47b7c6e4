"""The plan of a judge card: samples, labels, runs and their cost. Planning does not call a judge."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.extension import count
from ragstone.metrics import EmbedderMetric, Metric, ReaderMetric, all_metrics, check_sample, full_name, resolve_metrics
from ragstone.reading import LabelFile, LabelRecord, SampleSource, read_samples
from ragstone.schema import Sample, Usage
from ragstone.scoring import estimate_run, run_async
from ragstone.settings import check
from ragstone_lab._card.conditions import CONDITIONS, DEFAULT_CONDITIONS, Condition, Run, reordered
from ragstone_lab._card.wordings import N_WORDINGS
from ragstone_lab._validation.labels import compared_notes, labels_of, read_labels

_MIN_LABELS: Final = 10
_RECOMMENDED: Final = 50
_EXAMPLE: Final = 0.6
"""Agreement for which the expected interval is stated."""
_MOST_ESTIMATED: Final = 200
_REASON_TOKENS: Final = 200
"""Reply tokens of reasons, for estimates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPlan:
    """What a judge card will score, and its cost."""

    samples: tuple[Sample, ...]
    labels: tuple[LabelRecord, ...]
    metrics: tuple[Metric, ...]
    crossed: tuple[Sample, ...]
    """Labeled samples that are scored under all conditions."""
    conditions: tuple[Condition, ...]
    repeats: int
    seed: int
    n_judges: int = 1
    n_unknown: int = 0
    """Number of labeled ids that no sample has."""
    notes: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    """Estimated calls and tokens of all judges together. Tokens are estimated from characters."""

    @property
    def n_labeled(self) -> dict[str, int]:
        """Number of labeled samples or pairs, by metric."""
        return {metric.card.name: len(_labeled(self.labels, metric)) for metric in self.metrics}

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of each judge, in order."""
        repeats = range(self.repeats)
        runs = [Run(repeat=repeat) for repeat in repeats]
        if "wording" in self.conditions:
            runs += [
                Run(condition="wording", level=n, repeat=repeat) for n in range(1, N_WORDINGS + 1) for repeat in repeats
            ]
        if "order" in self.conditions:
            runs += [Run(condition="order", level=level) for level in (1, 2)]
        if "reasoned" in self.conditions:
            runs.append(Run(condition="reasoned"))
        return tuple(runs)

    def samples_of(self, run: Run) -> tuple[Sample, ...]:
        """Return the samples of a run: all in the first one, otherwise labeled ones, with their passages in its order."""
        if run == Run():
            return self.samples
        if run.condition != "order":
            return self.crossed
        return tuple(sample for each in self.crossed if (sample := reordered(each, run, self.seed)) is not None)

    @property
    def n_scored(self) -> int:
        """Number of scored samples, over all runs and judges."""
        return self.n_judges * sum(len(self.samples_of(run)) for run in self.runs)

    def __str__(self) -> str:
        n = max(self.n_labeled.values())
        judges = "1 judge" if self.n_judges == 1 else f"{self.n_judges} judges"
        lines = [
            (
                f"{n} labeled of {count(len(self.samples), 'sample')}, {count(len(self.metrics), 'metric')}, {judges}, {len(self.runs)} runs each: "
                f"{', '.join(dict.fromkeys(run.name for run in self.runs))}; repeats: {self.repeats}"
            ),
            f"conditions are measured on {len(self.crossed)} labeled samples (research.max_crossed)",
            _describe_width(n),
            *self.notes,
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "n_samples": len(self.samples),
            "n_labeled": self.n_labeled,
            "n_unknown_labels": self.n_unknown,
            "n_crossed": len(self.crossed),
            "metrics": [metric.card.name for metric in self.metrics],
            "conditions": list(self.conditions),
            "repeats": self.repeats,
            "n_judges": self.n_judges,
            "runs": [
                {"condition": run.name, "repeat": run.repeat, "n": len(self.samples_of(run))} for run in self.runs
            ],
            "notes": list(self.notes),
        }


def plan_judge_card(
    labels: SampleSource,
    data: SampleSource | None = None,
    *,
    metrics: str | Metric | Sequence[str | Metric] | None = None,
    conditions: Sequence[str] = DEFAULT_CONDITIONS,
    repeats: int = 2,
    max_crossed: int = 50,
    label_columns: Sequence[str] = (),
    label_range: tuple[float, float] | None = None,
    label_values: Sequence[str] = (),
    fields: Mapping[str, str] | None = None,
    seed: int = 0,
    n_judges: int = 1,
) -> CardPlan:
    """Check the labels and options of a judge card, and estimate its cost, without calling a judge.

    The other arguments are those of `judge_card`, for `n_judges` judges.

    Raises:
        ConfigurationError: If a metric or condition is unknown or cannot be measured, or an option is out of range.
        DataError: If rows or labels are invalid, labels do not match any sample, or a metric has fewer than 10 labels.
    """
    check("research", "plan_judge_card", repeats=repeats, max_crossed=max_crossed)
    stated = None if metrics is None else _check_metrics(resolve_metrics(metrics))
    possible = [metric.card.name for metric in stated or all_metrics() if metric.card.asks_judge]
    of_labels = fields if data is None else None
    file = read_labels(
        labels,
        metrics=possible,
        columns=label_columns,
        label_range=label_range,
        categories=label_values,
        fields=of_labels,
    )
    chosen = stated or _choose_metrics(file, possible)
    names = [metric.card.name for metric in chosen]
    found = _of_one_system(labels_of(file, names, is_stated=metrics is not None, has_positions=data is None))
    # Rows of several people repeat an answer, and have ids of their own.
    named = {"id": "id", **(fields or {})} if data is None else fields
    samples, _ = read_samples(file.samples if data is None else data, fields=named)
    known = {sample.id for sample in samples}
    mine = [label for label in found if known.issuperset(label.sample_ids)]
    if not mine:
        raise DataError(
            f"no label has the id of a sample (labels: {found[0].sample_id!r}, ...; samples: "
            f"{', '.join(repr(sample.id) for sample in samples[:3])}, ...). Use the same ids in both files"
        )
    _check_applicable(chosen, samples, mine)
    _check_enough(chosen, mine)
    selected, notes = _choose_conditions(conditions, repeats)
    notes += compared_notes(file, names)
    if n_unknown := len({id_ for label in found for id_ in label.sample_ids} - known):
        notes.append(f"ignored: labels of {n_unknown} ids that no sample has")
    if unlabeled := [name for name, metric in zip(names, chosen, strict=True) if not _labeled(mine, metric)]:
        notes.append(f"without labels, so without agreement with people: {', '.join(unlabeled)}")
    labeled = {id_ for label in mine for id_ in label.sample_ids}
    pool = [sample for sample in samples if sample.id in labeled]
    if len(pool) > max_crossed:
        kept = set(random.Random(seed).sample(range(len(pool)), max_crossed))  # noqa: S311
        pool = [sample for n, sample in enumerate(pool) if n in kept]
    plan = CardPlan(
        samples=tuple(samples),
        labels=tuple(mine),
        metrics=chosen,
        crossed=tuple(pool),
        conditions=selected,
        repeats=repeats if "repeats" in selected else 1,
        seed=seed,
        n_judges=n_judges,
        n_unknown=n_unknown,
        notes=tuple(notes),
    )
    return replace(plan, usage=_estimate(plan))


def _choose_metrics(file: LabelFile, possible: Sequence[str]) -> tuple[Metric, ...]:
    """Return the metrics that the labels name, otherwise `ccrs`."""
    named = {each.metric if each.metric in possible else full_name(each.metric) for each in file.records if each.metric}
    return _check_metrics(resolve_metrics([name for name in possible if name in named] or "ccrs"))


def _check_metrics(chosen: Sequence[Metric]) -> tuple[Metric, ...]:
    """Check that a judge card can describe the metrics."""
    for metric in chosen:
        card = metric.card
        if not card.asks_judge or isinstance(metric, ReaderMetric | EmbedderMetric):
            model = "a reader" if isinstance(metric, ReaderMetric) else "an embedder"
            what = model if card.asks_judge else "no judge"  # codespell:ignore
            raise ConfigurationError(
                f"{card.name!r} needs {what}, and a judge card describes only the judge. Omit it, or use "
                "`ragstone lab validate-metrics` for its scores"
            )
        if not math.isfinite(card.high - card.low):
            raise ConfigurationError(
                f"{card.name!r} does not have two finite bounds, so a difference cannot be stated in points of its range. Omit it"
            )
    return tuple(chosen)


def _of_one_system(labels: Sequence[LabelRecord]) -> list[LabelRecord]:
    """Return the labels without their system."""
    systems = sorted({label.system for label in labels if label.system is not None})
    if len(systems) > 1:
        raise DataError(
            f"the labels belong to {len(systems)} systems ({', '.join(systems[:3])}), and a judge card needs one "
            "answer for each id. Keep the labels and samples of one system, or give each answer its own id"
        )
    return [replace(label, system=None) for label in labels]


def _labeled(labels: Iterable[LabelRecord], metric: Metric) -> dict[str, tuple[str, ...]]:
    """Return the labeled samples and pairs of a metric, by their key."""
    return {label.key: label.sample_ids for label in labels if label.metric in (None, metric.card.name)}


def _check_applicable(metrics: Sequence[Metric], samples: Sequence[Sample], labels: Sequence[LabelRecord]) -> None:
    """Check that each metric applies to at least one of its labeled samples."""
    for metric in metrics:
        ids = {id_ for ids in _labeled(labels, metric).values() for id_ in ids}
        unmet = [check_sample(metric, sample) for sample in samples if sample.id in ids]
        if unmet and all(unmet):
            first = unmet[0]
            raise DataError(
                f"{metric.card.name} does not apply to any labeled sample: {first.reason if first else ''}. Give the "
                "rows with these fields as data (--data FILE), or omit the metric (--metrics)"
            )


def _check_enough(metrics: Sequence[Metric], labels: Sequence[LabelRecord]) -> None:
    """Check that each labeled metric has the minimum number of labels."""
    counts = {metric.card.name: len(_labeled(labels, metric)) for metric in metrics}
    if not any(counts.values()):
        raise DataError(
            f"the labels belong to other metrics than the chosen ones ({', '.join(counts)}). Choose labeled metrics (--metrics)"
        )
    if few := {name: n for name, n in counts.items() if 0 < n < _MIN_LABELS}:
        name, n = min(few.items(), key=lambda item: item[1])
        raise DataError(
            f"{name} has {n} labeled samples, and a judge card needs at least {_MIN_LABELS}, better {_RECOMMENDED} to "
            f"200: {_describe_width(n)}. Label more samples, or omit the metric (--metrics)"
        )


def _describe_width(n: int) -> str:
    """Describe the interval to expect from a number of labels."""
    # With balanced categories and a chance agreement of 0.5, kappa 0.6 has the standard error 0.8 / sqrt(n).
    half = min(1.0, 1.96 * 0.8 / math.sqrt(n))
    # Spearman's correlation of scores without ties (Bonett and Wright 2000). Ties make it wider.
    error = 1.96 * math.sqrt((1 + _EXAMPLE**2 / 2) / max(n - 3, 1))
    low, high = (math.tanh(math.atanh(_EXAMPLE) + side * error) for side in (-1, 1))
    return (
        f"with {n} labels, the 95% interval of a kappa of {_EXAMPLE:g} is about {max(-1.0, _EXAMPLE - half):.2f} to "
        f"{min(1.0, _EXAMPLE + half):.2f}, and that of a correlation of {_EXAMPLE:g} at best {low:.2f} to {high:.2f}"
    )


def _choose_conditions(given: Sequence[str], repeats: int) -> tuple[tuple[Condition, ...], list[str]]:
    """Check the conditions, and omit a default that the repeats do not allow."""
    if unknown := [name for name in given if name not in CONDITIONS]:
        raise ConfigurationError(
            f"unknown condition {unknown[0]!r}. Conditions: {', '.join(CONDITIONS)}. Default: {', '.join(DEFAULT_CONDITIONS)}"
        )
    if repeats < 2 and "repeats" in given and tuple(given) != DEFAULT_CONDITIONS:
        raise ConfigurationError("the condition 'repeats' needs at least 2 repeats, got 1. Set --repeats, or omit it")
    selected = [name for name in CONDITIONS if name in given and (repeats > 1 or name != "repeats")]
    notes = []
    if omitted := [name for name in CONDITIONS if name not in selected]:
        notes.append(f"not measured: {', '.join(omitted)} (research.conditions)")
    return tuple(selected), notes


def _estimate(plan: CardPlan) -> Usage:
    """Estimate calls and tokens of all runs of all judges."""
    known: dict[int, Usage] = {}
    totals = [0.0, 0.0, 0.0]
    for run in plan.runs:
        if not (samples := plan.samples_of(run)):
            continue
        part = samples[:: math.ceil(len(samples) / _MOST_ESTIMATED)]
        if len(samples) not in known:
            known[len(samples)] = run_async(estimate_run(part, plan.metrics)).usage
        usage, scale = known[len(samples)], plan.n_judges * len(samples) / len(part)
        reasons = _REASON_TOKENS * usage.calls if run.condition == "reasoned" else 0
        numbers = usage.calls, usage.input_tokens, usage.output_tokens + reasons
        totals = [total + scale * number for total, number in zip(totals, numbers, strict=True)]
    calls, input_tokens, output_tokens = map(round, totals)
    return Usage(calls=calls, input_tokens=input_tokens, output_tokens=output_tokens)
