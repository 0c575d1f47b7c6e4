"""Waiting for something that another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["wait_until"]


def wait_until(condition: Callable[[], object], *, limit_s: float = 100.0) -> None:
    """Return as soon as `condition()` is true; fail after `limit_s`, which only a defect reaches."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"nothing happened within {limit_s:g} s"
        time.sleep(0.005)
