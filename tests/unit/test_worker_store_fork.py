"""The thread of a store holds no lock while the process forks."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from ragstone.worker._commit import StoreCalls

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def child_takes(lock: threading.Lock) -> bool:
    """Fork, and return whether the child can take a lock."""
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(0 if lock.acquire(timeout=2.0) else 1)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork beside threads is what is tested
def test_a_fork_waits_for_the_step_of_a_store():
    """SQLite and drivers have locks, which would stay locked in the child for ever."""
    lock, inside = threading.Lock(), threading.Event()

    def step() -> str:
        with lock:
            inside.set()
            time.sleep(0.3)
        return "stored"

    async def main() -> None:
        calls = StoreCalls("store")
        try:
            running = asyncio.ensure_future(calls.call(step))
            assert await asyncio.to_thread(inside.wait, 20)
            assert child_takes(lock)
            assert "stored" == await running
        finally:
            calls.shutdown()

    asyncio.run(main())
