"""ROUGE: how much of a reference a response repeats, word by word, in runs of two, or in order; in any script.

| metric | parts that both have | value |
|---|---|---|
| `rouge_1` | words | F1 |
| `rouge_2` | pairs of neighbouring words | F1 |
| `rouge_l` | words of the longest common subsequence | F1 |

Source: C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004, sections 2 and 3.

ROUGE is defined as a recall; what papers and libraries print today is F1. All three are kept, F1 is the value. What the
source leaves open is decided so:

- Words are compared without case and punctuation; characters of scripts without spaces count as words. (The usual
  implementation keeps only a-z and 0-9: it cuts "über" to "ber" and gives Japanese 0.)
- Words are not stemmed, unless `stem` asks for it: then English words of more than three letters lose their endings by
  Porter's rules, as in most published figures on English summaries.
- Several references: the one with the highest F1.
- An empty response scores 0. A reference too short to have a part is passed over; without any other, not applicable.
- The whole text is one sequence: line ends do not separate sentences ("rougeLsum" does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

from ragstone._util.words import split_words
from ragstone.metrics._card import WorkedExample
from ragstone.metrics.text._base import Parts, TextMetric, TextOverlap, best_overlap, overlap_details

__all__ = ["RougeL", "RougeN", "rouge_l", "rouge_n"]

_STEMMED: Final = "@stem"
_SHORT: Final = 3
"""Words of no more letters are left as they are."""


def rouge_n(text: str, references: Sequence[str], *, n: int = 1, stem: bool = False) -> TextOverlap:
    """Precision, recall and F1 of the runs of `n` words, against the reference of the highest F1.

    Args:
        text: What is scored; one without a run of `n` words shares nothing.
        references: Correct texts.
        n: Words in a run.
        stem: Whether English words are compared without their endings.

    Raises:
        ValueError: No reference has `n` words, or `n` is below 1.

    Source:
        Lin 2004, section 2.

    Example:
        >>> rouge_n("the tower is tall", ["The tower is high."], n=2).recall
        0.6666666666666666
    """
    if n < 1:
        raise ValueError(f"a run has at least one word, got n={n!r}")
    return _found(_rouge_n(text, references, n, stem=stem), references, n)


def rouge_l(text: str, references: Sequence[str], *, stem: bool = False) -> TextOverlap:
    """Precision, recall and F1 of the longest common subsequence of words, against the reference of the highest F1.

    Args:
        text: What is scored; one without a word shares nothing.
        references: Correct texts.
        stem: Whether English words are compared without their endings.

    Raises:
        ValueError: No reference has a word.

    Source:
        Lin 2004, section 3 (beta = 1).

    Example:
        >>> rouge_l("the tower is tall", ["a tall tower", "The tower is high."]).f1
        0.75
    """
    return _found(_rouge_l(text, references, stem=stem), references, 1)


class RougeN(TextMetric):
    """ROUGE-N: shared runs of n words.

    Args:
        n: 1 or 2.
        stem: Whether English words are compared without their endings.
    """

    source = "Lin 2004, section 2"

    def __init__(self, n: Literal[1, 2], *, stem: bool = False) -> None:
        self.n = n
        self.stem = stem
        self.name = f"rouge_{n}{_STEMMED if stem else ''}"
        self.title = f"ROUGE-{n}"
        self.advice = (
            "Low means that answer and reference share few words. Next: Check recall in details for missing content."
            if n == 1
            else "Low means that answer and reference share few word pairs. "
            "Next: If ROUGE-1 is high, only the phrasing differs."
        )
        runs = "words" if n == 1 else "pairs of neighbouring words"
        self.description = f"How many {runs} do response and reference share?"
        self.formula = f"F1 of shared {runs}: 2 * shared / ({runs} of the response + those of the reference)"
        row = {"response": "the tower is tall", "reference": "the tower is 31 metres tall"}
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
        overlap = _rouge_n(response, references, self.n, stem=self.stem)
        return None if overlap is None else (overlap.f1, overlap_details(overlap))

    def _unit(self) -> str:
        return "a word" if self.n == 1 else f"{self.n} words"


class RougeL(TextMetric):
    """ROUGE-L: words shared in the same order.

    Args:
        stem: Whether English words are compared without their endings.
    """

    title = "ROUGE-L"
    advice = (
        "Low means that few words appear in the same order. "
        "Next: Read it with ROUGE-1; use @stem to compare with published figures."
    )
    description = "How many words do response and reference share in the same order?"
    formula = "F1 of the longest common subsequence: 2 * LCS / (words of the response + words of the reference)"
    source = "Lin 2004, section 3"
    example = WorkedExample(
        row={"response": "tall is the tower", "reference": "the tower is tall"},
        value=0.5,
        steps='All words are shared, but only "the tower" in this order: P = R = F1 = 2/4.',
    )

    def __init__(self, *, stem: bool = False) -> None:
        self.stem = stem
        self.name = f"rouge_l{_STEMMED if stem else ''}"

    def _compared(self, response: str, references: Sequence[str]) -> tuple[float, Mapping[str, Any]] | None:
        overlap = _rouge_l(response, references, stem=self.stem)
        return None if overlap is None else (overlap.f1, overlap_details(overlap))


def _rouge_n(text: str, references: Sequence[str], n: int, *, stem: bool) -> TextOverlap | None:
    parts, *others = (_runs(_words(each, stem=stem), n) for each in (text, *references))
    return best_overlap(parts, others)


def _rouge_l(text: str, references: Sequence[str], *, stem: bool) -> TextOverlap | None:
    words, *others = (_words(each, stem=stem) for each in (text, *references))
    return best_overlap(words, others, _longest_common)


def _words(text: str, *, stem: bool) -> list[str]:
    words = split_words(text)
    return [_stemmer()(word) if len(word) > _SHORT else word for word in words] if stem else words


@cache
def _stemmer() -> Callable[[str], str]:
    from nltk.stem.porter import PorterStemmer

    stem: Callable[[str], str] = PorterStemmer().stem
    return stem


def _found(overlap: TextOverlap | None, references: Sequence[str], n: int) -> TextOverlap:
    if overlap is None:
        raise ValueError(
            f"ROUGE needs a reference with {'a word' if n == 1 else f'{n} words'} in it, got {list(references)!r}"
        )
    return overlap


def _runs(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(n)), strict=False))


def _longest_common(a: Parts, b: Parts) -> int:
    """Length of the longest common subsequence, a row of the table at a time as the bits of one number.

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
