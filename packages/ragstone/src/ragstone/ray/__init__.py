"""Scoring on a cluster with Ray Data: archives that are too large for one machine, and judges inside the actors."""

from ragstone.ray._score import RayReport, score

__all__ = ["RayReport", "score"]
