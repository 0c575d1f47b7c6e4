"""Composite of the CCRS metrics: their weighted mean, with weights that the user states or learns from labels.

    value = sum of w_i * score_i, with weights that add up to 1

The source names a composite as future work and does not give weights. A file states them, or
`ragstone lab validate-metrics --labels LABELS --fit-weights FILE.json` learns them. Its file also contains the covariance of the weights.

`docs/reference/metrics.md` states the details.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.judges import Judge
from ragstone.metrics._base import MetricBase, hash_tasks
from ragstone.metrics._card import WorkedExample
from ragstone.metrics._claims import gather_or_cancel
from ragstone.metrics.ccrs import CCRS, AnswerCorrectness
from ragstone.schema import Failure, Interval, NotApplicable, Sample, Score
from ragstone.stats import WeightedTerm, weighted_sum_interval

_PARTS: Final = {metric.name: metric for metric in CCRS}
_Z: Final = 1.959963984540054
"""Quantile of the normal distribution for 95%."""


class CcrsComposite(MetricBase):
    """Weighted mean of the CCRS metrics.

    Args:
        weights: Weights of 0 or more by metric ("ccrs.cc" or "cc"), at least one above 0. They are divided by their sum.
        covariance: Covariance of the weights, in their order, if they were learned.

    Raises:
        ConfigurationError: If a metric is unknown, a weight is invalid or the covariance does not fit.

    Examples:
        ```python
        ragstone.evaluate(rows, [CcrsComposite({"cc": 2, "qr": 1, "ir": 1})], judge="http://localhost:8000/v1")
        ```
    """

    name = "ccrs.composite"
    title = "CCRS composite (weighted mean)"
    _meaning = "the ratings with large weights are low"
    _next_step = "Look at the parts in details."
    description = "How good is the response by the weighted mean of the CCRS ratings?"
    group = "ccrs_composite"
    source = "CCRS, section 6 (future work). Weights by the user, or learned from labels"
    formula = "sum of w_i * score_i, with weights that add up to 1"

    def __init__(self, weights: Mapping[str, float], *, covariance: Sequence[Sequence[float]] | None = None) -> None:
        named = {name if name in _PARTS else f"ccrs.{name}": weight for name, weight in weights.items()}
        if unknown := [name for name in named if name not in _PARTS]:
            raise ConfigurationError(
                f"unknown metric {unknown[0].removeprefix('ccrs.')!r}. Metrics: {', '.join(_PARTS)}"
            )
        # A file can contain anything.
        given: Mapping[str, Any] = named
        for name, weight in given.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
                raise ConfigurationError(f"the weight of {name} must be a number of 0 or more, got {weight!r}")
        total = math.fsum(named.values())
        if not total > 0:
            raise ConfigurationError(f"at least one weight must be above 0, got {dict(weights)!r}")
        self.weights = {name: weight / total for name, weight in named.items() if weight > 0}
        if free := self.weights.get("ccrs.ac", 0.0) * AnswerCorrectness().em_weight:
            self.reachable = f"0 to {1 - free:.3g}, and up to 1 if the response is identical to a reference"
        self._covariance = None if covariance is None else _checked(covariance, list(named), self.weights, total)
        self.parts = tuple(_PARTS[name] for name in self.weights)
        self.follows_from = tuple(self.weights)
        self.needs = tuple(dict.fromkeys(need for part in self.parts for need in part.needs))
        self.judge_calls = sum(part.judge_calls for part in self.parts)
        stated = json.dumps(
            [sorted(self.weights.items()), self._covariance, [part.card.version for part in self.parts]]
        )
        self.version = f"1({hashlib.sha256(stated.encode()).hexdigest()[:12]})"
        self.example = _example(self.weights)

    @classmethod
    def load(cls, path: str | Path) -> CcrsComposite:
        """Read weights from a TOML or JSON file with the table `weights`.

        Raises:
            ConfigurationError: If the file does not exist, or a weight is invalid.
            DataError: If the content of the file is invalid.
        """
        path = Path(path)
        if not path.is_file():
            raise ConfigurationError(
                f"file with weights not found: {str(path)!r}. Write one with a table [weights] (cc = 2, qr = 1), or learn the "
                "weights with `ragstone lab validate-metrics --labels FILE --fit-weights FILE`"
            )
        try:
            text = path.read_text(encoding="utf-8")
            content: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except (OSError, ValueError) as error:
            raise DataError(f"the weights {str(path)!r} cannot be read: {error}") from None
        weights = content.get("weights") if isinstance(content, dict) else None
        if not isinstance(weights, dict) or not weights:
            raise DataError(f"{str(path)!r} does not contain a table `weights` of metrics and numbers, such as cc = 2")
        return cls(weights, covariance=content.get("covariance"))

    @cached_property
    def prompt_hash(self) -> str | None:
        """Hash of the parts' prompts."""
        return hash_tasks([task for part in self.parts for task in part.tasks])

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score `sample` with all parts, and return their weighted mean.

        Raises:
            JudgeError: If the judge does not return a usable reply.
        """
        outcomes = await gather_or_cancel(*(part.score(sample, judge) for part in self.parts))
        scores: dict[str, Score] = {}
        for part, outcome in zip(self.parts, outcomes, strict=True):
            if not isinstance(outcome, Score):
                return self.make_not_applicable(
                    sample, f"{part.name} is not applicable: {outcome.reason}", getattr(outcome, "missing", ())
                )
            scores[part.name] = outcome
        value, interval = self._combined(scores)
        methods = {score.method for score in scores.values()}
        return self.make_score(
            sample,
            value,
            method=methods.pop() if len(methods) == 1 else "mixed",
            n=sum(score.n for score in scores.values()),
            interval=interval,
            details={"parts": {name: score.value for name, score in scores.items()}, "weights": self.weights},
        )

    def _combined(self, scores: Mapping[str, Score]) -> tuple[float, Interval | None]:
        """Return the weighted mean and its interval, if a rating or the weights have one."""
        terms = []
        for name, score in scores.items():
            found = score.interval
            low, high = (score.value, score.value) if found is None else (found.low, found.high)
            terms.append(
                WeightedTerm(
                    weight=self.weights[name],
                    value=score.value,
                    low=min(low, score.value),
                    high=max(high, score.value),
                    certain=False,
                )
            )
        if self._covariance is not None:
            values = [score.value for score in scores.values()]
            variance = math.fsum(
                a * b * cov
                for a, row in zip(values, self._covariance, strict=True)
                for b, cov in zip(values, row, strict=True)
            )
            half = _Z * math.sqrt(max(0.0, variance))
            terms.append(WeightedTerm(weight=1.0, value=0.0, low=-half, high=half, certain=False))
        value, low, high = weighted_sum_interval(terms)
        value = min(1.0, max(0.0, value))
        if self._covariance is None and all(score.interval is None for score in scores.values()):
            return value, None
        return value, Interval(low=min(value, max(0.0, low)), high=max(value, min(1.0, high)), method="mover")


def _checked(
    covariance: Sequence[Sequence[float]], names: Sequence[str], weights: Mapping[str, float], total: float
) -> list[list[float]]:
    """Return the covariance of the weights that are used, divided by the square of their sum."""
    try:
        rows = [[float(cell) for cell in row] for row in covariance]
    except (TypeError, ValueError):
        rows = []
    if (
        len(rows) != len(names)
        or any(len(row) != len(names) for row in rows)
        or not all(math.isfinite(cell) for row in rows for cell in row)
    ):
        raise ConfigurationError(
            f"covariance must be a table of {len(names)} by {len(names)} finite numbers, in the order of the weights"
        )
    used = [place for place, name in enumerate(names) if name in weights]
    return [[rows[a][b] / total**2 for b in used] for a in used]


def _example(weights: Mapping[str, float]) -> WorkedExample:
    """Return the example of the parts, whose samples are the same."""
    row: dict[str, Any] = {}
    replies: dict[str, Any] = {}
    values: dict[str, float] = {}
    for name in weights:
        part = _PARTS[name]
        assert part.example is not None and part.example.value is not None  # noqa: S101, PT018  all have one
        row |= part.example.row
        replies |= part.example.replies
        values[name] = part.example.value
    value = math.fsum(weights[name] * score for name, score in values.items())
    shown = " + ".join(f"{weights[name]:.3g} * {score:.3g}" for name, score in values.items())
    return WorkedExample(row=row, replies=replies, value=round(value, 4), steps=f"{shown} = {value:.3g}.")
