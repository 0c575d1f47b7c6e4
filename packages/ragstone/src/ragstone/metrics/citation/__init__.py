"""Citations: whether the passages that an answer cites support the sentences that cite them."""

from ragstone.metrics.citation._metrics import CITATION
