"""The ranking metrics that can be named: those of the two groups, and any other cut-off as NAME@K."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ragstone.metrics._card import Metric
from ragstone.metrics.ranking._judged import JUDGED_KINDS, JudgedRankingMetric
from ragstone.metrics.ranking._measures import KINDS, Kind, cut_from
from ragstone.metrics.ranking._metric import AlphaNdcg, RankingMetric

__all__ = ["RANKING", "RANKING_AT"]


def _usual(kind: Kind) -> str:
    return kind.name if kind.k is None else f"{kind.name}@{kind.k}"


RANKING: Final[tuple[Metric, ...]] = (
    # One nDCG is enough in a table; the other gain is there when it is named.
    *(RankingMetric(_usual(kind)) for kind in KINDS.values() if kind.gain != "linear"),
    AlphaNdcg(),
    *(JudgedRankingMetric(_usual(kind)) for kind in JUDGED_KINDS),
)
"""The groups `ranking` and `judged`."""


def _labelled(name: str, k: str) -> Metric:
    return RankingMetric(f"{name}@{cut_from(name, k)}")


def _judged(name: str, k: str) -> Metric:
    return JudgedRankingMetric(f"{name}@{cut_from(name, k)}")


def _novel(k: str) -> Metric:
    return AlphaNdcg(k=cut_from("alpha_ndcg", k))


RANKING_AT: Final[Mapping[str, Callable[[str], Metric]]] = {
    **{name: partial(_labelled, name) for name in KINDS},
    "alpha_ndcg": _novel,
    **{f"judged.{kind.name}": partial(_judged, kind.name) for kind in JUDGED_KINDS},
}
"""What makes `NAME@K` from the K."""
