"""`WorkerProcess`: a worker in a process of its own, which ends with the process that has started it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ragstone import errors
from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError, RagstoneError
from ragstone.settings import Retention, Watch
from ragstone.sinks import Sink
from ragstone.worker._pickled import to_pickled
from ragstone.worker._spec import ScorerSpec

logger = logging.getLogger("ragstone")

_BOOTSTRAP: Final = (
    "import json, sys; first = json.loads(open(0, 'rb', buffering=0, closefd=False).readline()); "
    "sys.path[:] = first['path']; from ragstone.worker._worker_main import main; main(first['settings'])"
)
_ASK_S: Final = 0.05
"""Shortest time between two questions for the state of the worker, in seconds."""
_END_S: Final = 30.0


class WorkerProcessError(RagstoneError):
    """A worker process cannot be started on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Arguments of a worker, for another process.

    Raises:
        ConfigurationError: If a value cannot be pickled.
    """

    store: str
    spec: ScorerSpec
    sinks: Sequence[str | Sink] = ()
    max_outage_s: float
    watch: Watch
    retention: Retention
    daily_budget: Mapping[str, float] = field(default_factory=dict)
    plan: dict[str, Any]
    """The plan of the application's setup, in which a model without a name has none."""
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        for name, values in (("sinks", self.sinks), ("watch", (self.watch,)), ("clock", (self.clock,))):
            for value in values:
                try:
                    to_pickled(value)
                except Exception as error:
                    raise ConfigurationError(
                        f"{name}: {value!r} cannot be sent to a worker process ({type(error).__name__}: {error}). Give "
                        "sinks as names, such as 'jsonl:PATH', or set scoring='thread'"
                    ) from error


@dataclass(frozen=True, slots=True)
class _Answer:
    """The state of a worker at its answer to a question."""

    question: int
    """Number of the question, or of a later one if it answers several."""
    n_polls: int
    is_idle: bool = field(kw_only=True)
    is_blocked: bool = field(kw_only=True)


class WorkerProcess:
    """A worker in a process of its own. It has the attributes of a `Worker` that `Monitor` uses.

    The standard input of the process is its life: it hands its work back and ends when its input ends, so also after
    `kill -9` of this process. It has a lower priority than this process.

    Args:
        settings: Arguments of the worker.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._input: int | None = None
        """File descriptor of the pipe to the process."""
        self._output: int | None = None
        self._stopped = False
        self._asked_at = 0.0
        self._n_asked = 0
        self._answer = _Answer(0, 0, is_idle=False, is_blocked=False)
        after_fork_in_child(self._after_fork)

    @property
    def is_blocked(self) -> bool:
        """Whether requests waited for an unavailable judge, reader or disk at the last answer of the process."""
        return self._answer.is_blocked

    @property
    def pid(self) -> int | None:
        """Process id, or None before the start."""
        return None if self._process is None else self._process.pid

    def run(self, on_owned: Callable[[], None]) -> None:
        """Start the process, and return when it has ended.

        Args:
            on_owned: Called once, when the process has become the owner of the store.

        Raises:
            WorkerProcessError: If it cannot be started on this machine.
            RagstoneError: The error of the worker, or that the process was killed.
        """
        process = self._start()
        is_started, error = False, None
        for message in self._messages():
            is_started = True
            if message.get("owned"):
                on_owned()
            elif "log" in message:
                logger.log(message["level"], "%s", message["log"])
            elif "error" in message:
                error = _read_error(message)
            elif "polls" in message:
                self._answer = _Answer(
                    message["answered"], message["polls"], is_idle=message["idle"], is_blocked=message["blocked"]
                )
        code = self._wait(process)
        if error is not None:
            raise error
        if not self._stopped and not is_started:
            raise WorkerProcessError(f"{sys.executable!r} ended with exit code {code} before it could score")
        if not self._stopped:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise RagstoneError(f"the worker process ended ({how})")

    def wake(self) -> None:
        """Poll for work now, and ask for the state of the worker."""
        if time.monotonic() - self._asked_at >= _ASK_S:
            self._ask()

    def idle_check(self) -> Callable[[], bool]:
        """Return a function that says whether everything that is spooled now is scored and delivered."""
        question = self._ask()
        target: int | None = None

        def is_idle() -> bool:
            nonlocal target
            self.wake()
            answer = self._answer
            if target is None and answer.question >= question:
                # An earlier answer has a number of polls from any time before now.
                target = answer.n_polls + 2
            return target is not None and answer.n_polls >= target and answer.is_idle

        return is_idle

    def stop(self) -> None:
        """Ask the process to hand its work back and to end. Can be called from any thread."""
        with self._lock:
            self._stopped = True
            self._close_input()

    def _start(self) -> subprocess.Popen[bytes]:
        settings = to_pickled(self._settings)
        its_input, self._input = os.pipe()
        self._output, its_output = os.pipe()
        try:
            process = self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with a program of our own
                [sys.executable, "-P", "-c", _BOOTSTRAP], stdin=its_input, stdout=its_output
            )
        except (OSError, ValueError) as error:
            self._close()
            raise WorkerProcessError(f"{sys.executable!r} cannot be started: {error}") from error
        finally:
            os.close(its_input)
            os.close(its_output)
        self._write(json.dumps({"path": list(sys.path), "settings": settings}).encode() + b"\n")
        if self._stopped:
            self.stop()
        return process

    def _ask(self) -> int:
        """Ask for the state of the worker, and return the number of the question."""
        with self._lock:
            self._asked_at = time.monotonic()
            self._n_asked += 1
            question = self._n_asked
        self._write(b"%d\n" % question)
        return question

    def _write(self, data: bytes) -> None:
        with self._lock, suppress(OSError):  # it has ended
            while data and self._input is not None:
                data = data[os.write(self._input, data) :]

    def _messages(self) -> Iterator[dict[str, Any]]:
        rest = b""
        while self._output is not None and (data := os.read(self._output, 65_536)):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield json.loads(line)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        try:
            code = process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        self._close()
        return code

    def _close(self) -> None:
        with self._lock:
            self._close_input()
            if self._output is not None:
                os.close(self._output)
            self._output = None

    def _close_input(self) -> None:
        if self._input is not None:
            os.close(self._input)
            self._input = None

    def _after_fork(self) -> None:
        # Otherwise the process would not see the end of its parent as long as a forked child lives.
        self._lock = threading.Lock()
        for descriptor in (self._input, self._output):
            if descriptor is not None:
                os.close(descriptor)
        self._input = self._output = None


def _read_error(message: Mapping[str, Any]) -> RagstoneError:
    kind = getattr(errors, message["error"], RagstoneError)
    is_plain = isinstance(kind, type) and issubclass(kind, RagstoneError) and not issubclass(kind, errors.JudgeError)
    return (kind if is_plain else RagstoneError)(message["message"])
