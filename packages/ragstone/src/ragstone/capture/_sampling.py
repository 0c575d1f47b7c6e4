"""Sampling rules: which share of the requests of an application, with a tag or a status is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.capture._application import Application
from ragstone.requests import TraceDraft
from ragstone.settings import SamplingRule


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """Rules in order: the first one that matches gives the rate. Otherwise it is `sample_rate`."""

    sample_rate: float
    rules: Sequence[SamplingRule] = ()

    def rate(self, draft: TraceDraft, application: Application) -> float:
        """Return the sampling probability of a request. It depends on its application, tags and status only."""
        if not self.rules:
            return self.sample_rate
        app = application.label(draft)["app"]
        tags = (*application.tags, *draft.tags)
        for rule in self.rules:
            if (
                (rule.app is None or rule.app == app)
                and (rule.tag is None or rule.tag in tags)
                and (rule.status is None or rule.status == draft.status)
            ):
                return rule.rate
        return self.sample_rate
