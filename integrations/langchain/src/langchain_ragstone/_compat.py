"""Which framework versions this package works with, checked once, where the message can still help."""

from __future__ import annotations

from langchain_core.version import VERSION

LANGCHAIN_CORE_FLOOR = (1, 4)
"""The oldest langchain-core whose callback events have the shapes that `_steps` and `_messages` read."""


def check_floor(version: str) -> None:
    """Fail at import, with the way out, rather than capture nothing at run time.

    Raises:
        ImportError: The installed langchain-core is older than the floor.
    """
    found = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if found < LANGCHAIN_CORE_FLOOR:
        floor = ".".join(map(str, LANGCHAIN_CORE_FLOOR))
        raise ImportError(
            f"langchain_ragstone needs langchain-core {floor} or newer, found {version!r}. "
            f"Install it with: pip install 'langchain-core>={floor},<2'"
        )


check_floor(VERSION)
