"""CRUX: coverage, density and redundancy of contexts and response, by sub-questions."""

from ragstone.metrics.crux._asking import (
    MOST_QUESTIONS,
    RATING_TASK,
    TASK_FROM_REFERENCE,
    rate_answerability,
    rating_prompt,
)
from ragstone.metrics.crux._coverage import Coverage, RankedCoverage, ResponseCoverage
from ragstone.metrics.crux._density import Density, ResponseDensity
from ragstone.metrics.crux._family import CRUX
from ragstone.metrics.crux._free import FreeCoverage, FreeNovelty, FreeRedundancy, FreeResponseCoverage
from ragstone.metrics.crux._matrix import ETA, answerable, relative_density, required_subset
from ragstone.metrics.crux._redundancy import Novelty, Redundancy

__all__ = [
    "CRUX",
    "ETA",
    "MOST_QUESTIONS",
    "RATING_TASK",
    "TASK_FROM_REFERENCE",
    "Coverage",
    "Density",
    "FreeCoverage",
    "FreeNovelty",
    "FreeRedundancy",
    "FreeResponseCoverage",
    "Novelty",
    "RankedCoverage",
    "Redundancy",
    "ResponseCoverage",
    "ResponseDensity",
    "answerable",
    "rate_answerability",
    "rating_prompt",
    "relative_density",
    "required_subset",
]
