"""The registered ranking metrics: both groups, and other cutoffs as NAME@K."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ragstone.metrics._card import Metric
from ragstone.metrics.ranking._judged import JUDGED_KINDS, JudgedRankingMetric
from ragstone.metrics.ranking._measures import KINDS, Kind, cutoff_from
from ragstone.metrics.ranking._metric import AlphaNdcg, RankingMetric


def _usual(kind: Kind) -> str:
    return kind.name if kind.k is None else f"{kind.name}@{kind.k}"


RANKING: Final[tuple[Metric, ...]] = (
    # The group contains one nDCG. The variant with linear gain can be requested by name.
    *(RankingMetric(_usual(kind)) for kind in KINDS.values() if kind.gain != "linear"),
    AlphaNdcg(),
    *(JudgedRankingMetric(_usual(kind)) for kind in JUDGED_KINDS),
)
"""The groups `ranking` and `judged`."""


def _labeled(name: str, k: str) -> Metric:
    return RankingMetric(f"{name}@{cutoff_from(name, k)}")


def _judged(name: str, k: str) -> Metric:
    return JudgedRankingMetric(f"{name}@{cutoff_from(name, k)}")


def _alpha_ndcg(k: str) -> Metric:
    return AlphaNdcg(k=cutoff_from("alpha_ndcg", k))


RANKING_AT: Final[Mapping[str, Callable[[str], Metric]]] = {
    **{name: partial(_labeled, name) for name in KINDS},
    "alpha_ndcg": _alpha_ndcg,
    **{f"judged.{kind.name}": partial(_judged, kind.name) for kind in JUDGED_KINDS},
}
"""For each `NAME@K`: the function that makes the metric from K."""
