"""The base class of UDCG and UDCG-theta: a weighted sum of utilities, its interval, and bounds if some are missing."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Final, Self

from ragstone.errors import ConfigurationError
from ragstone.judges import Judge, Reader
from ragstone.metrics._base import MetricBase
from ragstone.metrics._history import question_text
from ragstone.metrics._relevance import RELEVANCE_TASKS, LabelMode
from ragstone.metrics._utility import PassageUtility, passage_utilities
from ragstone.schema import Failure, Interval, NotApplicable, Sample, Score
from ragstone.stats import WeightedTerm, weighted_sum_interval

_CERTAIN: Final = frozenset({"exact", "bound"})
_SAME: Final = 1e-9
"""Largest width that counts as zero. The interval of an exact estimate may be as wide as a rounding error."""


def sigmoid(x: float) -> float:
    """Compute the logistic function without overflow."""
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) / (1 + math.exp(x))


class UdcgBase(MetricBase):
    """Base class of both variants: the logistic function of a weighted sum of passage utilities."""

    group = "udcg"
    needs = ("query", "contexts")
    neutral = 0.5
    reader_calls_per_passage = 1
    tasks = RELEVANCE_TASKS

    def __init__(self, definition: str, *, reader: Reader | None, labels: LabelMode, threshold: float) -> None:
        self.reader = reader
        """The reader, or None before it is bound."""
        self.labels: LabelMode = labels
        self.threshold = threshold
        self.version = f"1({definition},{labels},{threshold:g})"
        self.judge_calls_per_passage = 0 if labels == "data" else 1

    def with_reader(self, reader: Reader) -> Self:
        """Return the same metric with this reader."""
        bound = copy.copy(self)
        bound.reader = reader
        return bound

    async def score(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score `sample`.

        Raises:
            ConfigurationError: If no reader is bound.
        """
        if self.reader is None:
            raise ConfigurationError(f"{self!r} does not have a reader. Pass one with reader=")
        return await super().score(sample, judge)

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        assert self.reader is not None  # noqa: S101  `score` raises otherwise
        assert sample.query is not None and sample.contexts is not None  # noqa: S101, PT018  both are needs
        if not sample.contexts:
            return self.make_not_applicable(
                sample, "retrieval returned no passages, and the mean over zero passages is undefined"
            )
        if reason := self._find_not_applicable_reason(len(sample.contexts)):
            return self.make_not_applicable(sample, reason)
        utilities = await passage_utilities(
            question_text(sample),
            sample.contexts,
            reader=self.reader,
            judge=judge,
            reference=sample.reference,
            labels=self.labels,
            threshold=self.threshold,
        )
        if any(u.utility is None for u in utilities):
            return self._failure(sample, utilities)
        return self._score(sample, utilities)

    def _weights(self, k: int) -> tuple[Sequence[float], Sequence[float]]:
        """Return the weights of u+ and of u-, by position."""
        raise NotImplementedError

    def _find_not_applicable_reason(self, k: int) -> str | None:  # noqa: ARG002
        """Return the reason why `k` passages cannot be scored, or None if they can."""
        return None

    def _score(self, sample: Sample, found: Sequence[PassageUtility]) -> Score:
        value, interval = self._interval(found)
        estimators = _counted([u.abstention.method for u in found if u.abstention])
        texts = {u.passage.text: u for u in found}
        replies = sum(u.abstention.n for u in texts.values() if u.abstention)
        replies += sum(u.label.n for u in texts.values() if u.label)
        return self.make_score(
            sample,
            value,
            interval=interval,
            method=next(iter(estimators)) if len(estimators) == 1 else "mixed",
            n=replies,
            details=self._details(found) | {"estimators": estimators},
        )

    def _interval(self, found: Sequence[PassageUtility]) -> tuple[float, Interval]:
        """Compute the metric's value and its interval."""
        alpha, beta = self._weights(len(found))
        # Passages with the same text share one estimate, so they are not independent. Add their weights.
        weights: dict[str, float] = {}
        for u, a, b in zip(found, alpha, beta, strict=True):
            assert u.label is not None  # noqa: S101  the caller checks that every utility is known
            weights[u.passage.text] = weights.get(u.passage.text, 0.0) + (a if u.label.relevant else -b)
        terms, kinds, levels = [], set(), []
        for u in {u.passage.text: u for u in found}.values():
            assert u.abstention is not None  # noqa: S101  the caller checks that every utility is known
            read, answered = u.abstention.interval, 1 - u.abstention.value
            certain = read.method in _CERTAIN
            term = WeightedTerm(
                weight=weights[u.passage.text],
                value=answered,
                low=min(1 - read.high, answered),
                high=max(1 - read.low, answered),
                certain=certain,
            )
            terms.append(term)
            if not term.weight:
                continue
            levels.append(read.confidence_level)
            if not certain:
                kinds.add("mover")
            elif term.high - term.low > _SAME:
                kinds.add("bound")
        value, low, high = weighted_sum_interval(terms)
        how = "+".join(sorted(kinds, reverse=True)) or "exact"
        # Passages with weight 0 do not affect the coverage of the interval.
        level = min(levels or [u.abstention.interval.confidence_level for u in found if u.abstention])
        low, value, high = sigmoid(low), sigmoid(value), sigmoid(high)
        return value, Interval(low=min(low, value), high=max(high, value), confidence_level=level, method=how)

    def _failure(self, sample: Sample, found: Sequence[PassageUtility]) -> Failure:
        missing = [u for u in found if u.utility is None]
        first = missing[0].error
        assert first is not None  # noqa: S101  every missing utility has an error
        low, high = self._bounds(found)
        reason = (
            f"the utility of {len(missing)} of {len(found)} passages is unknown. {self.name} is between {low:.3f} and "
            f"{high:.3f}. First error (passage {missing[0].position}): {first}"
        )
        return self.make_failure(sample, first, reason=reason, details=self._details(found) | {"bounds": [low, high]})

    def _bounds(self, found: Sequence[PassageUtility]) -> tuple[float, float]:
        """Compute the lowest and highest possible value, given the missing labels and probabilities."""
        # Passages with the same text share one probability, known or not.
        lows: dict[str, list[float]] = {}
        highs: dict[str, list[float]] = {}
        answers: dict[str, tuple[float, ...]] = {}
        for u, a, b in zip(found, *self._weights(len(found)), strict=True):
            text = u.passage.text
            sides = (a, -b) if u.label is None else (a,) if u.label.relevant else (-b,)
            lows.setdefault(text, []).append(min(sides))
            highs.setdefault(text, []).append(max(sides))
            answers[text] = (0.0, 1.0) if u.abstention is None else (1 - u.abstention.value,)
        low = math.fsum(min(math.fsum(lows[text]) * answer for answer in answers[text]) for text in answers)
        high = math.fsum(max(math.fsum(highs[text]) * answer for answer in answers[text]) for text in answers)
        return sigmoid(low), sigmoid(high)

    def _details(self, found: Sequence[PassageUtility]) -> dict[str, Any]:
        sources = _counted([u.label.source for u in found if u.label])
        return {
            "labels": next(iter(sources)) if len(sources) == 1 else "mixed" if sources else None,
            "label_sources": sources,
            "passages": [u.as_dict() for u in found],
        }


def _counted(names: Sequence[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names))}
