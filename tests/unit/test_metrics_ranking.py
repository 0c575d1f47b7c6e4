"""Ranking metrics: values by hand, where they are undefined, and where their labels come from."""

from __future__ import annotations

import asyncio
import math

import pytest

from ragstone.errors import ConfigurationError, JudgeError
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
from ragstone.schema import Failure, NotApplicable, Passage, Sample, Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

ALL = (precision, recall, f1, hit_rate, reciprocal_rank, average_precision, ndcg)
SECOND = 1 / math.log2(3)


def sample(ids, *, qrels=None, labels=None, ratings=None, query="Why?"):
    """A sample whose passages have these ids (None: none) and labels."""
    labels = labels or [None] * len(ids)
    contexts = tuple(Passage(text=f"text of {i}", id=i, relevance=label) for i, label in zip(ids, labels, strict=True))
    return Sample(id="s", query=query, contexts=contexts, qrels=qrels, ratings=ratings)


def score(metric, one, judge=None):
    """The outcome of a metric, given by name or as an object."""
    (metric,) = resolve_metrics(metric)
    return asyncio.run(metric.score(one, judge or FakeJudge()))


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
    assert [f"judged.{name}" for name in judged] == [m.card.name for m in resolve_metrics("judged_ranking")]
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
    with pytest.raises(ConfigurationError, match="whole number from 1 on"):
        resolve_metrics(spec)


@pytest.mark.parametrize("measure", ["recall@5", "f1@5", "ndcg_linear@10", "map"])
def test_what_a_judge_cannot_tell_has_no_judged_measure(measure):
    """It sees what was retrieved, and says relevant or not."""
    with pytest.raises(ConfigurationError, match="there is no"):
        JudgedRankingMetric(measure)


@pytest.mark.parametrize("threshold", [0, -1, math.inf, math.nan])
def test_a_threshold_that_says_nothing_is_refused(threshold):
    """At 0 every label would mean relevant."""
    with pytest.raises(ConfigurationError, match="threshold"):
        RankingMetric("ndcg@10", threshold=threshold)


@pytest.mark.parametrize("options", [{"k": 0}, {"alpha": 2}, {"eta": 0}, {"eta": 6}])
def test_alpha_ndcg_s_options_are_checked(options):
    """Out of range is a mistake, not a metric."""
    with pytest.raises(ConfigurationError, match="alpha in"):
        AlphaNdcg(**options)


def test_the_threshold_is_part_of_the_version():
    """Outcomes of different definitions must not pass for the same."""
    assert RankingMetric("ndcg@10").card.version != RankingMetric("ndcg@10", threshold=2).card.version
    assert AlphaNdcg().card.version != AlphaNdcg(eta=4).card.version


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


def test_qrels_cover_the_whole_collection():
    """What they do not name is not relevant, what was missed counts, and the passages' own labels do not."""
    outcome = score("ndcg@10", sample("xa", qrels={"a": 1, "b": 1}, labels=[3, 0]))
    assert SECOND / (1 + SECOND) == pytest.approx(outcome.value)
    assert {"pool": "qrels", "n_relevant": 2, "n_retrieved": 2, "n_unjudged": 1} == outcome.details
    assert ("exact", None) == (outcome.method, outcome.judge)


@pytest.mark.parametrize("name", ["precision@5", "recall@5", "ndcg@10", "average_precision", "reciprocal_rank"])
def test_qrels_without_a_relevant_passage_are_not_applicable(name):
    """Nothing could have been found: no zero for that."""
    for qrels in ({}, {"a": 0}):
        outcome = score(name, sample("a", qrels=qrels))
        assert isinstance(outcome, NotApplicable)
        assert "undefined where nothing is relevant" in outcome.reason
        assert () == outcome.missing


