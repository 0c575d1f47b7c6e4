"""Topicality: does a repository answer questions of its domain better than others? Two query sets, side by side."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ragstone._util.table import text_table
from ragstone.errors import ConfigurationError
from ragstone.experiments import OutcomeSource, SystemOutcomes, read_outcomes
from ragstone.judges import BASELINE_NOTE
from ragstone.research._validation.report import finite, shown
from ragstone.research._validation.sources import metrics_of, scores_of
from ragstone.schema import Failure
from ragstone.stats import GroupDifference, compare_groups, failure_bounds

__all__ = ["TopicalityMetric", "TopicalityReport", "topicality"]

_FEW: Final = 30
"""Below so many queries the bootstrap of a mean is too sure of itself."""
_NO_SIGNAL: Final = ("faithfulness", "hallucination")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicalityMetric:
    """One metric on both query sets."""

    metric: str
    contrast: GroupDifference | None
    """In-domain minus out-of-domain; None where either set has no score."""
    bounds: tuple[float, float] | None
    """Between what the difference lies, whatever the queries that failed had scored; infinite for a metric without bounds,
    None where nothing was scored and nothing failed on a side."""
    carries_signal: bool
    """False for faithfulness: an answer can be true to passages that have nothing to do with the domain."""
    higher_is_better: bool
    n_in: int
    n_out: int
    n_failed_in: int
    n_failed_out: int
    n_not_applicable_in: int
    n_not_applicable_out: int

    @property
    def advantage(self) -> str:
        """Who is ahead: "in", "out", "none" (no difference can be claimed) or "unknown"."""
        if self.contrast is None:
            return "unknown"
        difference = self.contrast.difference
        # The bootstrap of two queries may well exclude 0. Of all the ways to deal the scores to two sets, the most extreme one
        # and its mirror image come up by luck as often as this; where that is often, nothing can be claimed.
        n_in, n_out = min(self.n_in, _FEW), min(self.n_out, _FEW)
        by_luck = 2 / math.comb(n_in + n_out, n_in)
        if difference.low <= 0 <= difference.high or by_luck > 1 - difference.confidence_level:
            return "none"
        return "in" if (difference.value > 0) == self.higher_is_better else "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicalityReport:
    """What two query sets on one repository say about what it is about."""

    in_domain: str
    out_of_domain: str
    metrics: tuple[TopicalityMetric, ...]
    confidence_level: float
    """Of each mean, and of all differences together: each of k metrics that carry a signal has 1 - (1 - level) / k."""
    n_resamples: int
    seed: int
    notes: tuple[str, ...] = ()

    def verdict(self) -> str:
        """In words; about the metrics that carry a signal."""
        undone = [m.metric for m in self.metrics if m.carries_signal and _open(m)]
        doubt = (
            f" (but queries failed, and what those had scored could undo it on {', '.join(undone)})" if undone else ""
        )
        return self._verdict() + doubt

    def _verdict(self) -> str:
        telling = [m for m in self.metrics if m.carries_signal and m.contrast is not None]
        if not telling:
            return "nothing can be said: no metric that carries a topicality signal has scores on both query sets"
        ahead, behind = ([m.metric for m in telling if m.advantage == side] for side in ("in", "out"))
        of = f"{len(telling)} metric{'s' if len(telling) > 1 else ''}"
        if ahead and behind:
            return (
                f"mixed: questions of the domain are ahead on {', '.join(ahead)} and behind on {', '.join(behind)}; "
                "look at the samples before you conclude"
            )
        if ahead:
            rest = "" if len(ahead) == len(telling) else "; on the others no difference can be claimed"
            return (
                f"the repository serves questions of the domain better than the others, on {len(ahead)} of {of} "
                f"({', '.join(ahead)}){rest}"
            )
        if behind:
            return (
                f"the repository serves questions from outside the domain better, on {len(behind)} of {of} "
                f"({', '.join(behind)}): it is about something else, or the in-domain questions are harder"
            )
        return f"no difference can be claimed on any of {of}: these queries do not show what the repository is about"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        metrics = [asdict(m) | {"advantage": m.advantage} for m in self.metrics]
        plain: dict[str, Any] = finite(
            asdict(self)
            | {"metrics": metrics, "verdict": self.verdict(), "judge_is_baseline": BASELINE_NOTE in self.notes}
        )
        return plain

    def __str__(self) -> str:
        head = ("metric", "query set", "mean [CI]", "SE of the mean", "SD of scores", "n scored / failed / n.a.")
        rows: list[tuple[str, ...]] = [head]
        differences: list[tuple[str, ...]] = [("metric", "in minus out [CI]", "in-domain query scores above", "")]
        for m in self.metrics:
            for name, side, n, n_failed, n_absent in (
                (self.in_domain, "first", m.n_in, m.n_failed_in, m.n_not_applicable_in),
                (self.out_of_domain, "second", m.n_out, m.n_failed_out, m.n_not_applicable_out),
            ):
                counts = f"{n} / {n_failed} / {n_absent}"
                if m.contrast is None:
                    rows.append((m.metric, name, "no comparison", "", "", counts))
                    continue
                mean = m.contrast.first if side == "first" else m.contrast.second
                spread = "undefined" if mean.spread is None else f"{mean.spread:.3f}"
                rows.append((m.metric, name, shown(mean.mean), f"{mean.standard_error:.3f}", spread, counts))
            if m.contrast is not None:
                signal = "" if m.carries_signal else "carries no topicality signal, in no verdict"
                differences.append(
                    (m.metric, shown(m.contrast.difference, sign="+"), shown(m.contrast.superiority), signal)
                )
        lines = [self.verdict(), "", text_table(rows, n_keys=2), ""]
        if len(differences) > 1:
            lines += [text_table(differences), ""]
        drawn = f"{self.n_resamples:,} resamples of as many queries as there are"
        lines += [
            f"CI: bootstrap over queries, {drawn}; all differences together hold with {self.confidence_level:.0%}",
            "SE: how well the mean is known, it shrinks with more queries; SD: how much queries differ, it does not",
            *(
                f"{m.metric}: {m.n_failed_in + m.n_failed_out} queries failed; whatever those had scored, the difference is "
                f"between {m.bounds[0]:+.3f} and {m.bounds[1]:+.3f}"
                for m in self.metrics
                if m.bounds is not None and m.n_failed_in + m.n_failed_out
            ),
            *self.notes,
        ]
        return "\n".join(lines)


def topicality(
    in_domain: OutcomeSource,
    out_of_domain: OutcomeSource,
    *,
    metrics: Sequence[str] | None = None,
    confidence_level: float = 0.95,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> TopicalityReport:
    """Compare queries of a domain with queries from outside it, both answered from the same repository.

    For each metric the means of both sets and their difference, by bootstrap over queries. A repository that is about the
    domain retrieves precisely and completely for its questions, and not for the others. Faithfulness says nothing about
    it and is in no verdict: answers are as true to useless passages.

    The comparison is of query sets. If the questions of one set are harder, or a judge is milder with one kind of text,
    that is in the difference too. Noise of the judge on a single query is not resampled; score queries several times, and
    use `validate_metrics`, to see it.

    Args:
        in_domain: Outcomes of the queries of the domain: an `Experiment`, a file (`evaluate --output`) or a store.
        out_of_domain: Outcomes of queries that have nothing to do with it, by the same judge.
        metrics: Names or groups; None for all that have outcomes. Retrieval precision and recall and answer relevance
            tell most.
        confidence_level: Probability that all differences of the verdict hold together, in (0, 1).
        n_resamples: Bootstrap resamples.
        seed: Of the random numbers.

    Raises:
        ConfigurationError: A file that does not exist, or an option out of range.
        DataError: Outcomes that cannot be read, or metrics without any.

    Source:
        VERA, sections 3.4 and 5 (there 50 of 200 queries are drawn, which doubles the spread, and it is not said what the
        plus-minus signs mean).

    Example:
        ```python
        print(topicality("sales.jsonl", "random.jsonl", metrics=["vera"]))
        ```
    """
    if not 0 < confidence_level < 1 or n_resamples < 2:
        raise ConfigurationError(
            f"topicality needs confidence_level in (0, 1) and n_resamples >= 2, got {confidence_level!r} and {n_resamples!r}"
        )
    inside, outside = read_outcomes(in_domain), read_outcomes(out_of_domain)
    names = (inside.name, outside.name) if inside.name != outside.name else ("in-domain", "out-of-domain")
    chosen = metrics_of((inside, outside), metrics)
    usable = [m for m in chosen if inside.values(m) and outside.values(m)]
    n_telling = sum(_select_informative(m) for m in usable)
    # Bonferroni: the verdict rests on all differences together.
    together = 1 - (1 - confidence_level) / max(n_telling, 1)
    return TopicalityReport(
        in_domain=names[0],
        out_of_domain=names[1],
        metrics=tuple(
            _metric(
                m,
                inside,
                outside,
                confidence_level=confidence_level,
                together=together,
                n_resamples=n_resamples,
                seed=seed,
            )
            for m in chosen
        ),
        confidence_level=confidence_level,
        n_resamples=n_resamples,
        seed=seed,
        notes=tuple(_notes(inside, outside, names, chosen)),
    )


def _open(metric: TopicalityMetric) -> bool:
    """Whether a difference is claimed that the queries which failed could undo."""
    claimed = metric.advantage in {"in", "out"} and metric.n_failed_in + metric.n_failed_out > 0
    return claimed and metric.bounds is not None and metric.bounds[0] <= 0 <= metric.bounds[1]


def _select_informative(metric: str) -> bool:
    return not any(word in metric.casefold() for word in _NO_SIGNAL)


def _metric(
    metric: str,
    inside: SystemOutcomes,
    outside: SystemOutcomes,
    *,
    confidence_level: float,
    together: float,
    n_resamples: int,
    seed: int,
) -> TopicalityMetric:
    first, second = list(scores_of(inside, metric).values()), list(scores_of(outside, metric).values())
    counts = []
    for side, values in ((inside, first), (outside, second)):
        outcomes = side.outcomes.get(metric, {}).values()
        n_failed = sum(isinstance(o, Failure) for o in outcomes)
        counts.append((len(values), n_failed, len(outcomes) - len(values) - n_failed))
    card = inside.cards.get(metric) or outside.cards.get(metric)
    low, high = inside.range_of(metric) if metric in inside.cards else outside.range_of(metric)
    found = bounds = None
    if all(n + n_failed for n, n_failed, _ in counts):
        (a, b), (c, d) = (
            failure_bounds(math.fsum(values) / len(values) if values else None, n, n_failed, low=low, high=high)
            for values, (n, n_failed, _) in zip((first, second), counts, strict=True)
        )
        bounds = a - d, b - c
    if first and second:
        found = compare_groups(first, second, n_resamples=n_resamples, confidence_level=together, seed=seed)
        # The means are there to be read one by one, the differences to be claimed together.
        alone = compare_groups(first, second, n_resamples=n_resamples, confidence_level=confidence_level, seed=seed)
        found = dataclasses.replace(found, first=alone.first, second=alone.second)
    return TopicalityMetric(
        metric=metric,
        contrast=found,
        bounds=bounds,
        carries_signal=_select_informative(metric),
        higher_is_better=card is None or card.direction == "higher",
        n_in=counts[0][0],
        n_out=counts[1][0],
        n_failed_in=counts[0][1],
        n_failed_out=counts[1][1],
        n_not_applicable_in=counts[0][2],
        n_not_applicable_out=counts[1][2],
    )


def _notes(
    inside: SystemOutcomes, outside: SystemOutcomes, names: tuple[str, str], metrics: Sequence[str]
) -> list[str]:
    notes = []
    for name, side in zip(names, (inside, outside), strict=True):
        fewest = min((len(values) for m in metrics if (values := side.values(m))), default=0)
        if 0 < fewest < _FEW:
            scored = f"{fewest} scored {'query' if fewest == 1 else 'queries'}"
            notes.append(f"{name} has metrics with {scored}: below {_FEW} the intervals are too short")
        for m in metrics:
            scores = scores_of(side, m)
            if len(scores) > 1 and len(alike := set(scores.values())) == 1:
                notes.append(
                    f"{m} is {alike.pop():.3f} for all {len(scores)} queries of {name}: resampling them shows no "
                    "error, and there is one"
                )
    for metric in metrics:
        ours, theirs = inside.judges.get(metric, frozenset()), outside.judges.get(metric, frozenset())
        if ours and theirs and ours != theirs:
            notes.append(
                f"{metric}: the two sets were scored by different judges, so that the difference is theirs too"
            )
    if inside.is_baseline or outside.is_baseline:
        notes.append(BASELINE_NOTE)
    return notes
