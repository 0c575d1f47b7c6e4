"""Ranking metrics: values by hand, where they are undefined, and how they are named."""

from __future__ import annotations

import math

import pytest

from ragstone.errors import ConfigurationError
from ragstone.metrics import resolve_metrics
from ragstone.metrics.ranking import (
    RANKING,
    AlphaNdcg,
    JudgedRankingMetric,
    RankingMetric,
    alpha_ndcg,
    average_precision,
    f1,
    hit_rate,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)

ALL = (precision, recall, f1, hit_rate, reciprocal_rank, average_precision, ndcg)
SECOND = 1 / math.log2(3)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (2 / 5, precision(list("axb"), {"a": 1, "b": 1, "c": 1}, k=5)),
        (2 / 3, precision(list("axb"), {"a": 1, "b": 1, "c": 1})),
        (1 / 3, recall(list("xab"), {"a": 1, "b": 1, "c": 1}, k=2)),
        (2 * 1 / (2 + 3), f1(list("xab"), {"a": 1, "b": 1, "c": 1}, k=2)),
        (0.0, f1(list("xy"), {"a": 1}, k=2)),
        (0.0, hit_rate(list("xa"), {"a": 1}, k=1)),
        (1.0, hit_rate(list("xa"), {"a": 1}, k=9)),
        (0.5, reciprocal_rank(list("xab"), {"a": 1, "b": 1})),
        (0.0, reciprocal_rank(list("xa"), {"a": 1}, k=1)),
        ((1 / 2 + 2 / 3) / 4, average_precision(list("xab"), {"a": 1, "b": 1, "c": 1, "d": 1})),
        ((1 / 2) / 4, average_precision(list("xab"), {"a": 1, "b": 1, "c": 1, "d": 1}, k=2)),
        ((7 * SECOND) / (7 + 3 * SECOND), ndcg(list("xa"), {"a": 3, "b": 2}, k=2)),
        ((3 * SECOND) / (3 + 2 * SECOND), ndcg(list("xa"), {"a": 3, "b": 2}, k=2, gain="linear")),
        (SECOND, ndcg(list("xa"), {"a": 3, "b": 2}, k=2) * (7 + 3 * SECOND) / 7),
        (7 / (7 + 3 * SECOND), ndcg(list("a"), {"a": 3, "b": 2})),
        ((2**0.3 - 1) / (2**0.5 - 1), ndcg(list("a"), {"a": 0.3, "b": 0.5}, k=1)),
        (1.0, ndcg(list("ab"), {"a": 1, "b": -2})),
        (1.0, alpha_ndcg(list("ab"), {"?": ["a", "b"]}, k=2)),
        ((1 + 0.5 * SECOND) / (1 + SECOND), alpha_ndcg(list("ab"), {"?": ["a", "b"], "!": ["c"]}, k=2)),
        ((1 + SECOND) / (1 + SECOND), alpha_ndcg(list("ab"), {"?": ["a", "b"], "!": ["c"]}, k=2, alpha=0)),
        (1 / (1 + SECOND), alpha_ndcg(list("ab"), {"?": ["a", "b"], "!": ["c"]}, k=2, alpha=1)),
        (0.0, alpha_ndcg(list("xy"), {"?": ["a"]}, k=2)),
    ],
)
def test_worked_out_by_hand(expected, value):
    """The denominator of precision stays k, AP counts all relevant, the ideal knows what was missed, gains are named."""
    assert expected == pytest.approx(value)


@pytest.mark.parametrize("function", ALL)
def test_nothing_relevant_is_undefined(function):
    """0/0 is no score, whatever was retrieved."""
    for qrels in ({}, {"a": 0}, {"a": 0, "b": -1}):
        assert function(list("ab"), qrels, k=5) is None
        assert function([], qrels, k=5) is None
    assert alpha_ndcg(list("ab"), {"?": []}) is None
    assert alpha_ndcg(list("ab"), {}) is None


@pytest.mark.parametrize("function", ALL)
def test_nothing_retrieved_is_zero(function):
    """There was something to find, and it was not found."""
    assert 0.0 == function([], {"a": 1}, k=5)
    assert 0.0 == alpha_ndcg([], {"?": ["a"]}, k=5)


def test_precision_of_no_places_is_undefined():
    """Without a cut-off an empty list has no denominator."""
    assert precision([], {"a": 1}) is None


