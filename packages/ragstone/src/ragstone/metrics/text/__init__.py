"""Text: how close is the response to the reference, letter by letter and word by word?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ragstone.errors import ConfigurationError
from ragstone.metrics._card import Metric
from ragstone.metrics.text._answer import ExactMatch, Normalisation, TokenF1, exact_match, token_f1
from ragstone.metrics.text._base import TextOverlap
from ragstone.metrics.text._corpus import CorpusScore, corpus_bleu, corpus_chrf
from ragstone.metrics.text._rouge import RougeL, RougeN, rouge_l, rouge_n
from ragstone.metrics.text._sacrebleu import Bleu, ChrF, Smoothing, Tokeniser

__all__ = [
    "TEXT",
    "TEXT_AT",
    "Bleu",
    "ChrF",
    "CorpusScore",
    "ExactMatch",
    "Normalisation",
    "RougeL",
    "RougeN",
    "Smoothing",
    "TextOverlap",
    "TokenF1",
    "Tokeniser",
    "corpus_bleu",
    "corpus_chrf",
    "exact_match",
    "rouge_l",
    "rouge_n",
    "token_f1",
]

TEXT: Final[tuple[Metric, ...]] = (ExactMatch(), TokenF1(), Bleu(), ChrF(), RougeN(1), RougeN(2), RougeL())
"""The metrics of the group, as papers report them."""


def _is_stem(argument: str) -> bool:
    if argument.casefold() != "stem":
        raise ConfigurationError(f"what follows the @ of a ROUGE metric is 'stem' (rouge_l@stem), got {argument!r}")
    return True


# The makers look at their argument, which may be any text.
_bleu: Any = Bleu
_exact_match: Any = ExactMatch
TEXT_AT: Final[Mapping[str, tuple[str, Callable[[str], Metric]]]] = {
    "bleu": ("TOKENISER", lambda argument: _bleu(tokenise=argument)),
    "exact_match": ("NORMALISATION", lambda argument: _exact_match(normalise=argument)),
    "rouge_1": ("stem", lambda argument: RougeN(1, stem=_is_stem(argument))),
    "rouge_2": ("stem", lambda argument: RougeN(2, stem=_is_stem(argument))),
    "rouge_l": ("stem", lambda argument: RougeL(stem=_is_stem(argument))),
}
"""What `NAME@ARGUMENT` makes."""
