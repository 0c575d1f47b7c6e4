"""`LoadWarning`: one line in the log if scoring takes much of a server's processor time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ragstone.monitor._load import LoadWarning


def watch(shares: list[float], *, is_server: bool) -> None:
    """Let a thread use these shares of a core, minute by minute, and measure until the end."""
    used = 0.0

    def cpu() -> Iterator[float]:
        nonlocal used
        yield used
        for share in shares:
            used += 60 * share
            yield used
        raise asyncio.CancelledError

    cpu_times, wall = cpu(), iter(range(0, 60 * (len(shares) + 2), 60))
    warning = LoadWarning(
        lambda: is_server,
        lambda: "ragstone worker 'my app.db' --judge=lexical",
        wall=lambda: float(next(wall)),
        cpu=lambda: next(cpu_times),
    )

    async def run() -> None:
        for _ in range(2):
            try:
                await warning.watch()
            except asyncio.CancelledError:
                return

    asyncio.run(run())


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize(
    ("shares", "is_server", "n"),
    [([0.1, 0.3, 0.9], True, 1), ([0.1, 0.19], True, 0), ([0.9, 0.9], False, 0)],
)
def test_a_busy_server_is_warned_once(
    shares: list[float], is_server: bool, n: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The first minute above 20% is logged with the share and both ways out. A script is not warned."""
    watch(shares, is_server=is_server)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == n
    for message in messages:
        assert message.startswith("scoring used 30% of a core")
        assert "scoring='process'" in message
        assert "ragstone worker" in message
