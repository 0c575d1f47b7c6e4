"""Meaning: how close is the response to the reference, to a model that runs in this process?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ragstone.metrics._card import Metric
from ragstone.metrics.semantic._bertscore import BertScore
from ragstone.metrics.semantic._embedding import EmbeddingSimilarity

__all__ = ["SEMANTIC", "SEMANTIC_AT", "BertScore", "EmbeddingSimilarity"]

SEMANTIC: Final[tuple[Metric, ...]] = (BertScore(), EmbeddingSimilarity())
"""The metrics of the group, with their default models, which are loaded when first used."""

SEMANTIC_AT: Final[Mapping[str, Callable[[str], Metric]]] = {
    "bertscore": BertScore.from_argument,
    "embedding_similarity": EmbeddingSimilarity,
}
"""What `NAME@MODEL` makes."""
