"""Scoring: samples times metrics to outcomes, under one limit and by a deadline; and what that would take."""

from ragstone._util.run_async import run_async
from ragstone.scoring._rehearse import Rehearsal as Rehearsal
from ragstone.scoring._rehearse import rehearse as rehearse
from ragstone.scoring._scorer import Scorer

__all__ = ["Scorer", "run_async"]
