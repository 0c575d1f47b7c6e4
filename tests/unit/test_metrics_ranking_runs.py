"""Whole runs: the values of single queries, in the order of the scores, with every query accounted for."""

from __future__ import annotations

import math
import random

import pytest

from ragstone.errors import ConfigurationError
from ragstone.metrics.ranking import (
    average_precision,
    f1,
    hit_rate,
    ndcg,
    precision,
    ranking_measures,
    recall,
    reciprocal_rank,
)

FUNCTIONS = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "hit_rate": hit_rate,
    "reciprocal_rank": reciprocal_rank,
    "average_precision": average_precision,
    "ndcg": ndcg,
    "ndcg_linear": lambda ranking, qrels, *, k: ndcg(ranking, qrels, k=k, gain="linear"),
}
CUTS = (None, 1, 2, 5, 100)


def random_run(seed, n=60):
    """Lists of 0 to 30 passages with scores in any order, graded with fractions, some with nothing relevant."""
    rng = random.Random(seed)
    run, qrels = {}, {}
    for q in range(n):
        docs = rng.sample(range(60), rng.randint(0, 30))
        run[f"q{q}"] = {f"d{doc}": rng.choice([-1.5, 0.0, 0.1, rng.random()]) for doc in docs}
        judged = rng.sample(range(60), rng.randint(0, 12))
        qrels[f"q{q}"] = {f"d{doc}": rng.choice([-1, 0, 0.3, 0.5, 1, 2, 3.5]) for doc in judged}
    return run, qrels


@pytest.mark.parametrize("seed", range(5))
def test_a_run_s_values_are_those_of_its_queries(seed):
    """Every measure and cut-off; equal scores keep the order of the mapping."""
    run, qrels = random_run(seed)
    names = {f"{kind}@{k}" if k else kind: (kind, k) for kind in FUNCTIONS for k in CUTS}
    found = ranking_measures(run, qrels, list(names))
    for name, (kind, k) in names.items():
        for query, scores in run.items():
            ranking = sorted(scores, key=lambda doc, scores=scores: -scores[doc])
            value = FUNCTIONS[kind](ranking, qrels[query], k=k)
            if value is None:
                assert query in found.undefined[name]
                assert query not in found.values[name]
            else:
                assert value == pytest.approx(found.values[name][query], abs=1e-12)
                assert query not in found.undefined[name]


def test_lists_without_scores_are_taken_in_their_order():
    """First occurrence counts, the repetition keeps its place: as for one query."""
    run = {"q": ["x", "a", "a", "b"], "r": ["a"], "s": []}
    qrels = {q: {"a": 1, "b": 1} for q in run}
    found = ranking_measures(run, qrels, ["average_precision", "precision@4", "precision"])
    assert {"q": (1 / 2 + 2 / 4) / 2, "r": 0.5, "s": 0.0} == found.values["average_precision"]
    assert {"q": 0.5, "r": 0.25, "s": 0.0} == found.values["precision@4"]
    assert {"q": 0.5, "r": 1.0} == found.values["precision"]
    assert ("s",) == found.undefined["precision"]


def test_every_query_is_accounted_for():
    """Judged and not in the run: 0. In the run and not judged: nowhere. Nothing relevant: undefined."""
    run = {"both": {"a": 1.0}, "unjudged": {"a": 1.0}, "void": {"a": 1.0}}
    qrels = {"both": {"a": 1}, "missing": {"a": 1}, "void": {"a": 0}}
    found = ranking_measures(run, qrels, ["ndcg@10"])
    assert {"both": 1.0, "missing": 0.0} == found.values["ndcg@10"]
    assert ("void",) == found.undefined["ndcg@10"]
    assert ("missing",) == found.not_retrieved
    assert ("unjudged",) == found.not_judged
    mean = found.mean("ndcg@10")
    assert (0.5, 2) == (mean.value, mean.n)
    assert ranking_measures({}, {"void": {}}, ["ndcg@10"]).mean("ndcg@10") is None


def test_the_threshold_is_that_of_the_functions():
    """Grades of 2 and 3 only."""
    found = ranking_measures({"q": ["a", "b"]}, {"q": {"a": 1, "b": 2}}, ["reciprocal_rank"], threshold=2)
    assert 0.5 == found.values["reciprocal_rank"]["q"]


def test_the_usual_measures_are_measured_unasked():
    """The group `ranking`, without alpha-nDCG, which needs ratings."""
    assert 7 == len(ranking_measures({"q": ["a"]}, {"q": {"a": 1}}).values)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_none_are_refused(bad):
    """A score that cannot be ordered, a grade that cannot be weighed; the message names the query."""
    with pytest.raises(ValueError, match="query 'q2' has a score of"):
        ranking_measures({"q1": {"a": 1.0}, "q2": {"a": 1.0, "b": bad}}, {"q1": {"a": 1}, "q2": {"a": 1}})
    with pytest.raises(ValueError, match="query 'q2' has a grade of"):
        ranking_measures({"q2": {"a": 1.0}}, {"q1": {"a": 1}, "q2": {"b": bad}})


def test_grades_beyond_exponents_are_refused_where_they_would_be_powers():
    """The linear gain takes them."""
    run, qrels = {"q": ["a"]}, {"q": {"a": 2000}}
    with pytest.raises(ValueError, match="ndcg_linear"):
        ranking_measures(run, qrels, ["ndcg@10"])
    assert 1.0 == ranking_measures(run, qrels, ["ndcg_linear@10"]).values["ndcg_linear@10"]["q"]


def test_an_unknown_measure_is_refused():
    """With the list of those that exist."""
    with pytest.raises(
        ConfigurationError, match=r"unknown ranking measure 'map'\. Known measures: precision, judged_share, recall"
    ):
        ranking_measures({}, {}, ["map"])


def test_nothing_at_all():
    """No queries: no values, no error."""
    found = ranking_measures({}, {})
    assert all({} == values for values in found.values.values())
