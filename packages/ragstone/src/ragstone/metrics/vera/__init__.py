"""VERA: metrics of faithfulness, relevance and retrieval, and a composite score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ragstone.metrics._card import Metric
from ragstone.metrics.vera._judged import JUDGED
from ragstone.metrics.vera.composite import VeraComposite

__all__ = ["VERA", "VERA_AT", "VeraComposite"]

VERA: Final[tuple[Metric, ...]] = (*JUDGED, VeraComposite())
VERA_AT: Final[Mapping[str, Callable[[str], Metric]]] = {"vera.composite": lambda model: VeraComposite(model=model)}
"""For each `NAME@MODEL`: the function that makes the metric."""
