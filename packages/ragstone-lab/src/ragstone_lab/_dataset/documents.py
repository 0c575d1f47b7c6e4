"""Reading of a user's documents and reports before any judge call, and splitting into spans with exact positions."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from ragstone.errors import ConfigurationError, DataError
from ragstone.extension import check_json_row, split_words

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


SPAN_WORDS: Final = 200
"""Approximate length of a passage (CRUX, figure 7)."""
SECTION_WORDS: Final = 1000
"""Maximum length of a section from which a query is generated (CRUX, figure 7, also splits longer documents)."""
_MAX_CHARS: Final = 2000
"""Maximum length of a piece without a sentence end. Longer pieces are split at this length."""

_END: Final = re.compile("(?<=[.!?\u2026])[\"'\u201d\u2019)\\]]*\\s+|(?<=[\u3002\uff01\uff1f])|(?:\r?\n)+\\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of characters in a document."""

    document: str
    start: int
    """Start in characters of the decoded file (without a byte order mark). `end` is exclusive."""
    end: int
    text: str

    @property
    def id(self) -> str:
        """Document and position: "notes/a.md:120-480"."""
        return f"{self.document}:{self.start}-{self.end}"


def spans_of(document: Document, *, words: int = SPAN_WORDS) -> tuple[Span, ...]:
    """Split a document at sentence and paragraph ends into non-overlapping spans of about `words` words."""
    spans: list[Span] = []
    start, n_words = 0, 0
    end = 0
    for piece_start, piece_end in _pieces(document.text):
        n = _size(document.text[piece_start:piece_end])
        # If the span is at least half full, the end of a paragraph is a better split point than the next sentence.
        broken = "\n" in document.text[end:piece_start] and n_words * 2 >= words
        if n_words and (n_words + n > words or broken):
            spans += _trimmed(document, start, end)
            start, n_words = piece_start, 0
        n_words += n
        end = piece_end
    if n_words:
        spans += _trimmed(document, start, end)
    return tuple(spans)


def _size(text: str) -> int:
    """Return the number of words. Text without spaces counts one word per twelve characters."""
    return max(len(split_words(text)), len(text) // 12)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of sentences, without the whitespace between them."""
    start = 0
    # A quotation mark after the full stop belongs to the sentence.
    ends = [(match.start() + len(match.group().rstrip()), match.end()) for match in _END.finditer(text)]
    for end, following in [*ends, (len(text), len(text))]:
        for at in range(start, end, _MAX_CHARS):
            yield at, min(at + _MAX_CHARS, end)
        start = following


def _trimmed(document: Document, start: int, end: int) -> list[Span]:
    text = document.text[start:end]
    start += len(text) - len(text.lstrip())
    text = text.strip()
    return [Span(document=document.name, start=start, end=start + len(text), text=text)] if split_words(text) else []


def sections_of(spans: Sequence[Span], *, words: int = SECTION_WORDS) -> tuple[tuple[Span, ...], ...]:
    """Group consecutive spans of a document into sections of at most about `words` words."""
    sections: list[list[Span]] = []
    n_words = 0
    for span in spans:
        n = _size(span.text)
        if not sections or n_words + n > words:
            sections.append([])
            n_words = 0
        sections[-1].append(span)
        n_words += n
    return tuple(tuple(section) for section in sections)


class SpanIndex:
    """Spans that can be searched by word overlap."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = tuple(spans)
        self._bags = [set(split_words(span.text)) for span in self._spans]
        self._n_spans = Counter(word for bag in self._bags for word in bag)

    def most_similar(self, text: str, most: int, *, own: Sequence[Span] = ()) -> tuple[Span, ...]:
        """Return at most `most` spans: a text's own, then those with the largest word overlap, weighted by word rarity.

        Spans without a common word are never included. Word overlap misses passages that answer in different words,
        which are then not in the pool.
        """
        words = sorted(word for word in set(split_words(text)) if word in self._n_spans)
        weight = {word: math.log(1 + len(self._spans) / self._n_spans[word]) for word in words}
        scores = [math.fsum(weight[word] for word in words if word in bag) for bag in self._bags]
        own_ids = {span.id for span in own}
        others = [
            (-score, span.id, span)
            for score, span in zip(scores, self._spans, strict=True)
            if score > 0 and span.id not in own_ids
        ]
        return tuple([*own, *(span for *_, span in sorted(others, key=lambda found: found[:2]))][:most])
