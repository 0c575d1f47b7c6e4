"""`-` as a file name: standard input, copied to a temporary file because files are read more than once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ragstone._util.stdin import copy_stdin
from ragstone.errors import ConfigurationError, DataError

_STDIN = "-"


@contextmanager
def stdin_as_file(names: Sequence[str]) -> Iterator[list[str]]:
    """Replace `-` and `NAME=-` by the path of a temporary copy of standard input."""
    positions = [n for n, name in enumerate(names) if name == _STDIN or name.endswith(f"={_STDIN}")]
    if not positions:
        yield list(names)
        return
    if len(positions) > 1:
        raise ConfigurationError("standard input (-) can be read only once. Give a file for all others.")
    with tempfile.TemporaryDirectory(prefix="ragstone-") as folder:
        path = Path(folder) / "stdin"
        copy_stdin(path)
        paths = list(names)
        paths[positions[0]] = paths[positions[0]].removesuffix(_STDIN) + str(path)
        try:
            yield paths
        except (ConfigurationError, DataError) as error:
            raise type(error)(str(error).replace(repr(str(path)), "standard input")) from error
