"""Runs `ragstone` commands for tests: in the test's process, or in a new one where the process itself is tested."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from unittest import mock

from ragstone.cli import main
from ragstone.cli._app import app

__all__ = ["MAIN", "STARTED", "Done", "app", "environment", "run_command", "run_in_new_process"]

MAIN = "from ragstone.cli import program; program()"
"""Code for `python -c` that runs the command line with the arguments that follow."""

STARTED = """
import os
from ragstone.cli import main
from ragstone.cli._signals import until_exit
with until_exit():
    os.write(1, b".")
    main()
"""
"""`MAIN`, which writes a byte when it handles signals. Python itself handles earlier ones."""

_OURS = ("RAGSTONE_", "OPENAI_")


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    returncode: int
    stdout: str
    stderr: str


def run_command(*arguments: object, stdin: bytes | None = b"", **variables: str) -> Done:
    """Run `ragstone ARGUMENTS` in this process; of our environment variables it sees only those given here.

    `stdin` is what standard input holds; None is a terminal.
    """
    given, stdout, stderr = (
        io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", write_through=True)
        for content in (stdin or b"", b"", b"")
    )
    code: object = 0
    given.isatty = lambda: stdin is None  # type: ignore[method-assign]
    with (
        mock.patch.dict(os.environ, environment(variables), clear=True),
        mock.patch.object(sys, "argv", ["ragstone", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", given),
        # Without pytest's handlers, the command logs to stderr as it does for a user.
        mock.patch.object(logging.root, "handlers", []),
        mock.patch.object(logging.root, "level", logging.root.level),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    assert isinstance(code, int)
    return Done(code, *(stream.buffer.getvalue().decode() for stream in (stdout, stderr)))


def run_in_new_process(*arguments: object, **variables: str) -> Done:
    """Run `ragstone ARGUMENTS` as a shell does, in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        capture_output=True, text=True, timeout=100, check=False, env=environment(variables),
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def environment(added: dict[str, str]) -> dict[str, str]:
    """Return the environment of this process with other variables of Ragstone."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)} | added
