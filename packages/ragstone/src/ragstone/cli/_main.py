"""The entry point: converts errors to messages and exit codes."""

from __future__ import annotations

import errno
import sys
import traceback
from typing import Final

from ragstone._util.ascii import replace_unshown
from ragstone.cli._app import app
from ragstone.cli._exit_codes import ExitCode
from ragstone.errors import ConfigurationError, DataError, JudgeError, RagstoneError, StoreNotFoundError

_WRONG_PATH: Final = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)
"""Errors of a path that an argument names wrongly. Others, such as a full disk, are those of the infrastructure."""


def run(arguments: list[str] | None) -> None:
    """Run a command, and exit with an `ExitCode`."""
    for stream in (sys.stdout, sys.stderr):
        replace_unshown(stream)
    try:
        app(arguments)
    except (ConfigurationError, DataError, StoreNotFoundError) as error:
        _print_error(error)
        sys.exit(ExitCode.USAGE)
    except RagstoneError as error:
        _print_error(error)
        sys.exit(
            ExitCode.BUDGET if isinstance(error, JudgeError) and error.kind == "budget" else ExitCode.INFRASTRUCTURE
        )
    except KeyboardInterrupt:
        print("ragstone: interrupted.", file=sys.stderr)
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - Python's default exit code, 1, means that a gate failed
        if isinstance(error, OSError) and error.filename is not None:
            _print_error(f"{str(error.filename)!r} cannot be read or written: {error.strerror or error}")
            sys.exit(ExitCode.USAGE if error.errno in _WRONG_PATH else ExitCode.INFRASTRUCTURE)
        traceback.print_exc()
        sys.exit(ExitCode.INFRASTRUCTURE)


def _print_error(error: object) -> None:
    from ragstone.cli._output import print_text

    print_text(f"ragstone: {error}", err=True)
