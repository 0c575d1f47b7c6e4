"""Child processes: how one starts and gets its work, what both ends call, how it stops, and that it ends with its owner.

Each end calls functions of the other end by name. A call is a frame in a pipe: its length, then a pickled name with
arguments. Both ends run the same code as the same user, and no other user has the pipes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar, Final, Protocol

from ragstone import errors
from ragstone._util.own_process import collect_garbage_rarely
from ragstone._util.signals import STOP_SIGNALS
from ragstone.errors import ConfigurationError, RagstoneError
from ragstone.worker import _times

logger = logging.getLogger("ragstone")

_BOOTSTRAP: Final = (
    "import json, sys; sys.path[:] = json.loads(open(0, 'rb', buffering=0, closefd=False).readline()); "
    "from ragstone.worker._child import main; main()"
)
"""Program of a process. The search path of the owner is in the first line, because metrics may be modules there.

The work comes after it, and is not an argument of the program, because all users of a machine can read these.
"""
_LENGTH: Final = 8
"""Bytes of the length of a frame."""


class ChildError(RagstoneError):
    """A process could not be started, or has ended."""


class Work(Protocol):
    """What a process does. It is pickled."""

    async def run(self, owner: Owner) -> None:
        """Do the work, until the owner stops it."""


def _from_pickled(data: bytes) -> Any:
    try:
        return pickle.loads(data)  # noqa: S301 - from the owner
    except (AttributeError, ImportError) as error:
        raise ConfigurationError(
            f"{error}. Define the classes of metrics and models in a module that another process can import, "
            "not in the program itself or in a notebook."
        ) from error


def _to_frame(name: str, values: tuple[object, ...]) -> bytes:
    data = pickle.dumps((name, values))
    return len(data).to_bytes(_LENGTH) + data


class _Frames:
    """Bytes of a pipe that are not a whole frame yet."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the calls that are complete with these bytes."""
        self._buffer += data
        while len(self._buffer) >= (end := _LENGTH + int.from_bytes(self._buffer[:_LENGTH])):
            frame = bytes(self._buffer[_LENGTH:end])
            del self._buffer[:end]
            yield pickle.loads(frame)  # noqa: S301 - from the other end