def test_qrels_need_ids():
    """A passage without one cannot be looked up, and is not taken for irrelevant."""
    outcome = score("precision@1", sample(["a", None], qrels={"a": 1}))
    assert isinstance(outcome, NotApplicable)
    assert "passage 2 has no id" in outcome.reason
    rated = score("alpha_ndcg@10", sample([None], ratings={"?": {"a": 5}}))
    assert "passage 1 has no id, and ratings" in rated.reason


@pytest.mark.parametrize("name", ["recall@5", "f1@5"])
def test_labels_of_what_was_retrieved_make_no_recall(name):
    """Nobody knows how much there is to find."""
    outcome = score(name, sample("ab", labels=[1, 0]))
    assert isinstance(outcome, NotApplicable)
    assert ("qrels",) == outcome.missing


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("precision@5", [1, 0, 1], 2 / 5),
        ("hit_rate@2", [0, 0, 1], 0.0),
        ("precision@5", [0, 0, 0], 0.0),
        ("hit_rate@5", [0, 0, 0], 0.0),
        ("reciprocal_rank", [0, 0, 0], 0.0),
        ("reciprocal_rank", [0, 2, 1], 0.5),
        ("average_precision", [0, 1, 1], (1 / 2 + 2 / 3) / 2),
        ("ndcg@10", [0, 3, 0], SECOND),
    ],
)
def test_labels_on_passages_are_a_pool_of_their_own(name, labels, value):
    """Precision, hit rate and reciprocal rank need no more; ideals are of these passages, and details say so."""
    outcome = score(name, sample("abc", labels=labels))
    assert value == pytest.approx(outcome.value)
    assert "contexts" == outcome.details["pool"]


@pytest.mark.parametrize("name", ["average_precision", "ndcg@10"])
def test_no_relevant_label_leaves_no_ideal(name):
    """The collection may hold some: the best order of these alone is 0/0."""
    outcome = score(name, sample("ab", labels=[0, 0]))
    assert isinstance(outcome, NotApplicable)
    assert "of these passages alone is undefined" in outcome.reason


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("precision@2", [1, 0, None], 0.5),
        ("precision@3", [1, 0, None], None),
        ("reciprocal_rank", [0, 1, None], 0.5),
        ("reciprocal_rank", [0, None, 1], None),
        ("reciprocal_rank", [0, 0, None], None),
        ("ndcg@2", [1, 0, None], None),
        ("average_precision", [1, None], None),
    ],
)
def test_a_passage_without_a_label_is_not_taken_for_irrelevant(name, labels, value):
    """Only where its label cannot change the value is there one."""
    outcome = score(name, sample("abc"[: len(labels)], labels=labels))
    if value is None:
        assert isinstance(outcome, NotApplicable)
        assert f"passage {labels.index(None) + 1} has no relevance label" in outcome.reason
    else:
        assert value == outcome.value


def test_labels_tell_passages_without_ids_apart_by_text():
    """The same text again keeps its place and is worth nothing, whatever it is labelled."""
    contexts = tuple(Passage(text=text, relevance=1) for text in ("one", "one", "two"))
    outcome = score("precision@3", Sample(id="s", contexts=contexts))
    assert 2 / 3 == outcome.value


def test_no_label_anywhere_is_missing_qrels():
    """What to add is said by the name of the field."""
    assert ("qrels",) == score("ndcg@10", sample("ab")).missing
    assert ("ratings",) == score("alpha_ndcg@10", sample("ab")).missing
    assert ("contexts", "qrels") == score("ndcg@10", Sample(id="s")).missing


def test_grades_beyond_exponents_are_not_applicable():
    """Percentages in place of grades are a matter for the linear gain."""
    huge = sample("a", qrels={"a": 5000})
    assert "ndcg_linear" in score("ndcg@10", huge).reason
    assert 1.0 == score("ndcg_linear@10", huge).value


