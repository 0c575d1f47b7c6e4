"""One process that has imported the library, and forks for each command: a page of the documentation runs dozens of them.

The client is a script of the standard library's `socket` alone. It hands over its arguments, directory, environment and
standard streams, and ends with the command's exit code. A signal that it receives is passed on.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["fork_server", "write_program"]

_CLIENT = """\
#!{python} -SE
import array, json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
task = json.dumps([{program!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
server.sendmsg([len(task).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
server.sendall(task)
# The process id has a fixed width: on a busy machine the exit code can arrive together with it.
child = int(server.recv(20, socket.MSG_WAITALL))
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(child, number))
os._exit(int(server.recv(20) or 70))
"""


def write_program(path: Path, address: Path, program: str) -> None:
    """Write an executable that runs `program` in a fork of the server: "ragstone", or the path of a Python file."""
    path.write_text(_CLIENT.format(python=sys.executable, address=str(address), program=program), encoding="utf-8")
    path.chmod(0o755)


@contextlib.contextmanager
def fork_server(directory: Path) -> Iterator[Path]:
    """Start the server, and yield its address: a socket in `directory`."""
    address = directory / "fork-server"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(address))
    listener.listen(64)
    # A new interpreter: a fork of the test process would inherit its threads' locks.
    command = [sys.executable, __file__, "3"]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parent)}
    pid = os.posix_spawn(
        sys.executable, command, environment, file_actions=[(os.POSIX_SPAWN_DUP2, listener.fileno(), 3)], setpgroup=0
    )
    listener.close()
    try:
        yield address
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def serve(listener: socket.socket) -> None:
    """Fork for each task, for ever."""
    import openai  # noqa: F401
    import scipy.stats  # noqa: F401
    import typer.main

    import langchain_ragstone  # noqa: F401
    from ragstone.cli._app import app

    for command in typer.main.get_command(app).commands.values():  # type: ignore[attr-defined]
        str(command)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _run(connection)
        connection.close()


def _refuse_network() -> None:
    """Let connections and look-ups beyond this machine fail, and note them in the directory PAGE_SERVERS."""

    def check(host: object) -> None:
        text = host.decode() if isinstance(host, bytes) else str(host)
        if text not in ("None", "", "localhost", "0.0.0.0", "::1", "::") and not text.startswith("127."):  # noqa: S104
            with Path(os.environ["PAGE_SERVERS"], "network").open("a") as file:
                print(text, file=file)
            raise OSError(f"the pages of the documentation reach nothing but loopback, and this one tried {text!r}")

    def guarded(original: Callable[..., Any]) -> Callable[..., Any]:
        def connect(self: socket.socket, address: Any) -> Any:
            if self.family in (socket.AF_INET, socket.AF_INET6):
                check(address[0])
            return original(self, address)

        return connect

    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        check(host)
        return resolve(host, *arguments, **options)

    socket.socket.connect = guarded(socket.socket.connect)  # type: ignore[method-assign]
    socket.socket.connect_ex = guarded(socket.socket.connect_ex)  # type: ignore[method-assign]
    socket.getaddrinfo = getaddrinfo


def _run(connection: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    header, ancillary, *_ = connection.recvmsg(4, socket.CMSG_SPACE(12))
    streams = array.array("i", ancillary[0][2])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # A stream remembers of its file whether it has positions. These files are others than those of the server.
    encoding = sys.stdout.encoding
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115  a descriptor, until the process ends
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding, "backslashreplace", closefd=False)  # noqa: SIM115
    size = int.from_bytes(header, "big")
    program, arguments, directory, environment = json.loads(connection.recv(size, socket.MSG_WAITALL))
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [program, *arguments]
    _refuse_network()
    connection.sendall(f"{os.getpid():<20}".encode())
    code: object = 0
    try:
        if program == "ragstone":
            from ragstone.cli import main

            main()
        else:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    with contextlib.suppress(OSError):
        connection.sendall(str(code or 0).encode())
    os._exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
