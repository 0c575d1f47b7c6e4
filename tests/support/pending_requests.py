"""An application that ends while its judge is down, and the commands that Ragstone prints for its pending requests."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

from command_line import Done, run_in_new_process

__all__ = ["N_REQUESTS", "capture", "follow"]

N_REQUESTS = 3

_APPLICATION = """
import sys, time
from ragstone.errors import StoreError
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.store import open_store

store, judge, metrics, scoring, n = sys.argv[1:]
monitor = Monitor(store=store, judge=judge or None, metrics=metrics.split(","), scoring=scoring)
for i in range(int(n)):
    monitor.record(TraceDraft(query=f"Which stone is {i}?", response="The grey stone."))
monitor.flush()
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        with open_store(store, mode="read") as opened:
            if opened.ledger().total.captured == int(n):
                break
    except StoreError:
        pass
    time.sleep(0.05)
monitor.close()
"""


def capture(store: str, *, judge: str, metrics: str = "ccrs.qr,ccrs.id", scoring: str = "thread") -> str:
    """Capture requests in another process, which ends when they are in the store. Return what it has written to stderr."""
    arguments = [store, judge, metrics, scoring, str(N_REQUESTS)]
    command = [sys.executable, "-c", _APPLICATION, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stderr


def follow(text: str, **environment: str) -> Done:
    """Run the only command of a worker in a text, exactly as it is printed."""
    (command,) = set(re.findall(r"ragstone worker [^\n`]*", text))
    return run_in_new_process(*shlex.split(command)[1:], **environment)
