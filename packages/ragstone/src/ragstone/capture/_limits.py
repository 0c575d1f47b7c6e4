"""How much of one request is kept."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ragstone.errors import ConfigurationError

__all__ = ["CaptureLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureLimits:
    """Upper bounds for one captured trace; what is cut is named in `Trace.truncated_fields`.

    Raises:
        ConfigurationError: A limit is not positive.
    """

    max_chars: int = 50_000
    """Characters of each text: query, response, passage, reference, error, tag, string in metadata."""
    max_passages: int = 200
    """Passages of each search, and of the contexts."""
    max_items: int = 200
    """Searches, references, inner errors and tags, each."""
    max_metadata_bytes: int = 16_384
    """Bytes of JSON of each metadata mapping: the trace's own, and each passage's."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value <= 0:
                raise ConfigurationError(f"{field.name} must be positive, got {value!r}; leave it out for the default")
