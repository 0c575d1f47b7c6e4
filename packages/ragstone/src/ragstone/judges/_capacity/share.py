"""What passes between those who ask an endpoint and its `Capacity`: what they allow, their turns, their permits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ragstone.errors import ConfigurationError

__all__ = ["Permit", "Share", "Waiter"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Share:
    """What one user of an endpoint allows; in force for as long as somebody holds it. The smallest of each counts."""

    concurrency: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_s: float = 60.0
    outage_s: float = 30.0
    probe_s: float = 1.0
    """Seconds between two tries during an outage."""

    def __post_init__(self) -> None:
        if self.concurrency is not None and self.concurrency < 1:
            raise ConfigurationError(f"concurrency must be at least 1, got {self.concurrency!r}")
        for name in ("requests_per_minute", "tokens_per_minute"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise ConfigurationError(f"{name} must be above 0, or None for no limit, got {limit!r}")
        if not self.timeout_s > 0 or not self.outage_s >= 0:
            raise ConfigurationError(
                "timeout_s must be above 0, outage_s not below 0, got "
                f"timeout_s={self.timeout_s!r}, outage_s={self.outage_s!r}"
            )


@dataclass(slots=True, eq=False)
class Permit:
    """The right to send one request now. Ends with one of `Capacity`'s `answered`, `refused`, `failed`, `unused`."""

    loop: asyncio.AbstractEventLoop
    share: Share
    kind: int
    n_requests: int
    n_tokens: float
    sent_at: float
    n_rounds_refused: int
    """Pauses for refusals before it was sent, since the last reply."""
    probe: bool = False


@dataclass(slots=True, eq=False)
class Waiter:
    loop: asyncio.AbstractEventLoop
    share: Share
    kind: int
    n_requests: int
    n_tokens: float
    n_failures: int
    order: int
    future: asyncio.Future[Permit | Exception] = field(init=False)
    permit: Permit | None = None

    def __post_init__(self) -> None:
        self.future = self.loop.create_future()
