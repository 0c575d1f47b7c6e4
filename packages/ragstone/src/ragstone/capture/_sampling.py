"""Sampling rules: which share of the requests of an application, with a tag, a status or with feedback is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from ragstone._util.age import parse_age
from ragstone.capture._application import Application
from ragstone.errors import ConfigurationError
from ragstone.requests import TraceDraft
from ragstone.schema import FeedbackRates, TraceStatus

_STATUSES: Final = get_args(TraceStatus)

FeedbackKind = Literal["negative", "positive"]
"""Feedback below 0.5, and other feedback."""
_FEEDBACK: Final[tuple[FeedbackKind, ...]] = get_args(FeedbackKind)
_WITHIN_S: Final = 86_400.0


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
    feedback: FeedbackKind | None = None
    """Feedback about the request. It arrives later, so the text is stored until then."""
    within_s: float = _WITHIN_S
    """Seconds in which feedback counts."""


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
            f"{source!r}: sampling must consist of tables [[sampling.rules]], each with a rate and app, tag, status or feedback, got {table!r}"
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
    conditions = {"app", "tag", "status", "feedback"}
    if (
        not isinstance(values, Mapping)
        or "rate" not in values
        or not values.keys() & conditions
        or not values.keys() <= conditions | {"rate", "within"}
    ):
        raise ConfigurationError(
            f"{name} must have a rate and at least one of app, tag, status and feedback, got {values!r}"
        )
    given: dict[Any, Any] = dict(values)
    rate, within = given.pop("rate"), given.pop("within", None)
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
    if given.get("feedback", _FEEDBACK[0]) not in _FEEDBACK:
        raise ConfigurationError(f"{name}: feedback must be one of {', '.join(_FEEDBACK)}, got {given['feedback']!r}")
    if within is not None:
        if "feedback" not in given:
            raise ConfigurationError(
                f"{name}: within is the time to wait for feedback, but the rule does not have `feedback`."
            )
        given["within_s"] = parse_age(within, name=f"{name}: within")
    return SamplingRule(rate=float(rate), **given)


def _covers(rule: SamplingRule, other: SamplingRule) -> bool:
    """Return whether a rule matches all requests that another one matches."""
    pairs = (
        (rule.app, other.app),
        (rule.tag, other.tag),
        (rule.status, other.status),
        (rule.feedback, other.feedback),
    )
    return all(mine is None or mine == theirs for mine, theirs in pairs)
