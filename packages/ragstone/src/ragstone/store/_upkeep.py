"""The part `upkeep` of a store: verification, retention, erasure and disk space."""

from __future__ import annotations

from ragstone.store._erasure import Erasure
from ragstone.store._retention import Retention
from ragstone.store._verify import Verification


class Upkeep(Verification, Retention, Erasure):
    """Verifies a store, and removes what must not or need not be kept."""

    def shrink(self) -> None:
        """Give the space of removed texts back to the disk. A server does this on its own.

        A file is written again, which needs as much free disk space. Without it, later requests use the space.
        """
        self._database.shrink()
