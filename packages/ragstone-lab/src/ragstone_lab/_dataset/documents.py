"""Reading and validation of a user's documents and reports, before any judge call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from ragstone.errors import ConfigurationError, DataError
from ragstone.extension import check_json_row

MAX_BYTES: Final = 10 * 1024 * 1024
"""Maximum size of a file, and of a document in a JSONL file."""
_TEXT_SUFFIXES: Final = (".txt", ".md", ".markdown", ".text")
_JSONL_SUFFIXES: Final = (".jsonl", ".ndjson")
_SUFFIXES: Final = (*_TEXT_SUFFIXES, *_JSONL_SUFFIXES)
_KINDS: Final = f"files that end in {', '.join(_SUFFIXES)}, or directories of them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text and its source."""

    name: str
    """Path of the file, or `path#id` for a document in a JSONL file."""
    text: str
    about: tuple[str, ...] = ()
    """For a report: names of its source documents, if its row lists them."""

    @property
    def digest(self) -> str:
        """Hash of the text."""
        return hashlib.sha256(self.text.encode(errors="replace")).hexdigest()[:16]


class LoadedDocuments(NamedTuple):
    """Documents, and files that were skipped."""

    documents: tuple[Document, ...]
    left_out: tuple[str, ...]
    """Unreadable files in directories, with reasons."""


def read_documents(paths: Sequence[str | Path], *, max_bytes: int = MAX_BYTES) -> LoadedDocuments:
    """Read text, Markdown and JSONL files (`id` and `text` in each row), and directories of them.

    Directories are read recursively without hidden files. Links that lead out of a directory are not followed. Files of
    other types in directories are ignored, and unreadable ones are skipped and reported.
    """
    documents: dict[str, Document] = {}
    left_out: list[str] = []
    for path, named in _files(paths):
        try:
            # Either all documents of a file are added or none.
            documents |= _by_name(_documents(path, max_bytes), documents)
        except DataError as error:
            if named:
                raise
            left_out.append(str(error))
    if not documents:
        more = f" ({len(left_out)} skipped, first reason: {left_out[0]})" if left_out else ""
        raise ConfigurationError(
            f"no document in {', '.join(repr(str(p)) for p in paths) or 'nothing'}{more}. Give {_KINDS}."
        )
    return LoadedDocuments(tuple(documents.values()), tuple(left_out))


def _by_name(documents: Iterable[Document], known: Mapping[str, Document]) -> dict[str, Document]:
    """Return documents by name. A document that is read twice counts once."""
    named: dict[str, Document] = {}
    for document in documents:
        if named.get(document.name, known.get(document.name, document)) != document or document.name in named:
            raise DataError(f"two documents have the name {document.name!r}. Ids in a JSONL file must be unique.")
        named[document.name] = document
    return named


def _files(paths: Iterable[str | Path]) -> Iterator[tuple[Path, bool]]:
    """Yield files in order, each with whether it was named directly."""
    for name in paths:
        path = Path(name)
        if path.is_dir():
            root = path.resolve()
            for inner in sorted(path.rglob("*")):
                hidden = any(part.startswith(".") for part in inner.relative_to(path).parts)
                known = inner.suffix.lower() in _SUFFIXES and not hidden
                if known and inner.is_file() and inner.resolve().is_relative_to(root):
                    yield inner, False
        elif not path.is_file():
            raise ConfigurationError(f"file or directory not found: {str(path)!r}. Give {_KINDS}.")
        elif path.suffix.lower() not in _SUFFIXES:
            raise ConfigurationError(
                f"unknown type of {str(path)!r}. Give {_KINDS}. Convert other formats to text first."
            )
        else:
            yield path, True


def _documents(path: Path, max_bytes: int) -> Iterator[Document]:
    name = path.as_posix()
    text = _text(path, max_bytes)
    if path.suffix.lower() in _TEXT_SUFFIXES:
        yield _document(name, text)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _row(name, number, line)


def _text(path: Path, max_bytes: int) -> str:
    try:
        if (size := path.stat().st_size) > max_bytes:
            raise DataError(
                f"{str(path)!r} has {size} bytes, more than the maximum of {max_bytes}. Split it into several files."
            )
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    if b"\0" in data:
        raise DataError(f"{str(path)!r} is not text (it contains NUL bytes). Convert it to text (UTF-8) first.")
    try:
        # Line ends are not changed, because character offsets refer to the file's text.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{str(path)!r} is not UTF-8 (byte {error.start}). Convert it first, for example with iconv -t UTF-8."
        ) from error


def _row(name: str, number: int, line: str) -> Document:
    try:
        check_json_row(line.encode())
        row: Any = json.loads(line)
    except DataError as error:
        raise DataError(f"line {number} of {name!r}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"line {number} of {name!r} is not valid JSON: {error}") from error
    if not isinstance(row, dict) or not isinstance(row.get("text"), str) or not isinstance(row.get("id"), str | int):
        raise DataError(f"line {number} of {name!r} must be an object with `id` and `text`, got {line[:80]!r}")
    about = row.get("documents", [])
    if not isinstance(about, list) or not all(isinstance(entry, str) for entry in about):
        raise DataError(f"line {number} of {name!r}: `documents` must be a list of names, got {str(about)[:80]!r}")
    return _document(f"{name}#{row['id']}", row["text"], tuple(about))


def _document(name: str, text: str, about: tuple[str, ...] = ()) -> Document:
    if not text.strip():
        raise DataError(f"{name!r} is empty")
    return Document(name=name, text=text, about=about)
