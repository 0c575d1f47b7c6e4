"""Metrics for short answers, as in question-answering benchmarks: exact match and token F1.

Source: P. Rajpurkar, J. Zhang, K. Lopyrev, P. Liang, "SQuAD: 100,000+ Questions for Machine Comprehension of Text",
section 6.1.

The normalization of the source is defined by its script: lower case, no punctuation and no articles (a, an, the).
Ragstone's normalization is identical on English text in ASCII, with these additions:

- Text is NFKC-normalized, which unifies width variants and composed characters. Case and punctuation follow Unicode.
- Scripts without spaces between words are compared by character. Accents and vowel marks are kept.
- A step that would remove all text is skipped. Therefore the answers "A" and "The" differ, and so do "+" and "-".
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from ragstone._util.words import normalize_case, split_tokens
from ragstone.metrics._card import WorkedExample
from ragstone.metrics.text._base import TextMetric, TextOverlap, best_overlap, check_references, overlap_details

Normalization = Literal["squad", "strict"]
"""Normalization of answers: "squad" as in SQuAD, or "strict" (only leading and trailing whitespace is removed)."""

_ARTICLES: Final = frozenset({"a", "an", "the"})
_SOURCE: Final = "Rajpurkar et al. 2016 (SQuAD), section 6.1"


def exact_match(text: str, references: Sequence[str], *, normalize: Normalization = "squad") -> float:
    """Return 1 if `text` equals a reference after normalization, else 0.

    Args:
        text: Text to score.
        references: Reference answers. One equal reference is enough.
        normalize: "squad" (ignores case, punctuation and English articles) or "strict" (ignores only leading and
            trailing whitespace).

    Raises:
        ValueError: If `references` is empty or contains only blank texts.

    Source:
        Rajpurkar et al. 2016, section 6.1.

    Examples:
        >>> exact_match("The Eiffel Tower!", ["eiffel tower"])
        1.0
    """
    _check(references)
    return float(_same(text, references, normalize) is not None)


def token_f1(text: str, references: Sequence[str]) -> TextOverlap:
    """Compute precision, recall and F1 of the tokens that `text` shares with the reference with the highest F1.

    Texts are normalized as in SQuAD. The order of tokens is ignored. A repeated token counts as often as it occurs in
    both texts.

    Args:
        text: Text to score. An empty text scores 0.
        references: Reference answers.

    Raises:
        ValueError: If `references` is empty or contains only blank texts.

    Source:
        Rajpurkar et al. 2016, section 6.1.

    Examples:
        >>> token_f1("in the year 1969", ["1969"]).f1
        0.5
    """
    _check(references)
    overlap = best_overlap(_tokens(text), [_tokens(reference) for reference in references])
    assert overlap is not None  # noqa: S101  a reference that is not blank has a token
    return overlap


class ExactMatch(TextMetric):
    """Exact match of the response with a reference.

    Args:
        normalize: As for `exact_match`. With "strict", the metric's name is `exact_match@strict`.
    """

    name = "exact_match"
    title = "Exact match"
    _meaning = "answers differ from the reference in content or only in wording"
    _next_step = "Use it for short answers; else look at token F1."
    description = "Is the response identical to a reference, after normalization?"
    formula = "1 if response = reference for any reference, both normalized, else 0"
    source = _SOURCE

    def __init__(self, normalize: Normalization = "squad") -> None:
        self.normalize: Normalization = normalize
        self.version = f"1({normalize})"
        if normalize == "strict":
            self.example = WorkedExample(
                row={"response": "31 meters.\n", "reference": "31 meters"},
                value=0.0,
                steps='Whitespace around the texts is ignored, but the period counts: "31 meters." is not "31 meters".',
            )
        else:
            self.example = WorkedExample(
                row={"response": "The Eiffel Tower.", "reference": ["Notre-Dame", "Eiffel tower"]},
                value=1.0,
                steps='Without case, punctuation and articles, both texts are "eiffel tower".',
            )

    def _compared(self, response: str, references: Sequence[str]) -> tuple[float, Mapping[str, Any]]:
        position = _same(response, references, self.normalize)
        details = {"normalisation": self.normalize}  # codespell:ignore normalisation
        return (0.0, details) if position is None else (1.0, {**details, "reference": position + 1})


class TokenF1(TextMetric):
    """F1 of the tokens that response and reference share."""

    name = "token_f1"
    title = "Token F1"
    _meaning = "answer and reference share few words"
    _next_step = "In details, low precision is extra text, low recall is missing content."
    description = "How many tokens do response and reference share, relative to their lengths?"
    formula = "F1 of shared tokens: 2 * shared / (tokens of the response + tokens of the reference), best reference"
    source = _SOURCE
    example = WorkedExample(
        row={"response": "It was in July 1969.", "reference": "July 1969"},
        value=4 / 7,
        steps="Shared: july, 1969. Precision 2/5, recall 2/2, F1 = 2 * 2 / (5 + 2) = 0.571.",
    )

    def _compared(self, response: str, references: Sequence[str]) -> tuple[float, Mapping[str, Any]]:
        overlap = token_f1(response, references)
        return overlap.f1, overlap_details(overlap)


def _check(references: Sequence[str]) -> None:
    check_references(references)
    if not any(reference.strip() for reference in references):
        raise ValueError(f"at least one reference must not be blank, got {list(references)!r}")


def _same(text: str, references: Sequence[str], normalize: Normalization) -> int | None:
    """Return the index of the first reference that equals `text`, or None."""
    normal: Callable[[str], str | list[str]] = str.strip if normalize == "strict" else _tokens
    target = normal(text)
    # A blank text never matches, even if a reference is blank after normalization.
    return next((i for i, reference in enumerate(references) if target and normal(reference) == target), None)


def _tokens(text: str) -> list[str]:
    text = normalize_case(text)
    tokens = split_tokens("".join(letter for letter in text if not _is_punctuation(letter))) or split_tokens(text)
    return [token for token in tokens if token not in _ARTICLES] or tokens


def _is_punctuation(letter: str) -> bool:
    # SQuAD's script treats ASCII symbols ($, +, =, ...) as punctuation.
    return letter in string.punctuation or unicodedata.category(letter).startswith("P")
