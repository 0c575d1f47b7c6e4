"""Shards: disjoint parts of all traces, for several replays of the same files on several machines."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from ragstone.errors import ConfigurationError

_FORM: Final = re.compile(r"(\d{1,9})/(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several disjoint parts. A hash of its id alone decides which part a trace belongs to.

    Args:
        number: From 1 to `total`.
        total: Number of parts.
    """

    number: int
    total: int

    def __contains__(self, id_: object) -> bool:
        """Return whether the trace with an id belongs to this part. The answer is the same on every machine."""
        digest = hashlib.sha256(str(id_).encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8]) % self.total == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"


def parse_shard(shard: str | None) -> Shard | None:
    """Read "3/16" as the third of 16 parts. None, and the only part "1/1", mean all traces.

    Raises:
        ConfigurationError: If it has another form, or the number is not between 1 and the total.
    """
    if shard is None:
        return None
    found = _FORM.fullmatch(str(shard))
    if found is None:
        raise ConfigurationError(
            f"the shard {shard!r} does not have the form NUMBER/TOTAL. Write 3/16 for part 3 of 16."
        )
    number, total = map(int, found.groups())
    if not 1 <= number <= total:
        raise ConfigurationError(
            f"the shard {shard!r} is out of range: parts are numbered from 1 to their total. "
            + (f"Write a number from 1 to {total} before the slash." if total else "Write at least one part.")
        )
    return Shard(number, total) if total > 1 else None
