"""Agreement of metrics with human labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import Clusters, SystemOutcomes, takes_labels
from ragstone.reading import LabelRecord
from ragstone.stats import (
    Agreement,
    CorrelationKind,
    Estimate,
    JudgeErrors,
    PredictionPoweredMean,
    cohen_kappa,
    compare_groups,
    correlate,
    drawn_kappa,
    drawn_prediction_powered_mean,
    estimate_mean,
    fleiss_kappa,
    hajek_mean,
    judge_errors,
    krippendorff_alpha,
    percent_agreement,
    rogan_gladen,
)
from ragstone.store import DrawnRequest
from ragstone_lab._report import shown
from ragstone_lab._validation.describe import UNRESTRICTED
from ragstone_lab._validation.labels import RATING_MAX, LabeledParts, labeled_parts, with_pairs
from ragstone_lab._validation.sources import Options, decisions_of, is_reversed, is_unevenly_sampled, probabilities_of

_MOST_CATEGORIES: Final = 11
"""Maximum number of distinct labels of a categorical scale (0 to 10). More labels are a continuous scale."""
_FEW_LABELS: Final = 30
_SAME: Final = 1e-9
"""Difference of equal scores by rounding, as a share of the range."""
_MIN_DIFFERENT: Final = 10
"""Minimum number of differences other than 0 for Student's t."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions(Options):
    """Options of the comparison of labels with scores."""

    label_range: tuple[float, float] | None = None
    """Lowest and highest possible label. None uses the metric's range, or the labels' own if they exceed it."""
    threshold: float | None = None
    """Score from which a sample is positive, for yes/no labels. None uses the middle of the range."""
    draws: Mapping[str, Mapping[str, DrawnRequest]] = field(default_factory=dict)
    """Requests that could be drawn to be labeled, by system and id. Empty for labels of a file, which
    are a random sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAgreement:
    """Agreement of one metric's scores of one system with human labels."""

    metric: str
    system: str
    level: str = "answer"
    """What is compared: whole answers, or a claim, sub-question, or passage and sub-question of them. Then the counts
    and numbers are about these parts, and the parts of one sample are a cluster."""
    n: int
    """Number of samples with a label and a score."""
    n_unscored: int
    """Number of labeled samples that failed or to which the metric is not applicable. No other number includes them."""
    n_unknown: int
    """Number of labels of samples without an outcome."""
    n_unlabeled: int
    """Number of samples with a score but without a label."""
    label_range: tuple[float, float]
    """Lowest and highest label, mapped to the lowest and highest score."""
    categories: tuple[float, ...]
    """Labels converted to scores. Each score is assigned to the nearest. Empty for a continuous scale."""
    exact: Estimate | None
    """Share of samples on which judge and people agree exactly. None if it is undefined. Without a range of the metric,
    this, kappa and alpha are defined only for two categories and a threshold."""
    cohen: Agreement | None
    """Cohen's kappa, with quadratic weights for more than two categories. None on a continuous scale."""
    krippendorff: Agreement
    """Krippendorff's alpha of judge and people: nominal for two categories, ordinal for several, interval on a
    continuous scale."""
    spearman: Estimate | None
    kendall: Estimate | None
    pearson: Estimate | None
    bias: Estimate | None
    """Mean difference judge - people, as a score. None without a sample that has both, or a range of the metric."""
    people: Agreement | None
    """Krippendorff's alpha among people, or None if no sample has several labels."""
    people_fleiss: Agreement | None
    """Fleiss' kappa among people, or None if samples have different numbers of labels or the scale is continuous."""
    human_mean: PredictionPoweredMean | None
    """Estimated human mean of all samples, as a score."""
    errors: JudgeErrors | None = None
    """Errors of the judge about correct and wrong answers. None for a metric without a range or of which lower is
    better, and for labels of requests that were drawn with different probabilities."""
    rogan_gladen: Estimate | None = None
    """Share of correct answers among the samples without a label, from the errors of the judge. Unlike `human_mean` it
    does not need labels of a random sample. None: unknown, and the notes say why."""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The metric, and the part of answers that is compared."""
        return self.metric if self.level == "answer" else f"{self.metric} by {self.level}"

    @property
    def coefficient(self) -> tuple[str, Estimate | None]:
        """Name and value of the coefficient that fits the scale of the labels, None if it is undefined.

        Kappa for two categories, kappa with quadratic weights for several, Spearman's correlation on a continuous scale.
        """
        if not self.categories:
            return "Spearman", self.spearman
        name = "kappa" if len(self.categories) == 2 else "weighted kappa"
        return name, None if self.cohen is None else self.cohen.coefficient


def agreements(
    systems: Sequence[SystemOutcomes], metrics: Sequence[str], labels: Sequence[LabelRecord], options: LabelOptions
) -> list[LabelAgreement]:
    """Compare each metric with the labels."""
    names = [system.name for system in systems]
    if len(systems) > 1 and any(label.system is None for label in labels):
        raise DataError(f"with several systems ({', '.join(names)}), every label needs a column 'system'")
    if unknown := {label.system for label in labels} - {None, *names}:
        raise DataError(f"labels of an unknown system {min(map(str, unknown))!r}. Systems: {', '.join(names)}.")
    results = []
    for metric in metrics:
        of_metric = [label for label in labels if label.metric in (None, metric)]
        whole = [label for label in of_metric if all(part.passage is None for part in label.parts)]
        for system in systems:
            if metric not in system.outcomes or (system.name in options.draws and not _rates_answers(system, metric)):
                continue
            own = [label for label in of_metric if label.system in (None, system.name)]
            if answers := [label for label in whole if label.system in (None, system.name)]:
                results.append(_one(system, metric, answers, whole, options))
            if system.name not in options.draws and (parts := labeled_parts(system, metric, own)) is not None:
                results.append(_of_parts(parts, metric, options))
    if all(one.n == one.n_unscored == 0 for one in results):
        ids = ", ".join(sorted({label.key for label in labels})[:3])
        raise DataError(
            f"no label has the id of a sample with an outcome (labels: {ids}, ...). Use the same ids in both files."
        )
    return results


def _of_parts(parts: LabeledParts, metric: str, options: LabelOptions) -> LabelAgreement:
    """Compare the verdicts on parts of answers with labels of these parts."""
    by_sample = options.clusters.by_sample if options.clusters is not None else {}
    clusters = {key: by_sample.get(id_, id_) for key, id_ in parts.sample_of.items()}
    options = replace(
        options,
        clusters=Clusters(key="sample", by_sample=clusters, is_automatic=False),
        threshold=parts.threshold,
        draws={},
    )
    stated = any(label.bounds is not None for label in parts.labels) or options.label_range is not None
    if parts.level != "claim" and not stated and max(label.value for label in parts.labels) > 1:
        options = replace(options, label_range=(0.0, RATING_MAX))
    return _one(parts.system, metric, parts.labels, parts.labels, options, parts)


def _one(
    system: SystemOutcomes,
    metric: str,
    own: Sequence[LabelRecord],
    all_: Sequence[LabelRecord],
    options: LabelOptions,
    parts: LabeledParts | None = None,
) -> LabelAgreement:
    system = with_pairs(system, metric, own)
    scale = Scale.of(system, metric, all_, options)
    is_turned = is_reversed(system, metric) and any(label.metric is None for label in own)
    if is_turned:
        own, all_ = (turn_labels(labels, scale.labels, generic=True) for labels in (own, all_))
        scale = Scale.of(system, metric, all_, replace(options, label_range=scale.labels))
    ratings: dict[str, dict[str | None, float]] = {}
    for label in own:
        ratings.setdefault(label.key, {})[label.annotator] = scale.as_score(label.value)
    scores = decisions_of(system, metric)
    ids = [id_ for id_ in ratings if id_ in scores]
    people = [math.fsum(ratings[id_].values()) / len(ratings[id_]) for id_ in ids]
    judge = [scores[id_] for id_ in ids]
    rest = {id_: value for id_, value in scores.items() if id_ not in ratings}
    found = _agree(ids, people, judge, scale, options) | _agreement_among_people(ratings, scale, options)
    by_id, draws = dict(zip(ids, people, strict=True)), options.draws.get(system.name)
    if draws is not None:
        drawn, notes = _agree_drawn(system, metric, by_id, draws, options)
        found |= drawn
        scale = replace(scale, categories=scale.scores)
    elif is_unevenly_sampled(system, scores):
        notes = [
            "no prediction-powered mean: it is not weighted, but these requests were sampled with different probabilities"
        ]
    else:
        found["human_mean"], notes = _human_mean(by_id, scores, rest, scale, options)
    if is_turned:
        notes.append("labels without a metric (--label COLUMN=METRIC) are reversed, because lower scores are better")
    if (card := system.cards.get(metric)) is not None and card.decided_by:
        notes.append(f"compared by {card.decision_name}. Its value: {card.reachable or 'the whole range'}")
    low, high = system.range_of(metric)
    interval = options.interval(ids)
    for kind in get_args(CorrelationKind):
        found[kind] = correlate(people, judge, kind, x_range=scale.scores, y_range=(low, high), **interval)
    if not scale.is_bounded:
        notes.append("no range of the metric: judge - people is unknown, and agreement needs research.threshold")
    elif draws is None and (differences := [j - p for j, p in zip(judge, people, strict=True)]):
        # Differences can be larger by rounding.
        bound = max(scale.scores[1] - scale.scores[0], *map(abs, differences))
        found["bias"] = estimate_difference(differences, bound=bound, **interval)
    if card is not None and card.direction == "higher" and math.isfinite(high - low) and ids and draws is None:
        middle = (low + high) / 2
        usual = middle if card.threshold is None else card.threshold
        correct_from = middle if parts is None else parts.threshold
        lengths = [system.lengths[id_] for id_ in ids if id_ in system.lengths]
        errors = found["errors"] = judge_errors(
            judge,
            people,
            threshold=usual if options.threshold is None else options.threshold,
            correct_from=correct_from,
            lengths=lengths if len(lengths) == len(ids) else None,
            are_probabilities=(low, high) == (0, 1)
            and all(getattr(system.outcomes[metric][id_], "method", "") == "expected" for id_ in ids),
            **interval,
        )
        notes += errors.describe()
        if rest:
            corrected = rogan_gladen(
                [*rest.values()],
                judge,
                people,
                threshold=errors.threshold,
                correct_from=correct_from,
                clusters=None if options.clusters is None else (options.clusters.of(rest), options.clusters.of(ids)),
                confidence_level=options.confidence_level,
            )
            if isinstance(corrected, str):
                notes.append(f"no Rogan-Gladen estimate: {corrected}")
            else:
                found["rogan_gladen"] = corrected
                notes.append(
                    f"correct of the {len(rest)} without a label by Rogan-Gladen {shown(corrected)}: "
                    "the labeled samples need not be a random sample, but the judge must err on both in the same way"
                )
    kinds = get_args(CorrelationKind)
    if unknown := [kind.capitalize() for kind in kinds if found[kind] and found[kind].method == "range"]:
        notes.append(f"{', '.join(unknown)}: {UNRESTRICTED}")
    return LabelAgreement(
        metric=metric,
        system=system.name,
        level="answer" if parts is None else parts.level,
        n=len(ids),
        n_unscored=sum(id_ in system.outcomes[metric] for id_ in ratings) - len(ids),
        n_unknown=sum(id_ not in system.outcomes[metric] for id_ in ratings),
        n_unlabeled=len(rest),
        label_range=scale.labels,
        categories=scale.categories,
        notes=tuple(notes),
        **found,
    )


def turn_labels(labels: Sequence[LabelRecord], bounds: tuple[float, float], *, generic: bool) -> list[LabelRecord]:
    """Return labels with the generic ones, or those of a metric, reversed within their bounds.

    A generic label says how good an answer is, and a label of a metric has the direction of the metric.
    """
    low, high = bounds
    return [
        replace(label, value=min(high, low + (high - label.value))) if (label.metric is None) == generic else label
        for label in labels
    ]


def _rates_answers(system: SystemOutcomes, metric: str) -> bool:
    card = system.cards.get(metric)
    is_lower = is_reversed(system, metric)
    return card is not None and takes_labels(card.stage, card.low, card.high, lower_is_better=is_lower)


def _agree_drawn(
    system: SystemOutcomes,
    metric: str,
    people: Mapping[str, float],
    draws: Mapping[str, DrawnRequest],
    options: LabelOptions,
) -> tuple[dict[str, Any], list[str]]:
    """Compare a metric with labels of requests that were drawn with different probabilities, for all that could be.

    Returns the share of requests on which both agree about "wrong", the kappa of this, judge - people and the estimated
    mean label as fields of the result, and notes.
    """
    known, card = decisions_of(system, metric), system.cards[metric]
    scores, low, high = {id_: value for id_, value in known.items() if id_ in draws}, card.low, card.high
    ids = [id_ for id_ in people if id_ in draws and draws[id_].position is not None]
    notes = [
        "labels of drawn requests: agreement is about wrong answers, and weighted as they were drawn",
        "judge - people and the human mean are weighted too. Correlations, alpha, learned weights and rankings are not",
    ]
    if others := len(people) - len(ids):
        notes.append(
            f"{others} labels of requests that were not drawn are not in the weighted numbers, because nothing is "
            "known about how they were chosen"
        )
    if others := len(known) - len(scores):
        notes.append(f"{others} requests could not be drawn, so the weighted numbers are not about them")
    if len(ids) < 2:
        return {"exact": None, "cohen": None}, [*notes, f"{len(ids)} labels of drawn requests: at least two are needed"]
    middle = (low + high) / 2
    limit = (middle if card.threshold is None else card.threshold) if options.threshold is None else options.threshold
    sampled = probabilities_of(system, ids) or [1.0] * len(ids)
    kept = [draws[id_].probability * sampled[n] for n, id_ in enumerate(ids)]
    by_judge = [not card.reaches(scores[id_], limit) for id_ in ids]
    by_people = [people[id_] < middle for id_ in ids]
    equal = [float(one == other) for one, other in zip(by_judge, by_people, strict=True)]
    differences = [scores[id_] - people[id_] for id_ in ids]
    labeled, probabilities = {id_: people[id_] for id_ in ids}, probabilities_of(system, scores)
    chances = {id_: draws[id_].probability for id_ in scores}
    mean, few = _powered_mean(labeled, scores, chances, (low, high), options, probabilities)
    fields = {
        "exact": hajek_mean(equal, kept, **options.interval(ids)),
        "cohen": drawn_kappa(by_judge, by_people, kept, **options.interval(ids)),
        "bias": hajek_mean(differences, kept, low=low - high, high=high - low, **options.interval(ids)),
        "human_mean": mean,
    }
    return fields, notes + few


def _powered_mean(
    people: Mapping[str, float],
    scores: Mapping[str, float],
    draws: Mapping[str, float],
    scale: tuple[float, float],
    options: LabelOptions,
    probabilities: Sequence[float] | None = None,
) -> tuple[PredictionPoweredMean, list[str]]:
    """Estimate the mean label of all samples, and return a note if there are few labels."""
    mean = drawn_prediction_powered_mean(
        [people.get(id_) for id_ in scores],
        list(scores.values()),
        [draws.get(id_, 1.0) for id_ in scores],
        probabilities=probabilities,
        low=scale[0],
        high=scale[1],
        **options.interval(scores),
    )
    note = f"with {len(people)} labels (fewer than {_FEW_LABELS}) the intervals are only a rough guide"
    return mean, [note] if len(people) < _FEW_LABELS else []


def estimate_difference(
    differences: Sequence[float], *, bound: float, clusters: Sequence[str | None] | None = None, confidence_level: float
) -> Estimate:
    """Estimate the mean of paired differences in [-bound, bound].

    With enough differences other than 0 the interval is Student's. A few rare ones do not show their variance, so with
    fewer it is that of a mean in a known range.
    """
    n_different = sum(abs(difference) > _SAME * bound for difference in differences)
    is_bounded = n_different < _MIN_DIFFERENT or max(differences) == min(differences)
    limit = bound if is_bounded else math.inf
    found = estimate_mean(differences, low=-limit, high=limit, clusters=clusters, confidence_level=confidence_level)
    assert found is not None  # noqa: S101  there are differences
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The mapping of labels to scores of one metric."""

    labels: tuple[float, float]
    scores: tuple[float, float]
    categories: tuple[float, ...]
    """Categories, as scores."""
    threshold: float | None
    is_bounded: bool

    @classmethod
    def of(cls, system: SystemOutcomes, metric: str, labels: Sequence[LabelRecord], options: LabelOptions) -> Scale:
        scores, values = system.range_of(metric), [label.value for label in labels]
        bounded = math.isfinite(scores[1] - scores[0])
        stated = {label.bounds for label in labels} if options.label_range is None else {options.label_range}
        if len(stated) > 1:
            raise DataError(f"labels of {metric} have different ranges. Choose one label (--label COLUMN=METRIC)")
        (bounds,) = stated
        if bounds is not None:
            low, high = map(float, bounds)
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ConfigurationError(f"label_range must be finite with low < high, got {low!r} and {high!r}")
            if outside := [value for value in values if not low <= value <= high]:
                raise ConfigurationError(f"labels of {metric} must be from {low:g} to {high:g}, got {outside[0]:g}")
        elif set(values) <= {0.0, 1.0}:
            # Yes/no labels, of which maybe only one occurs.
            low, high = 0.0, 1.0
        elif bounded and all(scores[0] <= value <= scores[1] for value in values):
            low, high = scores
        else:
            low, high = min(values), max(values)
            if low == high:
                raise DataError(f"all labels of {metric} are {low:g}. State --set research.label_range=LOW,HIGH")
        distinct = sorted({*values, low, high} if set(values) <= {low, high} else set(values))
        if high - low < _MOST_CATEGORIES and len(distinct) > 2 and all(v.is_integer() for v in (low, *distinct)):
            # Integer grades that do not occur are categories too.
            distinct = [low + step for step in range(int(high - low) + 1)]
        scores = scores if bounded else (low, high)
        scale = cls(labels=(low, high), scores=scores, categories=(), threshold=None, is_bounded=bounded)
        if len(distinct) > _MOST_CATEGORIES:
            return scale
        threshold = options.threshold if len(distinct) == 2 else None
        return replace(scale, categories=tuple(map(scale.as_score, distinct)), threshold=threshold)

    def as_score(self, label: float) -> float:
        share = (label - self.labels[0]) / (self.labels[1] - self.labels[0])
        return self.scores[0] + share * (self.scores[1] - self.scores[0])

    def category(self, score: float, *, threshold: float | None = None) -> float:
        """Return the nearest category. Ties go to the higher one."""
        if threshold is not None:
            return self.categories[score >= threshold]
        return min(self.categories, key=lambda c: (round(abs(c - score), 12), -c))

    @property
    def kind(self) -> Literal["nominal", "ordinal", "interval"]:
        """The scale of Krippendorff's alpha."""
        return "interval" if not self.categories else "ordinal" if len(self.categories) > 2 else "nominal"


