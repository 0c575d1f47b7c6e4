"""`JudgeCard`, its text and its plain values: sentences first, then tables that fit a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from ragstone._util.table import text_table
from ragstone.research._card.conditions import Condition
from ragstone.research._card.model import JudgeReport, RunCost
from ragstone.research._card.sentences import findings_of, points
from ragstone.research._validation.report import finite, shown
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.stats import VarianceSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCard:
    """The result of `judge_card`."""

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
    notes: tuple[str, ...]
    outcomes: tuple[Score | NotApplicable | Failure, ...]
    """All outcomes of all runs."""

    def findings(self) -> tuple[str, ...]:
        """Return what the numbers mean, as sentences."""
        return findings_of(self.judges, self.joint)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        judges = [{**asdict(replace(judge, costs=(), separate=None)), **_cost_values(judge)} for judge in self.judges]
        joint = {metric: asdict(split) for metric, split in self.joint.items()}
        rest = {name: getattr(self, name) for name in _PLAIN}
        plain: dict[str, Any] = finite(
            {"judges": judges, "joint": joint, "findings": list(self.findings()), **rest, "notes": list(self.notes)}
        )
        return plain

    def __str__(self) -> str:
        return _text(self)


_PLAIN: Final = (
    "n_samples", "n_crossed", "repeats", "conditions", "flip_threshold", "confidence_level", "seed", "wordings_hash",
)  # fmt: skip


def _cost_values(judge: JudgeReport) -> dict[str, Any]:
    def plain(cost: RunCost) -> dict[str, Any]:
        usage = cost.usage.model_dump()
        return {"condition": cost.condition, "n_samples": cost.n_samples, **usage}

    return {
        "costs": [plain(cost) for cost in judge.costs],
        "separate": None if judge.separate is None else plain(judge.separate),
    }


def _text(card: JudgeCard) -> str:
    """Format a card."""
    ci = f"[{card.confidence_level:.0%} CI]"
    parts = ["\n".join(f"- {finding}" for finding in card.findings())]
    for judge in card.judges:
        parts.append(f"judge {judge.judge}")
        parts += [table for table in (_people(judge, ci), _means(judge, ci), _effects(judge, ci)) if table]
        splits = {metric.metric: metric.variance for metric in judge.metrics if metric.variance is not None}
        if splits:
            parts.append(_variance(splits, ci))
        parts.append(_costs(judge))
    if card.joint:
        parts.append("all judges")
        parts.append(_variance(dict(card.joint), ci))
    parts.append(
        "\n".join(
            [
                "points: hundredths of the metric's range",
                (
                    f"conditions: {card.n_crossed} labeled samples, {card.repeats} repeats. A score changes if it differs by more "
                    f"than {100 * card.flip_threshold:g} points"
                ),
                *card.notes,
            ]
        )
    )
    return "\n\n".join(parts)


def _people(judge: JudgeReport, ci: str) -> str:
    rows = [("agreement with people", "labels", "coefficient", f"value {ci}", f"judge - people, points {ci}")]
    for metric in judge.metrics:
        if (found := metric.agreement) is None:
            continue
        name, value = found.coefficient
        width = 100 / (metric.range[1] - metric.range[0])
        bias = found.bias
        rows.append(
            (
                metric.metric,
                f"{found.n} ({found.n_unscored} not scored)" if found.n_unscored else str(found.n),
                name,
                "undefined" if value is None else f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]",
                "unknown"
                if bias is None
                else f"{bias.value * width:+.1f} [{bias.low * width:+.1f}, {bias.high * width:+.1f}]",
            )
        )
    notes = [
        f"{metric.metric}: {note}" for metric in judge.metrics if metric.agreement for note in metric.agreement.notes
    ]
    return "" if len(rows) == 1 else "\n".join([text_table(rows), *notes])


def _means(judge: JudgeReport, ci: str) -> str:
    rows = [("mean score", "judge alone", f"corrected by labels {ci}", f"labels alone {ci}", "equivalent to")]
    for metric in judge.metrics:
        if metric.agreement is None or (mean := metric.agreement.human_mean) is None:
            continue
        worth = "" if mean.labels_worth is None else f"{mean.labels_worth:.0f} labels"
        rows.append((metric.metric, f"{mean.judge_mean:.3f}", shown(mean.estimate), shown(mean.labels_only), worth))
    return "" if len(rows) == 1 else text_table(rows)


def _effects(judge: JudgeReport, ci: str) -> str:
    rows = [("metric", "condition", "n", f"mean change, points {ci}", f"changed scores {ci}")]
    for metric in judge.metrics:
        if (flips := metric.repeats) is not None:
            share = _share(flips.items.value, flips.items.low, flips.items.high)
            rows.append((metric.metric, "repeats", str(flips.n), f"SD of a reply {flips.spread:.1f}", share))
        for effect in metric.effects:
            c = effect.changed
            missing = f" ({effect.n_unscored} not scored)" if effect.n_unscored else ""
            rows.append(
                (
                    metric.metric,
                    effect.condition,
                    f"{effect.n}{missing}",
                    points(effect.difference),
                    _share(c.value, c.low, c.high),
                )
            )
    return "" if len(rows) == 1 else text_table(rows, n_keys=2)


def _share(value: float, low: float, high: float) -> str:
    return f"{value:.0%} [{100 * low:.0f}, {100 * high:.0f}]"


def _variance(splits: dict[str, VarianceSplit], ci: str) -> str:
    rows = [("variance", "source", "share", f"SD in points {ci}", "df")]
    for metric, split in splits.items():
        for component in split.components:
            sd = component.sd
            name = component.name
            if split.is_confounded and component is split.components[-1]:
                name += " + repeat"
            rows.append(
                (
                    metric,
                    name,
                    f"{component.share:.0%}",
                    f"{sd.value:.1f} [{sd.low:.1f}, {sd.high:.1f}]",
                    str(component.df),
                )
            )
    return text_table(rows, n_keys=2)


def _costs(judge: JudgeReport) -> str:
    rows = [("cost", "samples", "calls", "from cache", "input tokens", "output tokens", "USD")]
    costs = [*judge.costs, *([judge.separate] if judge.separate is not None else [])]
    for cost in costs:
        u = cost.usage
        name = "base, same as fused" if cost.condition == "separate" else cost.condition
        usd = "" if u.cost_usd is None else f"{u.cost_usd:.4f}"
        rows.append(
            (name, str(cost.n_samples), str(u.calls), str(u.cached), str(u.input_tokens), str(u.output_tokens), usd)
        )
    return text_table(rows, align="lrrrrrr")
