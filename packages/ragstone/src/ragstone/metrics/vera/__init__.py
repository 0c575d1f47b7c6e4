"""VERA: faithfulness, relevance, retrieval, and one composite score."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import Metric
from ragstone.metrics.vera._judged import JUDGED

__all__ = ["VERA"]

VERA: Final[tuple[Metric, ...]] = JUDGED
