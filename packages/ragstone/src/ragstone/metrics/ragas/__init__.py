"""The four metrics of RAGAS, on claims that are extracted once."""

from ragstone.metrics.ragas._metrics import RAGAS

__all__ = ["RAGAS"]
