"""Topicality: compares sets of queries, one of them in-domain, to check if a repository is about a domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

from ragstone.errors import ConfigurationError
from ragstone.experiments import (
    AUTO_CLUSTER,
    OutcomeSource,
    SystemOutcomes,
    check_level,
    choose_clusters,
    cluster_notes,
    read_outcomes,
)
from ragstone.extension import text_table
from ragstone.judges import BASELINE_NOTE
from ragstone.schema import Failure
from ragstone.stats import GroupDifference, compare_groups, failure_bounds
from ragstone_lab._report import number, plain_fields, shown
from ragstone_lab._validation.sources import Options, metrics_of, refuse_uneven, scores_of

_FEW: Final = 30
"""Number of queries from which the smallest possible p-value is far below any usual error probability."""
_NO_SIGNAL: Final = ("faithfulness", "hallucination")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicalityMetric:
    """One metric on two query sets."""

    metric: str
    in_domain: str
    out_of_domain: str
    """The query set that is further from the domain."""
    contrast: GroupDifference | None
    """The first set minus the other one, or None if a set does not have scores."""
    bounds: tuple[float, float] | None
    """Lowest and highest possible difference for any scores of failed queries. Infinite for an unbounded metric. None
    if a set has neither scores nor failures."""
    carries_signal: bool
    """False for faithfulness: an answer can be faithful to passages that are unrelated to the domain."""
    higher_is_better: bool
    n_in: int
    n_out: int
    n_failed_in: int
    n_failed_out: int
    n_not_applicable_in: int
    n_not_applicable_out: int

    @property
    def n_failed(self) -> int:
        """Number of failed queries of both sets."""
        return self.n_failed_in + self.n_failed_out

    @property
    def advantage(self) -> str:
        """The significantly better query set: "in", "out", "none" (no significant difference) or "unknown"."""
        if self.contrast is None:
            return "unknown"
        difference = self.contrast.difference
        # With very few queries an interval of unbounded scores may exclude 0 by chance. This is the smallest possible p-value of a
        # two-sided permutation test (the most extreme assignment and its mirror image). If it is too large for the confidence
        # level, the difference is not significant.
        n_in, n_out = min(self.n_in, _FEW), min(self.n_out, _FEW)
        smallest_p = 2 / math.comb(n_in + n_out, n_in)
        if difference.low <= 0 <= difference.high or smallest_p > 1 - difference.confidence_level:
            return "none"
        return "in" if (difference.value > 0) == self.higher_is_better else "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicalityReport:
    """The comparison of query sets on one repository."""

    query_sets: tuple[str, ...]
    metrics: tuple[TopicalityMetric, ...]
    """Each metric on each pair of query sets."""
    confidence_level: float
    """Confidence level of each mean, and of all differences together: each of k informative ones has 1 - (1 - level) /
    k."""
    n_resamples: int
    seed: int
    notes: tuple[str, ...] = ()

    def verdict(self) -> str:
        """Return the verdict as a sentence for each pair of query sets, from the metrics that carry a signal."""
        sentences = []
        for pair in combinations(self.query_sets, 2):
            found = [m for m in self.metrics if (m.in_domain, m.out_of_domain) == pair]
            reversible = [m.metric for m in found if m.carries_signal and _is_reversible(m)]
            doubt = (
                f" (but the scores of failed queries could reverse it on {', '.join(reversible)})" if reversible else ""
            )
            is_first = pair[0] == self.query_sets[0]
            sets = ("in-domain", "out-of-domain") if is_first else pair
            named = f"{pair[0]}{' (in-domain)' if is_first else ''} and {pair[1]}: " if len(self.query_sets) > 2 else ""
            sentences.append(f"{named}{self._verdict(found, *sets)}{doubt}")
        return "\n".join(sentences)

    def _verdict(self, metrics: Sequence[TopicalityMetric], first: str, second: str) -> str:
        informative = [m for m in metrics if m.carries_signal and m.contrast is not None]
        if not informative:
            return "no verdict: no informative metric has scores on both query sets"
        ahead, behind = ([m.metric for m in informative if m.advantage == side] for side in ("in", "out"))
        of = f"{len(informative)} metric{'s' if len(informative) > 1 else ''}"
        if ahead and behind:
            return (
                f"mixed: {first} queries score higher quality on {', '.join(ahead)} and lower on {', '.join(behind)}. "
                "Look at the samples before you draw a conclusion"
            )
        if ahead:
            rest = "" if len(ahead) == len(informative) else ", no significant difference on the others"
            return f"the repository serves {first} queries better on {len(ahead)} of {of} ({', '.join(ahead)}{rest})"
        if behind:
            return (
                f"the repository serves {second} queries better on {len(behind)} of {of} "
                f"({', '.join(behind)}): it is about something else, or the {first} queries are harder"
            )
        return (
            f"no significant difference on any of {of}: these queries do not show if the repository is about the domain"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        metrics = [plain_fields(m) | {"advantage": m.advantage} for m in self.metrics]
        stated = {"metrics": metrics, "verdict": self.verdict(), "judge_is_baseline": BASELINE_NOTE in self.notes}
        return plain_fields(self) | stated

    def __str__(self) -> str:
        head = ("metric", "query set", "mean [CI]", "SE of the mean", "SD of scores", "n scored / failed / n.a.")
        counts: dict[tuple[str, str], str] = {}
        means: dict[tuple[str, str], tuple[str, ...]] = {}
        differences = [("metric", "query sets", "difference [CI]", "first set scores above", "")]
        for m in self.metrics:
            first, second = (m.metric, m.in_domain), (m.metric, m.out_of_domain)
            counts.setdefault(first, f"{m.n_in} / {m.n_failed_in} / {m.n_not_applicable_in}")
            counts.setdefault(second, f"{m.n_out} / {m.n_failed_out} / {m.n_not_applicable_out}")
            if m.contrast is not None:
                for key, side in ((first, m.contrast.first), (second, m.contrast.second)):
                    means.setdefault(key, (shown(side.mean), f"{side.standard_error:.3f}", number(side.spread)))
                signal = "" if m.carries_signal else "not informative, excluded from the verdict"
                sets, difference = f"{m.in_domain} - {m.out_of_domain}", shown(m.contrast.difference, sign="+")
                differences.append((m.metric, sets, difference, shown(m.contrast.superiority), signal))
        rows = [head, *((*key, *means.get(key, ("no comparison", "", "")), n) for key, n in counts.items())]
        lines = [self.verdict(), "", text_table(rows, n_keys=2), ""]
        if len(differences) > 1:
            lines += [text_table(differences, n_keys=2), ""]
        lines += [
            f"CI: {self.confidence_level:.0%} for each mean, {self.confidence_level:.0%} for all differences together",
            f"SE: standard error of the mean by bootstrap, {self.n_resamples:,} resamples (decreases with more queries). SD: standard deviation of the scores",
            *(
                f"{m.metric}, {m.in_domain} and {m.out_of_domain}: {m.n_failed} queries failed. Depending on their "
                f"scores, the difference is between {m.bounds[0]:+.3f} and {m.bounds[1]:+.3f}."
                for m in self.metrics
                if m.bounds is not None and m.n_failed
            ),
            *self.notes,
        ]
        return "\n".join(lines)


def topicality(
    in_domain: OutcomeSource,
    *out_of_domain: OutcomeSource,
    metrics: Sequence[str] | None = None,
    confidence_level: float = 0.95,
    n_resamples: int = 10_000,
    seed: int = 0,
    cluster: str | None = AUTO_CLUSTER,
) -> TopicalityReport:
    """Compare in-domain with out-of-domain queries, all answered from the same repository.

    The report contains the mean of each set and the difference of each pair of sets for each metric, with confidence
    intervals over queries.
    A repository that is about the domain retrieves precisely and completely for in-domain queries, but not for others.
    Faithfulness is not informative and is excluded from the verdict: answers can be faithful to useless passages.

    Other differences between the query sets are part of the result. For example, the queries of one set can be harder,
    or a judge can be more lenient with one kind of text. The noise of the judge on a single query is not resampled. To
    measure it,
    score queries several times and use `validate_metrics`.

    Args:
        in_domain: Outcomes of in-domain queries: an `Experiment`, a file (`evaluate --output`) or a store.
        out_of_domain: Outcomes of other queries, from the same judge: one set, or several, those that are closest to
            the domain first (sales, basketball, random).
        metrics: Names or groups. Default: all with outcomes. Retrieval precision, retrieval recall and answer relevance
            are the most informative.
        confidence_level: Simultaneous confidence level of all differences of the verdict, in (0, 1).
        n_resamples: Number of bootstrap resamples.
        seed: Seed of the random numbers.
        cluster: Key whose equal values make a cluster of queries, such as "document_id": intervals then treat whole
            clusters as independent. "auto" uses `session_id` if at least 5% of the queries of a set share one. None or
            "none": independent queries.

    Raises:
        ConfigurationError: If a file does not exist, an option is out of range, or no query of a set has the key of `cluster`.
        DataError: If outcomes are invalid, a metric does not have outcomes, or all queries of a set are in one cluster.

    Source:
        VERA, sections 3.4 and 5 (which draws 50 of 200 queries, doubling the spread, and does not define its plus-minus
        values).

    Examples:
        ```python
        print(topicality("sales.jsonl", "random.jsonl", metrics=["vera"]))
        ```
    """
    check_level(confidence_level)
    if n_resamples < 2:
        raise ConfigurationError(f"n_resamples must be at least 2, got {n_resamples!r}")
    if not out_of_domain:
        raise ConfigurationError("topicality compares at least two sets of queries, got one")
    sides = [read_outcomes(source, cluster=cluster) for source in (in_domain, *out_of_domain)]
    refuse_uneven(sides, "means of topicality")
    names = [side.name for side in sides]
    if len({*names}) < len(names):
        names = ["in-domain", "out-of-domain", *(f"out-of-domain {n}" for n in range(2, len(sides)))][: len(sides)]
    chosen = metrics_of(sides, metrics)
    options, notes = [], _notes(sides, chosen)
    for name, side in zip(names, sides, strict=True):
        clusters = choose_clusters(cluster, side.labels, side.sample_ids)
        scores = {metric: scores_of(side, metric) for metric in chosen}
        notes += [f"{name}: {n}" for n in cluster_notes(cluster, clusters, side.labels, side.sample_ids, scores)]
        options.append(
            Options(clusters=clusters, n_resamples=n_resamples, confidence_level=confidence_level, seed=seed)
        )
    pairs = [*combinations(zip(names, sides, options, strict=True), 2)]
    n_informative = sum(
        _is_informative(m) and all(side.values(m) for _, side, _ in pair) for m in chosen for pair in pairs
    )
    # Bonferroni correction, because the verdict uses all differences.
    difference_level = 1 - (1 - confidence_level) / max(n_informative, 1)
    return TopicalityReport(
        query_sets=tuple(names),
        metrics=tuple(_metric(m, pair, difference_level) for m in chosen for pair in pairs),
        confidence_level=confidence_level,
        n_resamples=n_resamples,
        seed=seed,
        notes=tuple(notes),
    )


def _is_reversible(metric: TopicalityMetric) -> bool:
    """Return whether failed queries could reverse a significant difference."""
    is_significant = metric.advantage in {"in", "out"} and metric.n_failed > 0
    return is_significant and metric.bounds is not None and metric.bounds[0] <= 0 <= metric.bounds[1]


def _is_informative(metric: str) -> bool:
    return not any(word in metric.casefold() for word in _NO_SIGNAL)


def _metric(
    metric: str, pair: Sequence[tuple[str, SystemOutcomes, Options]], difference_level: float
) -> TopicalityMetric:
    names, sides, options = zip(*pair, strict=True)
    known = next((side for side in sides if metric in side.cards), sides[1])
    low, high = known.range_of(metric)
    scores = [scores_of(side, metric) for side in sides]
    counts: dict[str, int] = {}
    possible = []
    for name, side, values in zip(("in", "out"), sides, scores, strict=True):
        outcomes, n = side.outcomes.get(metric, {}).values(), len(values)
        n_failed = sum(isinstance(o, Failure) for o in outcomes)
        counts |= {f"n_{name}": n, f"n_failed_{name}": n_failed}
        counts[f"n_not_applicable_{name}"] = len(outcomes) - n - n_failed
        if n + n_failed:
            mean = math.fsum(values.values()) / n if n else None
            possible.append(failure_bounds(mean, n, n_failed, low=low, high=high))
    contrast = bounds = None
    if len(possible) == 2:
        (a, b), (c, d) = possible
        bounds = a - d, b - c
    if all(scores):
        first, second = (
            each.clusters_of(values) or [None] * len(values) for each, values in zip(options, scores, strict=True)
        )
        groups, bootstrap = [list(values.values()) for values in scores], options[0].bootstrap
        # Intervals of means are separate, those of differences simultaneous.
        contrast, separate = (
            compare_groups(
                *groups, low=low, high=high, clusters=(first, second), **bootstrap | {"confidence_level": level}
            )
            for level in (difference_level, options[0].confidence_level)
        )
        contrast = replace(contrast, first=separate.first, second=separate.second)
    return TopicalityMetric(
        metric=metric,
        in_domain=names[0],
        out_of_domain=names[1],
        contrast=contrast,
        bounds=bounds,
        carries_signal=_is_informative(metric),
        higher_is_better=metric not in known.cards or known.cards[metric].direction == "higher",
        **counts,
    )


def _notes(sides: Sequence[SystemOutcomes], metrics: Sequence[str]) -> list[str]:
    notes = [
        f"{metric}: different judges scored the sets, which may cause a part of the difference"
        for metric in metrics
        if len({side.judges[metric] for side in sides if side.judges.get(metric)}) > 1
    ]
    if any(side.is_baseline for side in sides):
        notes.append(BASELINE_NOTE)
    return notes
