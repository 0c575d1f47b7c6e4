"""Words of a text and how telling they are: shared by retrieval and answering."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["inverse_frequencies", "words"]

_WORD: Final = re.compile(r"\w+(?:[.:,]\w+)*")  # 9.40, 07:30 and 18,000 are one word each
_STOP_WORDS: Final = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "do",
        "does",
        "for",
        "from",
        "has",
        "have",
        "how",
        "in",
        "is",
        "it",
        "its",
        "may",
        "much",
        "many",
        "no",
        "not",
        "of",
        "on",
        "or",
        "she",
        "that",
        "the",
        "their",
        "there",
        "they",
        "to",
        "was",
        "what",
        "when",
        "where",
        "which",
        "who",
        "with",
    ]
)


def words(text: str) -> list[str]:
    """Return the words of `text` that carry meaning, in order, lower case and without a plural s."""
    found = (word.lower() for word in _WORD.findall(text))
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in found if word not in _STOP_WORDS]


def inverse_frequencies(texts: Sequence[Iterable[str]]) -> dict[str, float]:
    """Return for each word ln(1 + (N - n + 0.5) / (n + 0.5)): n of the N texts have it. Always above 0.

    Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, with 1 added
    inside the logarithm so that a word in most texts does not count against a text.
    """
    counts: dict[str, int] = {}
    for text in texts:
        for word in set(text):
            counts[word] = counts.get(word, 0) + 1
    return {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in counts.items()}
