"""Rows that travel alone, several at once: for destinations that take one in a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ragstone.errors import SinkDeniedError, SinkError, SinkTargetMissingError, SinkUnavailableError
from ragstone.schema import Delivery

__all__ = ["write_each"]

_AT_ONCE: Final = 8


async def write_each(
    batch: Sequence[Delivery], send: Callable[[Delivery], Awaitable[SinkError | None]], *, at_once: int = _AT_ONCE
) -> dict[str, SinkError]:
    """Send each row of `batch` by itself.

    Once the destination is found to be down, what has not been sent yet is not tried: it would only wait for the same
    time-out, row after row.

    Args:
        batch: The rows.
        send: Sends one and returns what became of it, or raises it; None: it has arrived.
        at_once: Rows under way at any moment.

    Returns:
        What did not arrive, by `outcome.id`.

    Raises:
        SinkDeniedError: The credentials are refused.
    """
    errors: dict[str, SinkError] = {}
    outage: SinkUnavailableError | None = None
    waiting = iter(batch)

    async def work() -> None:
        nonlocal outage
        for delivery in waiting:
            error: SinkError | None = outage
            if error is None:
                try:
                    error = await send(delivery)
                except SinkDeniedError:
                    raise
                except SinkError as raised:
                    error = raised
            if isinstance(error, SinkDeniedError):
                raise error
            if isinstance(error, SinkUnavailableError) and not isinstance(error, SinkTargetMissingError):
                outage = error
            if error is not None:
                errors[delivery.outcome.id] = error

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(batch))):
                group.create_task(work())
    except* SinkError as raised:
        raise raised.exceptions[0] from None
    return errors
