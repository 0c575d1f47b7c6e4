"""`validate_metrics`: evaluates the metrics themselves on outcomes of systems."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragstone.experiments import (
    AUTO_CLUSTER,
    OutcomeSource,
    SystemOutcomes,
    check_level,
    choose_clusters,
    cluster_notes,
)
from ragstone.judges import BASELINE_NOTE
from ragstone.reading import LabelRecord, SampleSource
from ragstone.settings import check
from ragstone.store import DrawnRequest
from ragstone_lab._validation.agreement import LabelOptions, agreements
from ragstone_lab._validation.describe import correlations, distributions, powers
from ragstone_lab._validation.labels import compared_notes, labels_of, read_labels, read_stored_labels
from ragstone_lab._validation.ranking import rank_records, rankings
from ragstone_lab._validation.repeats import flips, pass_rates, read_repeats
from ragstone_lab._validation.report import MetricValidation
from ragstone_lab._validation.sources import is_unevenly_sampled, metrics_of, read_systems
from ragstone_lab._validation.weights import fit_composite


def validate_metrics(
    *systems: OutcomeSource | Mapping[str, OutcomeSource],
    labels: SampleSource | None = None,
    label_columns: Sequence[str] = (),
    label_range: tuple[float, float] | None = None,
    label_values: Sequence[str] = (),
    threshold: float | None = None,
    repeats: Sequence[OutcomeSource] | Mapping[str, Sequence[OutcomeSource]] = (),
    flip_threshold: float = 0.1,
    target: str | None = None,
    pass_at: Sequence[int] = (),
    fit_weights: str | os.PathLike[str] | None = None,
    metrics: Sequence[str] | None = None,
    cluster: str | None = AUTO_CLUSTER,
    confidence_level: float = 0.95,
    n_resamples: int = 2000,
    n_permutations: int = 10_000,
    seed: int = 0,
) -> MetricValidation:
    """Evaluate the metrics themselves on your outcomes.

    The report depends on the data. One system: distributions (ceilings, floors, ties) and correlations between metrics.
    Several systems: average correlations, and the share of pairs with a significant difference for each metric.
    Repeats: how often the judge's scores flip. Labels: agreement of each metric with human labels, and an estimate of the human mean.

    Args:
        systems: Experiments, files of outcomes (`evaluate --output`), stores, or a mapping of names to those.
        labels: Human labels. None: those that the stores among `systems` contain. Otherwise rows with an `id` and
            labels, in columns named like metrics, as `metric` and `label`, or one `label` for all metrics. With several
            raters or systems, also `rater` and `system`. The labeled samples should be a random sample, as the prediction-powered mean assumes.
        label_columns: Columns of labels, each NAME or NAME=METRIC. Default: detected.
        label_range: Lowest and highest possible label, such as (1, 5). Default: that of the labels' layout, or 0 to 1
            for words, 0 and 1, otherwise the metric's range if all labels lie in it, otherwise the lowest and highest
            label. A note states a guess.
        label_values: Labels that are texts, lowest first.
        threshold: Score from which a sample is positive, for yes/no labels. Default: the middle of the metric's range.
        repeats: Outcomes of the same samples scored again. By system if there are several.
        flip_threshold: Two scores of a sample are a flip if they differ by more than this share of the metric's range.
        target: Metric by which the other metrics' rankings of the systems are checked with Kendall's tau, or "labels"
            for the human labels. Needs at least three systems that answered the same samples.
        pass_at: Numbers k for pass@k: the probability that at least one of k answers to a question reaches `threshold`,
            from repeated answers (`evaluate --repeats`, or `repeats`).
        fit_weights: File for weights of a composite of the metrics, which are learned from the labels (`composite@FILE`).
        metrics: Names or groups. Default: all with outcomes.
        cluster: Key whose equal values make a cluster of samples, such as "session_id": means, shares, correlations and
            the discriminative power then treat whole clusters as independent. "auto" uses `session_id` if at least 5%
            of the samples share one. None or "none" treats samples as independent.
        confidence_level: Confidence level of all intervals, and of the tests of the discriminative power.
        n_resamples: Number of bootstrap resamples.
        n_permutations: Number of permutations for p-values.
        seed: Seed of all random numbers.

    Raises:
        ConfigurationError: If a file does not exist, no system is given, an option is out of range or no sample has the
            key of `cluster`.
        DataError: If all samples are in one cluster, or outcomes or labels are invalid, or labels or repeats do not match any sample.

    Source:
        CCRS, section 4.1 and appendix C (distributions, validity, ties, discriminative power). Statistics as documented
        in `ragstone.stats`.

    Examples:
        >>> import ragstone
        >>> rows = [
        ...     {"query": "Why?", "contexts": ["Rain."], "response": w, "reference": "Rain."} for w in ("Rain.", "No.")
        ... ]
        >>> report = validate_metrics(ragstone.evaluate(rows, ["ccrs.ac", "ccrs.ir"], judge="lexical"))
        >>> report.distributions[0].population.n
        2
    """
    check_level(confidence_level)
    check("analysis", "validate_metrics", n_resamples=n_resamples, n_permutations=n_permutations)
    check("research", "validate_metrics", flip_threshold=flip_threshold)
    read = read_systems(systems, cluster=cluster)
    chosen = metrics_of(read, metrics)
    repeated = read_repeats(read, repeats)
    merged: dict[str, dict[str, str]] = {}
    for system in read:
        for key, by_sample in system.labels.items():
            merged.setdefault(key, {}).update(by_sample)
    ids = list(dict.fromkeys(id_ for system in read for id_ in sorted(system.sample_ids)))
    clusters = choose_clusters(cluster, merged, ids)
    scores = {metric: {id_: v for system in read for id_, v in system.values(metric).items()} for metric in chosen}
    draws: dict[str, Mapping[str, DrawnRequest]] = {}
    label_notes: list[str] = []
    if labels is not None:
        file = read_labels(
            labels, metrics=chosen, columns=label_columns, label_range=label_range, categories=label_values
        )
        human_labels: list[LabelRecord] | None = labels_of(file, chosen, is_stated=metrics is not None)
        label_notes = compared_notes(file, chosen)
    else:
        human_labels, draws = read_stored_labels(systems, read)
    options = LabelOptions(
        label_range=label_range, threshold=threshold, n_resamples=n_resamples, n_permutations=n_permutations,
        confidence_level=confidence_level, seed=seed, draws=draws, clusters=clusters,
    )  # fmt: skip
    weights = None
    if fit_weights is not None:
        weights = fit_composite(read, chosen, human_labels, options)
        weights.save(Path(fit_weights))
    return MetricValidation(
        systems=tuple(system.name for system in read),
        distributions=tuple(distributions(read, chosen, options)),
        correlations=tuple(correlations(read, chosen, options)),
        powers=tuple(powers(read, chosen, options)),
        repeatability=tuple(flips(read, repeated, chosen, options, threshold=flip_threshold)),
        labels=() if human_labels is None else tuple(agreements(read, chosen, human_labels, options)),
        weights=weights,
        pass_rates=tuple(pass_rates(read, repeated, chosen, sorted(set(pass_at)), options, threshold=threshold))
        if pass_at
        else (),
        records=() if human_labels is None else tuple(rank_records(read, chosen, human_labels, options)),
        rankings=() if target is None else tuple(rankings(read, chosen, target, human_labels, options)),
        notes=(*label_notes, *_notes(read, chosen), *cluster_notes(cluster, clusters, merged, ids, scores)),
        confidence_level=confidence_level,
        seed=seed,
    )


def _notes(systems: Sequence[SystemOutcomes], metrics: Sequence[str]) -> list[str]:
    """Return notes that a reader needs to interpret the numbers."""
    notes = []
    for metric in metrics:
        judges = {name for system in systems for name in system.judges.get(metric, ())}
        if len(judges) > 1:
            notes.append(
                f"{metric}: scored by {len(judges)} judges ({', '.join(sorted(judges))}), which use different scales"
            )
    if len(systems) > 1:
        shared = frozenset.intersection(*(system.sample_ids for system in systems))
        all_ = frozenset.union(*(system.sample_ids for system in systems))
        if len(shared) < len(all_):
            notes.append(f"{len(shared)} of {len(all_)} samples are in all systems. Each number has its own n.")
    uneven = [system.name for system in systems if is_unevenly_sampled(system, system.sample_ids)]
    if uneven:
        notes.append(
            f"{', '.join(uneven)}: requests were sampled with different probabilities. Means and shares at a bound are "
            "weighted by their inverse. All other numbers describe the scored requests without weights."
        )
    if any(system.is_baseline for system in systems):
        notes.append(BASELINE_NOTE)
    return notes
