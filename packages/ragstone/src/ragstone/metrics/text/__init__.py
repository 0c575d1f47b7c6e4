"""Text metrics: overlap of characters and words between response and reference."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import Metric
from ragstone.metrics.text._answer import ExactMatch, TokenF1, exact_match, token_f1
from ragstone.metrics.text._rouge import RougeL, RougeN, rouge_l
from ragstone.metrics.text._sacrebleu import Bleu, ChrF

__all__ = ["exact_match", "rouge_l", "token_f1"]

TEXT: Final[tuple[Metric, ...]] = (ExactMatch(), TokenF1(), Bleu(), ChrF(), RougeN(1), RougeN(2), RougeL())
"""The metrics of the group, with the default options of the literature."""