def _agree(
    ids: Sequence[str], people: Sequence[float], judge: Sequence[float], scale: Scale, options: LabelOptions
) -> dict[str, Any]:
    """Return exact agreement, Cohen's kappa and Krippendorff's alpha of judge and people, as fields of the result."""
    found: dict[str, Any] = dict.fromkeys(("exact", "cohen", "human_mean", "bias"))
    resampled = {"clusters": options.clusters_of(ids), **options.bootstrap}
    if not scale.is_bounded and scale.threshold is None:
        unknown = Agreement(coefficient=None, observed=None, expected=None, n=len(ids), n_left_out=0)
        return found | {"krippendorff": unknown}
    if scale.categories:
        people = [scale.category(value) for value in people]
        judge = [scale.category(value, threshold=scale.threshold) for value in judge]
        weights: Literal["quadratic", "none"] = "quadratic" if len(scale.categories) > 2 else "none"
        found["cohen"] = cohen_kappa(people, judge, weights=weights, categories=scale.categories, **resampled)
        found["exact"] = percent_agreement([*zip(people, judge, strict=True)], **options.interval(ids))
    found["krippendorff"] = krippendorff_alpha([*zip(people, judge, strict=True)], scale=scale.kind, **resampled)
    return found


def _agreement_among_people(
    by_sample: Mapping[str, Mapping[str | None, float]], scale: Scale, options: LabelOptions
) -> dict[str, Any]:
    """Return Krippendorff's alpha among people, and Fleiss' kappa if all samples have the same number of labels."""
    ratings = [list(by.values()) for by in by_sample.values()]
    resampled = {"clusters": options.clusters_of(by_sample), **options.bootstrap}
    n_raters = max(map(len, ratings))
    if n_raters < 2:
        return {"people": None, "people_fleiss": None}
    table = [[*row, *[None] * (n_raters - len(row))] for row in ratings]
    is_regular = scale.categories and all(len(row) == n_raters for row in ratings)
    return {
        "people": krippendorff_alpha(table, scale=scale.kind, **resampled),
        "people_fleiss": fleiss_kappa(table, **resampled) if is_regular else None,
    }


