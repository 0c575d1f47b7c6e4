"""What the calls of an evaluated application cost, how long they took, and how many failed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from ragstone.schema import Trace, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSummary:
    """Counts, latency and tokens of the calls of an application."""

    n_calls: int
    n_failed: int
    latency_p50_s: float | None
    """Median seconds of the calls that answered. None if none did."""
    latency_p95_s: float | None
    usage: Usage
    """Tokens, as far as they were captured."""

    def __str__(self) -> str:
        parts = [f"{self.n_calls} calls of the application, {self.n_failed} failed"]
        if self.latency_p50_s is not None and self.latency_p95_s is not None:
            parts.append(f"latency {self.latency_p50_s:.2f} s (median), {self.latency_p95_s:.2f} s (95th percentile)")
        if self.usage.input_tokens or self.usage.output_tokens:
            parts.append(f"{self.usage.input_tokens} + {self.usage.output_tokens} tokens")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "n_calls": self.n_calls,
            "n_failed": self.n_failed,
            "latency_p50_s": self.latency_p50_s,
            "latency_p95_s": self.latency_p95_s,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
        }


def summarize_app(traces: Sequence[Trace]) -> AppSummary:
    """Summarize the captured calls of an application."""
    answered = [trace for trace in traces if trace.status == "ok"]
    seconds = sorted(t.ended_at - t.started_at for t in answered if t.ended_at is not None)
    usages = [trace.usage for trace in traces if trace.usage is not None]
    return AppSummary(
        n_calls=len(traces),
        n_failed=len(traces) - len(answered),
        latency_p50_s=_percentile(seconds, 0.5),
        latency_p95_s=_percentile(seconds, 0.95),
        usage=reduce(add, usages, Usage()),
    )


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least this share of the values does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
