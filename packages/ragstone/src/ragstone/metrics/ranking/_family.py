"""The registered ranking metrics, of both groups."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import Metric
from ragstone.metrics.ranking._judged import JUDGED_KINDS, JudgedRankingMetric
from ragstone.metrics.ranking._measures import KINDS
from ragstone.metrics.ranking._metric import AlphaNdcg, RankingMetric

RANKING: Final[tuple[Metric, ...]] = (
    # The group contains one nDCG. The variant with linear gain can be requested by name.
    *(RankingMetric(kind.name, kind.k) for kind in KINDS.values() if kind.gain != "linear"),
    AlphaNdcg(10),
    *(JudgedRankingMetric(kind.name, kind.k) for kind in JUDGED_KINDS),
)
"""The groups `ranking` and `judged`."""
