"""Names of the panels that group options in help output."""

from __future__ import annotations

from typing import Final

MODELS: Final = "Models"
LIMITS: Final = "Limits and settings"
STATISTICS: Final = "Tests and gates"
OUTPUT: Final = "Output"
