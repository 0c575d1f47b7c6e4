"""What metrics on claims have in common: a share, its value or its bounds, and what was claimed and borne out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ragstone.judges import Judge
from ragstone.metrics._base import MetricBase
from ragstone.metrics._claims import ClaimCheck
from ragstone.metrics._shares import Mark, ShareBounds
from ragstone.schema import Failure, NotApplicable, Sample, Score

__all__ = ["ClaimMetric", "ClaimShare", "describe_claims", "format_supported_claims"]

_QUOTED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimShare:
    """What a metric found out about a sample."""

    share: ShareBounds
    details: Mapping[str, Any] = field(default_factory=dict)
    explanation: str | None = None
    """Which claims took the value where it is."""
    method: str | None = None
    """How, where no judge was asked; else the judge's replies say it."""


class ClaimMetric(MetricBase):
    """A share that rests on several questions to the judge.

    Where replies are missing, the metric has its value all the same if they cannot change it; else it fails, and its
    `bounds` say between what and what it lies.
    """

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        check = ClaimCheck(sample, judge)
        found = await self._compute(check)
        if isinstance(found, str):
            return self.make_not_applicable(sample, found)
        low, high = found.share.low, found.share.high
        if low < high:
            first, n = check.errors[0], len(check.errors)
            reason = (
                f"{n} of {n + len(check.methods)} questions to the judge have no usable answer, so {self.name} lies between "
                f"{low:.3f} and {high:.3f}, whatever it would be; the first: {first}"
            )
            return self.make_failure(sample, first, reason=reason, details={**found.details, "bounds": [low, high]})
        methods = sorted(set(check.methods))
        details = dict(found.details)
        if check.errors:
            details["n_missing"] = len(check.errors)
        return self.make_score(
            sample,
            low,
            method=found.method or (methods[0] if len(methods) == 1 else "mixed" if methods else "no_judgement"),
            n=max(1, check.replies),
            details=details,
            explanation=found.explanation,
        )

    @abstractmethod
    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        """The share; or why there is none, in words."""


def describe_claims(claims: Sequence[str], **columns: Sequence[Mark] | Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """What was claimed and what was found about it, as plain values for the details of an outcome."""
    return [
        {"claim": claim, **dict(zip(columns, row, strict=True))}
        for claim, *row in zip(claims, *columns.values(), strict=True)
    ]


def format_supported_claims(what: str, claims: Sequence[str], marks: Sequence[Mark]) -> str | None:
    """The first claims with a yes, in words; None when there is none."""
    named = [claim for claim, mark in zip(claims, marks, strict=True) if mark]
    if not named:
        return None
    more = f", and {len(named) - _QUOTED} more" if len(named) > _QUOTED else ""
    return f"{what}: {'; '.join(named[:_QUOTED])}{more}"
