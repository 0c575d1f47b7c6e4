"""The registered CRUX metrics, and those with another threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.metrics.crux._base import CruxMetric
from ragstone.metrics.crux._coverage import Coverage, RankedCoverage, ResponseCoverage
from ragstone.metrics.crux._density import Density, ResponseDensity
from ragstone.metrics.crux._free import FreeCoverage, FreeNovelty, FreeRedundancy, FreeResponseCoverage
from ragstone.metrics.crux._matrix import ETA
from ragstone.metrics.crux._redundancy import Novelty, Redundancy

_HIGHEST: Final = 5

CRUX: Final[tuple[CruxMetric, ...]] = (
    Coverage(),
    ResponseCoverage(),
    RankedCoverage(),
    Density(),
    ResponseDensity(),
    Redundancy(),
    Novelty(),
    FreeCoverage(),
    FreeResponseCoverage(),
    FreeRedundancy(),
    FreeNovelty(),
)
"""The groups `crux` and `crux_reference_free`. The latter does not need a reference."""


def _at(metric: CruxMetric, argument: str) -> CruxMetric:
    """Return a metric with another threshold η.

    Raises:
        ConfigurationError: If the argument is not a number above 0 and at most 5.
    """
    try:
        eta = float(argument)
    except ValueError:
        eta = 0.0
    if not 0 < eta <= _HIGHEST:
        raise ConfigurationError(
            f"{metric.name}@{argument}: the rating from which a text answers a sub-question must be above 0 and at most "
            f"{_HIGHEST} ({metric.name}@4)"
        )
    if eta == ETA:
        return metric
    made = type(metric)()
    made.rating_threshold = eta
    made.name = f"{metric.name}@{eta:g}"
    made.title = f"{metric.title}, ratings from {eta:g}"
    made.formula = metric.formula.replace(f"rating >= {ETA:g}", f"rating >= {eta:g}")
    made.version = f"{metric.version}(eta={eta:g})"
    # The example is calculated with the default threshold.
    made.example = None
    return made


CRUX_AT: Final[Mapping[str, Callable[[str], CruxMetric]]] = {metric.name: partial(_at, metric) for metric in CRUX}
"""For each `NAME@ETA`: the function that makes the metric."""
