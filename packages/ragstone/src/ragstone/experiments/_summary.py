"""Summaries of outcomes by metric: means, confidence intervals and counts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ragstone._util.quantities import count
from ragstone._util.table import text_table
from ragstone.errors import ConfigurationError
from ragstone.experiments._checks import check_metric, join_checks
from ragstone.experiments._clusters import (
    AUTO_CLUSTER,
    NO_CLUSTER,
    Clusters,
    choose_clusters,
    cluster_keys,
    cluster_notes,
    store_labels,
)
from ragstone.experiments._table import FAILED, NOT_APPLICABLE, MetricScores, ScoreTable
from ragstone.judges import BASELINE_NOTE, is_baseline
from ragstone.metrics import MetricCard
from ragstone.settings import Analysis
from ragstone.stats import Estimate, estimate_mean, failure_bounds

if TYPE_CHECKING:
    from ragstone.experiments._compare.pairs import SystemMean
    from ragstone.store import MetricCounts, Store


_WAYS_OUT: Final = {
    "qrels": "qrels (--qrels FILE, or in the rows)",
    "ratings": "ratings (`ragstone lab dataset build` writes them)",
    "required": "required passages (`ragstone lab dataset build` writes them)",
    "sub_questions": "sub_questions (nor a reference to make them from)",
}
"""Rare fields of datasets, and how to get them."""
CONFIDENCE_LEVEL: Final = 0.95
"""The level of intervals and gates that do not state another."""
_LEAST_OF_A_GATE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """The summary of one metric over a set of samples."""

    metric: str
    estimate: Estimate | None
    """Mean and interval of the scored samples, or None without scores."""
    n_scored: int
    n_failed: int
    n_not_applicable: int
    bounds: tuple[float, float] | None
    """Lowest and highest possible mean over scored and failed samples, for any scores of the failed ones: within the
    metric's range, or within the bounds that a failure reports (for example if some passages are known). Infinite on an
    unbounded side."""
    failure_kinds: dict[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    """Fields that samples lacked."""
    judges: tuple[str, ...]
    """Names of the judges. Empty for a metric without a judge."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Reasons why the metric was not applicable although no field was missing, with counts, most frequent first."""
    checks: tuple[str, ...] = ()
    """What makes the scores doubtful, in sentences: forced replies of the judge, or a reader that never abstains."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        e, values = self.estimate, asdict(self)
        del values["estimate"]
        return values | {
            "mean": e.value if e else None,
            "ci": _ends(e.low, e.high) if e else None,
            "confidence_level": e.confidence_level if e else None,
            "method": e.method if e else None,
            "bounds": _ends(*self.bounds) if self.bounds else None,
            "missing": list(self.missing),
            "checks": list(self.checks),
        }


def _ends(low: float, high: float) -> list[float | None]:
    """Return both ends of an interval for JSON. None means unbounded, because JSON does not have infinity."""
    return [end if math.isfinite(end) else None for end in (low, high)]


def stored_clusters(
    store: Store, cluster: str | None
) -> tuple[Clusters | None, tuple[str, ...], Sequence[MetricCounts]]:
    """Choose the clusters of a store's requests, as `choose_clusters` does.

    Also return notes about them, and the counts of planned metrics: by trace if requests share a label.
    """
    if cluster in (None, NO_CLUSTER):
        return None, (), store.outcomes.count()
    labels = {key: store_labels(store, key) for key in cluster_keys(cluster)}
    if cluster == AUTO_CLUSTER and all(len(set(by.values())) == len(by) for by in labels.values()):
        return None, (), store.outcomes.count()
    counted = store.outcomes.count(by_trace=True)
    scores = {of.metric: dict(zip(of.trace_ids, of.values, strict=True)) for of in counted if len(of.values)}
    ids = dict.fromkeys(itertools.chain.from_iterable(scores.values()))
    if not ids:
        return None, (), counted
    clusters = choose_clusters(cluster, labels, ids)
    return clusters, tuple(cluster_notes(cluster, clusters, labels, ids, scores)), counted


def summarize_store(
    store: Store, cards: Mapping[str, MetricCard], analysis: Analysis
) -> tuple[tuple[MetricSummary, ...], tuple[str, ...]]:
    """Summarize the outcomes of a store's planned metrics, without reading them one by one, with notes about clusters.

    A metric without a card is unbounded. If traces were sampled with different probabilities, means are weighted
    (`hajek_mean`). Failure kinds and reasons are not counted, because they are in the outcomes' bodies.
    """
    import numpy as np

    clusters, notes, counted = stored_clusters(store, analysis.cluster)
    summaries = []
    for counts in counted:
        card = cards.get(counts.metric)
        low, high = (card.low, card.high) if card is not None else (-math.inf, math.inf)
        estimate, bounds = None, None
        if len(counts.values):
            # Scores may exceed their range by a rounding error.
            x = np.repeat(np.clip(np.asarray(counts.values, dtype=float), low, high), counts.repeats)
            estimate = estimate_mean(
                x,
                low=low,
                high=high,
                probabilities=np.repeat(counts.probabilities, counts.repeats),
                clusters=None if clusters is None else clusters.of(counts.trace_ids),
                confidence_level=analysis.confidence_level,
            )
        n_scored = 0 if estimate is None else estimate.n
        if counts.n_failed and not counts.is_sampled:
            mean = None if estimate is None else estimate.value
            bounds = failure_bounds(mean, n_scored, counts.n_failed, low=low, high=high)
        summaries.append(
            MetricSummary(
                metric=counts.metric,
                estimate=estimate,
                n_scored=n_scored,
                n_failed=counts.n_failed,
                n_not_applicable=counts.n_not_applicable,
                bounds=bounds,
                judges=() if counts.judge is None else (counts.judge,),
            )
        )
    return tuple(summaries), notes


def summarize_table(table: ScoreTable, confidence_level: float) -> tuple[MetricSummary, ...]:
    """Summarize the metrics of the first system of a table."""
    return tuple(_summarize(table, metric, confidence_level) for metric in table.metrics.values())


def _summarize(table: ScoreTable, metric: MetricScores, confidence_level: float) -> MetricSummary:
    import numpy as np

    kinds, reasons = Counter[str](), Counter[str]()
    missing, judges = set[str](), set[str]()
    for origin, n in metric.origins[0].items():
        if not n:
            continue
        if origin.judge is not None:
            judges.add(origin.judge)
        if origin.state == FAILED:
            kinds[origin.reason] += n
        elif origin.missing:
            missing.update(origin.missing)
        elif origin.state == NOT_APPLICABLE:
            reasons[origin.reason] += n
    bounds = None
    # Bounds of a weighted mean would need the weights of the failures.
    if table.probabilities is None:
        lowest, highest = (ends[~np.isnan(ends)].tolist() for ends in metric.possible())
        bounds = (math.fsum(lowest) / len(lowest), math.fsum(highest) / len(highest)) if lowest else None
    return MetricSummary(
        metric=metric.name,
        estimate=table.mean(metric, confidence_level),
        **metric.counts(),
        bounds=bounds,
        failure_kinds=dict(sorted(kinds.items())),
        missing=tuple(sorted(missing)),
        judges=tuple(sorted(judges)),
        reasons=dict(reasons.most_common()),
        checks=check_metric(metric),
    )


def mean_cells(row: MetricSummary | SystemMean) -> tuple[str, str]:
    """Format a mean with its interval, and the counts."""
    mean, e = "no score", row.estimate
    if e is not None:
        low, high = (f"{end:.3f}" if math.isfinite(end) else "no bound" for end in (e.low, e.high))
        mean = f"{e.value:.3f} [{low}, {high}]"
    return mean, f"{row.n_scored} / {row.n_failed} / {row.n_not_applicable}"


def _lies_in(low: float, high: float) -> str:
    """Describe the possible range of a mean, which may be unbounded on a side."""
    if math.isfinite(low):
        return f"lies in [{low:.3f}, {high:.3f}]" if math.isfinite(high) else f"is at least {low:.3f}"
    return f"is at most {high:.3f}" if math.isfinite(high) else "may be anything"


def format_table(summaries: Sequence[MetricSummary], *, titles: Mapping[str, str] | None = None) -> str:
    """Format summaries as plain text. Every mean is printed with its interval and counts.

    `titles` are display names by metric, which are printed before the metric's name if the width allows.
    """
    rows = [("metric", ci_heading(s.estimate for s in summaries), "n scored / failed / n.a.")]
    notes = []
    missing_fields: dict[tuple[str, ...], list[str]] = {}
    for s in summaries:
        rows.append((s.metric, *mean_cells(s)))
        if s.n_failed and s.bounds:
            kinds = ", ".join(f"{n} {kind}" for kind, n in s.failure_kinds.items()) or f"{s.n_failed} failed"
            notes.append(f"{s.metric}: {kinds}. Depending on their scores, the mean {_lies_in(*s.bounds)}.")
        if s.missing:
            missing_fields.setdefault(s.missing, []).append(s.metric)
        if s.reasons:
            most_frequent, *others = s.reasons
            rest = f"{len(others)} more {'reason' if len(others) == 1 else 'reasons'}"
            more = f" ({count(s.reasons[most_frequent], 'sample')}, {rest})" if others else ""
            notes.append(f"{s.metric}: not applicable to {sum(s.reasons.values())}: {most_frequent}{more}")
    # One line for all metrics that lack the same fields: without qrels there would be eight.
    notes += [
        f"not applicable without {' or '.join(_WAYS_OUT.get(name, name) for name in fields)}: {', '.join(names)}"
        for fields, names in missing_fields.items()
    ]
    notes += join_checks({s.metric: s.checks for s in summaries})
    methods = sorted({s.estimate.method for s in summaries if s.estimate})
    if methods:
        notes.append(f"intervals: {', '.join(methods)}")
    if any(method.startswith("hajek") for method in methods):
        notes.append("requests were sampled: means and intervals are weighted by 1 / sampling probability")
    if is_baseline(*(judge for s in summaries for judge in s.judges)):
        notes.append(BASELINE_NOTE)
    return "\n".join([text_table(rows, titles=titles), *(["", *notes] if notes else [])])


def check_level(confidence_level: float, *, decides_gate: bool = False) -> None:
    """Check a confidence level: in (0, 1), or in (0.5, 1) if a one-sided limit decides a gate. At 0.5 the limit is the mean.

    Raise ConfigurationError if it is outside of them.
    """
    if not 0 < confidence_level < 1:
        raise ConfigurationError(
            f"confidence_level must be between 0 and 1, got {confidence_level!r}. For 95% write 0.95"
        )
    if decides_gate and not confidence_level > _LEAST_OF_A_GATE:
        raise ConfigurationError(
            f"the confidence_level of a one-sided gate must be above 0.5 and below 1, got {confidence_level!r}"
        )


def ci_heading(estimates: Iterable[Estimate | None]) -> str:
    """Return the heading of a column of means: "mean [95% CI]". All estimates of a table have the same level."""
    level = next((e.confidence_level for e in estimates if e is not None), CONFIDENCE_LEVEL)
    return f"mean [{100 * level:.4g}% CI]"
