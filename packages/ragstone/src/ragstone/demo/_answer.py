"""Answering for the demo: the sentence that shares the most telling words with the question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ragstone.demo._words import inverse_frequencies, words

__all__ = ["NOT_FOUND", "extract_answer"]

NOT_FOUND: Final = "I could not find this in the handbook."

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")
# Below this share of the question's weight the sentence is about something else. Chosen so that the demo answers most
# questions and still makes both mistakes: it answers what it should not, and gives up where it should not.
_MIN_OVERLAP: Final = 0.4


def extract_answer(query: str, passages: Sequence[str]) -> str:
    """Return the best sentence of `passages`, or `NOT_FOUND` when none has enough in common with `query`.

    It looks at words and not at meaning, so it is fooled by look-alikes; the demo needs some bad answers to show.

    Args:
        query: The question.
        passages: Retrieved texts, best first; of equally good sentences the first one wins.
    """
    sentences = [s.strip() for passage in passages for s in _SENTENCE_END.split(passage) if s.strip()]
    bags = [set(words(sentence)) for sentence in sentences]
    idf = inverse_frequencies(bags)
    # A word that no sentence has is as telling as the rarest: it must count against every sentence.
    unknown = max(idf.values(), default=1.0)
    weights = {word: idf.get(word, unknown) for word in sorted(set(words(query)))}
    total = sum(weights.values())
    best, best_share = NOT_FOUND, 0.0
    for sentence, bag in zip(sentences, bags, strict=True):
        share = sum(weight for word, weight in weights.items() if word in bag) / total if total else 0.0
        if share > best_share:
            best, best_share = sentence, share
    return best if best_share >= _MIN_OVERLAP else NOT_FOUND
