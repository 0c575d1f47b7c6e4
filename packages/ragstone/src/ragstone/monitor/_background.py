"""What runs on the daemon thread of a monitor: a worker, or the publication of the spool to a message broker."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final

from ragstone import worker as workers
from ragstone.brokers import BrokerRelay
from ragstone.errors import RagstoneError, StoreError, StoreOwnedError
from ragstone.monitor._finish import State, is_script, pauses
from ragstone.store import is_database_url, is_owned
from ragstone.worker import advise, read_ledger, worker_command

logger = logging.getLogger("ragstone")

_RETRY_S: Final = 1.0
"""Seconds until a monitor looks again whether the store is free: as long as an owner's end may take to be seen."""
_FINISH_S: Final = 60.0
"""Maximum seconds that the end of a `with` block waits for scores."""


class Background(ABC):
    """A daemon thread, which a forked child does not have."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the thread: at creation, and in a forked child."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self.has_started = False
        """Whether the thread exists."""

    def start(self) -> None:
        """Start the thread, unless it exists or `stop` was called."""
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter is shutting down, and requests stay in the spool
                    return
                self._thread = thread
                self.has_started = True

    def stop(self, timeout_s: float) -> None:
        """End the thread, and log what is left to do."""
        with self._lock:
            self._closing.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
            self._warn_of_rest()

    @abstractmethod
    def wait(self, end: float) -> bool:
        """Wait until what was recorded is done, and return False at `end`, on the monotonic clock."""

    def finish(self, flush: Callable[[], object]) -> Generator[float]:  # noqa: ARG002 - used by others
        """Yield pauses after a `with` block, in seconds, as long as waiting can help. `flush` writes to the disk."""
        yield from ()

    @abstractmethod
    def _run(self) -> None:
        """Work until `_closing` is set."""

    @abstractmethod
    def _warn_of_rest(self) -> None:
        """Log what is left to do. Python prints warnings on standard error if the application has not configured logging."""


class RelayThread(Background):
    """Publishes the spool to a message broker."""

    name = "ragstone-relay"

    def __init__(self, relay: BrokerRelay) -> None:
        super().__init__()
        self.relay = relay

    def wait(self, end: float) -> bool:
        while time.monotonic() < end:
            with suppress(RagstoneError):
                if self.relay.error is None and self.relay.count_unsent() == 0:
                    return True
            if self._closing.wait(0.1):
                return False
        return False

    def _run(self) -> None:
        while True:
            try:
                self.relay.run(self._closing)
            except Exception:
                logger.exception("ragstone relay failed with a bug, requests stay in the spool (restarting)")
            if self._closing.wait(_RETRY_S):
                return

    def _warn_of_rest(self) -> None:
        if self.relay.error is None:
            return
        with suppress(RagstoneError):
            if n := self.relay.count_spooled():
                logger.warning(
                    "ragstone: up to %d entries are not published. They stay in %s until an application of this host "
                    "with the same store runs",
                    n,
                    self.relay.directory,
                )


class ScoringThread(Background):
    """Owns the store as soon as it is free, and runs a worker in the thread, or in `process`.

    `options` are further arguments of `Worker`. `is_on` says if this process scores at all.
    """

    name = "ragstone-worker"

    def __init__(
        self,
        store: str,
        setup: workers.ScoringSetup,
        options: Mapping[str, Any],
        *,
        process: workers.WorkerWork | None,
        is_on: bool,
    ) -> None:
        self._store = store
        self._setup = setup
        self._options = options
        self._process = process
        self._is_on = is_on
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self.worker: workers.Worker | workers.WorkerProcess | None = None
        """The worker while it owns the store."""
        self.state: State = "scoring"
        """Result of the last attempt to own the store and to score."""
        self.candidate: workers.Worker | workers.WorkerProcess | None = None
        """The worker, even if it does not own the store yet."""

    def start(self) -> None:
        if self._is_on:
            super().start()

    def wait(self, end: float) -> bool:
        is_idle = self._idle_check()
        while time.monotonic() < end:
            done = is_idle()
            if (done and self._setup.missing is None) or ((done or self.worker is None) and self._n_pending() == 0):
                return True
            if self._lacks_worker and (done or not (self._setup.scorable or is_owned(self._store))):
                return False  # no worker with the models has the store
            if self._closing.wait(0.02):
                return False
        return False

    def finish(self, flush: Callable[[], object]) -> Generator[float]:
        """Yield pauses until everything is scored or waiting cannot help. Yields nothing in a server."""
        if not self.has_started or not self._setup.scorable or not is_script():
            return
        flush()
        is_idle = self._idle_check()

        def look() -> State:
            if self._closing.is_set() or is_idle():
                return "done"
            worker = self.worker
            return "unavailable" if worker is not None and worker.is_blocked else self.state

        yield from pauses(look, timeout_s=_FINISH_S)

    def _idle_check(self) -> Callable[[], bool]:
        """Return a function that checks if everything recorded until now is scored and delivered by this worker."""
        asked: tuple[workers.Worker | workers.WorkerProcess, Callable[[], bool]] | None = None

        def is_idle() -> bool:
            nonlocal asked
            worker = self.worker
            if worker is None:
                return False
            if asked is None or asked[0] is not worker:
                asked = (worker, worker.idle_check())
            return asked[1]()

        return is_idle

    @property
    def _lacks_worker(self) -> bool:
        """Whether a model is not named, so that another process has to own the store file."""
        return self._setup.missing is not None and not is_database_url(self._store)

    def _n_pending(self) -> int | None:
        """Return the number of pending requests, or None if the store does not exist yet or cannot be read."""
        try:
            return read_ledger(self._store).total.pending
        except StoreError:
            return None

    def stop(self, timeout_s: float) -> None:
        self._closing.set()
        if self.candidate is not None:
            self.candidate.stop()
        super().stop(timeout_s)

    def _warn_of_rest(self) -> None:
        if self.state == "not_owner" or self._setup.missing is not None:
            return  # the store's owner scores pending requests, or the log names the command
        if self.state == "unavailable" and is_database_url(self._store):
            return  # the end of a program must not wait for a database
        try:
            sentences = advise(self._store, read_ledger(self._store), delivery=self._setup.delivery)
        except Exception:  # noqa: BLE001  the program ends, and the store may be unreadable
            return
        for sentence in sentences:
            logger.warning("ragstone: %s", sentence)

    # -- run on the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        is_logged = False
        if self._setup.missing is not None:
            logger.warning(
                "ragstone: %s. Until then requests stay pending%s. Score them with: %s",
                self._setup.missing,
                ", and only metrics that need no model are scored" if self._setup.scorable else "",
                worker_command(self._store, self._setup.plan, self._setup.delivery, "--until-idle"),
            )
        while not self._closing.is_set():
            try:
                self._run_worker()
            except StoreOwnedError as error:
                if not is_logged:
                    logger.info("%s (this process captures, and scores when the owner has stopped)", error)
                is_logged = True
                self.state = "not_owner"
            except RagstoneError as error:
                if isinstance(candidate := self.candidate, workers.WorkerProcess) and candidate.cannot_start:
                    logger.warning(
                        "ragstone scores in a thread, because the worker process cannot be started: %s", error
                    )
                    self._process = None
                    continue
                if not is_logged:
                    # The message says what to do. A traceback would not help.
                    logger.error("ragstone cannot score, requests stay in the spool: %s", error)  # noqa: TRY400
                is_logged = True
                self.state = "unavailable"
            except Exception as error:
                # At exit Python ends the thread pool before it calls exit hooks.
                self.state = "unavailable"
                if "interpreter shutdown" not in str(error):
                    logger.exception("ragstone worker failed with a bug, requests stay in the spool (restarting)")
            else:
                is_logged = False
            finally:
                self.worker = None
            if self._lacks_worker and not self._setup.scorable:
                return  # a file has one owner, and this process must not keep a worker with a judge from it
            self._closing.wait(_RETRY_S)

    def _run_worker(self) -> None:
        """Run a worker until it ends."""
        if self._process is None:
            worker: workers.Worker | workers.WorkerProcess = workers.Worker(self._store, self._setup, **self._options)
        elif is_owned(self._store):
            # Each process of a server looks every second. The start of a worker that cannot own the store is expensive.
            raise StoreOwnedError(f"the store {self._store!r} is owned by another process")
        else:
            worker = workers.WorkerProcess(self._process)
        self.candidate = worker
        if self._closing.is_set():  # `stop` was called before the worker existed
            worker.stop()
        asyncio.run(self._work(worker))

    async def _work(self, worker: workers.Worker | workers.WorkerProcess) -> None:
        def own() -> None:
            self.worker, self.state = worker, "scoring"

        try:
            await worker.run(on_owned=own)
        finally:
            if self._closing.is_set():
                await self._setup.aclose()
            else:
                await self._setup.aclose_models()
