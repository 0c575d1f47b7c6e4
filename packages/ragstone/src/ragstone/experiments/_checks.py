"""Checks of judges and readers by their outcomes: forced replies, ratings on another scale, other refusals."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError
from ragstone.experiments._table import SCORED, MetricScores, ScoreTable
from ragstone.judges import LEAST_RATINGS, NO_CLAIMS, OUTCOME_CHECKS, RatingRange, check_method, is_baseline

_MIXED: Final = (
    ("different versions of a metric", "version"),
    ("different judges", "judge"),
    ("a judge with different settings", "judge_hash"),
)
_FEW: Final = 0.1
"""Largest share of repeated requests without a notice."""


def check_metric(metric: MetricScores, system: int = 0) -> tuple[str, ...]:
    """Describe what makes scores of a metric doubtful, in sentences that name numbers and a way out."""
    methods: Counter[str] = Counter()
    for origin, n in metric.origins[system].items():
        if origin.state == SCORED and origin.method and not is_baseline(origin.judge):
            methods[origin.method] += n
    n = methods.total()
    texts = []
    n_empty = sum(
        k
        for origin, k in metric.origins[system].items()
        if origin.reason.endswith(NO_CLAIMS) and origin.method != "abstains" and not is_baseline(origin.judge)
    )
    if n_empty > _FEW * (n + n_empty):
        texts.append(
            f"not applicable to {count(n_empty, 'answer')}, because the judge listed no claims in them. If they "
            "state facts, use another judge"
        )
    found: Counter[str] = Counter()
    for method, k in methods.items():
        found.update(dict.fromkeys(check_method(method), k))
    texts += [
        f"{found[name]:,} of {count(n, 'score')} {text}"
        for name, text in OUTCOME_CHECKS.items()
        if found[name] > (_FEW * n if name == "second_request" else 0)
    ]
    counted = [(origin.reads, n) for origin, n in metric.origins[system].items() if origin.reads]
    n_passages, n_abstaining, n_drawn, n_declined = (sum(reads[i] * n for reads, n in counted) for i in range(4))
    if n_declined:
        texts.append(
            f"the reader declines in other words than its phrase in {n_declined:,} of {n_drawn:,} drawn replies, "
            "which its probability of abstention does not contain. Name these words as phrases (reader.abstention)"
        )
    if not n_abstaining and n_passages >= LEAST_RATINGS:
        texts.append(
            f"the reader abstains with none of {n_passages:,} passages, so the values depend on relevance labels "
            "only. Check its prompt and its phrase (reader.abstention)"
        )
    return tuple(texts)


def join_checks(checks: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what makes scores doubtful, each sentence once with its metrics, from the sentences by metric."""
    metrics: dict[str, list[str]] = {}
    for metric, texts in checks.items():
        for text in texts:
            metrics.setdefault(text, []).append(metric)
    return [f"{', '.join(names)}: {text}" for text, names in metrics.items()]


def find_unusable(table: ScoreTable, system: int = 0) -> str | None:
    """Return why no rating of a judge can be used, although they can be read, or None if nothing says that."""
    ratings = RatingRange()
    for metric in table.metrics.values():
        origins = metric.origins[system]
        is_rated = any(n and RatingRange.is_rating(origin.method, origin.judge) for origin, n in origins.items())
        # Metrics that follow from others add nothing, and may have several values for one rating.
        if is_rated and not metric.card.follows_from and (metric.low, metric.high) == (0, 1):
            for value in metric.values[metric.scored(system), system].tolist():
                ratings.add(value)
    n = count(ratings.n, "rating")
    if (check := ratings.check()) == "fractions":
        return f"all {n} are at most {ratings.high:g} of 1, as if the judge rates from 0 to 1, not to 100."
    return check and f"the judge gives one value ({ratings.high:g}) for all {n}, so it measures nothing."


def check_scales(table: ScoreTable, metrics: Iterable[str] | None = None, *, allowed: bool) -> list[str]:
    """Return warnings about metrics with scores on different scales, or raise ConfigurationError if not `allowed`."""
    notes = []
    for name in table.metrics if metrics is None else metrics:
        made = [[o for o, n in each.items() if n and o.state == SCORED] for each in table.metrics[name].origins]
        for what, part in _MIXED:
            found = [sorted({repr(getattr(origin, part)) for origin in each}) for each in made]
            if len({*itertools.chain.from_iterable(found)}) > 1:
                by = zip(table.systems, map(", ".join, found), strict=True)
                shown = "; ".join(f"{system}: {values}" if system else values for system, values in by if values)
                notes.append(f"{name}: scores of {what} are not on the same scale ({shown})")
                break
    if notes and not allowed:
        raise ConfigurationError(
            f"{notes[0]}. Score everything with the same judge and version, or add `--set "
            "analysis.allow_different_judges=true` (in Python: use `compare` with allow_different_judges), or compare "
            "without the metric (--metrics), and interpret the numbers with care."
        )
    return [f"WARNING {note}: differences may come from the judges instead of the systems" for note in notes]
