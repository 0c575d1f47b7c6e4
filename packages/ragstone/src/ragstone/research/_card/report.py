"""`JudgeCard`, its text and its plain values: sentences first, then tables that fit a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from ragstone._util.table import text_table
from ragstone.research._card.conditions import Condition
from ragstone.research._card.model import JudgeReport, MetricReport, RunCost
from ragstone.research._card.sentences import findings_of
from ragstone.research._report import finite, points, result_table, share, shown
from ragstone.research._validation.agreement import LabelAgreement
from ragstone.research._validation.report import worth
from ragstone.schema import Outcome
from ragstone.stats import Estimate, PredictionPoweredMean, VarianceSplit


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
    outcomes: tuple[Outcome, ...]
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
        ci = f"[{self.confidence_level:.0%} CI]"
        parts = ["\n".join(f"- {finding}" for finding in self.findings())]
        for judge in self.judges:
            parts.append(f"judge {judge.judge}")
            parts += [table for table in (_people(judge, ci), _means(judge, ci), _effects(judge, ci)) if table]
            splits = {metric.metric: metric.variance for metric in judge.metrics if metric.variance is not None}
            if splits:
                parts.append(_variance(splits, ci))
            parts.append(_costs(judge))
        if self.joint:
            parts.append("all judges")
            parts.append(_variance(self.joint, ci))
        parts.append(
            "\n".join(
                [
                    "points: hundredths of the metric's range",
                    (
                        f"conditions: {self.n_crossed} labeled samples, {self.repeats} repeats. A score changes if it differs by more "
                        f"than {100 * self.flip_threshold:g} points"
                    ),
                    *self.notes,
                ]
            )
        )
        return "\n\n".join(parts)


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


def _people(judge: JudgeReport, ci: str) -> str:
    found = [(metric, agreement) for metric in judge.metrics if (agreement := metric.agreement) is not None]
    columns: dict[str, Callable[[tuple[MetricReport, LabelAgreement]], str]] = {
        "agreement with people": lambda pair: pair[0].metric,
        "labels": lambda pair: f"{pair[1].n}" + _not_scored(pair[1].n_unscored),
        "coefficient": lambda pair: pair[1].coefficient[0],
        "value CI": lambda pair: _two_digits(pair[1].coefficient[1]),
        "judge - people, points CI": lambda pair: (
            "unknown"
            if pair[1].bias is None
            else points(pair[1].bias, width=100 / (pair[0].range[1] - pair[0].range[0]))
        ),
    }
    notes = [f"{metric.metric}: {note}" for metric, agreement in found for note in agreement.notes]
    return "\n".join([result_table(found, columns, ci=ci), *notes]) if found else ""


def _not_scored(n: int) -> str:
    return f" ({n} not scored)" if n else ""


def _two_digits(value: Estimate | None) -> str:
    return "undefined" if value is None else f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]"


_MEANS: Final[dict[str, Callable[[tuple[str, PredictionPoweredMean]], str]]] = {
    "mean score": lambda pair: pair[0],
    "judge alone": lambda pair: f"{pair[1].judge_mean:.3f}",
    "corrected by labels CI": lambda pair: shown(pair[1].estimate),
    "labels alone CI": lambda pair: shown(pair[1].labels_only),
    "equivalent to": lambda pair: worth(pair[1]),
}


def _means(judge: JudgeReport, ci: str) -> str:
    found = [(m.metric, m.agreement.human_mean) for m in judge.metrics if m.agreement and m.agreement.human_mean]
    return result_table(found, _MEANS, ci=ci)


def _effects(judge: JudgeReport, ci: str) -> str:
    rows = [("metric", "condition", "n", f"mean change, points {ci}", f"changed scores {ci}")]
    for metric in judge.metrics:
        if (flips := metric.repeats) is not None:
            spread = f"SD of a reply {flips.spread:.1f}"
            rows.append((metric.metric, "repeats", str(flips.n), spread, share(flips.items)))
        rows += [
            (
                metric.metric,
                effect.condition,
                f"{effect.n}" + _not_scored(effect.n_unscored),
                points(effect.difference),
                share(effect.changed),
            )
            for effect in metric.effects
        ]
    return "" if len(rows) == 1 else text_table(rows, n_keys=2)


def _variance(splits: Mapping[str, VarianceSplit], ci: str) -> str:
    rows = [("variance", "source", "share", f"SD in points {ci}", "df")]
    for metric, split in splits.items():
        for component in split.components:
            is_both = split.is_confounded and component is split.components[-1]
            name = component.name + (" + repeat" if is_both else "")
            rows.append((metric, name, f"{component.share:.0%}", points(component.sd, sign=""), str(component.df)))
    return text_table(rows, n_keys=2)


_COSTS: Final[dict[str, Callable[[RunCost], str]]] = {
    "cost": lambda cost: "base, same as fused" if cost.condition == "separate" else cost.condition,
    "samples": lambda cost: str(cost.n_samples),
    "calls": lambda cost: str(cost.usage.calls),
    "from cache": lambda cost: str(cost.usage.cached),
    "input tokens": lambda cost: str(cost.usage.input_tokens),
    "output tokens": lambda cost: str(cost.usage.output_tokens),
    "USD": lambda cost: "" if cost.usage.cost_usd is None else f"{cost.usage.cost_usd:.4f}",
}


def _costs(judge: JudgeReport) -> str:
    return result_table([*judge.costs, *([judge.separate] if judge.separate else [])], _COSTS, align="lrrrrrr")
