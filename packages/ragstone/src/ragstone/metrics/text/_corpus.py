"""BLEU and chrF of a whole corpus, with an interval from resampled samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragstone.metrics._local import check_installed
from ragstone.metrics.text._sacrebleu import SACREBLEU, Bleu, ChrF, Smoothing, Tokeniser

__all__ = ["CorpusScore", "corpus_bleu", "corpus_chrf"]

_RESAMPLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusScore:
    """A score of all responses together. It is not the mean of their own scores."""

    value: float
    """In [0, 1]: sacrebleu's score divided by 100."""
    low: float
    high: float
    confidence_level: float
    method: str
    """How the interval was made: "percentile_bootstrap", or "range" for one sample, which shows no spread."""
    n: int
    """Samples."""
    signature: str
    """sacrebleu's: version, tokeniser, smoothing, number of references."""


def corpus_bleu(
    responses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenise: Tokeniser = "13a",
    smoothing: Smoothing = "exp",
    max_order: int = 4,
    resamples: int = _RESAMPLES,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> CorpusScore:
    """The BLEU of a corpus: matches and lengths are summed over all responses before precisions are made of them.

    The interval is between percentiles of the corpus scores of resampled samples. It says how much the score depends on
    which questions were asked, and nothing of how the application varies on one question.

    Args:
        responses: One for each sample; an empty one counts, with nothing in it.
        references: The correct texts of each sample, one or several.
        tokenise: Which tokeniser separates the words.
        smoothing: What an order without a match counts.
        max_order: The longest run of tokens.
        resamples: How many corpora are drawn.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Of the draws.

    Raises:
        ConfigurationError: An option that does not exist.
        MissingExtraError: sacrebleu is not installed.
        ValueError: No samples, unequally many responses and references, or a sample without a reference.

    Source:
        Papineni et al. 2002, section 2; the interval: Koehn 2004, section 3.

    Example:
        ```python
        corpus_bleu(["The cat sat."], [["The cat sat.", "A cat was sitting."]])
        ```
    """
    check_installed(SACREBLEU, "corpus_bleu")
    from sacrebleu.metrics.bleu import BLEU

    Bleu(tokenise=tokenise, smoothing=smoothing, max_order=max_order)  # looks at the options
    metric = BLEU(tokenize=tokenise, smooth_method=smoothing, max_ngram_order=max_order)
    return _corpus(metric, responses, references, resamples=resamples, confidence_level=confidence_level, seed=seed)


def corpus_chrf(
    responses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    word_order: int = 0,
    resamples: int = _RESAMPLES,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> CorpusScore:
    """The chrF of a corpus: matches are summed over all responses, each with the reference that fits it best.

    Arguments, interval and errors as for `corpus_bleu`; `word_order=2` is chrF++.

    Source:
        Popovic 2015; 2017 for chrF++.

    Example:
        ```python
        corpus_chrf(["The cat sat."], [["The cat sat."]]).value
        ```
    """
    check_installed(SACREBLEU, "corpus_chrf")
    from sacrebleu.metrics.chrf import CHRF

    ChrF(word_order=word_order)  # type: ignore[arg-type]  # looks at the options
    return _corpus(
        CHRF(word_order=word_order),
        responses,
        references,
        resamples=resamples,
        confidence_level=confidence_level,
        seed=seed,
    )


def _corpus(
    metric: Any,
    responses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    resamples: int,
    confidence_level: float,
    seed: int,
) -> CorpusScore:
    import numpy as np

    if not 0 < confidence_level < 1 or resamples < 1:
        raise ValueError(
            f"confidence_level must lie in (0, 1) and resamples be at least 1, got confidence_level={confidence_level!r}, resamples={resamples!r}"
        )
    # sacrebleu sums the statistics of single samples, and makes a score of the sums. Both steps are what its metrics
    # override, so they are as fixed as its public names; a resampled corpus is then one more sum.
    rows = metric._extract_corpus_statistics(list(responses), _streams(responses, references))  # noqa: SLF001
    table = np.asarray(rows, dtype=float)
    n = len(table)

    def score_of(sums: Any) -> float:
        return min(1.0, float(metric._compute_score_from_stats(sums.tolist()).score) / 100)  # noqa: SLF001

    value = score_of(table.sum(axis=0))
    low, high, method = 0.0, 1.0, "range"
    if n > 1:
        rng = np.random.default_rng(seed)
        drawn = [score_of(np.bincount(rng.integers(0, n, n), minlength=n) @ table) for _ in range(resamples)]
        low, high = (float(end) for end in np.quantile(drawn, [(1 - confidence_level) / 2, (1 + confidence_level) / 2]))
        method = "percentile_bootstrap"
    return CorpusScore(
        value=value,
        # Where the drawn corpora lie to one side, as they may for few samples, the interval still holds the value.
        low=min(low, value),
        high=max(high, value),
        confidence_level=confidence_level,
        method=method,
        n=n,
        signature=str(metric.get_signature()),
    )


def _streams(responses: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """References as sacrebleu takes them: the first of all samples, the second of all samples, ..."""
    if len(responses) != len(references) or not responses:
        raise ValueError(
            "a corpus needs at least one response, and the references of each, got "
            f"{len(responses)} responses and {len(references)} lists of references"
        )
    kept: list[list[str]] = []
    for position, texts in enumerate(references):
        if isinstance(texts, str):
            raise ValueError(f"the references of a response are a list, got the text {texts!r} at position {position}")  # noqa: TRY004  a wrong value of the argument, as all others here
        kept.append([text for text in texts if text.strip()])
        if not kept[-1]:
            raise ValueError(
                f"each response needs a reference that is not blank, got {list(texts)!r} at position {position}"
            )
    most = max(map(len, kept))
    return [[texts[stream] if stream < len(texts) else None for texts in kept] for stream in range(most)]
