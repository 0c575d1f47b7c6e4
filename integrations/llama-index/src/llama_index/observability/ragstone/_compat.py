"""The check of the framework's version, when the package is imported."""

from __future__ import annotations

from importlib.metadata import version

LLAMA_INDEX_CORE_FLOOR = (0, 14)
"""The oldest llama-index-core whose spans and events have the shapes that `_steps` knows."""


def check_floor(installed: str) -> None:
    """Fail at import instead of capturing nothing at run time.

    Raise ImportError if the installed llama-index-core is older than the oldest supported version.
    """
    found = tuple(int(part) for part in installed.split(".")[:2] if part.isdigit())
    if found < LLAMA_INDEX_CORE_FLOOR:
        floor = ".".join(map(str, LLAMA_INDEX_CORE_FLOOR))
        raise ImportError(
            f"llama_index.observability.ragstone needs llama-index-core {floor} or newer, found {installed!r}. "
            f"Install it with: pip install 'llama-index-core>={floor},<0.15'"
        )


check_floor(version("llama-index-core"))
