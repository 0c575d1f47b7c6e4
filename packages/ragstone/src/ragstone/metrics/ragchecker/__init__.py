"""RAGChecker: claims of response and reference, held against each other and against the contexts."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import Metric

__all__ = ["RAGCHECKER"]

RAGCHECKER: Final[tuple[Metric, ...]] = ()
