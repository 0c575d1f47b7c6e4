"""BLEU and chrF of a whole corpus, with a bootstrap confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ragstone._util.local_model import check_installed
from ragstone.metrics.text._sacrebleu import SACREBLEU, Bleu, ChrF, Smoothing, Tokenizer
from ragstone.stats import Estimate, bootstrap_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RESAMPLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusScore(Estimate):
    """A score of all responses together, in [0, 1]. It differs from the mean of the individual scores.

    The method is "percentile", or "range" if there is one sample.
    """

    signature: str
    """sacrebleu's signature: version, tokenizer, smoothing, number of references."""


def corpus_bleu(
    responses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenize: Tokenizer = "13a",
    smoothing: Smoothing = "exp",
    max_order: int = 4,
    resamples: int = _RESAMPLES,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> CorpusScore:
    """Compute the BLEU of a corpus, whose precisions use matches and lengths summed over all responses.

    The interval is a percentile bootstrap over samples. It covers the sampling of questions, but not the variation of
    repeated responses to one question.

    Args:
        responses: One response per sample. An empty response counts as a response of length 0.
        references: Reference texts of each sample, one or several.
        tokenize: sacrebleu's tokenizer.
        smoothing: Smoothing of n-gram orders without a match.
        max_order: Longest n-gram, in tokens.
        resamples: Number of bootstrap resamples.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Seed of the bootstrap.

    Raises:
        ConfigurationError: If an option is unknown.
        MissingExtraError: If sacrebleu is not installed.
        ValueError: If `responses` is empty, the numbers of responses and references differ, or a sample does not have
            a reference.

    Source:
        Papineni et al. 2002, section 2; the interval: Koehn 2004, section 3.

    Examples:
        ```python
        corpus_bleu(["The cat sat."], [["The cat sat.", "A cat was sitting."]])
        ```
    """
    check_installed(SACREBLEU, "corpus_bleu")
    from sacrebleu.metrics.bleu import BLEU

    Bleu(tokenize=tokenize, smoothing=smoothing, max_order=max_order)  # validates the options
    metric = BLEU(tokenize=tokenize, smooth_method=smoothing, max_ngram_order=max_order)
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
    """Compute the chrF of a corpus, from matches summed over all responses, each with its best reference.

    Arguments, interval and errors are as for `corpus_bleu`. `word_order=2` computes chrF++.

    Source:
        Popovic 2015; 2017 for chrF++.

    Examples:
        ```python
        corpus_chrf(["The cat sat."], [["The cat sat."]]).value
        ```
    """
    check_installed(SACREBLEU, "corpus_chrf")
    from sacrebleu.metrics.chrf import CHRF

    ChrF(word_order=word_order)  # type: ignore[arg-type]  # validates the options
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
    # sacrebleu sums the statistics of samples and computes the score from the sums. Its metric classes override both
    # methods, so they are as stable as its public API. A resampled corpus only needs another sum.
    rows = metric._extract_corpus_statistics(list(responses), _streams(responses, references))  # noqa: SLF001

    def score_of(drawn: NDArray[np.float64]) -> float:
        return min(1.0, float(metric._compute_score_from_stats(drawn.sum(axis=0).tolist()).score) / 100)  # noqa: SLF001

    found = bootstrap_interval(
        rows, score_of, low=0.0, high=1.0, n_resamples=resamples, confidence_level=confidence_level, seed=seed
    )
    return CorpusScore(**asdict(found), signature=str(metric.get_signature()))


def _streams(responses: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """Return references in sacrebleu's layout: the first of all samples, then the second of all samples, ..."""
    if len(responses) != len(references) or not responses:
        raise ValueError(
            "a corpus needs at least one response, and one list of references per response, got "
            f"{len(responses)} responses and {len(references)} lists of references"
        )
    kept: list[list[str]] = []
    for position, texts in enumerate(references):
        if isinstance(texts, str):
            raise ValueError(f"references[{position}] must be a list of texts, got the text {texts!r}")  # noqa: TRY004  all invalid arguments raise ValueError
        kept.append([text for text in texts if text.strip()])
        if not kept[-1]:
            raise ValueError(f"references[{position}] must contain a text that is not blank, got {list(texts)!r}")
    most = max(map(len, kept))
    return [[texts[stream] if stream < len(texts) else None for texts in kept] for stream in range(most)]
