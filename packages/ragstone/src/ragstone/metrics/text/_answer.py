"""Short answers, compared as question-answering benchmarks do: exact match and token F1.

| metric | value |
|---|---|
| `exact_match` | 1 if response and a reference are the same after normalisation, else 0 |
| `token_f1` | 2PR / (P + R) of the tokens after normalisation, as often as both have them; best reference |

Source: P. Rajpurkar, J. Zhang, K. Lopyrev, P. Liang, "SQuAD: 100,000+ Questions for Machine Comprehension of Text",
section 6.1.

The source's normalisation is that of its script: lower case, no punctuation, none of the articles a, an, the. Ours is the
same on English text in ASCII, and further:

- Width variants and composed characters are one (NFKC), case goes by Unicode, and so does what punctuation is.
- Scripts without spaces between words are compared by character; accents and vowel marks stay.
- A step that would leave nothing is left out: the answers "A" and "The" are different, "+" and "-" too.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

from ragstone._util.words import normalize_case, split_tokens
from ragstone.errors import ConfigurationError
from ragstone.metrics._card import WorkedExample
from ragstone.metrics.text._base import TextMetric, TextOverlap, best_overlap, overlap_details

__all__ = ["ExactMatch", "Normalisation", "TokenF1", "exact_match", "token_f1"]

Normalisation = Literal["squad", "strict"]
"""How answers are made comparable: as SQuAD does, or not at all but for white space around them."""

_ARTICLES: Final = frozenset({"a", "an", "the"})
_SOURCE: Final = "Rajpurkar et al. 2016 (SQuAD), section 6.1"


def exact_match(text: str, references: Sequence[str], *, normalise: Normalisation = "squad") -> float:
    """1 where `text` equals a reference after normalisation, else 0.

    Args:
        text: What is scored.
        references: Correct answers; one that is equal is enough.
        normalise: "squad" (case, punctuation and the English articles do not count) or "strict" (letter by letter; white
            space around either is not compared).

    Raises:
        ValueError: All references are blank, or there is none.

    Source:
        Rajpurkar et al. 2016, section 6.1.

    Example:
        >>> exact_match("The Eiffel Tower!", ["eiffel tower"])
        1.0
    """
    _check(references)
    return float(_same(text, references, normalise) is not None)


def token_f1(text: str, references: Sequence[str]) -> TextOverlap:
    """Precision, recall and F1 of the tokens that `text` shares with the reference of the highest F1.

    Tokens are those of SQuAD's normalisation. Order does not count; a token counts as often as both have it.

    Args:
        text: What is scored; an empty one shares nothing.
        references: Correct answers.

    Raises:
        ValueError: All references are blank, or there is none.

    Source:
        Rajpurkar et al. 2016, section 6.1.

    Example:
        >>> token_f1("in the year 1969", ["1969"]).f1
        0.5
    """
    _check(references)
    overlap = best_overlap(_tokens(text), [_tokens(reference) for reference in references])
    assert overlap is not None  # noqa: S101  a reference that is not blank has a token
    return overlap


class ExactMatch(TextMetric):
    """Is the response the reference?

    Args:
        normalise: As for `exact_match`. The name tells "strict" apart: `exact_match@strict`.

    Raises:
        ConfigurationError: An unknown normalisation.
    """

    name = "exact_match"
    title = "Exact match"
    advice = (
        "Low means that answers differ from the reference in content or only in wording. "
        "Next: Use it for short answers; else look at token F1."
    )
    description = "Is the response one of the reference answers?"
    formula = "1 if response = reference, both normalised, for any reference; else 0"
    source = _SOURCE

    def __init__(self, *, normalise: Normalisation = "squad") -> None:
        if normalise not in get_args(Normalisation):
            raise ConfigurationError(
                f"normalise must be one of {', '.join(get_args(Normalisation))}, got {normalise!r}"
            )
        self.normalise: Normalisation = normalise
        self.version = f"1({normalise})"
        if normalise == "strict":
            self.name = "exact_match@strict"
            self.example = WorkedExample(
                row={"response": "31 metres.\n", "reference": "31 metres"},
                value=0.0,
                steps='White space around either is not compared, the point is: "31 metres." is not "31 metres".',
            )
        else:
            self.example = WorkedExample(
                row={"response": "The Eiffel Tower.", "reference": ["Notre-Dame", "Eiffel tower"]},
                value=1.0,
                steps='Without case, punctuation and article both are "eiffel tower".',
            )

    def _compared(self, response: str, references: Sequence[str]) -> tuple[float, Mapping[str, Any]]:
        position = _same(response, references, self.normalise)
        details = {"normalisation": self.normalise}
        return (0.0, details) if position is None else (1.0, {**details, "reference": position + 1})


class TokenF1(TextMetric):
    """How many tokens do response and reference share?"""

    name = "token_f1"
    title = "Token F1"
    advice = (
        "Low means that answer and reference share few words. "
        "Next: In details, low precision is extra text, low recall is missing content."
    )
    description = "How much of the reference answer is in the response, and how little else?"
    formula = "F1 of shared tokens: 2 * shared / (tokens of the response + tokens of the reference); best reference"
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
    if not any(reference.strip() for reference in references):
        raise ValueError(f"a comparison needs a reference that is not blank, got {list(references)!r}")


def _same(text: str, references: Sequence[str], normalise: Normalisation) -> int | None:
    """The place of the first reference that equals `text`."""
    normalised = str.strip if normalise == "strict" else _normalised
    sought = normalised(text)
    # A blank text is no answer, whatever is left of a reference.
    return next((i for i, reference in enumerate(references) if sought and normalised(reference) == sought), None)


def _normalised(text: str) -> str:
    return " ".join(_tokens(text))


def _tokens(text: str) -> list[str]:
    text = normalize_case(text)
    tokens = split_tokens("".join(letter for letter in text if not _is_punctuation(letter))) or split_tokens(text)
    return [token for token in tokens if token not in _ARTICLES] or tokens


def _is_punctuation(letter: str) -> bool:
    # SQuAD's script counts ASCII's symbols ($, +, =, ...) among the punctuation.
    return letter in string.punctuation or unicodedata.category(letter).startswith("P")
