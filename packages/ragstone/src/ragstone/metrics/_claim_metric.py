"""The base class of metrics on claims: a share of claims, with bounds if verdicts are missing, and its details."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ragstone.judges import Judge, common_method
from ragstone.metrics._base import MetricBase
from ragstone.metrics._claim_reason import EMPTY_RESPONSE, describe_evidence
from ragstone.metrics._claims import ClaimCheck
from ragstone.metrics._shares import Mark, ShareBounds, best_share, distinct, share
from ragstone.schema import Failure, Interval, NotApplicable, Sample, Score

_NO_REPLIES: Final = "no_judgement"  # codespell:ignore judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimShare:
    """Result of a claim metric for a sample."""

    share: ShareBounds
    details: Mapping[str, Any] = field(default_factory=dict)
    interval: Interval | None = None
    """Interval of an estimated share: a mean over parts that stand for others, such as written questions. A share of
    all claims of a text is counted, not estimated, and does not have one."""
    method: str | None = None
    """The method if the judge was not called. Otherwise the judge's replies determine it."""


class ClaimMetric(MetricBase):
    """A share that requires several judge calls.

    If replies are missing but cannot change the value, the metric returns the value. Otherwise it fails and reports
    `bounds` (the lowest and highest possible value).
    """

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        check = ClaimCheck(sample, judge)
        result = await self._compute(check)
        if isinstance(result, str):
            return self.make_not_applicable(sample, result)
        low, high = result.share.low, result.share.high
        if low < high:
            first, n = check.errors[0], len(check.errors)
            reason = (
                f"{n} of {n + len(check.methods)} judge calls did not return a usable reply. {self.name} is between "
                f"{low:.3f} and {high:.3f}. First error: {first}"
            )
            return self.make_failure(sample, first, reason=reason, details={**result.details, "bounds": [low, high]})
        details = dict(result.details)
        if check.errors:
            details["n_missing"] = len(check.errors)
        return self.make_score(
            sample,
            low,
            method=result.method or (common_method(check.methods) if check.methods else _NO_REPLIES),
            n=max(1, check.replies),
            interval=result.interval,
            details=details,
            explanation=EMPTY_RESPONSE
            if result.method == "empty_response"
            else describe_evidence(details, [passage.text for passage in sample.contexts or ()]),
        )

    @abstractmethod
    async def _compute(self, check: ClaimCheck) -> ClaimShare | str:
        """Return the share, or the reason why the metric is not applicable."""


async def rate_response(
    claims: Sequence[str], verdict: str, supported: Callable[[Sequence[str]], Awaitable[Sequence[Mark]]], *, unit: str
) -> ClaimShare | str:
    """Return the share of the response's claims (or another unit) that are supported. The details name the verdict."""
    if not claims:
        return f"the response does not contain {unit}"
    marks = await supported(claims)
    return ClaimShare(share=share(marks), details={"claims": describe_claims(claims, **{verdict: marks})})


async def rate_references(
    references: Sequence[Sequence[str]],
    verdict: str,
    supported: Callable[[Sequence[str]], Awaitable[Sequence[Mark]]],
    *,
    unit: str,
) -> ClaimShare | str:
    """Return the share as `rate_response` for the reference with the largest share."""
    if not references:
        return f"the reference does not contain {unit}"
    claims = distinct(references)
    marks = await supported(claims)
    details = {"reference_claims": describe_claims(claims, **{verdict: marks})}
    return ClaimShare(share=best_share(references, claims, marks), details=details)


def describe_claims(claims: Sequence[str], **columns: Sequence[Mark] | Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Return the claims and their verdicts as plain values for the details of an outcome."""
    return [
        {"claim": claim, **dict(zip(columns, row, strict=True))}
        for claim, *row in zip(claims, *columns.values(), strict=True)
    ]
