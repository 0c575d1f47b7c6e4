"""Sampling rules: which share of the requests of an application, with a tag or with a status is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from ragstone.capture._application import Application
from ragstone.errors import ConfigurationError
from ragstone.requests import TraceDraft
from ragstone.schema import TraceStatus

__all__ = ["SamplingRule", "SamplingRules", "read_sampling_rules"]

_STATUSES: Final = get_args(TraceStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRule:
    """The share of the requests that is kept, of those for which all given fields are equal."""

    rate: float
    """In (0, 1]."""
    app: str | None = None
    tag: str | None = None
    """One of the tags of the request or of its application."""
    status: str | None = None
    """How the request ended."""


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


def read_sampling_rules(table: object, *, source: str) -> tuple[SamplingRule, ...]:
    """Read the table `[sampling]`, whose only key is `rules`.

    Args:
        table: Its keys and values. None: the table is missing.
        source: Name of the file, for messages.

    Raises:
        ConfigurationError: If a rule is invalid, or never applies.
    """
    if table is None:
        return ()
    rules = table.get("rules") if isinstance(table, Mapping) and set(table) == {"rules"} else None
    if not isinstance(rules, Sequence) or isinstance(rules, str) or not rules:
        raise ConfigurationError(
            f"{source!r}: sampling must consist of tables [[sampling.rules]], each with a rate and app, tag or status, got {table!r}"
        )
    read: list[SamplingRule] = []
    for place, values in enumerate(rules, 1):
        rule = _rule(values, f"{source!r}: rule {place} of [[sampling.rules]]")
        if before := [n for n, other in enumerate(read, 1) if _covers(other, rule)]:
            raise ConfigurationError(
                f"{source!r}: rule {place} of [[sampling.rules]] never applies, because rule {before[0]} matches the same requests "
                "and comes first. Put the narrower rule first."
            )
        read.append(rule)
    return tuple(read)


def _rule(values: object, name: str) -> SamplingRule:
    fields = [field.name for field in dataclasses.fields(SamplingRule)]
    if not isinstance(values, Mapping) or "rate" not in values or len(values) < 2 or not values.keys() <= set(fields):
        raise ConfigurationError(f"{name} must have a rate and at least one of app, tag and status, got {values!r}")
    given: dict[Any, Any] = dict(values)
    rate = given.pop("rate")
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise ConfigurationError(
            f"{name}: rate must be above 0 and at most 1, got {rate!r}. Requests that are never kept are missing in every mean, "
            "and no weight can correct that: use a small rate such as 0.01."
        )
    for key, value in given.items():
        if not isinstance(value, str) or not value:
            raise ConfigurationError(f"{name}: {key} must be text, got {value!r}")
    if given.get("status", _STATUSES[0]) not in _STATUSES:
        raise ConfigurationError(f"{name}: status must be one of {', '.join(_STATUSES)}, got {given['status']!r}")
    return SamplingRule(rate=float(rate), **given)


def _covers(rule: SamplingRule, other: SamplingRule) -> bool:
    """Return whether a rule matches all requests that another one matches."""
    pairs = ((rule.app, other.app), (rule.tag, other.tag), (rule.status, other.status))
    return all(mine is None or mine == theirs for mine, theirs in pairs)
