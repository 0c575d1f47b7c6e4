"""Settings of processes that run nothing but Ragstone: its commands, worker processes and scoring processes."""

from __future__ import annotations

import gc
from typing import Final

_NEW_OBJECTS: Final = 50_000
"""Objects after which Python looks for garbage, instead of 700. Requests and outcomes are nearly all freed without
it."""


def collect_garbage_rarely() -> None:
    """Take less processor time for garbage collection. An application decides about its own process, so it is not called there."""
    gc.set_threshold(_NEW_OBJECTS)
