"""Ranking metrics: whether relevant passages are retrieved and ranked first."""

from typing import Final

from ragstone.metrics._card import Metric
from ragstone.metrics.ranking._alpha_ndcg import ALPHA, ALPHA_NDCG_MAX, alpha_ndcg
from ragstone.metrics.ranking._binary import average_precision, f1, hit_rate, precision, recall, reciprocal_rank
from ragstone.metrics.ranking._grades import Qrels, Run
from ragstone.metrics.ranking._judged import JUDGED_KINDS, JudgedRankingMetric
from ragstone.metrics.ranking._measures import KINDS
from ragstone.metrics.ranking._metric import AlphaNdcg, RankingMetric
from ragstone.metrics.ranking._ndcg import ndcg

__all__ = ["alpha_ndcg", "average_precision", "f1", "hit_rate", "ndcg", "precision", "recall", "reciprocal_rank"]

RANKING: Final[tuple[Metric, ...]] = (
    *(RankingMetric(kind.name, kind.k) for kind in KINDS.values() if not kind.is_by_name_only),
    AlphaNdcg(10),
    *(JudgedRankingMetric(kind.name, kind.k) for kind in JUDGED_KINDS),
)
"""The groups `ranking` and `judged`."""
