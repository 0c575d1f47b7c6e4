"""The frame of all reports: numbers with intervals, tables of results, and plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from ragstone.extension import text_table
from ragstone.judges import JudgeIdentity
from ragstone.stats import Estimate

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return plain values for JSON, which does not have infinite numbers and NaN: they become None."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {key: to_plain(part) for key, part in value.items()}
        case list() | tuple():
            return [to_plain(part) for part in value]
        case Path():
            return str(value)
        case JudgeIdentity():
            return value.name
        case BaseModel():
            return value.model_dump()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return plain_fields(value) if is_dataclass(value) else value


def plain_fields(result: Any, *omitted: str) -> dict[str, Any]:
    """Return the fields of a dataclass as plain values for JSON."""
    return {each.name: to_plain(getattr(result, each.name)) for each in fields(result) if each.name not in omitted}


def percentile_estimates(
    points: Iterable[float], ends: Iterable[tuple[float, float]], *, n: int, confidence_level: float
) -> tuple[Estimate, ...]:
    """Return estimates of several numbers with the percentiles of their resamples. The intervals contain the numbers."""
    return tuple(
        Estimate(
            value=x, low=min(low, x), high=max(high, x), confidence_level=confidence_level, method="percentile", n=n
        )
        for x, (low, high) in zip(points, ends, strict=True)
    )


def shown(estimate: Estimate | None, *, sign: str = "", none: str = "undefined") -> str:
    """Format a number with its interval."""
    if estimate is None:
        return none
    return f"{estimate.value:{sign}.3f} [{estimate.low:{sign}.3f}, {estimate.high:{sign}.3f}]"


def points(estimate: Estimate, *, sign: str = "+") -> str:
    """Format an estimate in points with its interval."""
    return f"{estimate.value:{sign}.1f} [{estimate.low:{sign}.1f}, {estimate.high:{sign}.1f}]"


def share(estimate: Estimate | None, *, none: str = "no bound") -> str:
    """Format a share with its interval, in percent."""
    if estimate is None:
        return none
    return f"{estimate.value:.0%} [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"


def number(value: float | None) -> str:
    """Format a number, or say that it is undefined."""
    return "undefined" if value is None else f"{value:.3f}"


def result_table(
    results: Iterable[T],
    columns: Mapping[str, Callable[[T], str]],
    *,
    ci: str = "",
    n_keys: int = 1,
    align: str = "",
    titles: Mapping[str, str] | None = None,
) -> str:
    """Format a table with a row for each result, or an empty text without results.

    `columns` has functions of a result by heading, in which CI stands for `ci`, the confidence level in words. Other
    options are those of `text_table`.
    """
    rows = [tuple(cell(result) for cell in columns.values()) for result in results]
    heads = tuple(head.replace("CI", ci) if ci else head for head in columns)
    return text_table([heads, *rows], align=align, n_keys=n_keys, titles=titles) if rows else ""
