"""Standard input as a file, because files are read more than once."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Final, TextIO

from ragstone.errors import ConfigurationError, DataError

_MAX_BYTES: Final = 20 * 2**30
_PART: Final = 2**20


def copy_stdin(target: Path) -> None:
    """Copy standard input to a new file: at most half of the free space of its disk, and at most 20 GiB.

    Raise ConfigurationError if standard input is a terminal or another device. Raise DataError if it is larger, or the
    file cannot be written.
    """
    stdin: TextIO | None = sys.stdin
    if stdin is None or stdin.closed:
        raise ConfigurationError("standard input (-) is closed. Pipe data into the command, or give a file.")
    if stdin.isatty():
        raise ConfigurationError("standard input (-) is a terminal. Pipe data into the command, or give a file.")
    if _is_endless_device(stdin):
        raise ConfigurationError(
            "standard input (-) is a device, which may not end. Pipe data into it, or give a file."
        )
    folder = target.parent
    try:
        limit = min(_MAX_BYTES, shutil.disk_usage(folder).free // 2)
        with target.open("wb") as file:
            while part := stdin.buffer.read(_PART):
                if file.tell() + len(part) > limit:  # codespell:ignore tell
                    raise DataError(
                        f"standard input has more than {limit:,} bytes, which is the limit for its copy in {str(folder.parent)!r} "
                        "(half of the free space, at most 20 GiB). Save it as a file, and give the name of the file."
                    )
                file.write(part)
    except OSError as error:
        raise DataError(
            f"standard input cannot be copied to {str(folder.parent)!r}: {error}. Set TMPDIR to a directory with free space."
        ) from None


def _is_endless_device(stdin: TextIO) -> bool:
    """Return whether standard input is a device other than `/dev/null`, which is empty."""
    try:
        status = os.fstat(stdin.fileno())
        empty = Path(os.devnull).stat()
    except (OSError, ValueError):
        # A test or a notebook can replace standard input by an object without a file.
        return False
    is_device = stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)
    return is_device and not os.path.samestat(status, empty)
