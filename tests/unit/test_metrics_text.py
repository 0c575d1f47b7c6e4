"""Text metrics: values worked out by hand, empty texts, several references, and what their details say."""

from __future__ import annotations

import asyncio
import importlib.util

import pytest

from builders import make_sample
from ragstone.errors import ConfigurationError, MissingExtraError
from ragstone.metrics import resolve_metrics
from ragstone.metrics.text import (
    Bleu,
    ChrF,
    ExactMatch,
    RougeL,
    RougeN,
    TokenF1,
    exact_match,
    rouge_l,
    token_f1,
)
from ragstone.metrics.text._rouge import rouge_n
from ragstone.schema import NotApplicable
from ragstone.testing import FakeJudge


def score(metric, response, *references):
    return asyncio.run(metric.score(make_sample(response=response, reference=references), FakeJudge()))


@pytest.mark.parametrize(
    ("response", "reference", "normalize", "expected"),
    [
        ("The Eiffel Tower.", "eiffel tower", "squad", 1),
        ("Eiffel-Tower", "eiffel tower", "squad", 0),
        ("$5", "5", "squad", 1),
        ("«31 metres»", "31 metres", "squad", 1),
        ("A", "The", "squad", 0),
        ("A", "a", "squad", 1),
        ("+", "-", "squad", 0),
        ("？", "?", "squad", 1),
        ("एक दिन", "एक दान", "squad", 0),
        ("東京", "東 京", "squad", 1),
        (" 31 metres\n", "31 metres", "strict", 1),
        ("31 Metres", "31 metres", "strict", 0),
        ("", "31 metres", "strict", 0),
    ],
)
def test_exact_match(response, reference, normalize, expected):
    """Normalized as benchmarks do, save that no answer is normalized away; or letter by letter."""
    outcome = score(ExactMatch(normalize=normalize), response, reference)
    assert expected == outcome.value == exact_match(response, [reference], normalize=normalize)


def test_token_f1():
    """Two shared tokens of three and of four, the repeated one counted once as the reference has it once."""
    overlap = token_f1("tall tall tower", ["no", "the tower is a tall one"])
    assert (2 / 3, 2 / 4, 4 / 7, 1) == pytest.approx((overlap.precision, overlap.recall, overlap.f1, overlap.reference))


def test_the_first_of_equal_references():
    """Two that fit equally well: the place is that of the first."""
    assert 1 == token_f1("tall", ["high", "tall", "Tall"]).reference
    assert 1 == rouge_l("tall", ["high", "tall", "Tall"]).reference


def test_a_blank_text_equals_nothing():
    """Not even a blank reference beside another."""
    assert 0 == exact_match(" ", ["", "tall"]) == exact_match("", [" ", "tall"], normalize="strict")


def test_a_perfect_score_is_one():
    """What sacrebleu rounds to 100.00000000000004 is not above the range."""
    assert 1 == score(Bleu(), "a b c d e", "a b c d e").value


def test_rouge_stemmed():
    """Endings do not count, but for words of three letters and less; a name with @stem is the metric that does so."""
    assert 0 == rouge_n("ferries", ["ferry"]).f1
    assert 1 == rouge_n("ferries", ["ferry"], stem=True).f1 == rouge_l("ferries", ["ferry"], stem=True).f1
    assert 0 == rouge_n("bus", ["bu"], stem=True).f1
    for name in ("rouge_1@stem", "rouge_l@stem"):
        (metric,) = resolve_metrics([name])
        outcome = asyncio.run(metric.score(make_sample(response="ferries", reference=("ferry",)), FakeJudge()))
        assert (name, 1.0) == (outcome.metric, outcome.value)
    with pytest.raises(ConfigurationError, match="stem of rouge_2 must be true or false, got 'stemmed'"):
        resolve_metrics(["rouge_2@stemmed"])


def test_rouge():
    """Precision, recall and F1 of words, pairs and the longest common subsequence."""
    text, reference = "the cat the dog ran", "the dog saw the cat"
    one, two, longest = rouge_n(text, [reference]), rouge_n(text, [reference], n=2), rouge_l(text, [reference])
    assert (4 / 5, 4 / 5) == (one.precision, one.recall)
    assert (2 / 4, 2 / 4) == (two.precision, two.recall)
    assert (2 / 5, 2 / 5) == (longest.precision, longest.recall)
    short = rouge_n("the cat", [reference])
    assert (1.0, 2 / 5, 4 / 7) == pytest.approx((short.precision, short.recall, short.f1))


