"""Causes of wrong answers for sinks, decided when all metrics of a request have an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragstone.errors import StoreCorruptError
from ragstone.schema import AnswerCause, Delivery, sample_from_trace
from ragstone.scoring import diagnose
from ragstone.store import Store

__all__ = ["add_causes"]


def add_causes(deliveries: Sequence[Delivery], store: Store) -> list[Delivery]:
    """Add the cause to the last outcome of each request that is finished.

    The cause comes from the same outcomes and by the same rules as in a report. It is decided at each attempt again, from
    what the store contains then, so nothing has to be stored for it.

    Args:
        deliveries: Deliveries of the store.
        store: The store.

    Raises:
        StoreError: If the store cannot be read.
    """
    planned = {metric.name: (metric.version, metric.judge_hash) for metric in store.planned_metrics()}
    found = {trace_id: _last_with_cause(trace_id, planned, store) for trace_id in {d.trace_id for d in deliveries}}
    return [
        replace(delivery, cause=cause) if delivery.id == last else delivery
        for delivery in deliveries
        for last, cause in [found[delivery.trace_id]]
    ]


def _last_with_cause(
    trace_id: str, planned: dict[str, tuple[str, str]], store: Store
) -> tuple[str | None, AnswerCause | None]:
    """Return the id of a request's last outcome with the cause. (None, None) if the request is not finished."""
    try:
        report = store.explain(trace_id)
    except StoreCorruptError:
        return None, None  # a damaged text: the outcomes are delivered without the cause
    if report is None or report.state == "pending":
        return None, None
    # Outcomes of older versions of a metric are not mixed in, as in a report.
    outcomes = [o for o in report.outcomes if planned.get(o.metric, o.key[2:]) == o.key[2:]]
    if not outcomes:
        return None, None
    sample = None if report.trace is None else sample_from_trace(report.trace)
    return outcomes[-1].id, diagnose(sample, outcomes)
