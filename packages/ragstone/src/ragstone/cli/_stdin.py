"""`-` as a file name: standard input, copied to a temporary file because files are read more than once."""

from __future__ import annotations

import json
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
        path = path.rename(path.with_suffix(_suffix(path)))
        paths = list(names)
        paths[positions[0]] = paths[positions[0]].removesuffix(_STDIN) + str(path)
        try:
            yield paths
        except (ConfigurationError, DataError) as error:
            raise type(error)(str(error).replace(repr(str(path)), "standard input")) from error


def _suffix(path: Path) -> str:
    """Return the file suffix for the format of a file of rows, detected from its first bytes."""
    with path.open("rb") as file:
        first = file.readline(2**20).removeprefix(b"\xef\xbb\xbf").strip()
    if first.startswith(b"PAR1"):
        return ".parquet"
    if not first.startswith((b"{", b"[")):
        return ".csv" if any(separator in first for separator in (b",", b";", b"\t")) else ".jsonl"
    try:
        row = json.loads(first)
    except ValueError:
        # The line is longer than the part read here, or an object spans several lines.
        return ".jsonl" if len(first) > 2**19 else ".json"
    return ".jsonl" if isinstance(row, dict) else ".json"
