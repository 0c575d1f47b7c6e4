"""Weights of a composite of metrics, learned from human labels."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import SystemOutcomes
from ragstone.extension import write_output
from ragstone.metrics import Composite
from ragstone.reading import LabelRecord
from ragstone.stats import Estimate, correlate, spearman
from ragstone_lab._report import percentile_estimates
from ragstone_lab._validation.labels import mean_labels
from ragstone_lab._validation.sources import Options, refuse_uneven, scores_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MIN_SAMPLES: Final = 20
_FOLDS: Final = 5
_NO_WEIGHT: Final = 1e-9
"""Weight that is 0 up to rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFit:
    """Weights of the metrics whose weighted mean follows the labels best."""

    metrics: tuple[str, ...]
    weights: tuple[Estimate, ...]
    """Weights that add up to 1, with percentile intervals over samples. A weight that is the same in all resamples has
    the interval from 0 to what the low ends of the others leave: the samples do not show how much it varies."""
    covariance: tuple[tuple[float, ...], ...]
    n_samples: int
    n_labels: int
    """Number of pairs of a sample and a system with labels and all scores."""
    rank_correlation: Estimate | None
    """Spearman correlation of labels and composite, with weights from other samples (5 folds), over samples."""
    equal_weights: float | None
    """The same correlation with equal weights."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know before using the weights."""
        notes = []
        if zero := [name for name, weight in zip(self.metrics, self.weights, strict=True) if weight.value < _NO_WEIGHT]:
            notes.append(
                f"no weight for {', '.join(zero)}: with the others, they do not add to the agreement with the labels"
            )
        if self.rank_correlation is None or self.rank_correlation.low <= 0:
            notes.append(
                "the composite does not significantly follow the labels of other samples: label more samples before "
                "you use these weights"
            )
        return tuple(notes)

    def save(self, path: str | Path) -> None:
        """Write the file for `composite@FILE`. Raise ConfigurationError if the file cannot be written."""
        content = {
            "weights": {name: weight.value for name, weight in zip(self.metrics, self.weights, strict=True)},
            "covariance": self.covariance,
            "fit": {
                "n_samples": self.n_samples,
                "n_labels": self.n_labels,
                "rank_correlation": self.rank_correlation and self.rank_correlation.value,
            },
        }
        try:
            write_output(path, json.dumps(content, indent=1) + "\n")
        except OSError as error:
            raise ConfigurationError(
                f"the weights {str(path)!r} cannot be written: {error.strerror or error}"
            ) from None


def fit_composite(
    systems: Sequence[SystemOutcomes], metrics: Sequence[str], labels: Sequence[LabelRecord] | None, options: Options
) -> WeightFit:
    """Learn non-negative weights by least squares, with an intercept. The weights are divided by their sum.

    Each score counts by its place between the worst and the best value of its metric, as in the composite. Metrics
    without a bounded range, and those that not all systems have, are left out. Samples are resampled with all their systems and labels.
    """
    import numpy as np

    if labels is None:
        raise DataError("weights are learned from human labels. Pass them with labels= (--labels)")
    refuse_uneven(systems, "learned weights")
    names = [name for name in metrics if all(map(partial(_has_scores, name), systems))]
    if len(names) < 2:
        raise DataError(
            f"weights need scores of at least two metrics with a bounded range in all systems, got {', '.join(names) or 'none'}"
        )
    rows, goals, ids = _table(systems, names, labels)
    n = len(set(ids))
    if n < _MIN_SAMPLES:
        raise DataError(
            f"weights need at least {_MIN_SAMPLES} samples with labels and all scores, got {n}. Labels of whole samples count, in a column such as `label`"
        )
    x, y = np.asarray(rows), np.asarray(goals)
    place = {id_: number for number, id_ in enumerate(dict.fromkeys(ids))}
    groups = np.asarray([place[id_] for id_ in ids])
    ones = np.ones(y.size)
    point = _weights(x, y, ones)
    if point is None:
        raise DataError(f"none of {', '.join(names)} increases with the labels, so no weight is above 0")
    rng = np.random.default_rng(options.seed)
    drawn = [
        found
        for _ in range(options.n_resamples)
        if (found := _weights(x, y, rng.multinomial(n, np.full(n, 1 / n))[groups].astype(float))) is not None
    ]
    table = np.asarray(drawn) if len(drawn) > 1 else np.stack([point, point])
    tail = (1 - options.confidence_level) / 2
    low, high = np.quantile(table, [tail, 1 - tail], axis=0)
    same = np.ptp(table, axis=0) < _NO_WEIGHT
    low[same], high[same] = 0.0, 1.0 - low[~same].sum()
    folds = rng.permutation(n)[groups] % _FOLDS
    predicted = np.full(y.size, np.nan)
    for fold in range(_FOLDS):
        found = _weights(x, y, (folds != fold).astype(float))
        if found is not None:
            predicted[folds == fold] = x[folds == fold] @ found
    known, level = ~np.isnan(predicted), options.confidence_level
    followed = correlate(
        predicted[known], y[known], "spearman", clusters=groups[known].tolist(), confidence_level=level
    )
    ends = np.stack([low, high], axis=1).tolist()
    return WeightFit(
        metrics=tuple(names),
        weights=percentile_estimates(point.tolist(), ends, n=n, confidence_level=level),
        covariance=tuple(tuple(float(cell) for cell in row) for row in np.cov(table, rowvar=False)),
        n_samples=n,
        n_labels=y.size,
        rank_correlation=followed,
        equal_weights=spearman(x.mean(axis=1), y),
    )


def _has_scores(metric: str, system: SystemOutcomes) -> bool:
    low, high = system.range_of(metric)
    is_part = metric.partition(".")[0] != Composite.name and math.isfinite(high - low)
    return is_part and bool(system.values(metric))


def _table(
    systems: Sequence[SystemOutcomes], names: Sequence[str], labels: Sequence[LabelRecord]
) -> tuple[list[list[float]], list[float], list[str]]:
    """Return scores, mean labels and sample ids of all pairs of a sample and a system that have both."""
    rows: list[list[float]] = []
    goals: list[float] = []
    ids: list[str] = []
    for system in systems:
        scores = [
            {id_: system.cards[name].goodness(value) for id_, value in scores_of(system, name).items()}
            for name in names
        ]
        for id_, label in mean_labels([label for label in labels if label.metric is None], system.name).items():
            if all(id_ in of for of in scores):
                rows.append([of[id_] for of in scores])
                goals.append(label)
                ids.append(id_)
    return rows, goals, ids


def _weights(x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return non-negative weights that add up to 1, by weighted least squares with an intercept, or None if all are 0."""
    import numpy as np
    from scipy.optimize import nnls

    total = weight.sum()
    centered = x - weight @ x / total
    goal = y - weight @ y / total
    root = np.sqrt(weight)
    found, _ = nnls(centered * root[:, None], goal * root)
    return np.asarray(found / found.sum(), dtype=float) if found.sum() > 0 else None
