"""What other modules need of an `Experiment`: outcomes in memory, with their samples."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ragstone.experiments._views.source import ReportSource
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, NotApplicable, Sample, Score

__all__ = ["Evaluated"]


class Evaluated(ABC):
    """Base class of `Experiment`."""

    __slots__ = ()

    samples: tuple[Sample, ...]
    outcomes: tuple[Score | NotApplicable | Failure, ...]
    cards: tuple[MetricCard, ...]
    cluster: str | None

    @abstractmethod
    def report_source(self, name: str | None = None) -> ReportSource:
        """Return what views of these outcomes are built from."""
