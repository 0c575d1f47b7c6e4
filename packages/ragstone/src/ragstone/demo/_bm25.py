"""Retrieval for the demo: BM25 over a handful of passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from ragstone.demo._handbook import DemoPassage
from ragstone.demo._words import inverse_frequencies, words

__all__ = ["Bm25"]

_K1: Final = 1.2
_B: Final = 0.75


class Bm25:
    """Ranks passages by BM25 (k1 = 1.2, b = 0.75) over title and text.

    Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, section 3.
    """

    def __init__(self, passages: Sequence[DemoPassage]) -> None:
        self._passages = tuple(passages)
        self._counts = [Counter(words(f"{p.title}. {p.text}")) for p in self._passages]
        self._idf = inverse_frequencies(self._counts)
        self._mean_length = sum(c.total() for c in self._counts) / max(1, len(self._counts))

    def search(self, query: str, k: int = 4) -> list[tuple[DemoPassage, float]]:
        """Return the best `k` passages with their scores (above 0), best first; ties keep the order of the corpus."""
        terms = set(words(query))
        ranked = sorted(
            ((p, self._score(terms, counts)) for p, counts in zip(self._passages, self._counts, strict=True)),
            key=lambda hit: hit[1],
            reverse=True,
        )
        return [hit for hit in ranked[:k] if hit[1] > 0]

    def _score(self, terms: set[str], counts: Counter[str]) -> float:
        norm = _K1 * (1 - _B + _B * counts.total() / self._mean_length)
        # Sorted, because a sum of floats in the order of a set differs from run to run.
        return sum(self._idf[t] * counts[t] * (_K1 + 1) / (counts[t] + norm) for t in sorted(terms) if t in counts)
