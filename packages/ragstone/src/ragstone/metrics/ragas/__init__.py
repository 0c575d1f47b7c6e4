"""The four metrics of RAGAS, on claims that are extracted once."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import Metric

__all__ = ["RAGAS"]

RAGAS: Final[tuple[Metric, ...]] = ()
