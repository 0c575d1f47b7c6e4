"""ROUGE-L: how much of one text another repeats in order, in any script."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone._util.words import words_of

__all__ = ["rouge_l"]


def rouge_l(text: str, references: Sequence[str]) -> float:
    """F1 of the longest common subsequence of words, against the reference that fits best.

    Words are compared without case and punctuation; Chinese, Japanese and Korean characters count as words. (The usual
    implementation keeps only a-z and 0-9, and gives other scripts 0.)

    Args:
        text: What is scored.
        references: Correct texts.

    Returns:
        A value in [0, 1]; 0 for a text without a word.

    Raises:
        ValueError: No reference has a word.

    Source:
        Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", section 3 (beta = 1).

    Example:
        >>> rouge_l("the tower is tall", ["a tall tower", "The tower is high."])
        0.75
    """
    sought = [words for reference in references if (words := words_of(reference))]
    if not sought:
        msg = f"ROUGE-L needs a reference with a word in it, got {list(references)!r}"
        raise ValueError(msg)
    words = words_of(text)
    return max(2 * _common(words, reference) / (len(words) + len(reference)) for reference in sought)


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence, a row of the table at a time as the bits of one number.

    Source: Hyyro 2004, "Bit-parallel LCS-length computation revisited".
    """
    places: dict[str, int] = {}
    for i, word in enumerate(a):
        places[word] = places.get(word, 0) | 1 << i
    every = (1 << len(a)) - 1
    row = every
    for word in b:
        hit = row & places.get(word, 0)
        row = ((row + hit) | (row - hit)) & every
    return len(a) - row.bit_count()
