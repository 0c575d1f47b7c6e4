"""Names of the panels that group options in help output."""

from __future__ import annotations

from typing import Final

APPLICATION: Final = "Application"
JUDGE: Final = "Judge"
READER: Final = "Reader"
EMBEDDER: Final = "Embedder"
LIMITS: Final = "Limits and budget"
STATISTICS: Final = "Statistics"
OUTPUT: Final = "Output"
