"""A table of ids in about 30 bytes for each, where a dict of texts needs 150."""

from __future__ import annotations

import os
from array import array
from hashlib import blake2b
from typing import Final

_FIRST_SLOTS: Final = 1024
_EMPTY: Final = 0


class IdTable:
    """Distinct ids in the order in which they were added, each with a number.

    Ids are compared by digests of 96 bits with a random key, so two ids of a file are never taken for one.
    """

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._high, self._low = array("I"), array("Q")
        """Parts of the digests."""
        self._numbers = array("I")
        self._slots = array("I", bytes(4 * _FIRST_SLOTS))
        """Hash table with open addressing: 1 + the index of an id, or 0."""

    def __len__(self) -> int:
        return len(self._high)

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, str) and self.find(id_) is not None

    def add(self, id_: str, number: int = 0) -> int | None:
        """Add an id with a number from 0. Return the number of an id that the table contains, which stays the same."""
        if 3 * len(self._high) >= 2 * len(self._slots):
            self._slots = array("I", bytes(8 * len(self._slots)))
            for index, (stored_high, stored_low) in enumerate(zip(self._high, self._low, strict=True)):
                self._slots[self._slot(stored_high, stored_low)] = index + 1
        high, low = self._digest(id_)
        slot = self._slot(high, low)
        if (found := self._slots[slot]) != _EMPTY:
            return self._numbers[found - 1]
        self._high.append(high)
        self._low.append(low)
        self._numbers.append(number)
        self._slots[slot] = len(self._high)
        return None

    def find(self, id_: str) -> int | None:
        """Return the index of an id in the order of addition, or None."""
        found = self._slots[self._slot(*self._digest(id_))]
        return None if found == _EMPTY else found - 1

    def _digest(self, id_: str) -> tuple[int, int]:
        digest = blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=12, key=self._key).digest()
        return int.from_bytes(digest[8:], "little"), int.from_bytes(digest[:8], "little")

    def _slot(self, high: int, low: int) -> int:
        """Return the slot of a digest, or the empty one where it belongs."""
        slots, mask = self._slots, len(self._slots) - 1
        slot = low & mask
        while (found := slots[slot]) != _EMPTY:
            if self._low[found - 1] == low and self._high[found - 1] == high:
                break
            slot = (slot + 1) & mask
        return slot
