"""A composite of any metrics: their weighted mean, with weights that the user states or learns from labels.

    value = sum of w_i * g_i, with weights that add up to 1

g_i is the score of metric i on a scale from 0 (the worst value of the metric) to 1 (its best value). A file states the
weights, or `ragstone lab validate-metrics --labels LABELS --fit-weights FILE.json` learns them. Its file also contains
their covariance.

`docs/reference/metrics.md` states the details.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ragstone.errors import ConfigurationError, DataError, JudgeError
from ragstone.judges import Judge, Preparable, common_method
from ragstone.metrics._base import MetricBase, check_sample
from ragstone.metrics._card import Metric, is_number
from ragstone.metrics._shared import compute_once
from ragstone.schema import Failure, Interval, NotApplicable, Outcome, Sample, Score
from ragstone.settings import flat_names
from ragstone.stats import WeightedTerm, weighted_sum_interval

_Z: Final = 1.959963984540054
"""Quantile of the normal distribution for 95%."""
_TOLERANCE: Final = 1e-9
"""Tolerance for values that exceed their range by rounding."""


class Composite(MetricBase):
    """Weighted mean of any metrics, each on a scale from 0 (the worst value of its range) to 1 (the best).

    If a metric is not applicable to a sample, or fails, so does the composite. A failure reports between which bounds
    the value is. If a metric has a decision value other than its score (`ccrs.ac`), the weighted mean of the decision
    values decides.

    Args:
        metrics: Metrics with a finite range.
        weights: Their weights, of 0 or more, at least one above 0. They are divided by their sum.
        label: If given, the metric is named "composite.LABEL".
        covariance: Covariance of the weights, in their order, if they were learned.

    Raises:
        ConfigurationError: If a metric is not bounded, a weight is invalid or the covariance does not fit.

    Examples:
        ```python
        quality = Composite(resolve_metrics(["ccrs.cc", "rouge_l"]), [2, 1])
        ragstone.evaluate(rows, [quality], judge="http://localhost:8000/v1")
        ```
    """

    name = "composite"
    title = "Composite (weighted mean)"
    _meaning = "the metrics with large weights are low"
    _next_step = "Look at the parts in details."
    description = "How good is the answer by the weighted mean of other metrics?"
    group = "composite"
    source = "Weights by the user, or learned from labels"
    formula = "sum of w_i * g_i, with weights that add up to 1, g_i = score i from 0 (worst) to 1 (best)"
    unstated = ("label",)

    def __init__(
        self,
        metrics: Sequence[Metric],
        weights: Sequence[float],
        *,
        label: str = "",
        covariance: Sequence[Sequence[float]] | None = None,
    ) -> None:
        names = [metric.card.name for metric in metrics]
        if len(set(names)) != len(names) or len(names) != len(weights):
            raise ConfigurationError(
                f"a composite needs different metrics, each with a weight, got {', '.join(names) or 'no metrics'} and "
                f"{len(weights)} weights"
            )
        for name, weight in zip(names, weights, strict=True):
            if not is_number(weight) or weight < 0:
                raise ConfigurationError(f"the weight of {name} must be a number of 0 or more, got {weight!r}")
        total = math.fsum(weights)
        if not 0 < total < math.inf:
            raise ConfigurationError(f"at least one weight must be above 0, got {list(weights)!r}")
        used = [place for place, weight in enumerate(weights) if weight > 0]
        self.parts = tuple(metrics[place] for place in used)
        self.weights = {names[place]: weights[place] / total for place in used}
        self._cards = cards = {part.card.name: part.card for part in self.parts}
        if unbounded := [name for name, card in cards.items() if not math.isfinite(card.high - card.low)]:
            raise ConfigurationError(
                f"the range of {unbounded[0]} is not bounded, so it cannot be weighted. Leave the metric out"
            )
        self._label, self._given = label, (metrics, weights, covariance)
        self._covariance = None if covariance is None else _checked(covariance, used, len(names), total)
        if label:
            self.name, self.title = f"composite.{label}", f"Composite {label} (weighted mean)"
        self.follows_from = tuple(self.weights)
        self.needs = tuple(dict.fromkeys(need for card in cards.values() for need in card.needs))
        self.reachable = "; ".join(f"{name}: {card.reachable}" for name, card in cards.items() if card.reachable)
        self.decided_by = ("decision",) if any(card.decided_by for card in cards.values()) else ()
        for calls in ("judge_calls", "judge_calls_per_passage", "reader_calls_per_passage", "embedder_calls"):
            setattr(self, calls, sum(getattr(card, calls) for card in cards.values()))
        self.version = self._version([card.version for card in cards.values()])
        for role in ("reader", "embedder"):
            models = [getattr(part, role) for part in self.parts if hasattr(part, role)]
            if models:
                # Only then a composite has these attributes, by which such a metric is recognized.
                model = None if None in models else models[0]
                vars(self).update({role: model, f"with_{role}": partial(self._with_model, role)})

    def _version(self, versions: Iterable[str]) -> str:
        stated = json.dumps([sorted(zip(self.weights.items(), versions, strict=True)), self._covariance])
        return f"1({hashlib.sha256(stated.encode()).hexdigest()[:12]})"

    def _with_model(self, role: str, model: Any) -> Composite:
        metrics, weights, covariance = self._given
        bound = [getattr(m, f"with_{role}")(model) if getattr(m, role, model) is None else m for m in metrics]
        return Composite(bound, weights, label=self._label, covariance=covariance)

    async def prepare(self) -> None:
        """Prepare the parts that load a model."""
        for part in self.parts:
            if isinstance(part, Preparable):
                await part.prepare()

    def check_sample(self, sample: Sample) -> NotApplicable | None:
        """Return which part is not applicable to a sample, and why, or None."""
        found = ((name, check_sample(part, sample)) for name, part in zip(self.weights, self.parts, strict=True))
        return next((self._without(sample, name, outcome) for name, outcome in found if outcome is not None), None)

    def _without(self, sample: Sample, name: str, outcome: NotApplicable) -> NotApplicable:
        return self.make_not_applicable(sample, f"{name} is not applicable: {outcome.reason}", outcome.missing)

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score `sample` with all parts, and return their weighted mean."""
        scoring = (score_once(part, sample, judge) for part in self.parts)
        outcomes: dict[str, Outcome] = {}
        for name, outcome in zip(self.weights, await asyncio.gather(*scoring, return_exceptions=True), strict=True):
            if isinstance(outcome, JudgeError):
                outcomes[name] = self.make_failure(sample, outcome, reason=str(outcome), details={})
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                outcomes[name] = outcome
        return self.combine(sample, outcomes)

    def combine(self, sample: Sample, outcomes: Mapping[str, Outcome]) -> Score | NotApplicable | Failure:
        """Return the outcome that follows from those of all parts."""
        for name, outcome in outcomes.items():
            if isinstance(outcome, NotApplicable):
                return self._without(sample, name, outcome)
        scores = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Score)}
        values = {name: score.value for name, score in scores.items()}
        details: dict[str, Any] = {"parts": values, "weights": self.weights}
        for name, outcome in outcomes.items():
            if isinstance(outcome, Failure):
                ends = [self._ends(part, found) for part, found in outcomes.items()]
                details["bounds"] = [self._mean(map(end, ends)) for end in (min, max)]
                error = JudgeError(outcome.reason, kind=outcome.kind, raw=outcome.raw)
                return self.make_failure(sample, error, reason=f"{name}: {outcome.reason}", details=details)
        decisions = {name: self._cards[name].decision(score) for name, score in scores.items()}
        known = [self._goodness(name, value) for name, value in decisions.items() if value is not None]
        if self.decided_by and len(known) == len(scores):
            details["decision"] = self._mean(known)
        value, interval = self._combined(scores)
        return self.make_score(
            sample,
            value,
            method=common_method(score.method for score in scores.values()),
            n=sum(score.n for score in scores.values()),
            interval=interval,
            details=details,
        )

    def _goodness(self, name: str, value: float) -> float:
        """Map a value of a part to its place between the worst (0) and the best value (1) of its range."""
        card = self._cards[name]
        goodness = card.goodness(value)
        if not -_TOLERANCE <= goodness <= 1 + _TOLERANCE:
            raise ValueError(f"the value {value!r} of {name} is outside {card.low:g} to {card.high:g}")
        return goodness

    def _mean(self, goodness: Iterable[float]) -> float:
        mean = math.fsum(w * good for w, good in zip(self.weights.values(), goodness, strict=True))
        return min(1.0, max(0.0, mean))

    def _ends(self, name: str, outcome: Outcome) -> list[float]:
        """Return the goodness of a score, or that of both bounds of a failure."""
        card = self._cards[name]
        if isinstance(outcome, Score):
            return [self._goodness(name, outcome.value)]
        bounds = card.bounds_of(outcome) if isinstance(outcome, Failure) else None
        return [self._goodness(name, end) for end in bounds or (card.low, card.high)]

    def _combined(self, scores: Mapping[str, Score]) -> tuple[float, Interval | None]:
        """Return the weighted mean and its interval, if a score or the weights have one."""
        terms, values = [], []
        for name, score in scores.items():
            around = [] if score.interval is None else [score.interval.low, score.interval.high]
            value, *others = (self._goodness(name, end) for end in (score.value, *around))
            low, high = min([value, *others]), max([value, *others])
            terms.append(WeightedTerm(weight=self.weights[name], value=value, low=low, high=high, certain=False))
            values.append(value)
        if self._covariance is not None:
            pairs = zip(values, self._covariance, strict=True)
            variance = math.fsum(a * b * cov for a, row in pairs for b, cov in zip(values, row, strict=True))
            half = _Z * math.sqrt(max(0.0, variance))
            terms.append(WeightedTerm(weight=1.0, value=0.0, low=-half, high=half, certain=False))
        value, low, high = weighted_sum_interval(terms)
        value = min(1.0, max(0.0, value))
        if self._covariance is None and all(score.interval is None for score in scores.values()):
            return value, None
        return value, Interval(low=min(value, max(0.0, low)), high=max(value, min(1.0, high)), method="mover")

    def follow(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Yield outcomes, and after them the composite of each sample that has outcomes of all parts.

        Its version contains the versions of these outcomes. Stored composites with other weights are left out, and
        those of this version are kept.
        """
        by_sample: dict[str, dict[str, Outcome]] = {}
        stored: set[str] = set()
        for outcome in outcomes:
            if outcome.metric in self.weights:
                by_sample.setdefault(outcome.sample_id, {})[outcome.metric] = outcome
            if outcome.metric == self.name:
                if outcome.metric_version != self.version:
                    continue
                stored.add(outcome.sample_id)
            yield outcome
        for sample_id, found in by_sample.items():
            if len(found) == len(self.weights) and sample_id not in stored:
                parts = {name: found[name] for name in self.weights}
                judges = sorted({judge for part in parts.values() if (judge := part.judge) is not None})
                hashes = sorted({part.judge_hash for part in parts.values() if part.judge_hash})
                first = next(iter(parts.values()))
                yield self.combine(Sample(id=sample_id), parts).model_copy(
                    update={
                        "metric_version": self._version(part.metric_version for part in parts.values()),
                        "judge": ", ".join(judges) or None,
                        "judge_hash": "/".join(hashes),
                        "fingerprint": first.fingerprint,
                        "answer": first.answer,
                    }
                )


def score_once(metric: Metric, sample: Sample, judge: Judge) -> Awaitable[Score | NotApplicable | Failure]:
    """Score a sample, at most once if the metric is a part of composites too."""
    return compute_once((score_once, metric.card.name, metric.card.version), partial(_score, metric, sample, judge))


async def _score(metric: Metric, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
    return await metric.score(sample, judge)


def read_composite(path: str | Path, resolve: Callable[[Sequence[str]], Sequence[Metric]]) -> Composite:
    """Read a composite from a TOML or JSON file with the table `weights`, by metric, and optionally a `label`.

    `resolve` looks metrics up by their names. Raise ConfigurationError if the file does not exist, or a metric or
    weight is invalid. Raise DataError if the content of the file is invalid.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigurationError(
            f'file with weights not found: {str(path)!r}. Write one with a table [weights] ("ccrs.cc" = 2, rouge_l = 1), or learn '
            "the weights with `ragstone lab validate-metrics --labels FILE --fit-weights FILE`"
        )
    try:
        text = path.read_text(encoding="utf-8")
        content: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"the weights {str(path)!r} cannot be read: {error}") from None
    weights = content.get("weights") if isinstance(content, dict) else None
    if not isinstance(weights, dict) or not weights:
        raise DataError(
            f'{str(path)!r} does not contain a table `weights` of metrics and numbers, such as "ccrs.cc" = 2'
        )
    label = content.get("label", "")
    if label != "" and not (isinstance(label, str) and label.replace("_", "x").isalnum()):
        raise DataError(f"the label in {str(path)!r} must be a text of letters, digits and underscores, got {label!r}")
    named = dict(flat_names(weights))
    if nested := [name for name in named if name.partition("@")[0].casefold().strip() == Composite.name]:
        raise ConfigurationError(f"{str(path)!r}: {nested[0]!r} is a composite. Write the weights of its metrics")
    metrics = [metric for name in named for metric in resolve([name])]
    if len(metrics) != len(named):
        raise ConfigurationError(
            f"{str(path)!r} gives a weight to a group of metrics. Write one weight for each metric"
        )
    return Composite(metrics, list(named.values()), label=label, covariance=content.get("covariance"))


def _checked(covariance: Any, used: Sequence[int], n: int, total: float) -> list[list[float]]:
    """Return the covariance of the weights that are used, divided by the square of their sum."""
    try:
        rows = [[float(cell) for cell in row] for row in covariance]
    except (TypeError, ValueError):
        rows = []
    is_square = len(rows) == n and all(len(row) == n for row in rows)
    if not is_square or not all(math.isfinite(cell) for row in rows for cell in row):
        raise ConfigurationError(
            f"covariance must be a table of {n} by {n} finite numbers, in the order of the weights"
        )
    return [[rows[a][b] / total**2 for b in used] for a in used]
