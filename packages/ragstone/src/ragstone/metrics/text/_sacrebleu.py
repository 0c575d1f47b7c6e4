"""BLEU and chrF of one response, computed by sacrebleu. Its signature records the options.

Sources: K. Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation", 2002, section 2; M.
    Popovic,
"chrF: character n-gram F-score for automatic MT evaluation", 2015; M. Post, "A Call for Clarity in Reporting BLEU
Scores", 2018, for the signature.

- sacrebleu's scores are in [0, 100]. Ragstone divides them by 100, so they are in [0, 1].
- BLEU of one response is smoothed ("exp": orders without a match count as 1/2, 1/4, ... of a match). It omits orders
  that are longer than the response. Without smoothing, most responses would score 0.
- **The mean of BLEU over responses is not the BLEU of the corpus**, which sums matches over all responses first. Use
  `sacrebleu.BLEU().corpus_score` to compare with published results.
- The standard tokenizer "13a" splits at whitespace and punctuation. Use "zh" for Chinese, and "char" for other scripts
  without spaces. chrF does not use a tokenizer.
- An empty response scores 0. Blank references are skipped. With several references, BLEU combines their n-grams, and
  chrF uses the best reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from ragstone._util.local_model import OptionalDependency
from ragstone.metrics._card import WorkedExample
from ragstone.metrics.text._base import TextMetric

Tokenizer = Literal["13a", "intl", "zh", "char", "none"]
"""Tokenizers of sacrebleu that do not need another package or a download."""
Smoothing = Literal["exp", "floor", "add-k", "none"]

SACREBLEU: Final = OptionalDependency(module="sacrebleu", package="sacrebleu", extra="ragstone[text]")
_MAX_ORDER: Final = 4


class Bleu(TextMetric):
    """BLEU of one response.

    Args:
        tokenize: sacrebleu's tokenizer. Other values than "13a" are part of the metric's name (`bleu@zh`).
        smoothing: Smoothing of n-gram orders without a match.
        max_order: Longest n-gram, in tokens. Other values than 4 are part of the metric's name (`bleu@max_order=2`).
    """

    name = "bleu"
    title = "BLEU (per answer)"
    _meaning = "wording differs from the reference"
    _next_step = "Compare systems with the same signature; do not act on one value."
    description = "How many word n-grams (n = 1 to 4) of the response occur in a reference?"
    formula = "BP * exp(mean over n = 1..4 of log(n-gram precision)), BP = min(1, exp(1 - r / c))"
    source = "Papineni et al. 2002, section 2. Smoothing: Chen and Cherry 2014, method 3"
    extra = SACREBLEU

    def __init__(
        self,
        tokenize: Tokenizer = "13a",
        *,
        smoothing: Smoothing = "exp",
        max_order: Annotated[int, Field(ge=1)] = _MAX_ORDER,
    ) -> None:
        self.tokenize, self.smoothing, self.max_order = tokenize, smoothing, max_order
        self.version = f"1({tokenize},{smoothing},{max_order})"
        self.formula = self.formula.replace("n = 1..4", f"n = 1..{max_order}")
        self.description = self.description.replace("n = 1 to 4", f"n = 1 to {max_order}")
        self.example = _BLEU_EXAMPLE if self.version == "1(13a,exp,4)" else None

    def _compared(self, response: str, references: Sequence[str]) -> tuple[float, Mapping[str, Any]]:
        bleu = self._sacrebleu.sentence_score(response, [text for text in references if text.strip()])
        details = {
            "signature": str(self._sacrebleu.get_signature()),
            "tokeniser": self.tokenize,  # codespell:ignore tokeniser
            "smoothing": self.smoothing,
            "brevity_penalty": bleu.bp,
            "precisions": [precision / 100 for precision in bleu.precisions],
            "length": bleu.sys_len,
            "reference_length": bleu.ref_len,
        }
        return _of_one(bleu.score), details

    @cached_property
    def _sacrebleu(self) -> Any:
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(
            tokenize=self.tokenize, smooth_method=self.smoothing, max_ngram_order=self.max_order, effective_order=True
        )


class ChrF(TextMetric):
    """chrF of one response.

    Args:
        word_order: Longest word n-gram that also counts. 0 is chrF, and 2 is chrF++, with the name `chrf++`.
    """

    source = "Popovic 2015 (chrF), Popovic 2017 (chrF++)"
    description = "How many character n-grams (n = 1 to 6) do response and reference share?"
    _meaning = "wording or word forms differ from the reference"
    _next_step = "Compare systems; do not act on one value."
    formula = "5PR / (4P + R), P and R = means over n = 1..6 of the precision and recall of character n-grams"
    extra = SACREBLEU

    name = "chrf"
    unstated = ("word_order",)

    def __init__(self, word_order: Literal[0, 2] = 0) -> None:
        self.word_order = word_order
        self.name, self.title = ("chrf", "chrF") if word_order == 0 else ("chrf++", "chrF++")
        self.example = _CHRF_EXAMPLE if word_order == 0 else None

    def _compared(self, response: str, references: Sequence[str]) -> tuple[float, Mapping[str, Any]]:
        chrf = self._sacrebleu.sentence_score(response, [text for text in references if text.strip()])
        return _of_one(chrf.score), {"signature": str(self._sacrebleu.get_signature())}

    @cached_property
    def _sacrebleu(self) -> Any:
        from sacrebleu.metrics.chrf import CHRF

        return CHRF(word_order=self.word_order)


_BLEU_EXAMPLE: Final = WorkedExample(
    row={
        "response": "The motor has a speed of 3000 revolutions per minute",
        "reference": "The motor reaches a speed of 3000 revolutions per minute",
    },
    value=0.7071,
    steps="Both texts have 10 tokens, so BP = 1. The precisions are 9/10, 7/9, 5/8 and 4/7. Their product is 1/4, and its "
    "fourth root is 0.707. (BLEU-1 is 0.900, BLEU-2 0.837.)",
)
_CHRF_EXAMPLE: Final = WorkedExample(
    row={"response": "abc", "reference": "abd"},
    value=0.3889,
    steps="Shared: 2 of 3 characters, 1 of 2 pairs, 0 of 1 triple. The texts do not have longer n-grams. "
    "P = R = (2/3 + 1/2 + 0) / 3 = 0.389, so F2 = 0.389.",
)


def _of_one(score: float) -> float:
    """Scale a sacrebleu score to [0, 1]. It may exceed 100 by a rounding error."""
    return min(1.0, score / 100)
