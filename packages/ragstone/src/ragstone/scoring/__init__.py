"""Scoring: samples times metrics to outcomes, under one limit and by a deadline; and what that would take."""

from ragstone._util.run_async import run_async
from ragstone.scoring._rehearse import MetricForecast, Rehearsal, rehearse
from ragstone.scoring._scorer import Scorer

__all__ = ["MetricForecast", "Rehearsal", "Scorer", "rehearse", "run_async"]
