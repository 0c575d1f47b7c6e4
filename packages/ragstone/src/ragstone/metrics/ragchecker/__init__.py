"""RAGChecker: claims of response and reference, compared with each other and with the contexts."""

from ragstone.metrics.ragchecker._metrics import RAGCHECKER