def test_alpha_ndcg_counts_ratings_from_eta_on():
    """A rating below answers nothing; the pool and the sub-questions are in the details."""
    rated = {"when?": {"a": 3, "b": 2.9}, "where?": {"c": 5}, "who?": {"a": 1}}
    outcome = score("alpha_ndcg@2", sample("bac", ratings=rated))
    assert SECOND / (1 + SECOND) == pytest.approx(outcome.value)
    expected = {"pool": "ratings", "n_pool": 2, "n_sub_questions": 3, "n_answerable": 2, "alpha": 0.5, "eta": 3.0}
    assert expected == outcome.details
    nobody = score("alpha_ndcg@2", sample("a", ratings={"when?": {"a": 2}}))
    assert "no passage is rated 3 or more" in nobody.reason


def judged(*relevant):
    """A judge who takes these passages for relevant."""
    return FakeJudge(lambda prompt: float(prompt.fields["passage"].split()[-1] in relevant))


def test_judged_labels_are_of_what_was_retrieved():
    """The pool is said, and so is who labelled."""
    outcome = score("judged.ndcg@10", sample("abc"), judged("b", "c"))
    assert (SECOND + 0.5) / (1 + SECOND) == pytest.approx(outcome.value)
    assert {"pool": "contexts", "labels": "judge", "relevant": [2, 3], "n_retrieved": 3} == outcome.details
    assert ("judged_labels", 3) == (outcome.method, outcome.n)


def test_judged_metrics_ask_no_further_than_they_look():
    """Precision at 2 has no use for the third label, the ideal of nDCG has."""
    for name, asked in (("judged.precision@2", 2), ("judged.reciprocal_rank@1", 1), ("judged.ndcg@2", 3)):
        judge = judged("b")
        score(name, sample("abc"), judge)
        assert asked == len(judge.prompts)


def test_judged_metrics_of_a_sample_share_their_labels():
    """Five metrics, three passages, three questions; a repeated passage is asked about once."""
    judge = judged("a")
    outcomes = asyncio.run(Scorer(resolve_metrics("judged_ranking"), judge).score(sample("abac")))
    assert 3 == len(judge.prompts)
    assert all(isinstance(outcome, Score) for outcome in outcomes)
    assert [0.2, 1.0, 1.0, 1.0, 1.0] == [outcome.value for outcome in outcomes]


def test_a_judge_that_finds_nothing_relevant():
    """Precision is 0, and so is the reciprocal rank; an ideal of nothing is undefined."""
    found = {
        metric.card.name: score(metric, sample("ab"), judged())
        for metric in RANKING
        if metric.card.group == "judged_ranking"
    }
    for name in ("judged.precision@5", "judged.hit_rate@5", "judged.reciprocal_rank"):
        assert 0.0 == found[name].value
    for name in ("judged.average_precision", "judged.ndcg@10"):
        assert isinstance(found[name], NotApplicable)
        assert "of them alone is undefined" in found[name].reason


def test_there_must_be_something_to_judge():
    """No passages, or passages without a text (a run file has ids only)."""
    judge = FakeJudge()
    nothing = score("judged.precision@5", Sample(id="s", query="Why?", contexts=()), judge)
    assert "retrieval found nothing" in nothing.reason
    bare = Sample(id="s", query="Why?", contexts=(Passage(text="", id="a"),))
    assert "no text" in score("judged.precision@5", bare, judge).reason
    assert [] == judge.prompts


def test_one_label_that_fails_fails_the_metrics_that_need_it():
    """The error is the judge's, not a group of errors."""

    def broken(prompt):
        return JudgeError("down", kind="refused") if prompt.fields["passage"].endswith("c") else None

    judge = FakeJudge(1.0, fail=broken)
    metrics = [JudgedRankingMetric("precision@2"), JudgedRankingMetric("precision@3")]
    first, second = asyncio.run(Scorer(metrics, judge).score(sample("abc")))
    assert 1.0 == first.value
    assert isinstance(second, Failure)
    assert "refused" == second.kind
