"""Words of English text against their pattern, and ROUGE-L against rapidfuzz, in interleaved rounds."""

from __future__ import annotations

import random
import statistics
import time

import pytest

from ragstone._util.words import _patterns, normalize_case, split_words
from ragstone.metrics.text import rouge_l

pytestmark = pytest.mark.bench

ROUNDS = 15
PAIRS, WORDS = 100, 120


def a_text(rng: random.Random, *, typographic: bool) -> str:
    """Sentences of random words, as a model writes them."""
    vocabulary = [f"{stem}{end}" for stem in ("harbour", "ferr", "light", "pass", "cross") for end in ("s", "ing", "y")]
    words = rng.choices([*vocabulary, "the", "of", "and", "it", "is", "3.5"], k=WORDS)
    mark = "\u2019s \u201cnew\u201d. " if typographic else "'s new. "
    return mark.join(" ".join(words[start : start + 12]).capitalize() for start in range(0, WORDS, 12))


def by_pattern(text: str) -> list[str]:
    """Words as version 0.1 found them."""
    return _patterns()[0].findall(normalize_case(text))


def cpu_s(work, items):
    """Seconds of this thread's CPU for all items."""
    start = time.thread_time()
    for item in items:
        work(*item)
    return time.thread_time() - start


@pytest.mark.parametrize("typographic", [False, True], ids=["ASCII", "typographic punctuation"])
def test_words_cost_a_share_of_their_pattern(typographic):
    """Bytes are translated and split."""
    rng = random.Random(2)
    texts = [(a_text(rng, typographic=typographic),) for _ in range(PAIRS)]
    assert [by_pattern(*text) for text in texts] == [split_words(*text) for text in texts]
    ratio = statistics.median(cpu_s(split_words, texts) / cpu_s(by_pattern, texts) for _ in range(ROUNDS))
    print(f"\n  x{ratio:.3f} of the pattern")
    assert ratio <= 0.1


def test_rouge_l_beside_rapidfuzz():
    """From texts to F1. rapidfuzz gets the texts too, and splits them at blanks."""
    distance = pytest.importorskip("rapidfuzz.distance")
    rng = random.Random(3)
    pairs = [(a_text(rng, typographic=False), [a_text(rng, typographic=False)]) for _ in range(PAIRS)]

    def theirs(text: str, references: list[str]) -> float:
        words, reference = text.lower().split(), references[0].lower().split()
        return 2 * distance.LCSseq.similarity(words, reference) / (len(words) + len(reference))

    for text, references in pairs:
        common = distance.LCSseq.similarity(split_words(text), split_words(references[0]))
        n_words = len(split_words(text)) + len(split_words(references[0]))
        assert 2 * common / n_words == pytest.approx(rouge_l(text, references).f1)
    rounds = [(cpu_s(rouge_l, pairs), cpu_s(theirs, pairs)) for _ in range(ROUNDS)]
    ours_us, theirs_us = (statistics.median(column) / PAIRS * 1e6 for column in zip(*rounds, strict=True))
    ratio = statistics.median(ours / other for ours, other in rounds)
    print(
        f"\n  ROUGE-L of two texts of {WORDS} words: ours {ours_us:.0f} us, rapidfuzz {theirs_us:.0f} us: x{ratio:.1f}"
    )
    assert ratio <= 6
