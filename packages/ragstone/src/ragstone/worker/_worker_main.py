"""Program of a `WorkerProcess`: runs a worker until standard input ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, Final

from ragstone._util.own_process import collect_garbage_rarely
from ragstone._util.signals import STOP_SIGNALS
from ragstone.errors import RagstoneError
from ragstone.worker._log_forward import forward_log
from ragstone.worker._pickled import from_pickled
from ragstone.worker._worker import Worker
from ragstone.worker._worker_process import WorkerSettings

_NICE: Final = 5
_LAST_S: Final = 25.0
"""Time after the end of standard input in which the process ends in any case, in seconds."""
_PARENT_S: Final = 1.0


def main(pickled: str) -> None:
    """Run a worker.

    Args:
        pickled: Pickled `WorkerSettings`, in base64.
    """
    collect_garbage_rarely()
    # Ctrl-C and service managers signal all processes of a group. This one ends with its parent.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(_NICE)
    # What a metric prints must not be read as a message.
    messages = _Messages(os.dup(1))
    os.dup2(2, 1)
    forward_log(lambda level, text: messages.send(level=level, log=text))
    try:
        settings: WorkerSettings = from_pickled(pickled)
        asyncio.run(_work(settings, messages))
    except RagstoneError as error:
        messages.send(error=type(error).__name__, message=str(error))
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the parent shows it
        messages.send(error="RagstoneError", message=f"{type(error).__name__}: {error}")
        sys.exit(1)


async def _work(settings: WorkerSettings, messages: _Messages) -> None:
    async with settings.spec.open(sinks=settings.sinks) as setup:
        setup.plan = settings.plan
        worker = Worker(
            settings.store,
            setup,
            max_outage_s=settings.max_outage_s,
            watch=settings.watch,
            retention=settings.retention,
            daily_budget=settings.daily_budget,
            clock=settings.clock,
        )
        messages.send(started=True)
        threading.Thread(target=_listen, args=(worker, messages), daemon=True).start()
        threading.Thread(target=_watch_parent, args=(os.getppid(), worker), daemon=True).start()
        await worker.run(on_owned=lambda: messages.send(owned=True))


def _listen(worker: Worker, messages: _Messages) -> None:
    """Answer questions, which are lines with a number, with the state of the worker. Stop it when standard input ends."""
    rest = b""
    while data := os.read(0, 65_536):
        *questions, rest = (rest + data).split(b"\n")
        worker.wake()
        if questions:
            polls = worker.poll_count  # before `idle`, which is then of this poll or of a later one
            messages.send(answered=int(questions[-1]), polls=polls, idle=worker.idle, blocked=worker.is_blocked)
    _stop(worker)


def _watch_parent(parent: int, worker: Worker) -> None:
    """Stop the worker if the parent has ended, although another process still has the other end of the pipe."""
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(_PARENT_S)
    _stop(worker)


def _stop(worker: Worker) -> None:
    worker.stop()
    threading.Event().wait(_LAST_S)
    os._exit(1)


class _Messages:
    """The pipe to the parent."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, **message: Any) -> None:
        """Write a line. Do nothing if the parent has ended."""
        line = json.dumps(message).encode() + b"\n"
        with self._lock, suppress(OSError):
            while line:
                line = line[os.write(self._descriptor, line) :]
