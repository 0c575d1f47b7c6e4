"""The registered CRUX metrics."""

from __future__ import annotations

from typing import Final

from ragstone.metrics.crux._base import CruxMetric
from ragstone.metrics.crux._coverage import Coverage, RankedCoverage, ResponseCoverage
from ragstone.metrics.crux._density import Density, ResponseDensity
from ragstone.metrics.crux._free import FreeCoverage, FreeNovelty, FreeRedundancy, FreeResponseCoverage
from ragstone.metrics.crux._redundancy import Novelty, Redundancy

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
