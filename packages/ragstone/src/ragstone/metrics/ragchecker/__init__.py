"""RAGChecker: claims of response and reference, held against each other and against the contexts."""

from ragstone.metrics.ragchecker._metrics import RAGCHECKER

__all__ = ["RAGCHECKER"]
