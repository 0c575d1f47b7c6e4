"""Finding out what an endpoint can do, from effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstone.judges._capabilities import Capabilities

if TYPE_CHECKING:
    from ragstone.judges.openai_model import OpenAICompatibleModel

__all__ = ["probe"]


async def probe(model: OpenAICompatibleModel) -> Capabilities:
    """Measure what the endpoint behind `model` can do."""
    raise NotImplementedError
