"""VERA: metrics of faithfulness, relevance and retrieval, and a composite score."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import Metric
from ragstone.metrics.vera._judged import JUDGED
from ragstone.metrics.vera.composite import VeraComposite

VERA: Final[tuple[Metric, ...]] = (*JUDGED, VeraComposite())
