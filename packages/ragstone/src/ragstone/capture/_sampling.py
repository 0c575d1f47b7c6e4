"""Sampling rules: which share of the requests of an application, with a tag, a status or with feedback is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from ragstone.capture._application import Application
from ragstone.requests import TraceDraft
from ragstone.schema import FeedbackRates
from ragstone.settings import SamplingRule

FeedbackKind = Literal["negative", "positive"]
"""Feedback below 0.5, and other feedback."""
_FEEDBACK: Final[tuple[FeedbackKind, ...]] = get_args(FeedbackKind)


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """Rules in order: the first one that matches gives the rate. Otherwise it is `sample_rate`."""

    sample_rate: float
    rules: Sequence[SamplingRule] = ()

    def rate(self, draft: TraceDraft, application: Application) -> float:
        """Return the sampling probability of a request. It depends on its application, tags and status only."""
        rule = self._match(draft, application, None)
        return self.sample_rate if rule is None else rule.rate

    def rates_after_feedback(
        self, draft: TraceDraft, application: Application, *, is_kept_at: Callable[[float], bool]
    ) -> FeedbackRates | None:
        """Return the probabilities that feedback gives a request. None if it cannot change anything.

        Only a higher probability counts: a request that was kept stays.

        Args:
            draft: The request.
            application: What all requests get.
            is_kept_at: Whether the request is kept at a rate.
        """
        if not any(rule.feedback for rule in self.rules):
            return None
        before = self.rate(draft, application)
        rates: dict[FeedbackKind, float] = {}
        wait_s = 0.0
        for kind in _FEEDBACK:
            rule = self._match(draft, application, kind)
            if rule is not None and rule.feedback and rule.rate > before and is_kept_at(rule.rate):
                rates[kind] = rule.rate
                wait_s = max(wait_s, rule.within_s)
        if not rates:
            return None
        return FeedbackRates(negative=rates.get("negative"), positive=rates.get("positive"), wait_s=wait_s)

    def _match(self, draft: TraceDraft, application: Application, feedback: FeedbackKind | None) -> SamplingRule | None:
        if not self.rules:
            return None
        app = application.label(draft)["app"]
        tags = (*application.tags, *draft.tags)
        for rule in self.rules:
            if (
                (rule.app is None or rule.app == app)
                and (rule.tag is None or rule.tag in tags)
                and (rule.status is None or rule.status == draft.status)
                and (rule.feedback is None or rule.feedback == feedback)
            ):
                return rule
        return None
