"""Splitting of documents into spans with exact positions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone.extension import split_words
from ragstone_lab._dataset.documents import Document

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
