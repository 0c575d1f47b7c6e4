"""Outcomes to numbers: one line a metric, each with its interval and its denominator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragstone._util.table import text_table
from ragstone.judges import BASELINE_NOTE, is_baseline
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.stats import Estimate, failure_bounds, hajek_mean, mean_interval
from ragstone.store import Store

__all__ = ["MetricSummary", "format_table", "summarize", "summarize_store"]

_SAME: Final = 1e-9
"""Bounds may leave the metric's range by a rounding error."""


_WAYS_OUT: Final = {
    "qrels": "qrels (--qrels FILE, or in the rows)",
    "ratings": "ratings (`ragstone dataset build` writes them)",
    "required": "required passages (`ragstone dataset build` writes them)",
    "sub_questions": "sub_questions (nor a reference to make them from)",
}
"""Fields that few data sets have, and where they come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """What is known about one metric over a set of samples."""

    metric: str
    estimate: Estimate | None
    """Mean and interval of the scored samples; None when none was scored."""
    n_scored: int
    n_failed: int
    n_not_applicable: int
    bounds: tuple[float, float] | None
    """Where the mean over scored and failed samples must lie, whatever the failed ones would have scored: anything in the
    metric's range, or between the bounds that a failure names (a context of which some passages are known). Infinite
    where the metric has no bound on that side."""
    failure_kinds: dict[str, int]
    missing: tuple[str, ...]
    """Fields that samples lacked."""
    judges: tuple[str, ...]
    """Who judged, as the outcomes name it; empty for a plain metric."""
    reasons: dict[str, int]
    """Why it was not applicable where no field was lacking, most frequent first, and to how many samples."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        e = self.estimate
        return {
            "metric": self.metric,
            "mean": e.value if e else None,
            "ci": _ends(e.low, e.high) if e else None,
            "confidence_level": e.confidence_level if e else None,
            "method": e.method if e else None,
            "n_scored": self.n_scored,
            "n_failed": self.n_failed,
            "n_not_applicable": self.n_not_applicable,
            "bounds": _ends(*self.bounds) if self.bounds else None,
            "failure_kinds": self.failure_kinds,
            "missing": list(self.missing),
            "reasons": self.reasons,
        }


def _ends(low: float, high: float) -> list[float | None]:
    """Both ends of an interval for JSON, which has no infinity: None is no bound on that side."""
    return [end if math.isfinite(end) else None for end in (low, high)]


def summarize_store(store: Store, cards: Mapping[str, MetricCard]) -> tuple[MetricSummary, ...]:
    """Sum up the outcomes of the planned metrics of a store, without reading them one by one.

    If traces were sampled with different probabilities, means are weighted (`hajek_mean`). Kinds of failures and reasons
    are not counted: they stand in the outcomes' texts.

    Args:
        store: The store.
        cards: By name, for the ranges of values. A metric without a card has no bounds.
    """
    import numpy as np

    summaries = []
    for counts in store.count_outcomes():
        card = cards.get(counts.metric)
        low, high = (card.low, card.high) if card is not None else (-math.inf, math.inf)
        estimate, bounds = None, None
        if len(counts.values):
            # Scorers let a value exceed its range by a rounding error.
            x = np.repeat(np.clip(np.asarray(counts.values, dtype=float), low, high), counts.repeats)
            if counts.is_sampled and x.size > 1:
                estimate = hajek_mean(x, np.repeat(counts.probabilities, counts.repeats), low=low, high=high)
            else:
                estimate = mean_interval(x, low=low, high=high)
        n_scored = 0 if estimate is None else estimate.n
        if counts.n_failed and not counts.is_sampled:
            mean = None if estimate is None else estimate.value
            bounds = failure_bounds(mean, n_scored, counts.n_failed, low=low, high=high)
        summaries.append(
            MetricSummary(
                metric=counts.metric,
                estimate=estimate,
                n_scored=n_scored,
                n_failed=counts.n_failed,
                n_not_applicable=counts.n_not_applicable,
                bounds=bounds,
                failure_kinds={},
                missing=(),
                judges=() if counts.judge is None else (counts.judge,),
                reasons={},
            )
        )
    return tuple(summaries)


def summarize(
    outcomes: Iterable[Score | NotApplicable | Failure], cards: Sequence[MetricCard]
) -> tuple[MetricSummary, ...]:
    """Sum up outcomes, one summary for each card, in the order of the cards.

    Outcomes of metrics without a card are left out.
    """
    tallies = {card.name: _Tally(card) for card in cards}
    for outcome in outcomes:
        tally = tallies.get(outcome.metric)
        if tally is not None:
            tally.add(outcome)
    return tuple(tally.summary() for tally in tallies.values())


