"""The files and folders with traces that a user names, as bytes: decompressed while they are read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from ragstone._util.row_limits import MAX_ROW_BYTES, bounded_lines
from ragstone._util.stdin import copy_stdin
from ragstone.errors import ConfigurationError, DataError
from ragstone.reading._files import PARQUET, corruption_errors, open_plain

if TYPE_CHECKING:
    from ragstone.requests import RetrieverTools

Sources = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""Paths of files and directories: one or several."""

MAX_RECORD_BYTES: Final = MAX_ROW_BYTES
"""Longest line, or JSON value, that is read as one: a request with its passages is far smaller."""

_HEAD_BYTES: Final = 256 * 2**10


class Line(NamedTuple):
    """One line of a file."""

    number: int
    """1-based."""
    text: bytes
    is_torn: bool = False
    """Whether it is the last one and does not have a line end: its writer may have been killed."""
    is_too_long: bool = False
    """Whether it is longer than `MAX_RECORD_BYTES`; then `text` is only its beginning."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read traces from; gzip and Zstandard are detected by their first bytes, not by the name.

    It may be a folder whose files belong together: the parts of one export, a BEIR data set.

    Args:
        path: The file, or the folder.
        name: What to call it in messages.
        identity: Identifies the file in later runs. None takes the path.
        without: Names of parts of a folder that are not read.
        retriever_tools: Names of tools whose text results are passages, with the separator between passages (None: the
            whole text is one passage).
        encoding: Encoding of its text. None detects UTF-8 and UTF-16.
        notes: Receives the reading report of a file of rows.
    """

    path: Path
    name: str
    identity: str | None = None
    without: frozenset[str] = frozenset()
    retriever_tools: RetrieverTools = field(default_factory=dict, hash=False)
    encoding: str | None = None
    notes: list[str] = field(default_factory=list, hash=False, compare=False)

    def parts(self) -> Iterator[InputFile]:
        """Return this file, or the files of this directory and its subdirectories, by name, without hidden files.

        Links to directories are not followed. The name of a part is its path within the directory.

        Raises:
            DataError: If the directory does not contain a file.
        """
        if not self.path.is_dir():
            yield self
            return
        n_files = 0
        for folder, folders, files in os.walk(self.path):
            # Names that begin with "_" are notes of the exporting tool, such as Spark's _SUCCESS.
            folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
            for name in sorted(name for name in files if not name.startswith((".", "_"))):
                n_files += 1
                path = Path(folder) / name
                part = path.relative_to(self.path).as_posix()
                if part not in self.without:
                    yield InputFile(path, part)
        if not n_files:
            raise DataError(f"{self.name!r} is a folder with no file in it")

    def modified_at(self) -> float:
        """Return the modification time of the file in Unix seconds.

        Raises:
            DataError: If the file no longer exists.
        """
        try:
            return self.path.stat().st_mtime
        except OSError as error:
            raise DataError(f"{self.name!r} cannot be read: {error}") from error

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file as a stream of decompressed bytes, in UTF-8 without a byte order mark.

        Raises:
            DataError: If the file is unreadable, or its compression is damaged (also while reading).
            MissingExtraError: If a Zstandard file needs a missing package.
        """
        try:
            with self.path.open("rb") as raw:
                yield open_plain(raw, self.encoding)[0]
        except corruption_errors() as error:
            raise DataError(f"{self.name!r} cannot be read: {error}") from error

    def text_encoding(self) -> str:
        """Return the encoding that the file's first bytes show, or the given one."""
        with self.path.open("rb") as raw:
            return open_plain(raw, self.encoding)[1]

    def head(self, n_bytes: int = _HEAD_BYTES) -> bytes:
        """Return the first decompressed bytes, of a directory's first file, to detect the format.

        A Parquet file names its columns at its end, so the result is its first four bytes and its end.
        """
        first = next(self.parts())
        with first.open() as stream:
            head = _read_prefix(stream, n_bytes)
            if head.startswith(PARQUET) and len(head) == n_bytes:
                stream.seek(max(4, first.path.stat().st_size - n_bytes))
                head = PARQUET + stream.read(n_bytes)
            return head

    def lines(self) -> Iterator[Line]:
        """Yield the lines without line ends. Empty lines are skipped. A line that is too long is truncated and marked."""
        with self.open() as stream:
            for number, text in enumerate(bounded_lines(stream), start=1):
                if len(text) > MAX_RECORD_BYTES and not text.endswith(b"\n"):
                    yield Line(number, text[:1000], is_too_long=True)
                elif not text.isspace():
                    yield Line(number, text.rstrip(b"\r\n"), is_torn=text[-1:] != b"\n")


def _read_prefix(stream: BinaryIO, n_bytes: int) -> bytes:
    """Return the first bytes, or those before damaged compression, which a later read reports."""
    head = b""
    try:
        # One decompression a call: a longer read would lose what came before the damage.
        while len(head) < n_bytes and (more := stream.read1(n_bytes - len(head))):  # type: ignore[attr-defined]
            head += more
    except corruption_errors():
        if not head:
            raise
    return head


def of_store(name: str) -> str:
    """Return the error about a store that is given as a file of traces."""
    from ragstone.store import describe_store, quote_store

    return (
        f"{describe_store(name)!r} is a Ragstone store, which holds traces already, and is not a file to replay. Its "
        f"scores and pending requests: ragstone status {quote_store(name)}"
    )


@contextmanager
def open_inputs(named: Sources) -> Iterator[list[InputFile]]:
    """Yield the named files. Standard input is copied to a directory that is removed afterwards.

    Args:
        named: Paths of files and directories, or "-" for standard input.
    """
    # Imported here, because reading a file of rows does not need a store.
    from ragstone.store import is_database_url

    names = [os.fspath(each) for each in ([named] if isinstance(named, str | os.PathLike) else named)]
    if not names:
        raise ConfigurationError("nothing to replay was named; give a file, a folder, or - for standard input")
    with tempfile.TemporaryDirectory(prefix="ragstone-") as folder:
        found: list[InputFile] = []
        for name in names:
            if is_database_url(name):
                raise ConfigurationError(of_store(name))
            if name.startswith(("http://", "https://")):
                # The URL may contain a password or a token.
                raise ConfigurationError(
                    "a source is a URL, and Ragstone does not download files. Pipe it: curl -fL URL | ragstone replay -"
                )
            found.append(_piped(Path(folder) / "stdin") if name == "-" else _source(name))
        yield found


def _source(name: str) -> InputFile:
    source = InputFile(path=Path(name), name=name)
    if not source.path.exists():
        raise ConfigurationError(f"file or directory {name!r} does not exist")
    for part in source.parts():
        # A file is read several times. A pipe returns its bytes once, a device without end.
        if part.path.exists() and not part.path.is_file():
            raise ConfigurationError(
                f"{part.name!r} is not a regular file (a pipe, a device?) and cannot be read twice. Write it to a file first"
            )
    return source


def _piped(target: Path) -> InputFile:
    """Return a file with the bytes of standard input, which can be read only once. A later run recognizes the same bytes."""
    if target.exists():
        raise ConfigurationError("standard input (-) can be read only once. Name it once.")
    copy_stdin(target)
    return InputFile(path=target, name="standard input", identity="standard input")
