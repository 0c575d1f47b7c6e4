"""Causes of wrong answers for sinks, decided when all metrics of a request have an outcome."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragstone.errors import StoreCorruptError
from ragstone.schema import AnswerCause, Delivery, sample_from_trace
from ragstone.scoring import diagnose
from ragstone.store import Store, StoredAnswer


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
    if not deliveries:
        return []
    planned = {metric.name: (metric.version, metric.judge_hash) for metric in store.plan.metrics()}
    answers = _read(list({delivery.trace_id for delivery in deliveries}), store)
    found = {trace_id: _last_with_cause(answer, planned) for trace_id, answer in answers.items()}
    return [
        replace(delivery, cause=cause) if delivery.id == last else delivery
        for delivery in deliveries
        for last, cause in [found.get(delivery.trace_id, (None, None))]
    ]


def _read(trace_ids: Sequence[str], store: Store) -> dict[str, StoredAnswer]:
    """Read requests. One that is damaged is missing, so that its outcomes and those of others are delivered."""
    try:
        return store.traces.answers(trace_ids)
    except StoreCorruptError:
        found: dict[str, StoredAnswer] = {}
        for trace_id in trace_ids:
            with contextlib.suppress(StoreCorruptError):
                found |= store.traces.answers([trace_id])
        return found


def _last_with_cause(
    answer: StoredAnswer, planned: Mapping[str, tuple[str, str]]
) -> tuple[str | None, AnswerCause | None]:
    """Return the id of a request's last outcome with the cause. (None, None) if the request is not finished."""
    # Outcomes of older versions of a metric are not mixed in, as in a report.
    outcomes = [o for o in answer.outcomes if planned.get(o.metric, o.key[2:]) == o.key[2:]]
    if answer.state == "pending" or not outcomes:
        return None, None
    sample = None if answer.trace is None else sample_from_trace(answer.trace)
    return outcomes[-1].id, diagnose(sample, outcomes)