@pytest.mark.parametrize("function", [*ALL, alpha_ndcg])
def test_a_cut_off_below_one_is_refused(function):
    """It would cut everything off, or count from the end."""
    for k in (0, -1):
        with pytest.raises(ValueError, match=f"at least 1.*got {k}"):
            function(["a"], {"a": ["a"]} if function is alpha_ndcg else {"a": 1}, k=k)


@pytest.mark.parametrize("function", ALL)
def test_labels_are_finite_grades_by_passage(function):
    """A list of ids, or a grade that is not a number, is an error. NaN counted as not relevant."""
    with pytest.raises(ValueError, match=r"must map passage ids to grades.*got \['a'\]"):
        function(["a"], ["a"])
    for grade in (math.nan, math.inf):
        with pytest.raises(ValueError, match=f"finite number, got {grade} for passage 'b'"):
            function(["a"], {"a": 1, "b": grade})


def test_covered_passages_are_lists_by_sub_question():
    """A list of ids does not say which sub-question they answer."""
    with pytest.raises(ValueError, match=r"must map sub-questions.*got \['a'\]"):
        alpha_ndcg(["a"], ["a"])


def test_a_repeated_passage_keeps_its_place_and_is_worth_nothing_there():
    """Neither twice the gain, nor a place that others move up to."""
    qrels = {"a": 1, "b": 1}
    assert 1 / 3 == precision(list("aaa"), qrels, k=3)
    assert 0.5 == recall(list("aaa"), qrels, k=3)
    assert (1 + 2 / 3) / 2 == pytest.approx(average_precision(list("aab"), qrels))
    assert (1 + 0.5) / (1 + SECOND) == pytest.approx(ndcg(list("aab"), qrels))
    assert 1 / (1 + SECOND) == pytest.approx(alpha_ndcg(list("aa"), {"?": ["a"], "!": ["b"]}, alpha=0))


def test_the_threshold_decides_who_is_relevant():
    """From 0.5 on by default, as for UDCG; nDCG takes grades as they are."""
    qrels = {"a": 0.4, "b": 0.5, "c": 2}
    assert 1 / 2 == reciprocal_rank(list("abc"), qrels)
    assert 1 / 3 == reciprocal_rank(list("abc"), qrels, threshold=2)
    assert 1.0 == reciprocal_rank(list("abc"), qrels, threshold=0.4)


def test_ndcg_refuses_what_it_cannot_weigh():
    """A gain with another name, and a grade whose power is no number."""
    with pytest.raises(ValueError, match=r"'exp'.*or 'linear'.*'expo'"):
        ndcg(["a"], {"a": 1}, gain="expo")
    with pytest.raises(ValueError, match="grades above 1000, got 2000"):
        ndcg(["a"], {"a": 2000})
    assert 1.0 == ndcg(["a"], {"a": 2000}, gain="linear")
    assert 1.0 == ndcg(["a"], {"a": 1000})


def test_alpha_ndcg_s_ideal_is_greedy_and_can_be_beaten():
    """All three gain 2 at first; the larger id goes first, and leaves less to the others than "a" would have."""
    covered = {"0": ["c"], "1": ["a"], "2": ["d", "a"], "3": ["c", "d"]}
    assert (2 + 2 * SECOND + 0.5) / (2 + 1.5 * SECOND + 0.75) == pytest.approx(alpha_ndcg(list("acd"), covered))
    assert 1.0 < alpha_ndcg(list("acd"), covered) < math.e / (math.e - 1)
    assert 1.0 == pytest.approx(alpha_ndcg(list("dca"), covered))


def test_the_ideal_s_ties_do_not_depend_on_the_order_of_sub_questions():
    """1 + 0.7 + 0.49 is not 0.49 + 0.7 + 1 to a computer, and the last digit would decide who is ideal."""
    covered = {"0": "bdef", "1": "ef", "2": "e", "3": "abcd", "4": "abce", "5": "abf", "6": "acdf"}
    backwards = dict(reversed(covered.items()))
    assert 0.9697 == pytest.approx(alpha_ndcg(list("abcdef"), covered, k=6, alpha=0.3), abs=5e-5)
    assert 0.9697 == pytest.approx(alpha_ndcg(list("abcdef"), backwards, k=6, alpha=0.3), abs=5e-5)


def test_a_passage_named_twice_for_a_sub_question_answers_it_once():
    """As a data set may have it."""
    assert 1 / (1 + SECOND) == pytest.approx(alpha_ndcg(["a"], {"?": ["a", "a"], "!": ["b"]}, k=2))


