"""CRUX: how much of what a report needs is in the contexts and in the response, by sub-questions."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import Metric

__all__ = ["CRUX"]

CRUX: Final[tuple[Metric, ...]] = ()