class _Tally:
    """What has to be known of one metric's outcomes; not the outcomes, of which a store may have very many."""

    def __init__(self, card: MetricCard) -> None:
        self._card = card
        self._values: list[float] = []
        self._kinds: Counter[str] = Counter()
        self._bounds: list[tuple[float, float]] = []
        """Of the failures that name some."""
        self._n_absent = 0
        self._missing: set[str] = set()
        self._reasons: Counter[str] = Counter()
        self._judges: set[str] = set()

    def add(self, outcome: Score | NotApplicable | Failure) -> None:
        """Take one outcome into account."""
        if outcome.judge is not None:
            self._judges.add(outcome.judge)
        if isinstance(outcome, Score):
            # Scorers let a value exceed its range by a rounding error.
            self._values.append(min(max(outcome.value, self._card.low), self._card.high))
        elif isinstance(outcome, Failure):
            self._kinds[outcome.kind] += 1
            bounds = _bounds(outcome, self._card)
            if bounds is not None:
                self._bounds.append(bounds)
        else:
            self._n_absent += 1
            self._missing.update(outcome.missing)
            if not outcome.missing:
                self._reasons[outcome.reason] += 1

    def summary(self) -> MetricSummary:
        """Sum up."""
        card, values, n_failed = self._card, self._values, self._kinds.total()
        bounds = None
        if n := len(values) + n_failed:
            n_open = n_failed - len(self._bounds)
            low, high = (
                failure_bounds(_mean([*values, *ends]), n - n_open, n_open, low=card.low, high=card.high)[side]
                for side, ends in enumerate(([low for low, _ in self._bounds], [high for _, high in self._bounds]))
            )
            bounds = low, high
        return MetricSummary(
            metric=card.name,
            estimate=mean_interval(values, low=card.low, high=card.high) if values else None,
            n_scored=len(values),
            n_failed=n_failed,
            n_not_applicable=self._n_absent,
            bounds=bounds,
            failure_kinds=dict(sorted(self._kinds.items())),
            missing=tuple(sorted(self._missing)),
            judges=tuple(sorted(self._judges)),
            reasons=dict(self._reasons.most_common()),
        )


def _end(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "no bound"


def _lies_in(low: float, high: float) -> str:
    """Say where a mean is, for a metric that may have no bound on a side."""
    match math.isfinite(low), math.isfinite(high):
        case True, True:
            return f"lies in [{low:.3f}, {high:.3f}]"
        case True, False:
            return f"is at least {low:.3f}"
        case False, True:
            return f"is at most {high:.3f}"
        case _:
            return "may be anything"


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _bounds(failure: Failure, card: MetricCard) -> tuple[float, float] | None:
    """Between what a failed sample's value lies, where the failure says so."""
    match failure.details.get("bounds"):
        case [int() | float() as low, int() | float() as high] if card.low - _SAME <= low <= high <= card.high + _SAME:
            return max(float(low), card.low), min(float(high), card.high)
    return None


def format_table(summaries: Sequence[MetricSummary], *, titles: Mapping[str, str] | None = None) -> str:
    """Render summaries as plain text; a bare mean never appears.

    Args:
        summaries: From `summarize` or `summarize_store`.
        titles: Display names by metric, which are printed before the metric's name where the width allows.
    """
    rows = [("metric", "mean [95% CI]", "n scored / failed / n.a.")]
    notes = []
    lacking: dict[tuple[str, ...], list[str]] = {}
    for s in summaries:
        if s.estimate is None:
            mean = "no score"
        else:
            mean = f"{s.estimate.value:.3f} [{_end(s.estimate.low)}, {_end(s.estimate.high)}]"
        rows.append((s.metric, mean, f"{s.n_scored} / {s.n_failed} / {s.n_not_applicable}"))
        if s.n_failed and s.bounds:
            kinds = ", ".join(f"{n} {kind}" for kind, n in s.failure_kinds.items()) or f"{s.n_failed} failed"
            notes.append(f"{s.metric}: {kinds}; whatever those would have scored, the mean {_lies_in(*s.bounds)}")
        if s.missing:
            lacking.setdefault(s.missing, []).append(s.metric)
        if s.reasons:
            often, *others = s.reasons
            more = (
                f" ({s.reasons[often]}; others for {len(others)} more {'reason' if len(others) == 1 else 'reasons'})"
                if others
                else ""
            )
            notes.append(f"{s.metric}: not applicable to {sum(s.reasons.values())}: {often}{more}")
    # One line for all that lack the same: without qrels eight metrics would say so.
    notes += [
        f"not applicable where there is no {' or no '.join(_WAYS_OUT.get(name, name) for name in fields)}: {', '.join(names)}"
        for fields, names in lacking.items()
    ]
    methods = sorted({s.estimate.method for s in summaries if s.estimate})
    if methods:
        notes.append(f"intervals: {', '.join(methods)}")
    if "hajek" in methods:
        notes.append("requests were sampled: means and intervals are weighted by 1 / sampling probability")
    if is_baseline(*(judge for s in summaries for judge in s.judges)):
        notes.append(BASELINE_NOTE)
    return "\n".join([text_table(rows, titles=titles), *(["", *notes] if notes else [])])
