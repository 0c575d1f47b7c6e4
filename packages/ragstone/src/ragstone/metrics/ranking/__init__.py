"""Ranking: is what is relevant retrieved, and does it come first?"""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import Metric

__all__ = ["RANKING"]

RANKING: Final[tuple[Metric, ...]] = ()
