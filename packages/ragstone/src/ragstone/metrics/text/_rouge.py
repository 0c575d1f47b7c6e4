"""ROUGE: overlap of response and reference in words, word bigrams or word order, for any script.

Source: C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004, sections 2 and 3.

The source defines ROUGE as a recall, but papers and libraries now report F1. The value is F1, and `details` contains
precision, recall and F1. `docs/reference/metrics.md` states the cases that the source does not define.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

from ragstone._util.lazy import needs_extra
from ragstone._util.words import split_words
from ragstone.metrics._card import WorkedExample
from ragstone.metrics.text._base import Parts, TextMetric, TextOverlap, best_overlap, check_references, overlap_details

_SHORT: Final = 3
"""Words with at most this number of letters are not stemmed."""
_LONG: Final = 64
"""Nor are words with more than this number of letters: the stemmer of older NLTK calls itself for each y."""


def rouge_l(text: str, references: Sequence[str], *, stem: bool = False) -> TextOverlap:
    """Compute precision, recall and F1 of the longest common subsequence, for the reference with the highest F1.

    Args:
        text: Text to score. A text without words scores 0.
        references: Reference texts.
        stem: Whether English words are stemmed before comparison.

    Raises:
        ValueError: If no reference contains a word.

    Source:
        Lin 2004, section 3 (beta = 1).

    Examples:
        >>> rouge_l("the tower is tall", ["a tall tower", "The tower is high."]).f1
        0.75
    """
    check_references(references)
    overlap = _rouge_l(text, references, stem=stem)
    if overlap is None:
        raise ValueError(f"ROUGE needs a reference with at least one word, got {list(references)!r}")
    return overlap


class RougeN(TextMetric):
    """ROUGE-N: shared word n-grams.

    Args:
        n: Words per n-gram, 1 or 2.
        stem: Whether English words are stemmed before comparison.
    """

    source = "Lin 2004, section 2"
    unstated = ("n",)

    def __init__(self, n: Literal[1, 2], stem: bool = False) -> None:  # noqa: FBT001, FBT002  the name states it as @stem
        self.n = n
        self.stem = stem
        self.name = f"rouge_{n}{self.suffix}"
        self.title = self.extend_title(f"ROUGE-{n}")
        self.advice = (
            "Low means that answer and reference share few words. Next: Check recall in details for missing content."
            if n == 1
            else "Low means that answer and reference share few word pairs. "
            "Next: If ROUGE-1 is high, only the phrasing differs."
        )
        runs = "words" if n == 1 else "word pairs"
        self.description = (
            f"How many {'words' if n == 1 else 'pairs of adjacent words'} do response and reference share?"
        )
        self.formula = f"F1 of shared {runs}: 2 * shared / ({runs} of the response + {runs} of the reference)"
        row = {"response": "the tower is tall", "reference": "the tower is 31 meters tall"}
        self.example = (
            WorkedExample(row=row, value=0.8, steps="4 words are shared: P = 4/4, R = 4/6, F1 = 2 * 4 / (4 + 6) = 0.8.")
            if n == 1
            else WorkedExample(
                row=row,
                value=0.5,
                steps='"the tower" and "tower is" are shared: P = 2/3, R = 2/5, F1 = 2 * 2 / (3 + 5) = 0.5.',
            )
        )

    def _compared(self, response: str, references: Sequence[str]) -> tuple[float, Mapping[str, Any]] | None:
        overlap = rouge_n(response, references, self.n, stem=self.stem)
        return None if overlap is None else (overlap.f1, overlap_details(overlap))

    def _unit(self) -> str:
        return "a word" if self.n == 1 else f"{self.n} words"


class RougeL(TextMetric):
    """ROUGE-L: words shared in the same order.

    Args:
        stem: Whether English words are stemmed before comparison.
    """

    name = "rouge_l"
    title = "ROUGE-L"
    _meaning = "few words appear in the same order"
    _next_step = "Read it with ROUGE-1; use @stem to compare with published figures."
    description = "How many words do response and reference share in the same order?"
    formula = "F1 of the longest common subsequence: 2 * LCS / (words of the response + words of the reference)"
    source = "Lin 2004, section 3"
    example = WorkedExample(
        row={"response": "tall is the tower", "reference": "the tower is tall"},
        value=0.5,
        steps='All words are shared, but only "the tower" in this order: P = R = F1 = 2/4.',
    )

    def __init__(self, stem: bool = False) -> None:  # noqa: FBT001, FBT002  the name states it as @stem
        self.stem = stem

    def _compared(self, response: str, references: Sequence[str]) -> tuple[float, Mapping[str, Any]] | None:
        overlap = _rouge_l(response, references, stem=self.stem)
        return None if overlap is None else (overlap.f1, overlap_details(overlap))


def rouge_n(text: str, references: Sequence[str], n: int = 1, *, stem: bool = False) -> TextOverlap | None:
    """Compute the overlap of the word n-grams with the best reference, or return None if all are shorter than `n` words."""
    parts, *others = (_runs(_words(each, stem=stem), n) for each in (text, *references))
    return best_overlap(parts, others)


def _rouge_l(text: str, references: Sequence[str], *, stem: bool) -> TextOverlap | None:
    words, *others = (_words(each, stem=stem) for each in (text, *references))
    return best_overlap(words, others, _longest_common)


def _words(text: str, *, stem: bool) -> list[str]:
    words = split_words(text)
    return [_stemmer()(word) if _SHORT < len(word) <= _LONG else word for word in words] if stem else words


@cache
def _stemmer() -> Callable[[str], str]:
    with needs_extra("", "nltk", "ROUGE"):
        from nltk.stem.porter import PorterStemmer

    stem: Callable[[str], str] = PorterStemmer().stem
    return stem


def _runs(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(n)), strict=False))


def _longest_common(a: Parts, b: Parts) -> int:
    """Compute the length of the longest common subsequence. Each row of the table is a bit vector (an integer).

    Source: Hyyro 2004, "Bit-parallel LCS-length computation revisited".
    """
    places: dict[object, int] = {}
    for i, part in enumerate(a):
        places[part] = places.get(part, 0) | 1 << i
    every = (1 << len(a)) - 1
    row = every
    for part in b:
        hit = row & places.get(part, 0)
        row = ((row + hit) | (row - hit)) & every
    return len(a) - row.bit_count()