def _human_mean(
    people: Mapping[str, float],
    scores: Mapping[str, float],
    rest: Mapping[str, float],
    scale: Scale,
    options: LabelOptions,
) -> tuple[PredictionPoweredMean | None, list[str]]:
    """Estimate the human mean over all samples, and return notes about violated assumptions.

    `people` are mean labels as scores, `scores` those of all samples, and `rest` those of samples without a label.
    """
    if len(people) < 2 or len(rest) < 2:
        missing = "with" if len(people) < 2 else "without"
        return None, [f"no prediction-powered mean: it needs at least two scored samples {missing} a label"]
    judge = [scores[id_] for id_ in people]
    clusters = None if options.clusters is None else (options.clusters.of(people), options.clusters.of(rest))
    # Labels of a file are a random sample, so all have the same probability.
    mean, few = _powered_mean(people, scores, {}, scale.scores, options)
    notes = ["the estimated human mean is valid if the labeled samples are a random sample of all samples"]
    difference = compare_groups(judge, list(rest.values()), clusters=clusters, **options.bootstrap).difference
    if not difference.low <= 0 <= difference.high:
        notes.append(
            f"the labeled samples are probably not a random sample, which the prediction-powered mean assumes: their "
            f"scores differ from the others' by {shown(difference, sign='+')}"
        )
    return mean, notes + few
