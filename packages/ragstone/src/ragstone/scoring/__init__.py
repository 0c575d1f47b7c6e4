"""Scoring: samples times metrics to outcomes, under one limit and by a deadline."""

from ragstone.scoring._scorer import Scorer

__all__ = ["Scorer"]
