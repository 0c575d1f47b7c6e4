"""Laws of the text metrics: bounds, identity, symmetry, the best of several references, and any script."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from builders import make_sample
from ragstone.metrics.text import TEXT, exact_match, rouge_l, token_f1
from ragstone.metrics.text._rouge import rouge_n
from ragstone.schema import NotApplicable, Score
from ragstone.testing import FakeJudge

METRICS = pytest.mark.parametrize("metric", TEXT, ids=lambda metric: metric.card.name)

words = st.lists(st.sampled_from(["alpha", "beta", "гамма", "塔", "दिन", "delta"]), max_size=12)
some_words = words.filter(bool)
texts = st.text(max_size=40)
references = st.lists(texts, min_size=1, max_size=3).filter(lambda each: any(text.strip() for text in each))


def score(metric, response, references):
    return asyncio.run(metric.score(make_sample(response=response, reference=tuple(references)), FakeJudge()))


def longest_common(a, b):
    """The textbook table."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(words, some_words)
def test_rouge_l_agrees_with_the_textbook(text, reference):
    """The bit-parallel row computes the same subsequence length."""
    expected = longest_common(text, reference)
    found = rouge_l(" ".join(text), [" ".join(reference)])
    assert 2 * expected / (len(text) + len(reference)) == pytest.approx(found.f1)
    assert expected / len(reference) == pytest.approx(found.recall)
    assert (expected / len(text) if text else 0.0) == pytest.approx(found.precision)


@METRICS
@given(response=texts, references=references)
@example(response="İ", references=["i̇"])
@example(response="the", references=["A", "THE"])
@example(response="\ud800", references=["\ud800"])
def test_any_text_has_a_value_in_range_or_a_reason(metric, response, references):
    """Whatever the letters are, also those that case folding or composition change."""
    outcome = score(metric, response, references)
    if isinstance(outcome, NotApplicable):
        assert "no reference contains" in outcome.reason
    else:
        assert isinstance(outcome, Score)
        assert math.isfinite(outcome.value)
        assert 0 <= outcome.value <= 1
        if not response.strip():
            assert (0, "empty_response") == (outcome.value, outcome.method)


@METRICS
@given(text=some_words.filter(lambda each: len(each) > 3).map(" ".join), other=words.map(" ".join))
def test_a_reference_repeated_is_perfect(metric, text, other):
    """Every metric gives 1 to a response that is one of its references, with case and punctuation that do not count."""
    assert score(metric, text, [text]).value == pytest.approx(1)
    assert score(metric, text, [other or "x", text]).value == pytest.approx(1)


@METRICS
@given(response=words.map(" ".join), references=st.lists(some_words.map(" ".join), min_size=1, max_size=3))
def test_another_reference_never_harms(metric, response, references):
    """The best fitting one counts. BLEU, where lengths and matches of all references mix, makes no such promise."""
    if metric.card.name == "bleu":
        return
    alone, both = score(metric, response, references[:1]), score(metric, response, references)
    if isinstance(alone, Score):
        assert both.value >= alone.value - 1e-12


@given(some_words.map(" ".join), some_words.map(" ".join))
def test_f1_knows_no_sides(a, b):
    """Precision one way is recall the other way."""
    for compare in (token_f1, rouge_l, rouge_n):
        one, other = compare(a, [b]), compare(b, [a])
        assert one.f1 == pytest.approx(other.f1)
        assert (one.precision, one.recall) == pytest.approx((other.recall, other.precision))


@given(some_words.map(" ".join), some_words.map(" ".join))
def test_overlaps_are_ordered(a, b):
    """Words in order are among the words shared; an exact match shares all."""
    assert rouge_l(a, [b]).f1 <= rouge_n(a, [b]).f1 + 1e-12
    assert exact_match(a, [b]) <= token_f1(a, [b]).f1


@given(some_words.map(" ".join))
def test_case_width_and_punctuation_do_not_count(text):
    """Nor do they for answers; for BLEU and chrF they do, as in the field."""
    loud = "".join(chr(ord(c) + 0xFEE0) if "a" <= c <= "z" else c.upper() for c in text) + " !"
    assert 1 == exact_match(loud, [text])
    assert 1 == token_f1(loud, [text]).f1 == rouge_l(loud, [text]).f1 == rouge_n(loud, [text]).f1
