"""Semantic metrics: similarity of response and reference, computed by local models."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import Metric
from ragstone.metrics.semantic._bertscore import BertScore
from ragstone.metrics.semantic._embedding import EmbeddingSimilarity

SEMANTIC: Final[tuple[Metric, ...]] = (BertScore(), EmbeddingSimilarity())
"""The metrics of the group, with their default models, which are loaded at first use."""
