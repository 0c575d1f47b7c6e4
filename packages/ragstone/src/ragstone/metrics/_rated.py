"""Scores from a single rating of the judge: value, interval, details and reasoning of the reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstone.judges import NumberReply
from ragstone.metrics._base import MetricBase
from ragstone.schema import Sample, Score


def make_rated_score(
    metric: MetricBase,
    sample: Sample,
    value: float,
    reply: NumberReply,
    *,
    offset: float = 0.0,
    factor: float = 0.01,
    details: Mapping[str, Any] | None = None,
) -> Score:
    """Make a score in [0, 1] from a rating on the scale of the judge.

    `offset` is the value at rating 0, and `factor` the increase of the value per unit of the rating, to convert the
    interval. Format mass, missing replies and the source of reasons are added to `details`, if there are any.
    """
    more: dict[str, Any] = {}
    if reply.mass is not None:
        more["format_mass"] = reply.mass
    if reply.n_missing:
        more["n_missing"] = reply.n_missing
    if reply.reasons is not None:
        more["explanation_source"] = "before"
    interval = reply.interval
    if interval is not None:
        low, high = (min(1.0, max(0.0, offset + factor * end)) for end in (interval.low, interval.high))
        interval = interval.model_copy(update={"low": low, "high": high})
    return metric.make_score(
        sample,
        value,
        method=reply.method,
        details={**(details or {}), **more},
        n=reply.n,
        raw=reply.raw,
        usage=reply.usage,
        explanation=reply.reasons,
        interval=interval,
    )
