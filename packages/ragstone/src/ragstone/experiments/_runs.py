"""Runs of `evaluate` in a store of their own, one after another."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from ragstone.capture import redact_secrets, redact_trace
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._spent import FIRST_CALL
from ragstone.experiments._views.source import Evaluated
from ragstone.reading import CASE
from ragstone.schema import Captured, Outcome, Sample, Trace, trace_from_sample
from ragstone.store import RUN_SEGMENT, Completion, PlannedMetric, open_store

_OF_CALL: Final = ("status", "error", "model", "usage", "first_token_s", "retrievals", "evidence")
Origins = Mapping[str, AbstractSet[tuple[str, str]]]
"""Version and judge of the outcomes, by metric."""
RUN: Final = "run"
"""Label of the requests of a run."""


def check_run(store: str | os.PathLike[str], name: str) -> None:
    """Check that a run can be stored, before it costs anything. A store that does not exist is created."""
    with open_store(store, mode="own") as opened:
        times = opened.traces.run_times()
        if name in times:
            raise ConfigurationError(f"the store has a run {name!r} already. Give this one another name: --run NAME")
        if not times and opened.ledger().total.captured:
            raise ConfigurationError(
                "this is a store of captured requests, and runs need a store of their own, which is created: --store runs.db"
            )


def save_run(store: str | os.PathLike[str], name: str, experiment: Evaluated, traces: Sequence[Trace]) -> None:
    """Store an evaluation as a run: redacted samples as requests that all start now, with their outcomes.

    `traces` are the calls of the application, of which the first one for each sample says what it needed. What others
    needed is then unknown.
    """
    calls = {trace.trace_id: trace for trace in traces}
    outcomes = defaultdict[str, list[Outcome]](list)
    planned: dict[str, PlannedMetric] = {}
    for each in experiment.outcomes:
        outcomes[each.sample_id].append(each.model_copy(update={"sample_id": f"{name}/{each.sample_id}"}))
        planned[each.metric] = PlannedMetric(each.metric, each.metric_version, each.judge_hash)
    now = int(time.time() * 1000)
    requests = [
        _trace(sample, calls.get(sample.id, calls.get(f"{sample.id}#1")), name, now / 1000)
        for sample in experiment.samples
    ]
    with open_store(store, mode="own") as opened:
        opened.plan.set(list(planned.values()), [])
        opened.traces.ingest(f"{RUN_SEGMENT}{name}", now, [Captured(trace=trace) for trace in requests])
        completions = [Completion(trace_id=f"{name}/{id_}", outcomes=found) for id_, found in outcomes.items()]
        for result in opened.outcomes.complete_many(completions):
            if isinstance(result, DataError):
                raise result


def _trace(sample: Sample, call: Trace | None, name: str, now: float) -> Trace:
    metadata = {key: value for key, value in sample.metadata.items() if key not in (CASE, FIRST_CALL)} | {RUN: name}
    trace = trace_from_sample(sample, source="evaluate", started_at=now)
    if call is not None and call.trace_id != sample.id:
        metadata[FIRST_CALL] = True
    changes = {} if call is None else {field: getattr(call, field) for field in _OF_CALL}
    if call is not None and call.ended_at is not None:
        changes["ended_at"] = now + call.ended_at - call.started_at
    changes |= {
        "trace_id": f"{name}/{sample.id}",
        "metadata": metadata,
        "inclusion_probability": float(metadata.get("inclusion_probability") or 1.0),
    }
    return redact_trace(trace.model_copy(update=changes), redact_secrets)


def origins_of(outcomes: Iterable[Outcome]) -> Origins:
    """Return the versions and judges of the outcomes of each metric."""
    found = defaultdict[str, set[tuple[str, str]]](set)
    for each in outcomes:
        found[each.metric].add((each.metric_version, f"{each.judge or 'none'}#{each.judge_hash}"))
    return found


def describe_changes(before: Origins, now: Origins) -> str:
    """Say which metrics have another version or judge than before. Empty if none has."""
    changed: dict[str, list[str]] = {}
    for metric in sorted(before.keys() & now.keys()):
        for n, what in enumerate(("definition or prompt of {} changed", "judge of {} changed")):
            old, new = ({origin[n] for origin in side[metric]} for side in (before, now))
            if old != new:
                names = [", ".join(sorted({each.rpartition("#")[0] for each in side})) for side in (old, new)]
                about = f" ({names[0]} before, {names[1]} now)" if names[0] != names[1] else ""
                changed.setdefault(f"{what}{about}", []).append(metric)
    texts = [text.replace("{}", ", ".join(metrics)) for text, metrics in changed.items()]
    return f"{'; '.join(texts)}: scores before and after are not comparable" if texts else ""
