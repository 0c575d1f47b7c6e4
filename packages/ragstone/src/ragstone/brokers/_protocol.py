"""`Broker`: what the relay of an application and the trace source of a worker need from a message broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ragstone.schema import BrokerStatus

SetAside = Literal["damaged", "too_large", "other_version", "rejected"]
"""Why an entry is not stored: its checksum or content is wrong, its size, its schema version, or the store rejects
it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An entry that the broker has delivered to this worker, and that is not acknowledged."""

    key: str
    """Identifies the entry in its broker. A later delivery of the same entry has the same key."""
    data: bytes | None
    """A framed line of a spool, or None if the entry has another form."""


class Broker(Protocol):
    """A durable queue of framed spool lines. Each entry is delivered until one worker has acknowledged it.

    The methods block, and are called by one thread. They raise `BrokerError` if the broker cannot be used now; a later
    call may succeed. They connect when necessary.
    """

    name: str
    """URL without credentials, for messages."""
    settle_s: float
    """Seconds after which the broker does not forget an entry anymore that it has confirmed. Final after `check`."""

    def check(self) -> None:
        """Check that the broker keeps entries. Raise ConfigurationError if it may lose them."""
        ...

    # -- application -------------------------------------------------------------------------------------------

    def position(self, segment: str) -> int:
        """Return the offset up to which a spool segment was published. 0: nothing was, or the broker has forgotten it."""
        ...

    def publish(self, segment: str, offset: int, next_offset: int, lines: Sequence[bytes]) -> int:
        """Publish lines of a segment, and store its new position with them. Return the position.

        If the position differs from `offset`, nothing is published. Raise BrokerError if the broker did not confirm all
        lines, or has too many entries that no worker has stored.
        """
        ...

    def forget(self, segment: str) -> None:
        """Forget the position of a removed segment."""
        ...

    # -- worker ------------------------------------------------------------------------------------------------

    def join(self, store_id: str) -> None:
        """Start to receive entries, from the oldest one. The first store that joins owns the entries.

        Entries of another format version that another version of Ragstone has set aside are received again. Raise
        ConfigurationError if another store owns them.
        """
        ...

    def receive(self, limit: int, *, again: bool) -> list[Message]:
        """Return up to `limit` entries, without waiting: new ones, and those of workers that have ended.

        With `again`, return those that this worker has received before, and not acknowledged.
        """
        ...

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Remove stored entries from the broker."""
        ...

    def set_aside(self, message: Message, reason: SetAside) -> bool:
        """Move an entry to the entries that are not received. Return whether it is kept there, or only counted."""
        ...

    def status(self) -> BrokerStatus:
        """Return the number of entries in each state."""
        ...

    def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        ...
