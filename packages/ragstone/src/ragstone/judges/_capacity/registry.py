"""The capacities of this process: one for each endpoint and key."""

from __future__ import annotations

import hashlib
import threading
import weakref
from typing import Final
from urllib.parse import urlsplit

from ragstone._util.fork import after_fork_in_child
from ragstone.judges._capacity.gate import Capacity

__all__ = ["capacity_of"]


class _Registry:
    """The capacities of this process, each for as long as somebody uses it."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[tuple[str, str], Capacity] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        after_fork_in_child(self._after_fork)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str]) -> Capacity:
        with self._lock:
            capacity = self._known.get(key)
            if capacity is None:
                self._known[key] = capacity = Capacity()
            return capacity


_registry: Final = _Registry()


def capacity_of(base_url: str, api_key: str | None) -> Capacity:
    """The capacity of an endpoint: the same for everybody in this process who asks it with the same key."""
    parts = urlsplit(base_url)
    where = f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"
    return _registry.get((where, hashlib.sha256((api_key or "").encode()).hexdigest()))
