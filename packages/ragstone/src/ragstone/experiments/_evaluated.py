"""What other modules need of an `Experiment`: its outcomes, with their samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from ragstone.experiments._views.source import ReportSource
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
    def report_source(self, name: str | None = None) -> ReportSource:
        """Return what views of these outcomes are built from."""

    @abstractmethod
    def queries(self) -> Mapping[str, str]:
        """Return the queries by sample id."""
