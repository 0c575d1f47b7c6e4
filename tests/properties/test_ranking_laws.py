"""Laws of ranking metrics, whatever the list and the grades."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.metrics.ranking import (
    alpha_ndcg,
    average_precision,
    f1,
    hit_rate,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)

NAMES = st.sampled_from("abcdefghij")
RANKINGS = st.lists(NAMES, max_size=15)
GRADES = st.dictionaries(NAMES, st.one_of(st.sampled_from([-1, 0, 1, 2, 3]), st.floats(0, 5)), max_size=10)
CUTS = st.one_of(st.none(), st.integers(1, 20))
COVERED = st.dictionaries(st.sampled_from("123456"), st.lists(NAMES, max_size=5), max_size=5)
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
EACH = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


@EACH
@given(ranking=RANKINGS, qrels=GRADES, k=CUTS)
def test_values_lie_between_0_and_1(function, ranking, qrels, k):
    """Also with repeated passages, fractions, negative grades, and k beyond the list."""
    value = function(ranking, qrels, k=k)
    assert value is None or 0 <= value <= 1 + 1e-12


@EACH
@given(ranking=st.lists(NAMES, unique=True, max_size=10), qrels=GRADES, k=CUTS, data=st.data())
def test_moving_a_better_passage_up_never_costs(function, ranking, qrels, k, data):
    """Neighbors change places, and the one with the higher grade comes first."""
    if len(ranking) < 2:
        return
    place = data.draw(st.integers(0, len(ranking) - 2))
    pair = sorted(ranking[place : place + 2], key=lambda doc: -max(0, qrels.get(doc, 0)))
    better = [*ranking[:place], *pair, *ranking[place + 2 :]]
    worse = [*ranking[:place], *pair[::-1], *ranking[place + 2 :]]
    above, below = function(better, qrels, k=k), function(worse, qrels, k=k)
    assert (above is None and below is None) or above >= below - 1e-12


@EACH
@given(ranking=RANKINGS, qrels=GRADES, k=st.integers(1, 10), data=st.data())
def test_what_stands_below_the_cut_off_changes_nothing(function, ranking, qrels, k, data):
    """Any tail, in any order."""
    tail = data.draw(st.lists(NAMES, max_size=5))
    assert function(ranking[:k], qrels, k=k) == function(
        [*ranking[:k], *(["?"] * (k - len(ranking))), *tail], qrels, k=k
    )


@EACH
@given(ranking=RANKINGS, qrels=GRADES, k=CUTS)
def test_a_repetition_is_worth_an_irrelevant_passage(function, ranking, qrels, k):
    """Each later place of a passage may as well hold a stranger."""
    seen: set[str] = set()
    strangers = []
    for place, doc in enumerate(ranking):
        strangers.append(f"stranger {place}" if doc in seen else doc)
        seen.add(doc)
    assert function(ranking, qrels, k=k) == function(strangers, qrels, k=k)


@EACH
@given(ranking=RANKINGS, qrels=GRADES, k=CUTS)
def test_one_relevant_passage_more_that_was_missed_never_helps(function, ranking, qrels, k):
    """The more there is to find, the less of it was found; precision, hits and the first rank do not know."""
    before, after = function(ranking, qrels, k=k), function(ranking, qrels | {"missed": 1}, k=k)
    assert before is None or after <= before + 1e-12


@EACH
@given(qrels=GRADES, k=CUTS)
def test_the_best_order_is_best(function, qrels, k):
    """All relevant passages by falling grade: no other list of the same passages has more."""
    best = sorted(qrels, key=lambda doc: -qrels[doc])
    value = function(best, qrels, k=k)
    assert value is None or value >= (function(best[::-1], qrels, k=k) or 0) - 1e-12
    if function in (FUNCTIONS["ndcg"], FUNCTIONS["ndcg_linear"]) and value is not None:
        assert 1.0 == pytest.approx(value)


@given(ranking=RANKINGS, covered=COVERED, k=CUTS, alpha=st.floats(0, 1))
def test_alpha_ndcg_stays_below_its_bound(ranking, covered, k, alpha):
    """No list gains more than e / (e - 1) times the greedy ideal."""
    value = alpha_ndcg(ranking, covered, k=k, alpha=alpha)
    assert value is None or 0 <= value <= 1.5820


@given(ranking=st.lists(NAMES, unique=True), passages=st.lists(NAMES, min_size=1, unique=True), k=CUTS)
def test_alpha_ndcg_with_a_sub_question_each_is_binary_ndcg(ranking, passages, k):
    """Nothing is redundant there."""
    covered = {f"about {passage}": [passage] for passage in passages}
    qrels = dict.fromkeys(passages, 1)
    assert ndcg(ranking, qrels, k=k) == pytest.approx(alpha_ndcg(ranking, covered, k=k))
