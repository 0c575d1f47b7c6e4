"""Repeated scoring of the same samples: how often the scores flip, and pass@k."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import OutcomeSource, SystemOutcomes, check_same_questions, read_outcomes
from ragstone.schema import Outcome, Score
from ragstone.stats import Estimate, FlipRate, flip_rate, pass_at_k
from ragstone_lab._validation.sources import Options

Repeats = dict[str, dict[str, list[Outcome]]]
"""All outcomes by metric and sample, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRepeatability:
    """The repeatability of one metric's scores of one system."""

    metric: str
    system: str
    rate: FlipRate
    n_unscored: int
    """Number of repeats that failed or were not applicable. They are excluded."""
    n_other_judge: int
    """Number of repeats with another judge, prompt or version. They are excluded, because they are not repeats."""


def read_repeats(
    systems: Sequence[SystemOutcomes], repeats: Sequence[OutcomeSource] | Mapping[str, Sequence[OutcomeSource]]
) -> dict[str, Repeats]:
    """Collect all outcomes of each sample, by system, from its own files and those of the same samples scored again."""
    if not isinstance(repeats, Mapping):
        if repeats and len(systems) > 1:
            names = ", ".join(system.name for system in systems)
            raise ConfigurationError(
                f"with several systems ({names}), each repeat needs its system: --repeat {systems[0].name}=FILE"
            )
        repeats = {systems[0].name: repeats}
    known = {system.name: system for system in systems}
    collected: dict[str, Repeats] = {system.name: _own(system) for system in systems}
    for name, sources in repeats.items():
        if name not in known:
            raise ConfigurationError(f"unknown system {name!r} of a repeat. Systems: {', '.join(known)}.")
        for source in sources:
            again = read_outcomes(source)
            check_same_questions([known[name], dataclasses.replace(again, name=f"its repeat {again.name}")])
            first, is_shared = collected[name], False
            for metric, by_sample in _own(again).items():
                for id_ in by_sample.keys() & first.get(metric, {}).keys():
                    first[metric][id_] += by_sample[id_]
                    is_shared = True
            if not is_shared:
                raise DataError(
                    f"{source!s} does not share a metric and sample with {name!r}. A repeat must contain the same samples."
                )
    return collected


def _own(system: SystemOutcomes) -> Repeats:
    return {
        metric: {id_: list(system.repeats.get(metric, {}).get(id_, (last,))) for id_, last in by.items()}
        for metric, by in system.outcomes.items()
    }


def _of_one_judge(several: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes with the version and judge of the first one. Others are not repeats of it."""
    first = several[0].metric_version, several[0].judge_hash
    return [o for o in several if (o.metric_version, o.judge_hash) == first]


def flips(
    systems: Sequence[SystemOutcomes],
    collected: Mapping[str, Repeats],
    metrics: Sequence[str],
    options: Options,
    *,
    threshold: float,
) -> list[MetricRepeatability]:
    """Measure how often repeats differ by more than `threshold` of the metric's range, over whole clusters if given."""
    results = []
    for metric, system in itertools.product(metrics, systems):
        low, high = system.range_of(metric)
        width = high - low if math.isfinite(high - low) else 1.0
        rows, ids, n_unscored, n_other = [], [], 0, 0
        for id_, several in collected[system.name].get(metric, {}).items():
            if len(several) < 2:
                continue
            same = _of_one_judge(several)
            n_other += len(several) - len(same)
            values = [o.value for o in same if isinstance(o, Score)]
            n_unscored += len(same) - len(values)
            rows.append(values)
            ids.append(id_)
        rate = flip_rate(rows, threshold=threshold * width, **options.interval(ids))
        if rate is not None:
            counts = {"n_unscored": n_unscored, "n_other_judge": n_other}
            results.append(MetricRepeatability(metric=metric, system=system.name, rate=rate, **counts))
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """pass@k of one metric's scores of one system."""

    metric: str
    system: str
    k: int
    rate: Estimate | None
    """Mean of pass@k over samples, or None if no sample has at least k scores."""
    threshold: float
    """Score from which an answer passes (or up to which, if lower values are better)."""
    n_few: int
    """Number of samples with fewer than k scores. They are excluded."""
    n_unscored: int
    """Number of answers that were not scored. They are excluded."""
    n_other_judge: int
    """Number of scores of another judge, prompt or version. They are excluded, because they are not other answers."""


def pass_rates(
    systems: Sequence[SystemOutcomes],
    collected: Mapping[str, Repeats],
    metrics: Sequence[str],
    ks: Sequence[int],
    options: Options,
    *,
    threshold: float | None,
) -> list[PassRate]:
    """Compute pass@k from the scores of repeated answers: `evaluate --repeats`, or other files of the same samples.

    Without a threshold, an answer passes from the threshold of the metric's card, by its decision value.
    """
    if wrong := [k for k in ks if k < 1]:
        raise ConfigurationError(f"pass_at must be 1 or more, got {wrong[0]!r}")
    found = []
    for metric, system in itertools.product(metrics, systems):
        if metric not in system.outcomes:
            continue
        card = system.cards[metric]
        limit = card.threshold if threshold is None else threshold
        if limit is None:
            raise ConfigurationError(
                f"{metric} does not have a bounded range. Set threshold (research.threshold) for pass@k"
            )
        all_ = collected[system.name].get(metric, {})
        same = {id_: _of_one_judge(several) for id_, several in all_.items()}
        scores = {id_: [o for o in several if isinstance(o, Score)] for id_, several in same.items()}
        values = {id_: [v for score in several for v in card.decisions(score)] for id_, several in scores.items()}
        counts = {id_: (len(several), sum(card.reaches(v, limit) for v in several)) for id_, several in values.items()}
        n, n_same, n_scored = (sum(map(len, each.values())) for each in (all_, same, scores))
        for k in ks:
            rates = {id_: pass_at_k(n, n_passed, k) for id_, (n, n_passed) in counts.items() if n >= k}
            rate, n_few = options.mean(system, rates, 0.0, 1.0), len(counts) - len(rates)
            excluded = {"n_few": n_few, "n_unscored": n_same - n_scored, "n_other_judge": n - n_same}
            found.append(PassRate(metric=metric, system=system.name, k=k, rate=rate, threshold=limit, **excluded))
    if all(one.rate is None for one in found):
        raise DataError(
            f"pass@{min(ks)} needs at least {min(ks)} scored answers of one sample. Evaluate with --repeats, or pass "
            "more outcomes of the same samples with --repeat"
        )
    return found
