"""Metering: what a piece of work spends on judges, also when it fails or is cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ragstone.schema import Usage

__all__ = ["UsageMeter", "metered", "record_usage"]


class UsageMeter:
    """Adds up what was spent inside one `metered()` block."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = Usage()


_meters: ContextVar[tuple[UsageMeter, ...]] = ContextVar("ragstone_usage_meters", default=())


@contextmanager
def metered() -> Iterator[UsageMeter]:
    """Meter the block and the tasks it starts. Blocks nest: each meter counts what its inner ones count.

    An exception carries no bill, and a call that is cancelled has been paid for all the same; the meter knows both.

    Example:
        ```python
        with metered() as meter:
            reply = await judge.ask_number(prompt)
        meter.total.calls
        ```
    """
    meter = UsageMeter()
    token = _meters.set((*_meters.get(), meter))
    try:
        yield meter
    finally:
        _meters.reset(token)


def record_usage(usage: Usage) -> None:
    """Report spending to every meter around the caller; judges call this for each request and each reply."""
    for meter in _meters.get():
        meter.total += usage