class Child(asyncio.SubprocessProtocol):
    """A process, as its owner sees it. The process calls the methods whose names begin with `on_`."""

    end_s: ClassVar[float]
    """Time in which the process ends after it was stopped, in seconds. Then it is killed."""

    def __init__(self) -> None:
        self.error: RagstoneError | None = None
        """What has ended the work, if the process could say it."""
        self.pid: int | None = None
        self.is_stopped = False
        self.cannot_start = False
        """Whether the interpreter of this machine cannot run the process."""
        self._has_begun = False
        self.ended = asyncio.Event()
        self._frames = _Frames()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._input: Any = None

    async def start(self, work: bytes) -> None:
        """Start the process in the running event loop, where the methods `on_` are called. `work` is pickled `Work`.

        Raise ChildError if the interpreter cannot be started.
        """
        self._loop = asyncio.get_running_loop()
        # A program that is started inside of a debugger or a profiler is not debugged itself.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONINSPECT"}
        try:
            self._transport, _ = await self._loop.subprocess_exec(
                lambda: self, sys.executable, "-P", "-c", _BOOTSTRAP, stderr=None, env=environment
            )
        except (OSError, ValueError) as error:
            self.cannot_start = True
            self.ended.set()
            raise ChildError(f"{sys.executable!r} cannot be started: {error}") from error
        self.pid = self._transport.get_pid()
        self._input = self._transport.get_pipe_transport(0)
        self._input.write(json.dumps(sys.path).encode() + b"\n")
        self.send("work", work)
        if self.is_stopped:
            self._stop()

    def send(self, name: str, *values: object) -> None:
        """Call a function of the process, unless it has ended."""
        if not self.ended.is_set() and not self._input.is_closing():
            self._input.write(_to_frame(name, values))

    def send_soon(self, name: str, *values: object) -> None:
        """Call a function of the process, from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self.send, name, *values)

    def stop(self) -> None:
        """Ask the process to hand its work back and to end. Can be called from any thread, also before the start."""
        self.is_stopped = True
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop)

    async def aclose(self) -> None:
        """End the process."""
        self.stop()
        if self._transport is not None:
            await self.ended.wait()

    def end_error(self) -> ChildError:
        """Return the error that says how the process has ended."""
        code = None if self._transport is None else self._transport.get_returncode()
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return ChildError(f"process {self.pid} ended ({how})")

    def _stop(self) -> None:
        if self._loop is not None and self._transport is not None and not self._input.is_closing():
            self.send("stop")  # a forked program may keep the pipe open
            self._input.close()
            self._loop.call_later(self.end_s, self._kill)

    def _kill(self) -> None:
        if self._transport is not None:
            with suppress(ProcessLookupError):
                self._transport.kill()

    # Called by the process ------------------------------------------------------------------------------------------

    def on_begun(self) -> None:
        """Note that the interpreter works, and has the work."""
        self._has_begun = True

    def on_log(self, level: int, text: str) -> None:
        """Write an entry of the log of the process."""
        logger.log(level, "%s", text)

    def on_failed(self, kind: str, text: str) -> None:
        """Note what has ended the work."""
        found = getattr(errors, kind, RagstoneError)
        is_plain = issubclass(found, RagstoneError) and not issubclass(found, errors.JudgeError)
        self.error = (found if is_plain else RagstoneError)(text)

    # Called by the event loop ---------------------------------------------------------------------------------------

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - asyncio passes it
        try:
            for name, values in self._frames.feed(data):
                getattr(self, f"on_{name}")(*values)
        except Exception:
            logger.exception("ragstone: the process %s made an invalid call, and is killed", self.pid)
            self._kill()

    def on_end(self) -> None:
        """Do what is necessary when the process has ended."""

    def process_exited(self) -> None:
        asyncio.get_running_loop().call_later(_times.LAST_FRAMES_S, self.connection_lost, None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        if self._transport is not None and not self.ended.is_set():
            self.cannot_start = not self._has_begun and not self.is_stopped
            self.ended.set()
            self._transport.close()
            self.on_end()


def main() -> None:
    """Run a process until its work ends, its owner stops it, or its owner ends."""
    collect_garbage_rarely()
    # Ctrl-C and service managers signal all processes of a group. The owner decides when its processes end.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    owner = Owner(os.dup(1))
    os.dup2(2, 1)  # what a metric prints must not be read as a frame
    logger.addHandler(_Forward(owner))
    logger.propagate = False
    try:
        asyncio.run(owner.work())
    except Exception as error:  # noqa: BLE001 - the owner shows it
        kind = type(error).__name__
        owner.send("failed", kind, str(error) if isinstance(error, RagstoneError) else f"{kind}: {error}")
        sys.exit(1)


class Owner(asyncio.Protocol):
    """The owner at the other end of a pipe, a file descriptor. A process must end with it, also after `kill -9`."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._writing = threading.Lock()
        self._frames = _Frames()
        self._calls: asyncio.Queue[tuple[str, tuple[Any, ...]]] = asyncio.Queue()

    def send(self, name: str, *values: object) -> None:
        """Call a function of the owner, from any thread. Do nothing if the owner has ended."""
        frame = memoryview(_to_frame(name, values))
        with self._writing, suppress(OSError):
            while frame:
                frame = frame[os.write(self._pipe, frame) :]

    async def work(self) -> None:
        """Do the work that the owner sends."""
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: self, os.fdopen(0, "rb", buffering=0))
        threading.Thread(target=self._watch, args=(os.getppid(), loop), daemon=True).start()
        name, values = await self._calls.get()
        if name == "work":
            work: Work = _from_pickled(*values)
            self.send("begun")
            await work.run(self)

    async def serve(self, handler: object) -> None:
        """Call the methods `on_` of a handler that the owner names, until it stops this process or has ended."""
        while (call := await self._calls.get())[0] != "stop":
            getattr(handler, f"on_{call[0]}")(*call[1])

    def _watch(self, parent: int, loop: asyncio.AbstractEventLoop) -> None:
        """Stop when the owner has ended, although a program that it has forked may keep the pipe open."""
        while os.getppid() == parent:
            time.sleep(_times.OWNER_S)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self.connection_lost, None)
        time.sleep(_times.LAST_S)
        os._exit(1)

    # Called by the event loop ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        try:
            for call in self._frames.feed(data):
                self._calls.put_nowait(call)
        except Exception:  # noqa: BLE001
            # The owner would wait for a reply. It gives the work to another process.
            traceback.print_exc()
            os._exit(1)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        self._calls.put_nowait(("stop", ()))


class _Forward(logging.Handler):
    """Sends the log to the owner, which writes it in its own format."""

    def __init__(self, owner: Owner) -> None:
        super().__init__()
        self._owner = owner

    def emit(self, record: logging.LogRecord) -> None:
        self._owner.send("log", record.levelno, self.format(record))
