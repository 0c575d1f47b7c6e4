"""`Monitor`: the one object an application makes. Capture → spool → store → scoring → sinks, live."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ragstone._util.exit import run_exit_hooks
from ragstone._util.fork import after_fork_in_child
from ragstone.capture import Capture, CaptureCounters, CaptureLimits, Guard, redact_secrets
from ragstone.errors import ConfigurationError, RagstoneError, StoreError, StoreOwnedError
from ragstone.judges import Judge, Reader
from ragstone.metrics import Metric
from ragstone.monitor._config import CONFIGURABLE, read_config
from ragstone.monitor._finish import Progress, State, is_script, pauses
from ragstone.requests import Request, RequestBlocks, TraceDraft
from ragstone.schema import Ledger
from ragstone.sinks import Sink
from ragstone.spool import SpoolWriter
from ragstone.store import is_database_url, resolve_store
from ragstone.worker import ScoringSetup, Worker, pending_message, read_ledger, spool_directory

__all__ = ["Monitor"]

logger = logging.getLogger("ragstone")

_OWNERSHIP_RETRY_S = 1.0
_FINISH_S = 60.0
"""Seconds for which the end of a `with` block waits for scores."""
_live: weakref.WeakSet[Monitor] = weakref.WeakSet()


class Monitor(RequestBlocks):
    """Captures requests, keeps them durably, scores them off the request path, and sends outcomes to sinks.

    Hand it to an integration (`RagstoneCallbackHandler(monitor)`), or call `record` yourself. Nothing happens before
    the first request: no file, no thread. Then two daemon threads run: one writes captures to this process's spool
    segment, one owns the store (drains, scores, delivers) unless another process already does.

    A `with` (or `async with`) block that ends without an exception in a script's main thread waits up to 60 s until all
    is scored, while the judge answers. `close` and the exit of the interpreter take up to 5 s. Requests that are still
    pending then stay in the store, and a warning names the command that scores them.

    Args:
        judge: "http://host:port/v1", "openai:MODEL", "lexical" or a `Judge`; None reads `RAGSTONE_JUDGE`, else "lexical".
        reader: The application's generator, for metrics that need it ("udcg"): the forms of `judge`, or a `Reader`;
            None reads `RAGSTONE_READER`, else takes the judge's model.
        metrics: Names, groups or metric objects.
        store: Path of the SQLite store; the spool lies beside it, in `<store>.spool`. Or the URL of a PostgreSQL
            database, which monitors and workers of several hosts may share; the spool is then in `RAGSTONE_SPOOL`.
        sinks: Where outcomes go besides the store ("jsonl:PATH", "otlp", a `Sink`).
        sample_rate: Probability in [0, 1] that a request is kept; decided by a hash of its trace id, so that every
            process and every retry decides alike, and stored with the trace as its weight.
        redact: Text to text, applied to everything captured before it touches a disk; None keeps text as it is.
        limits: How long texts and lists may get.
        durability: "batched" acknowledges at once and writes every `flush_interval_s`: `kill -9` loses at most what
            came within that time plus one write. "sync" returns from `record` when the capture is on the disk.
        flush_interval_s: Seconds between writes of "batched".
        queue_size: Requests held in memory for the writer; more are dropped and counted.
        concurrency: Traces scored at once.
        deadline_s: Seconds after which a trace's unfinished metrics fail with kind "timeout".
        max_outage_s: While the judge answers nobody, requests stay pending and are tried again, each for so many
            seconds; then its metrics fail.
        role: "auto" owns the store when no other process does; "capture" never scores (a `ragstone worker` does).
        clock: Unix seconds; for tests.

    Raises:
        ConfigurationError: An argument that cannot work; the message names it.
    """

    def __init__(
        self,
        *,
        judge: str | Judge | None = None,
        reader: str | Reader | None = None,
        metrics: Sequence[str | Metric] | str = ("ccrs",),
        store: str | os.PathLike[str] = "ragstone.db",
        sinks: Sequence[str | Sink] = (),
        sample_rate: float = 1.0,
        redact: Callable[[str], str] | None = redact_secrets,
        limits: CaptureLimits | None = None,
        durability: Literal["batched", "sync"] = "batched",
        flush_interval_s: float = 0.1,
        queue_size: int = 10_000,
        concurrency: int = 16,
        deadline_s: float = 120.0,
        max_outage_s: float = 3600.0,
        role: Literal["auto", "capture"] = "auto",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if role not in ("auto", "capture"):
            raise ConfigurationError(f"role must be 'auto' or 'capture', got {role!r}")
        if max_outage_s < 0:
            raise ConfigurationError(f"max_outage_s must be 0 (never wait) or more, got {max_outage_s!r}")
        self._store = resolve_store(store)
        if not is_database_url(store) and not Path(self._store).parent.is_dir():
            raise ConfigurationError(
                f"the folder of store={str(store)!r} does not exist; make it, or give another path"
            )
        self._role = role
        self._setup = ScoringSetup(
            metrics,
            judge=judge,
            reader=reader,
            sinks=sinks,
            concurrency=concurrency,
            deadline_s=deadline_s,
            closes_models=True,
        )
        self._outage_patience_s = max_outage_s
        self._clock = clock
        spool = spool_directory(self._store)
        self._guard = Guard()
        self._capture = Capture(
            lambda: SpoolWriter(spool),
            sample_rate=sample_rate,
            redact=redact,
            limits=limits or CaptureLimits(),
            queue_size=queue_size,
            durability=durability,
            flush_interval_s=flush_interval_s,
            clock=clock,
            guard=self._guard,
        )
        self._reset()
        _live.add(self)
        after_fork_in_child(self._after_fork)

    @classmethod
    def from_config(cls, path: str | os.PathLike[str], **arguments: Any) -> Self:
        """Make a monitor by a TOML file, the one that `ragstone --config` takes as well.

        Args:
            path: The file. Its keys are the arguments of `Monitor`; tables, which are for commands, are passed over.
            arguments: Arguments of `Monitor` that count instead of the file's.

        Raises:
            ConfigurationError: The file cannot be read, or a key is no argument.

        Example:
            ```toml
            store = "ragstone.db"
            judge = "http://localhost:8000/v1"
            metrics = ["ccrs", "udcg"]
            sinks = ["otlp", "prometheus:9464"]
            sample_rate = 0.1

            [replay]
            format = "langsmith"
            ```
        """
        values = read_config(path)
        named: dict[str, Any] = {key: values[key] for key in CONFIGURABLE if key in values}
        return cls(**(named | arguments))

    def _reset(self) -> None:
        """Start without a worker: at birth, and in a forked child, where the parent's thread does not exist."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._worker: Worker | None = None
        """Ours, while it owns the store."""
        self._state: State = "scoring"
        """What became of the last attempt to own the store and to score."""
        self._candidate: Worker | None = None
        """Ours, whether it owns the store yet or not."""
        self._closed = False
        self._closing = threading.Event()

    def _after_fork(self) -> None:
        if not self._closed:
            self._reset()

    # -- the application's side ------------------------------------------------------------------------------

    def record(self, draft: TraceDraft | Request) -> bool:
        """Take a finished request: never raises, never waits for a disk or a lock held across one ("batched").

        Returns:
            False when the request was dropped; it is counted, with the reason, in the ledger.
        """
        accepted = self._capture.record(draft)
        if self._thread is None and not self._closed:
            self.start()
        return accepted

    def start(self) -> None:
        """Start scoring without waiting for the first request (to finish what an earlier process left)."""
        if self._role == "capture":
            return
        with self._lock:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._own_and_work, name="ragstone-worker", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter is shutting down: what is captured waits in the spool
                    return
                self._thread = thread

    # -- looking and waiting ---------------------------------------------------------------------------------

    @property
    def counters(self) -> CaptureCounters:
        """What this process has recorded, written and dropped so far."""
        return self._capture.counters

    def ledger(self) -> Ledger:
        """Where every request captured into this store stands, all processes included.

        Raises:
            StoreError: The store cannot be read, or nothing was captured yet.
        """
        return read_ledger(self._store)

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything recorded so far is on the disk; False if `timeout_s` was not enough."""
        return self._capture.flush(timeout_s)

    def drain(self, timeout_s: float = 60.0) -> bool:
        """Wait until everything recorded so far is scored, and delivered to every sink that takes it.

        Returns False after `timeout_s`. What a sink that is down has to get stays in the outbox. Only the process
        that owns the store can know about sinks; elsewhere this waits until the ledger shows no pending trace.
        """
        end = time.monotonic() + timeout_s
        if not self.flush(timeout_s):
            return False
        self.start()
        is_idle = self._idle_check()
        while time.monotonic() < end:
            if is_idle() or (self._worker is None and self._n_pending() == 0):
                return True
            if self._closing.wait(0.02):
                return False
        return False

    def _idle_check(self) -> Callable[[], bool]:
        """Make a function that says whether everything recorded until now is scored and delivered, by our worker."""
        seen: tuple[Worker, int] | None = None

        def is_idle() -> bool:
            nonlocal seen
            worker = self._worker
            if worker is None:
                return False
            worker.wake()
            # An idle look may have begun before the flush ended; the one after the next cannot have.
            if seen is None or seen[0] is not worker:
                seen = (worker, worker.poll_count + 2)
                return False
            return worker.poll_count >= seen[1] and worker.idle

        return is_idle

    def close(self, timeout_s: float = 5.0) -> None:
        """Make captures durable, stop scoring, release the store. Safe to call twice; called at exit.

        What is not scored yet stays pending in the store. A warning says how many requests these are, and which command
        scores them.
        """
        end = time.monotonic() + timeout_s
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._capture.close(max(0.0, end - time.monotonic()))
        self._closing.set()
        candidate, thread = self._candidate, self._thread
        if candidate is not None:
            candidate.stop()
        if thread is None or thread is threading.current_thread():
            return
        thread.join(max(0.0, end - time.monotonic()))
        self._warn_of_pending()

    def _warn_of_pending(self) -> None:
        if self._state == "not_owner":
            return  # its owner scores what is pending
        if self._state == "unavailable" and is_database_url(self._store):
            return  # nothing at the end of a program may wait for a database
        try:
            message = pending_message(self._store, read_ledger(self._store), self._setup.command_options())
        except Exception:  # noqa: BLE001  the program ends, and the store may not be there to be read
            return
        if message is not None:
            # Python prints warnings on standard error if the application has not configured logging.
            logger.warning("ragstone: %s", message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None and not _in_event_loop():
                with closing(self._finish()) as waits:
                    for pause_s in waits:
                        self._closing.wait(pause_s)
        finally:
            self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                with closing(self._finish()) as waits:
                    for pause_s in waits:
                        await asyncio.sleep(pause_s)
        finally:
            await asyncio.to_thread(self.close)

    def _finish(self) -> Generator[float]:
        """Yield pauses until everything is scored, or waiting cannot help; at once in a server or beside another owner."""
        if self._thread is None or not is_script():
            return
        self.flush()
        is_idle = self._idle_check()

        def look() -> State:
            if self._closing.is_set() or is_idle():
                return "done"
            worker = self._worker
            return "unavailable" if worker is not None and worker.is_blocked else self._state

        progress = Progress(self._n_pending)
        try:
            for pause_s in pauses(look, timeout_s=_FINISH_S):
                progress.show()
                yield pause_s
        finally:
            progress.clear()

    def _n_pending(self) -> int | None:
        """How many requests are pending; None if the store does not exist yet, or cannot be read now."""
        try:
            return read_ledger(self._store).total.pending
        except StoreError:
            return None

    # -- the worker's side -----------------------------------------------------------------------------------

    def _own_and_work(self) -> None:
        """Own the store as soon as nobody else does, and work until closed."""
        waiting = False
        while not self._closing.is_set():
            worker = Worker(self._store, self._setup, max_outage_s=self._outage_patience_s, clock=self._clock)
            self._candidate = worker
            if self._closing.is_set():  # `close` came before there was anybody to stop
                worker.stop()
            try:
                asyncio.run(self._work(worker))
            except StoreOwnedError as error:
                if not waiting:
                    logger.info("%s; this process captures, and takes over when the owner is gone", error)
                waiting = True
                self._state = "not_owner"
            except RagstoneError as error:
                if not waiting:
                    # The message says what to do; a traceback of ours would not help.
                    logger.error("ragstone cannot score, captures wait in the spool: %s", error)  # noqa: TRY400
                waiting = True
                self._state = "unavailable"
            except Exception as error:
                # At exit Python ends the threads that work is given to before it lets us close.
                self._state = "unavailable"
                if "interpreter shutdown" not in str(error):
                    logger.exception("ragstone worker stopped by a bug; captures wait in the spool, starting again")
            else:
                waiting = False
            finally:
                self._worker = None
            self._closing.wait(_OWNERSHIP_RETRY_S)

    async def _work(self, worker: Worker) -> None:
        try:
            await worker.run(on_owned=lambda: self._own(worker))
        finally:
            if self._closing.is_set():
                await self._setup.aclose()
            else:
                await self._setup.aclose_models()

    def _own(self, worker: Worker) -> None:
        self._worker = worker
        self._state = "scoring"


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _close_all() -> None:
    run_exit_hooks()
    for monitor in list(_live):
        monitor.close()


atexit.register(_close_all)
