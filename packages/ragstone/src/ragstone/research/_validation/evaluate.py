"""`validate_metrics`: outcomes of systems in, what the metrics are worth out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragstone.data import SampleSource
from ragstone.errors import ConfigurationError
from ragstone.experiments import OutcomeSource, SystemOutcomes
from ragstone.judges import BASELINE_NOTE
from ragstone.research._validation.describe import correlations, distributions, powers
from ragstone.research._validation.labels import LabelOptions, agreements, read_labels
from ragstone.research._validation.repeats import flips, read_repeats
from ragstone.research._validation.report import MetricValidation
from ragstone.research._validation.sources import metrics_of, read_systems

__all__ = ["validate_metrics"]


def validate_metrics(
    *systems: OutcomeSource | Mapping[str, OutcomeSource],
    labels: SampleSource | None = None,
    label_column: str | None = None,
    label_range: tuple[float, float] | None = None,
    threshold: float | None = None,
    repeats: Sequence[OutcomeSource] | Mapping[str, Sequence[OutcomeSource]] = (),
    flip_threshold: float = 0.1,
    metrics: Sequence[str] | None = None,
    alpha: float = 0.05,
    confidence_level: float = 0.95,
    n_resamples: int = 2000,
    n_permutations: int = 10_000,
    seed: int = 0,
) -> MetricValidation:
    """Evaluate the metrics themselves on outcomes of yours: can these scores be trusted, and what for?

    What is reported depends on what is there. One system: distributions (ceilings, floors, ties) and correlations between
    metrics. Several: the correlations averaged over them, and how many pairs each metric tells apart. Repeats: how often
    the judge says something else. Labels: how well each metric agrees with people, and the mean that people would give.

    Args:
        systems: Experiments, files of outcomes (`evaluate --output`), stores, or a mapping of names to those.
        labels: What people said: rows with an `id` and labels, in columns named like metrics, as `metric` and `label`, or
            one `label` that all metrics are held against; `rater` and `system` where there are several. The labelled
            samples should be a random sample: the prediction-powered mean rests on it.
        label_column: The column of the label, where it has another name.
        label_range: Lowest and highest possible label, (1, 5) say; None takes the metric's range where all labels lie in
            it, else the lowest and highest that occur.
        threshold: Scores from here on are a yes against yes-no labels; None for the middle of the metric's range.
        repeats: Outcomes of the same samples scored again; by system where there are several.
        flip_threshold: Scores further apart than this share of the metric's range are a flip.
        metrics: Names or groups; None for all that have outcomes.
        alpha: Significance level of the discriminative power.
        confidence_level: Nominal coverage of all intervals.
        n_resamples: Bootstrap resamples.
        n_permutations: Permutations behind p-values.
        seed: Of all random numbers.

    Raises:
        ConfigurationError: A file that does not exist, no system at all, or an option out of range.
        DataError: Outcomes or labels that cannot be read, or labels and repeats that belong to nothing.

    Source:
        CCRS, section 4.1 and appendix C (distributions, validity, ties, discriminative power); statistics as documented in
        `ragstone.stats`.

    Example:
        >>> import ragstone
        >>> rows = [
        ...     {"query": "Why?", "contexts": ["Rain."], "response": w, "reference": "Rain."} for w in ("Rain.", "No.")
        ... ]
        >>> report = validate_metrics(ragstone.evaluate(rows, ["ccrs.ac", "ccrs.ir"], judge="lexical"))
        >>> report.distributions[0].population.n
        2
    """
    if not (0 < alpha < 1 and 0 < confidence_level < 1):
        raise ConfigurationError(
            f"alpha and confidence_level must lie in (0, 1), got alpha={alpha!r} and confidence_level={confidence_level!r}"
        )
    if n_resamples < 1 or n_permutations < 1 or flip_threshold < 0:
        raise ConfigurationError(
            "n_resamples and n_permutations must be at least 1 and flip_threshold at least 0, got "
            f"{n_resamples!r}, {n_permutations!r} and {flip_threshold!r}"
        )
    read = read_systems(systems)
    chosen = metrics_of(read, metrics)
    gathered = read_repeats(read, repeats)
    options = LabelOptions(
        label_range=label_range,
        threshold=threshold,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        seed=seed,
    )
    said = None if labels is None else read_labels(labels, metrics=chosen, column=label_column)
    return MetricValidation(
        systems=tuple(system.name for system in read),
        distributions=tuple(distributions(read, chosen, confidence_level=confidence_level)),
        correlations=tuple(correlations(read, chosen, confidence_level=confidence_level)),
        powers=tuple(powers(read, chosen, alpha=alpha, n_permutations=n_permutations, seed=seed)),
        repeatability=tuple(flips(read, gathered, chosen, threshold=flip_threshold, confidence_level=confidence_level)),
        labels=() if said is None else tuple(agreements(read, chosen, said, options)),
        notes=tuple(_notes(read, chosen)),
        alpha=alpha,
        confidence_level=confidence_level,
        seed=seed,
    )


def _notes(systems: Sequence[SystemOutcomes], metrics: Sequence[str]) -> list[str]:
    """What a reader of the numbers must know about them."""
    notes = []
    for metric in metrics:
        judges = {name for system in systems for name in system.judges.get(metric, ())}
        if len(judges) > 1:
            notes.append(
                f"{metric}: scored by {len(judges)} judges ({', '.join(sorted(judges))}); their scores are not one scale"
            )
    if len(systems) > 1:
        shared = frozenset.intersection(*(system.sample_ids for system in systems))
        all_ = frozenset.union(*(system.sample_ids for system in systems))
        if len(shared) < len(all_):
            notes.append(f"{len(shared)} of {len(all_)} samples are in all systems; each number names its own n")
    if any(system.is_baseline for system in systems):
        notes.append(BASELINE_NOTE)
    return notes
