"""What the calls of an application say together: the outcomes of repeats as one, costs, times and failures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from ragstone._util.quantities import count
from ragstone.metrics import MEAN_OF_REPEATS, is_number
from ragstone.schema import Failure, Outcome, Score, Trace, Usage


def merge_repeats(sample_id: str, outcomes: Sequence[Outcome]) -> Outcome:
    """Merge the outcomes of one metric for the repeats of one sample.

    Return a score with the mean of the scored repeats. Its details hold the value of each repeat (None if it was not
    scored), the numbers in the details of the scored ones, their standard deviation, and the number of failed repeats.
    Without any score return the first failure, or else the first outcome. The marks of the answer are those of all
    answers, and unknown if only some of them abstain.
    """
    scores = [outcome for outcome in outcomes if isinstance(outcome, Score)]
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    usages = [outcome.usage for outcome in outcomes if outcome.usage is not None]
    durations = [outcome.duration_s for outcome in outcomes if outcome.duration_s is not None]
    marks = [outcome.answer for outcome in outcomes if outcome.answer is not None]
    same = tuple(mark for mark in (marks[0] if marks else ()) if all(mark in each for each in marks))
    shared = {
        "sample_id": sample_id,
        "answer": same if marks and all("abstains" in same or "abstains" not in each for each in marks) else None,
        "usage": reduce(add, usages) if usages else None,
        "duration_s": math.fsum(durations) if len(durations) == len(outcomes) else None,
    }
    if not scores:
        return next(iter([*failures, *outcomes])).model_copy(update=shared)
    values = [score.value for score in scores]
    details = {
        "repeats": [outcome.value if isinstance(outcome, Score) else None for outcome in outcomes],
        "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
        "n_failed": len(failures),
        "repeat_parts": {
            name: [score.details[name] for score in scores]
            for name in scores[0].details
            if all(is_number(score.details.get(name)) for score in scores)
        },
    }
    merged = {
        "value": statistics.fmean(values),
        "interval": None,
        "method": MEAN_OF_REPEATS,
        "n": sum(score.n for score in scores),
        "explanation": None,
        "raw": None,
        "details": details,
    }
    return scores[0].model_copy(update=shared | merged)


def repeat_deviations(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Return the standard deviation between repeats of the same sample, by metric: the root of the mean variance."""
    variances: dict[str, list[float]] = {}
    for outcome in outcomes:
        if isinstance(outcome, Score) and outcome.method == MEAN_OF_REPEATS:
            deviation = outcome.details["standard_deviation"]
            if deviation is not None:
                variances.setdefault(outcome.metric, []).append(deviation**2)
    return {metric: math.sqrt(statistics.fmean(squares)) for metric, squares in variances.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSummary:
    """Counts, latency and tokens of the calls of an application."""

    n_calls: int
    n_failed: int
    latency_p50_s: float | None
    """Median seconds of the calls that answered. None if none did."""
    latency_p95_s: float | None
    usage: Usage
    """Tokens of the calls whose input and output tokens were captured."""
    n_with_tokens: int
    """Number of these calls."""

    def __str__(self) -> str:
        parts = [f"{count(self.n_calls, 'call')} of the application, {self.n_failed} failed"]
        if self.latency_p50_s is not None and self.latency_p95_s is not None:
            parts.append(f"latency {self.latency_p50_s:.2f} s (median), {self.latency_p95_s:.2f} s (95th percentile)")
        if n := self.n_with_tokens:
            share = f" in {n} of {self.n_calls} calls" if n < self.n_calls else ""
            parts.append(f"{self.usage.input_tokens} + {self.usage.output_tokens} tokens{share}")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        names = ("n_calls", "n_failed", "latency_p50_s", "latency_p95_s", "n_with_tokens")
        tokens = self.usage.model_dump(include={"input_tokens", "output_tokens"})
        return {name: getattr(self, name) for name in names} | tokens


def summarize_app(traces: Sequence[Trace]) -> AppSummary:
    """Summarize the captured calls of an application."""
    from ragstone.experiments._spent import spent_of  # `evaluate` of rows does not need it

    answered = [trace for trace in traces if trace.status == "ok"]
    seconds = sorted(t.ended_at - t.started_at for t in answered if t.ended_at is not None)
    usages = [t.usage for t in traces if t.usage is not None and spent_of([t]).tokens is not None]
    return AppSummary(
        n_calls=len(traces),
        n_failed=len(traces) - len(answered),
        latency_p50_s=_percentile(seconds, 0.5),
        latency_p95_s=_percentile(seconds, 0.95),
        usage=reduce(add, usages, Usage()),
        n_with_tokens=len(usages),
    )


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least this share of the values does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
