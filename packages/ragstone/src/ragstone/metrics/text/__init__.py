"""Text metrics: overlap of characters and words between response and reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ragstone.errors import ConfigurationError
from ragstone.metrics._card import Metric
from ragstone.metrics.text._answer import ExactMatch, Normalization, TokenF1, exact_match, token_f1
from ragstone.metrics.text._base import TextOverlap
from ragstone.metrics.text._corpus import CorpusScore, corpus_bleu, corpus_chrf
from ragstone.metrics.text._rouge import RougeL, RougeN, rouge_l, rouge_n
from ragstone.metrics.text._sacrebleu import Bleu, ChrF, Smoothing, Tokenizer

__all__ = [
    "TEXT",
    "TEXT_AT",
    "Bleu",
    "ChrF",
    "CorpusScore",
    "ExactMatch",
    "Normalization",
    "RougeL",
    "RougeN",
    "Smoothing",
    "TextOverlap",
    "TokenF1",
    "Tokenizer",
    "corpus_bleu",
    "corpus_chrf",
    "exact_match",
    "rouge_l",
    "rouge_n",
    "token_f1",
]

TEXT: Final[tuple[Metric, ...]] = (ExactMatch(), TokenF1(), Bleu(), ChrF(), RougeN(1), RougeN(2), RougeL())
"""The metrics of the group, with the default options of the literature."""


def _is_stem(argument: str) -> bool:
    if argument.casefold() != "stem":
        raise ConfigurationError(f"the argument of a ROUGE metric must be 'stem' (rouge_l@stem), got {argument!r}")
    return True


# The argument may be any text, which the constructors validate.
_bleu: Any = Bleu
_exact_match: Any = ExactMatch
TEXT_AT: Final[Mapping[str, tuple[str, Callable[[str], Metric]]]] = {
    "bleu": ("TOKENIZER", lambda argument: _bleu(tokenize=argument)),
    "exact_match": ("NORMALIZATION", lambda argument: _exact_match(normalize=argument)),
    "rouge_1": ("stem", lambda argument: RougeN(1, stem=_is_stem(argument))),
    "rouge_2": ("stem", lambda argument: RougeN(2, stem=_is_stem(argument))),
    "rouge_l": ("stem", lambda argument: RougeL(stem=_is_stem(argument))),
}
"""For each `NAME@ARGUMENT`: the placeholder of the argument, and the function that makes the metric."""
