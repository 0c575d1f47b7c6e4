"""Event attributes of an outcome in OpenTelemetry's GenAI semantic conventions. Works without the SDK."""

from __future__ import annotations

import re
from typing import Final

from ragstone.schema import AlarmDelivery, Delivery, Failure, NotApplicable, Outcome, Score

EVENT_NAME: Final = "gen_ai.evaluation.result"
ALARM_NAME: Final = "ragstone.alarm"

AttributeValue = str | int | float


def evaluation_attributes(delivery: Delivery, *, include_text: bool) -> dict[str, AttributeValue]:
    """Return the attributes of the event for a `Score` or a `Failure`.

    Names under `gen_ai.` and `error.` are from the conventions, those of the evaluator from a proposal to them. The
    conventions do not define names for the judge and the interval, so these are under `ragstone.`.
    `gen_ai.evaluation.score.label` is set only for a cause, because scores are numbers without classes. With
    `include_text`, the explanation of a score or the reason of a failure is added, which may quote captured text.
    """
    outcome = delivery.outcome
    attributes: dict[str, AttributeValue | None] = {
        "gen_ai.evaluation.name": outcome.metric,
        "gen_ai.evaluation.evaluator.id": f"ragstone/{outcome.metric}",
        "gen_ai.evaluation.evaluator.version": outcome.metric_version,
        "gen_ai.evaluation.evaluator.type": _evaluator_type(outcome),
        "ragstone.evaluation.id": outcome.id,
        "ragstone.outcome": outcome.outcome,
        **request_attributes(delivery),
        "ragstone.metric.version": outcome.metric_version,
        "ragstone.judge.name": outcome.judge,
        "ragstone.judge.hash": outcome.judge_hash or None,
        "ragstone.prompt.hash": outcome.prompt_hash,
    }
    match outcome:
        case Score():
            attributes |= {
                "gen_ai.evaluation.score.value": outcome.value,
                "ragstone.method": outcome.method,
                "ragstone.n": outcome.n,
            }
            if outcome.interval is not None:
                attributes |= {
                    "ragstone.interval.low": outcome.interval.low,
                    "ragstone.interval.high": outcome.interval.high,
                    "ragstone.interval.confidence_level": outcome.interval.confidence_level,
                }
            text = outcome.explanation
        case Failure():
            attributes["error.type"] = outcome.kind
            text = outcome.reason
        case NotApplicable():
            text = outcome.reason
    if include_text:
        attributes["gen_ai.evaluation.explanation"] = text
    return {name: value for name, value in attributes.items() if value is not None}


def _evaluator_type(outcome: Outcome) -> str | None:
    """Return the proposed type of an evaluator, or None of a judge that no call of a model is known for."""
    usage = outcome.usage
    if outcome.judge is None:
        return "deterministic"
    return "llm_judge" if usage is not None and (usage.calls or usage.cached) else None


def request_attributes(delivery: Delivery) -> dict[str, AttributeValue]:
    """Return the attributes that say which request an event is about."""
    attributes = {
        "ragstone.trace_id": delivery.trace_id,
        "ragstone.run_id": delivery.run_id,
        "gen_ai.response.id": delivery.response_id,
        "ragstone.app": delivery.app,
        "ragstone.release": delivery.release,
        "ragstone.environment": delivery.environment,
        "ragstone.requested_at": delivery.requested_at,
        "ragstone.inclusion_probability": delivery.inclusion_probability,
    }
    return {name: value for name, value in attributes.items() if value is not None}


_ALARM_FIELDS: Final = ("number", "kind", "state", "raised_at", "since", "before", "after", "drop", "low", "high", "n")
"""Fields of an alarm that become attributes `ragstone.alarm.FIELD`."""


def alarm_attributes(delivery: AlarmDelivery) -> dict[str, AttributeValue]:
    """Return the attributes of the event `ragstone.alarm`. Means and losses are shares of the metric's range."""
    alarm = delivery.alarm
    attributes: dict[str, AttributeValue | None] = {
        "gen_ai.evaluation.name": alarm["key"]["metric"],
        "ragstone.app": alarm["key"]["app"] or None,
        "ragstone.metric.version": alarm["key"]["version"],
        "ragstone.judge.hash": alarm["key"]["judge_hash"] or None,
        "ragstone.alarm.id": delivery.id,
        "ragstone.alarm.event": delivery.event,
        "ragstone.alarm.slices": ", ".join(part["name"] for part in alarm["slices"]) or None,
        **{f"ragstone.alarm.{name}": alarm[name] for name in _ALARM_FIELDS},
    }
    return {name: value for name, value in attributes.items() if value is not None}


def parse_hex_id(text: str | None, *, digits: int) -> int:
    """Return the OpenTelemetry id in `text`, or 0 if it is missing or malformed.

    An outcome with a malformed id is delivered without the link to its span.
    """
    return int(text, 16) if text and len(text) == digits and re.fullmatch("[0-9a-fA-F]+", text) else 0
