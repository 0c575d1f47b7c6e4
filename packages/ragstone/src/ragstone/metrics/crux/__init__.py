"""CRUX: coverage, density and redundancy of contexts and response, by sub-questions."""

from typing import Final

from ragstone.metrics.crux._asking import rate_answerability
from ragstone.metrics.crux._base import CruxMetric
from ragstone.metrics.crux._coverage import Coverage, RankedCoverage, ResponseCoverage
from ragstone.metrics.crux._density import Density, ResponseDensity
from ragstone.metrics.crux._free import FreeCoverage, FreeNovelty, FreeRedundancy, FreeResponseCoverage
from ragstone.metrics.crux._matrix import ETA, answerable, relative_density, required_subset
from ragstone.metrics.crux._redundancy import Novelty, Redundancy

__all__ = ["answerable", "relative_density", "required_subset"]

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