def test_alpha_outside_its_range_is_refused():
    """A negative one would pay for repetition more and more."""
    with pytest.raises(ValueError, match=r"alpha must be between 0 and 1, got -0\.1"):
        alpha_ndcg(["a"], {"?": ["a"]}, alpha=-0.1)


def test_the_groups():
    """What a user gets who names no cut-off."""
    names = [
        "precision@5",
        "recall@5",
        "f1@5",
        "hit_rate@5",
        "reciprocal_rank",
        "average_precision",
        "ndcg@10",
        "alpha_ndcg@10",
    ]
    assert names == [metric.card.name for metric in resolve_metrics("ranking")]
    judged = [name for name in names if not name.startswith(("recall", "f1", "alpha"))]
    assert [f"judged.{name}" for name in judged] == [m.card.name for m in resolve_metrics("judged")]
    assert len(names) + len(judged) == len(RANKING)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("ndcg@3", "ndcg@3"),
        ("NDCG@3", "ndcg@3"),
        ("ndcg_linear@10", "ndcg_linear@10"),
        ("reciprocal_rank@10", "reciprocal_rank@10"),
        ("average_precision@100", "average_precision@100"),
        ("recall@1000", "recall@1000"),
        ("alpha_ndcg@20", "alpha_ndcg@20"),
        ("judged.precision@1", "judged.precision@1"),
        ("precision@05", "precision@5"),
    ],
)
def test_any_cut_off_can_be_named(spec, name):
    """`NAME@K`, for all that have one."""
    (metric,) = resolve_metrics(spec)
    assert name == metric.card.name
    assert metric.card.example is not None


@pytest.mark.parametrize(
    "spec",
    [
        "ndcg@0",
        "ndcg@-1",
        "ndcg@ten",
        "ndcg@5.0",
        "ndcg@1_0",
        "ndcg@٣",
        "alpha_ndcg@0",
        "judged.ndcg@x",
        "ndcg@9999999999",
    ],
)
def test_a_bad_cut_off_is_a_configuration_error(spec):
    """The message says what K is."""
    with pytest.raises(ConfigurationError, match="an integer of at least 1"):
        resolve_metrics(spec)


@pytest.mark.parametrize("measure", ["recall", "f1", "ndcg_linear", "map"])
def test_what_a_judge_cannot_tell_has_no_judged_measure(measure):
    """It sees what was retrieved, and says relevant or not."""
    with pytest.raises(ConfigurationError, match=r"does not exist|unknown ranking measure"):
        JudgedRankingMetric(measure)


@pytest.mark.parametrize("threshold", [0, -1, math.inf, math.nan])
def test_a_threshold_that_says_nothing_is_refused(threshold):
    """At 0 every label would mean relevant."""
    with pytest.raises(ConfigurationError, match="threshold"):
        RankingMetric("ndcg", 10, threshold=threshold)


@pytest.mark.parametrize(("name", "value"), [("k", 0), ("alpha", 2), ("rating_threshold", 0), ("rating_threshold", 6)])
def test_alpha_ndcg_s_options_are_checked(name, value):
    """An argument of alpha-nDCG that is out of range raises an error that names it."""
    with pytest.raises(ConfigurationError, match=rf"{name} of AlphaNdcg must be .*, got {value}"):
        AlphaNdcg(**{"k": 10, name: value})


def test_the_threshold_is_part_of_the_version():
    """Outcomes of different definitions must not pass for the same."""
    assert RankingMetric("ndcg", 10).card.version != RankingMetric("ndcg", 10, threshold=2).card.version
    assert AlphaNdcg(10).card.version != AlphaNdcg(10, rating_threshold=4).card.version


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("precision@5", 0.4),
        ("recall@5", 2 / 3),
        ("f1@5", 0.5),
        ("hit_rate@5", 1.0),
        ("reciprocal_rank", 0.5),
        ("average_precision", 1 / 3),
        ("ndcg@10", 0.5161),
        ("ndcg_linear@10", 0.4879),
        ("alpha_ndcg@10", 0.9652),
        ("alpha_ndcg@1", 1.0),
        ("alpha_ndcg@2", 0.8066),
        ("judged.precision@5", 0.4),
        ("judged.precision@3", 1 / 3),
        ("judged.average_precision", 0.5),
        ("judged.ndcg@10", 0.6509),
    ],
)
def test_the_examples_are_right(name, value):
    """The cards' values, worked out once more by hand."""
    (metric,) = resolve_metrics(name)
    assert value == pytest.approx(metric.card.example.value, abs=5e-5)
    assert f"= {value:.3f}" in metric.card.example.steps
