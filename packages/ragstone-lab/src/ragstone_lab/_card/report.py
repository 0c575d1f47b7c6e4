"""`JudgeCard`, its text and its plain values: sentences first, then tables that fit a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from ragstone.extension import text_table
from ragstone.schema import Outcome
from ragstone.stats import VarianceSplit
from ragstone_lab._card.conditions import Condition
from ragstone_lab._card.model import JudgeReport, RunCost
from ragstone_lab._card.sentences import findings_of
from ragstone_lab._report import plain_fields, points, result_table, share
from ragstone_lab._run import RunResult
from ragstone_lab._validation.report import label_tables


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
