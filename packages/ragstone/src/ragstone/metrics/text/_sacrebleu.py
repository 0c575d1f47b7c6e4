"""BLEU and chrF, computed by sacrebleu, whose signature says how: for one response, or for a corpus with an interval.

| metric | value |
|---|---|
| `bleu` | BP * exp(mean of log p_n, n = 1..4), p_n the precision of runs of n tokens, BP the penalty for brevity |
| `chrf` | F2 of the mean precision and the mean recall of runs of 1 to 6 characters |

Sources: K. Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation", 2002, section 2; M. Popovic,
"chrF: character n-gram F-score for automatic MT evaluation", 2015; M. Post, "A Call for Clarity in Reporting BLEU Scores",
2018, for the signature.

- sacrebleu counts to 100; here everything is divided by 100 and lies in [0, 1].
- BLEU of one response is smoothed ("exp": half, a quarter, ... of a match for the orders without any) and leaves out the
  orders the response is too short for. Unsmoothed, most responses would have 0.
- **The mean of BLEU over responses is not the BLEU of the corpus**, which counts matches over all responses first. To
  compare with published figures use `corpus_bleu` and `corpus_chrf`.
- The tokeniser "13a" of the field separates words at blanks and punctuation. For Chinese say "zh", for other scripts
  without spaces "char". chrF needs no tokeniser.
- An empty response scores 0; blank references are passed over; several references are one set of matches for BLEU, and for
  chrF the best counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, get_args

from ragstone.errors import ConfigurationError
from ragstone.metrics._card import OptionalDependency, WorkedExample
from ragstone.metrics.text._base import TextMetric

__all__ = ["SACREBLEU", "Bleu", "ChrF", "Smoothing", "Tokeniser"]

Tokeniser = Literal["13a", "intl", "zh", "char", "none"]
"""sacrebleu's tokenisers that need neither another package nor a download."""
Smoothing = Literal["exp", "floor", "add-k", "none"]

SACREBLEU: Final = OptionalDependency(module="sacrebleu", package="sacrebleu", extra="ragstone[text]")
_MAX_ORDER: Final = 4


class Bleu(TextMetric):
    """BLEU of one response.

    Args:
        tokenise: Which tokeniser separates the words; the name tells others than "13a" apart (`bleu@zh`).
        smoothing: What an order without a match counts.
        max_order: The longest run of tokens; the name tells others than 4 apart (`bleu_2`).

    Raises:
        ConfigurationError: An option that does not exist.
    """

    title = "BLEU (per answer)"
    advice = (
        "Low means that wording differs from the reference. "
        "Next: Compare systems with the same signature; do not act on one value."
    )
    description = "How many runs of one to four words of the response are in a reference?"
    formula = "BP * exp(mean over n = 1..4 of log(precision of the runs of n tokens)), BP = min(1, exp(1 - r / c))"
    source = "Papineni et al. 2002, section 2; smoothing: Chen and Cherry 2014, method 3"
    extra = SACREBLEU

    def __init__(
        self, *, tokenise: Tokeniser = "13a", smoothing: Smoothing = "exp", max_order: int = _MAX_ORDER
    ) -> None:
        for option, value, known in (("tokenise", tokenise, Tokeniser), ("smoothing", smoothing, Smoothing)):
            if value not in get_args(known):
                raise ConfigurationError(f"{option} must be one of {', '.join(get_args(known))}, got {value!r}")
        if max_order < 1:
            raise ConfigurationError(f"max_order must be at least 1, got {max_order!r}")
        self.tokenise, self.smoothing, self.max_order = tokenise, smoothing, max_order
        self.name = "bleu" if max_order == _MAX_ORDER else f"bleu_{max_order}"
        if tokenise != "13a":
            self.name += f"@{tokenise}"
        self.version = f"1({tokenise},{smoothing},{max_order})"
        self.example = _BLEU_EXAMPLE if max_order == _MAX_ORDER else None

    def _compared(self, response: str, references: Sequence[str]) -> tuple[float, Mapping[str, Any]]:
        bleu = self._sacrebleu.sentence_score(response, [text for text in references if text.strip()])
        details = {
            "signature": str(self._sacrebleu.get_signature()),
            "tokeniser": self.tokenise,
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
            tokenize=self.tokenise, smooth_method=self.smoothing, max_ngram_order=self.max_order, effective_order=True
        )


class ChrF(TextMetric):
    """chrF of one response.

    Args:
        word_order: The longest run of words that counts as well; 2 is chrF++, and has the name `chrf++`.

    Raises:
        ConfigurationError: `word_order` is neither 0 nor 2.
    """

    source = "Popovic 2015; for chrF++ Popovic 2017"
    description = "How many runs of one to six characters do response and reference share?"
    advice = (
        "Low means that wording or word forms differ from the reference. "
        "Next: Compare systems; do not act on one value."
    )
    formula = "5PR / (4P + R), P and R the means over n = 1..6 of precision and recall of the runs of n characters"
    extra = SACREBLEU

    def __init__(self, *, word_order: Literal[0, 2] = 0) -> None:
        if word_order not in (0, 2):
            raise ConfigurationError(f"word_order must be 0 (chrF) or 2 (chrF++), got {word_order!r}")
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
    steps="10 tokens each, so BP = 1. The precisions are 9/10, 7/9, 5/8 and 4/7, their product 1/4, and its fourth root "
    "0.707. (BLEU-1 is 0.900, BLEU-2 0.837.)",
)
_CHRF_EXAMPLE: Final = WorkedExample(
    row={"response": "abc", "reference": "abd"},
    value=0.3889,
    steps="In common: 2 of 3 characters, 1 of 2 pairs, 0 of 1 triple; longer runs there are none. "
    "P = R = (2/3 + 1/2 + 0) / 3 = 0.389, and so is F2.",
)


def _of_one(score: float) -> float:
    """A score of sacrebleu, which may be a rounding error above 100, as a share of one."""
    return min(1.0, score / 100)
