"""Documents cut into spans: each a place in a document, found there again at any time."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone._util.words import split_words
from ragstone.errors import DataError
from ragstone.research._dataset.documents import Document

__all__ = ["SECTION_WORDS", "SPAN_WORDS", "Span", "find_similar_spans", "sections_of", "spans_of", "verify"]

SPAN_WORDS: Final = 200
"""Of a passage, about (CRUX, figure 7)."""
SECTION_WORDS: Final = 1000
"""Of a part of a document from which a query is made; the source cuts longer documents, too (CRUX, figure 7)."""
_MAX_CHARS: Final = 2000
"""Of a piece without any end of a sentence; then it is cut where it stands."""

_END: Final = re.compile("(?<=[.!?\u2026])[\"'\u201d\u2019)\\]]*\\s+|(?<=[\u3002\uff01\uff1f])|(?:\r?\n)+\\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A place in a document."""

    document: str
    start: int
    """In characters of the decoded file (without a byte order mark); `end` is behind the last."""
    end: int
    text: str

    @property
    def id(self) -> str:
        """Names the place: "notes/a.md:120-480"."""
        return f"{self.document}:{self.start}-{self.end}"


def spans_of(document: Document, *, words: int = SPAN_WORDS) -> tuple[Span, ...]:
    """Cut a document at ends of sentences and paragraphs into spans of about `words` words; none overlap."""
    spans: list[Span] = []
    start, n_words = 0, 0
    end = 0
    for piece_start, piece_end in _pieces(document.text):
        n = _size(document.text[piece_start:piece_end])
        # A paragraph that ends is a better place to cut than the sentence that would fill the span.
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
    """Words; of text that goes on and on without a space, a word for each twelve characters."""
    return max(len(split_words(text)), len(text) // 12)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Sentences, by their places; white space between them belongs to none."""
    start = 0
    # A quotation mark behind the full stop belongs to the sentence.
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
    """Put consecutive spans of one document together to sections of at most about `words` words."""
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


def find_similar_spans(text: str, spans: Sequence[Span], *, own: Sequence[Span], most: int) -> tuple[Span, ...]:
    """The spans that share most with a text: its own, then by common words, each worth more the fewer spans have it.

    Spans without a common word are never among them. Word overlap finds what a rating has to be asked for; what answers
    in quite other words is missed, and then is no part of the pool.
    """
    sought = set(split_words(text))
    bags = {span.id: set(split_words(span.text)) for span in spans}
    found_in = Counter(word for bag in bags.values() for word in bag)
    weight = {word: math.log(1 + len(bags) / found_in[word]) for word in sought if word in found_in}
    score = {span.id: math.fsum(weight[word] for word in sorted(sought & bags[span.id])) for span in spans}
    mine = {span.id for span in own}
    others = [span for span in spans if span.id not in mine and score[span.id] > 0]
    others.sort(key=lambda span: (-score[span.id], span.id))
    return tuple([*own, *others][:most])


def verify(spans: Sequence[Span], documents: Sequence[Document]) -> None:
    """Make sure that each span is in its document, letter by letter.

    Raises:
        DataError: One is not.
    """
    texts = {document.name: document.text for document in documents}
    for span in spans:
        if span.text != texts.get(span.document, "")[span.start : span.end]:
            raise DataError(
                f"the text of {span.id!r} is not in the document at that place; please report this as a bug"
            )
