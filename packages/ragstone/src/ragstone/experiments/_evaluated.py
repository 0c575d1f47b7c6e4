"""What other modules need of an `Experiment`: its outcomes, with their samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ragstone.experiments._views.source import Source
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, NotApplicable, Sample, Score
from ragstone.settings import Analysis


class Evaluated(ABC):
    """Base class of `Experiment`."""

    __slots__ = ()

    samples: Sequence[Sample]
    outcomes: Sequence[Score | NotApplicable | Failure]
    cards: tuple[MetricCard, ...]

    @property
    @abstractmethod
    def analysis(self) -> Analysis:
        """Clusters of samples, and confidence level of intervals."""

    @abstractmethod
    def source(self, name: str | None = None, analysis: Analysis | None = None) -> Source:
        """Return the outcomes as a source. Without an analysis, it has that of the experiment."""
