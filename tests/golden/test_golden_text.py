"""Text metrics against sacrebleu, rouge-score, rapidfuzz and SQuAD's normalization, and the guide's corrected examples."""

from __future__ import annotations

import asyncio
import random
import re
import string
from collections import Counter

import pytest
import sacrebleu
from rapidfuzz.distance import LCSseq
from rouge_score.rouge_scorer import RougeScorer

from builders import make_sample
from ragstone._util.words import split_words
from ragstone.metrics.text import Bleu, ChrF, exact_match, rouge_l, token_f1
from ragstone.metrics.text._rouge import rouge_n
from ragstone.testing import FakeJudge

WORDS = [
    "the",
    "a",
    "an",
    "tower",
    "U.S.",
    "it's",
    "3.5",
    "31",
    "metres,",
    "tall!",
    "Tall",
    "tall-ish",
    "(high)",
    "(high).",
    "$5",
    "Eiffel",
    "stands...",
    "?",
]
SEEDS = range(200)


def text(rng, most=12):
    return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))


def pair(seed):
    """A response, and one to three references with many words of it."""
    rng = random.Random(seed)
    references = [text(rng) for _ in range(rng.randint(1, 3))]
    kept = [word for word in rng.choice(references).split() if rng.random() < 0.8]
    return " ".join([*kept, *rng.choices(WORDS, k=rng.randint(0, 3))]) or "tower", references


def score(metric, response, references):
    return asyncio.run(metric.score(make_sample(response=response, reference=tuple(references)), FakeJudge())).value


@pytest.mark.parametrize("tokenize", ["13a", "intl", "zh", "char", "none"])
@pytest.mark.parametrize("smoothing", ["exp", "floor", "add-k", "none"])
def test_sentence_bleu(tokenize, smoothing):
    """As sacrebleu's function for sentences, divided by 100."""
    for seed in range(40):
        response, references = pair(seed)
        theirs = sacrebleu.sentence_bleu(response, references, smooth_method=smoothing, tokenize=tokenize).score
        assert theirs / 100 == pytest.approx(score(Bleu(tokenize=tokenize, smoothing=smoothing), response, references))


@pytest.mark.parametrize("word_order", [0, 2])
def test_sentence_chrf(word_order):
    """As sacrebleu's function for sentences, divided by 100."""
    for seed in SEEDS:
        response, references = pair(seed)
        theirs = sacrebleu.sentence_chrf(response, references, word_order=word_order).score
        assert theirs / 100 == pytest.approx(score(ChrF(word_order=word_order), response, references))


def test_a_response_that_is_too_short_for_all_orders():
    """Smoothed BLEU of two words of four is 36.8 in sacrebleu."""
    assert pytest.approx(0.368, abs=5e-4) == score(Bleu(), "a b", ["a b c d"])


class Unicode:
    """A tokeniser for rouge-score that keeps other scripts: ours."""

    def tokenize(self, text):
        return split_words(text)


@pytest.mark.parametrize("tokeniser", [None, Unicode()], ids=["theirs", "ours"])
def test_rouge(tokeniser):
    """As rouge-score: on ASCII with its own tokeniser, unstemmed; P, R and F of the best reference."""
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False, tokenizer=tokeniser)
    for seed in SEEDS:
        response, references = pair(seed)
        if not all(map(split_words, references)):
            continue  # 0/0 is 0 there
        if tokeniser:
            response, references = (re.sub("t", "塔", response), [re.sub("t", "塔", text) for text in references])
        theirs = scorer.score_multi(references, response)
        assert theirs["rouge1"].fmeasure == pytest.approx(rouge_n(response, references).f1)
        assert theirs["rougeL"].fmeasure == pytest.approx(rouge_l(response, references).f1)
        if theirs["rouge2"].fmeasure:
            assert theirs["rouge2"].fmeasure == pytest.approx(rouge_n(response, references, n=2).f1)
        one = scorer.score(references[0], response)["rougeL"]
        ours = rouge_l(response, references[:1])
        assert (one.precision, one.recall) == pytest.approx((ours.precision, ours.recall))


def test_rouge_stemmed():
    """As rouge-score with its stemmer, which has Porter's rules from where we have them."""
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    text, reference = "The ferries were leaving early, cancelled twice", "A ferry leaves earlier and is cancelling two"
    theirs = scorer.score(reference, text)
    assert 0 < theirs["rouge1"].fmeasure == pytest.approx(rouge_n(text, [reference], stem=True).f1)
    assert theirs["rouge2"].fmeasure == pytest.approx(rouge_n(text, [reference], n=2, stem=True).f1)
    assert theirs["rougeL"].fmeasure == pytest.approx(rouge_l(text, [reference], stem=True).f1)
    assert rouge_n(text, [reference]).f1 < rouge_n(text, [reference], stem=True).f1


def test_rouge_of_other_scripts():
    """Where rouge-score's own tokeniser sees nothing, or half a word."""
    theirs = RougeScorer(["rouge1"])
    assert 0 == theirs.score("東京タワー", "東京タワー")["rouge1"].fmeasure
    assert 1 == theirs.score("ber", "über")["rouge1"].fmeasure
    assert 1 == rouge_n("東京タワー", ["東京タワー"]).f1
    assert 0 == rouge_n("über", ["ber"]).f1


def test_longest_common_subsequence():
    """As rapidfuzz, on sequences of thousands of words."""
    rng = random.Random(1)
    for n in (1, 10, 500, 3000):
        a, b = ([f"w{rng.randint(0, 99)}" for _ in range(n)] for _ in range(2))
        theirs = LCSseq.similarity(a, b)
        assert theirs / n == pytest.approx(rouge_l(" ".join(a), [" ".join(b)]).recall)


def squad(text):
    """The normalization of SQuAD's evaluation, as the paper and its script describe it."""
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return [token for token in text.split() if token not in {"a", "an", "the"}]


def test_answers_as_squad():
    """Equal wherever SQuAD's normalization leaves something of every text."""
    n = 0
    for seed in SEEDS:
        response, references = pair(seed)
        tokens, *others = map(squad, [response, *references])
        if not tokens or not all(others):
            continue
        n += 1
        best = 0.0
        for other in others:
            shared = (Counter(tokens) & Counter(other)).total()
            best = max(best, 2 * shared / (len(tokens) + len(other)))
        assert best == pytest.approx(token_f1(response, references).f1)
        assert (tokens in others) == exact_match(response, references)
    assert n > 150


@pytest.mark.parametrize(("order", "corrected", "printed"), [(1, 0.900, 0.889), (2, 0.837, 0.816)])
def test_the_guide_s_bleu(order, corrected, printed):
    """Both strings have 10 tokens, not 9: precisions are 9/10 and 7/9."""
    value = score(
        Bleu(max_order=order),
        "The motor has a speed of 3000 revolutions per minute",
        ["The motor reaches a speed of 3000 revolutions per minute"],
    )
    assert corrected == pytest.approx(value, abs=5e-4)
    assert abs(printed - value) > 0.01
