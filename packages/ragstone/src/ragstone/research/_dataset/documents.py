"""A user's documents and reports: found, read and checked before anything is spent on them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ragstone.errors import ConfigurationError, DataError

__all__ = ["MAX_BYTES", "Document", "LoadedDocuments", "read_documents"]

MAX_BYTES: Final = 10 * 1024 * 1024
"""Of one file, and of one document in a JSONL file: more is no text that somebody wrote."""
_TEXT_SUFFIXES: Final = (".txt", ".md", ".markdown", ".text")
_JSONL_SUFFIXES: Final = (".jsonl", ".ndjson")
_SUFFIXES: Final = (*_TEXT_SUFFIXES, *_JSONL_SUFFIXES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text and where it is from."""

    name: str
    """The path of its file as it was given; of a document in a JSONL file, `path#id`."""
    text: str
    about: tuple[str, ...] = ()
    """Of a report: the names of the documents it was made from, where its row tells."""

    @property
    def digest(self) -> str:
        """Changes with the text."""
        return hashlib.sha256(self.text.encode(errors="replace")).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDocuments:
    """What was read, and what was not."""

    documents: tuple[Document, ...]
    left_out: tuple[str, ...] = field(default=())
    """Files in folders that cannot be read, each with the reason."""


def read_documents(paths: Sequence[str | Path], *, max_bytes: int = MAX_BYTES) -> LoadedDocuments:
    """Read text, Markdown and JSONL files (`id` and `text` in each row), and folders of them.

    Folders are read with all inside, apart from what is hidden; links that lead out of a folder are not followed. Of a
    folder, files of another kind are passed over, and those that cannot be read are left out and named.

    Args:
        paths: Files and folders.
        max_bytes: Larger files are refused.

    Raises:
        ConfigurationError: A path that does not exist, a file of another kind, or nothing to read at all.
        DataError: A file that was named cannot be read as text, or two documents have one name.
    """
    found: dict[str, Document] = {}
    left_out: list[str] = []
    for path, named in _files(paths):
        try:
            # A file is read whole or not at all.
            found |= _named(_documents(path, max_bytes), found)
        except DataError as error:
            if named:
                raise
            left_out.append(str(error))
    if not found:
        more = f" ({len(left_out)} left out, the first because {left_out[0]})" if left_out else ""
        raise ConfigurationError(
            f"there is no document in {', '.join(repr(str(p)) for p in paths) or 'nothing'}{more}; give {_kinds()}"
        )
    return LoadedDocuments(documents=tuple(found.values()), left_out=tuple(left_out))


def _named(documents: Iterable[Document], known: Mapping[str, Document]) -> dict[str, Document]:
    """Documents by name; the same one a second time is no second one."""
    named: dict[str, Document] = {}
    for document in documents:
        if named.get(document.name, known.get(document.name, document)) != document or document.name in named:
            raise DataError(f"two documents are called {document.name!r}; ids in a JSONL file must be unique")
        named[document.name] = document
    return named


def _kinds() -> str:
    return f"files that end in {', '.join(_SUFFIXES)}, or folders of them"


def _files(paths: Iterable[str | Path]) -> Iterator[tuple[Path, bool]]:
    """Files in their order, each with whether it was named itself."""
    for given in paths:
        path = Path(given)
        if path.is_dir():
            root = path.resolve()
            for inner in sorted(path.rglob("*")):
                hidden = any(part.startswith(".") for part in inner.relative_to(path).parts)
                known = inner.suffix.lower() in _SUFFIXES and not hidden
                if known and inner.is_file() and inner.resolve().is_relative_to(root):
                    yield inner, False
        elif not path.is_file():
            raise ConfigurationError(f"there is no file or folder {str(path)!r}; give {_kinds()}")
        elif path.suffix.lower() not in _SUFFIXES:
            raise ConfigurationError(
                f"cannot tell what {str(path)!r} is: give {_kinds()}; turn other formats into text first"
            )
        else:
            yield path, True


def _documents(path: Path, max_bytes: int) -> Iterator[Document]:
    name = path.as_posix()
    text = _text(path, max_bytes)
    if path.suffix.lower() in _TEXT_SUFFIXES:
        yield _checked(name, text)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _row(name, number, line)


def _text(path: Path, max_bytes: int) -> str:
    try:
        if (size := path.stat().st_size) > max_bytes:
            raise DataError(
                f"{str(path)!r} has {size} bytes, more than the {max_bytes} of one document; cut it into several"
            )
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    if b"\0" in data:
        raise DataError(f"{str(path)!r} is no text: it holds NUL bytes; turn it into text (UTF-8) first")
    try:
        # Line ends stay as they are: character offsets are those of the file's own text.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{str(path)!r} is not UTF-8 (byte {error.start}); convert it first, for example with iconv -t UTF-8"
        ) from error


def _row(name: str, number: int, line: str) -> Document:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"line {number} of {name!r} is no JSON: {error}") from error
    if not isinstance(row, dict) or not isinstance(row.get("text"), str) or not isinstance(row.get("id"), str | int):
        raise DataError(f"line {number} of {name!r} must be an object with `id` and `text`, got {line[:80]!r}")
    about = row.get("documents", [])
    if not isinstance(about, list) or not all(isinstance(entry, str) for entry in about):
        raise DataError(f"line {number} of {name!r}: `documents` must be a list of names, got {str(about)[:80]!r}")
    return _checked(f"{name}#{row['id']}", row["text"], tuple(about))


def _checked(name: str, text: str, about: tuple[str, ...] = ()) -> Document:
    if not text.strip():
        raise DataError(f"{name!r} holds no text")
    return Document(name=name, text=text, about=about)
