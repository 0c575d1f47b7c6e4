"""Text: how close is the response to the reference, letter by letter and word by word?"""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import Metric

__all__ = ["TEXT"]

TEXT: Final[tuple[Metric, ...]] = ()