def test_bleu_of_the_guide():
    """Ten tokens on both sides: BLEU-1 is 0.900 and BLEU-2 0.837."""
    response = "The motor has a speed of 3000 revolutions per minute"
    reference = "The motor reaches a speed of 3000 revolutions per minute"
    assert pytest.approx(0.9) == score(Bleu(max_order=1), response, reference).value
    outcome = score(Bleu(max_order=2), response, reference)
    assert pytest.approx((0.9 * 7 / 9) ** 0.5) == outcome.value
    assert [0.9, 7 / 9] == pytest.approx(outcome.details["precisions"])
    assert (1.0, 10, 10) == tuple(outcome.details[key] for key in ("brevity_penalty", "length", "reference_length"))
    assert "tok:13a|smooth:exp|version:" in outcome.details["signature"]
    assert "bleu@max_order=2" == outcome.metric


def test_options_of_bleu_have_names_and_versions():
    """Outcomes of two tokenisers, orders or smoothings are never taken for one metric."""
    metrics = [Bleu(), Bleu(tokenize="zh"), Bleu(max_order=2), Bleu(max_order=2, tokenize="zh")]
    assert ["bleu", "bleu@zh", "bleu@max_order=2", "bleu@zh,max_order=2"] == [metric.card.name for metric in metrics]
    versions = [metric.card.version for metric in [*metrics, Bleu(smoothing="floor")]]
    assert len(versions) == len(set(versions))
    assert 0 == score(Bleu(smoothing="none"), "a b", "a c").value < score(Bleu(), "a b", "a c").value
    assert 0.5 < score(Bleu(tokenize="zh"), "東京塔很高呀", "東京塔很高").value


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Bleu(tokenize="spm"), "tokenize of Bleu must be one of 13a, intl, zh, char, none, got 'spm'"),
        (lambda: Bleu(smoothing="x"), "smoothing of Bleu must be"),
        (lambda: Bleu(max_order=0), "max_order"),
        (lambda: ChrF(word_order=1), "word_order"),
        (lambda: ExactMatch(normalize="loose"), "squad, strict"),
    ],
)
def test_unknown_options(make, words):
    """The message lists what there is."""
    with pytest.raises(ConfigurationError, match=words):
        make()


def test_chrf_plus_plus_is_another_metric():
    """It counts runs of words as well."""
    plain, plus = score(ChrF(), "tall tower", "tower tall"), score(ChrF(word_order=2), "tall tower", "tower tall")
    assert ("chrf", "chrf++") == (plain.metric, plus.metric)
    assert plain.value != plus.value


METRICS = pytest.mark.parametrize(
    "metric", [ExactMatch(), TokenF1(), Bleu(), ChrF(), RougeN(1), RougeN(2), RougeL()], ids=repr
)


@METRICS
@pytest.mark.parametrize("response", ["", " \n"])
def test_an_empty_response_scores_zero(metric, response):
    """It shares nothing with any reference."""
    outcome = score(metric, response, "31 metres")
    assert (0, "empty_response") == (outcome.value, outcome.method)


@METRICS
def test_blank_references_are_passed_over(metric):
    """They are no reference, and shift no position."""
    outcome = score(metric, "it is 31 metres tall", "", "it is 31 metres tall")
    assert pytest.approx(1) == outcome.value
    assert 2 == outcome.details.get("reference", 2)
    assert isinstance(score(metric, "it is 31 metres tall", " "), NotApplicable)


@pytest.mark.parametrize(
    ("metric", "reference", "reason"),
    [(RougeN(1), "!?", "a word"), (RougeN(2), "tower", "2 words"), (RougeL(), "…", "a word")],
)
def test_references_without_parts(metric, reference, reason):
    """Nothing to recall is 0/0, not 0."""
    outcome = score(metric, "tower", reference)
    assert isinstance(outcome, NotApplicable)
    assert f"no reference contains {reason}" == outcome.reason
    assert score(metric, "tall tower", reference, "tall tower").value == 1


@pytest.mark.parametrize("function", [exact_match, token_f1, rouge_l])
def test_one_text_is_not_a_list_of_references(function):
    """Its characters would be references: "9" would equal one of "1969"."""
    with pytest.raises(ValueError, match=r"list of texts, got the text '1969'. Use \['1969'\]"):
        function("9", "1969")


def test_functions_refuse_what_has_no_value():
    """With the values in the message."""
    with pytest.raises(ValueError, match="not be blank, got"):
        exact_match("x", [" "])
    with pytest.raises(ValueError, match="not be blank, got"):
        token_f1("x", [])
    with pytest.raises(ValueError, match=r"at least one word, got \['!'\]"):
        rouge_l("x", ["!"])


def test_without_sacrebleu(monkeypatch):
    """The install line is in the message, and it comes before anything is scored."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "sacrebleu" else real(name))
    for ask in (
        lambda: resolve_metrics("text"),
        lambda: resolve_metrics("chrf"),
    ):
        with pytest.raises(MissingExtraError, match=r"pip install 'ragstone\[text\]'"):
            ask()
    others = ["exact_match", "token_f1", "rouge_1", "rouge_2", "rouge_l"]
    assert others == [metric.card.name for metric in resolve_metrics(others)]
