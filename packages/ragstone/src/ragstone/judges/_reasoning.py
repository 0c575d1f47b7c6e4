"""The part of a reply in which a model thinks aloud, and what comes after it."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["after_reasoning"]

_THINK: Final = r"(?:think|thinking|thought|reasoning)"
_OPEN: Final = re.compile(f"<{_THINK}>", re.IGNORECASE)
_CLOSE: Final = re.compile(f"</{_THINK}>", re.IGNORECASE)


def after_reasoning(text: str) -> str | None:
    """What a reply says after its reasoning block; None when the block does not end."""
    # Up to the last closing tag: chat templates that open the block themselves leave only its end in the reply.
    end = max((match.end() for match in _CLOSE.finditer(text)), default=0)
    text = text[end:]
    return None if _OPEN.search(text) else text.strip()
