"""Ranking metrics of samples: from qrels, from labels on passages, from ratings, and from a judge."""

from __future__ import annotations

import asyncio
import math

import pytest

from ragstone.errors import JudgeError
from ragstone.metrics import resolve_metrics
from ragstone.metrics.ranking import RANKING, AlphaNdcg, JudgedRankingMetric
from ragstone.schema import Failure, NotApplicable, Passage, Sample, Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

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


def test_qrels_cover_the_whole_collection():
    """What they do not name is not relevant, what was missed counts, and the passages' own labels do not."""
    outcome = score("ndcg@10", sample("xa", qrels={"a": 1, "b": 1}, labels=[3, 0]))
    assert SECOND / (1 + SECOND) == pytest.approx(outcome.value)
    assert {"pool": "qrels", "n_relevant": 2, "n_retrieved": 2, "n_ranks": 2, "n_unjudged": 1} == outcome.details
    assert ("exact", None) == (outcome.method, outcome.judge)
    assert 0 == score("precision@1", sample("ax", qrels={"a": 1})).details["n_unjudged"]


@pytest.mark.parametrize("name", ["precision@5", "recall@5", "ndcg@10", "average_precision", "reciprocal_rank"])
def test_qrels_without_a_relevant_passage_are_not_applicable(name):
    """Nothing could have been found: no zero for that."""
    for qrels in ({}, {"a": 0}):
        outcome = score(name, sample("a", qrels=qrels))
        assert isinstance(outcome, NotApplicable)
        assert "do not contain a relevant passage" in outcome.reason
        assert () == outcome.missing


def test_qrels_need_ids():
    """A passage without one cannot be looked up, and is not taken for irrelevant."""
    outcome = score("precision@1", sample(["a", None], qrels={"a": 1}))
    assert isinstance(outcome, NotApplicable)
    assert "passage 2 does not have an id" in outcome.reason
    rated = score("alpha_ndcg@10", sample([None], ratings={"?": {"a": 5}}))
    assert "passage 1 does not have an id, which ratings" in rated.reason


@pytest.mark.parametrize("name", ["recall@5", "f1@5"])
def test_labels_of_what_was_retrieved_make_no_recall(name):
    """No one knows how much there is to find."""
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
    assert "of these passages is undefined" in outcome.reason


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("precision@2", [1, 0, None], 0.5),
        ("precision@3", [1, 0, None], None),
        ("reciprocal_rank", [0, 1, None], 0.5),
        ("reciprocal_rank", [0.5, None], 1.0),
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
        assert f"passage {labels.index(None) + 1} does not have a relevance label" in outcome.reason
    else:
        assert value == outcome.value


def test_labels_tell_passages_without_ids_apart_by_text():
    """The same text again keeps its place and is worth nothing, whatever it is labeled."""
    contexts = tuple(Passage(text=text, relevance=1) for text in ("one", "one", "two"))
    outcome = score("precision@3", Sample(id="s", contexts=contexts))
    assert 2 / 3 == outcome.value
    assert 0.5 == score("precision@2", sample("aa", labels=[1, 0])).value


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
    assert 0.0 == score("alpha_ndcg@1", sample("ba", ratings=rated)).value
    redundant = sample("ab", ratings={"when?": {"a": 3, "b": 3}, "where?": {"c": 5}})
    assert 1 / (1 + SECOND) == pytest.approx(score(AlphaNdcg(k=2, alpha=1), redundant).value)
    nobody = score("alpha_ndcg@2", sample("a", ratings={"when?": {"a": 2}}))
    assert "no passage has a rating of at least 3" in nobody.reason


def judged(*relevant):
    """A judge who takes these passages for relevant."""
    return FakeJudge(lambda prompt: float(prompt.fields["passage"].split()[-1] in relevant))


def test_judged_labels_are_of_what_was_retrieved():
    """The pool is said, and so is who labeled."""
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
    judge = judged("b")
    score("judged.ndcg@10", sample("aba"), judge)
    assert 2 == len(judge.prompts)


def test_judged_metrics_ask_also_where_passages_are_labelled():
    """They say what the judge thinks; of one id with two texts, the first is what stands there."""
    assert 0.0 == score("judged.precision@1", sample("a", labels=[1]), judged()).value
    contexts = (Passage(text="of a", id="x"), Passage(text="of b", id="x"))
    assert 0.5 == score("judged.precision@2", Sample(id="s", query="Why?", contexts=contexts), judged("a")).value


def test_judged_metrics_of_a_sample_share_their_labels():
    """Five metrics, three passages, three questions; a repeated passage is asked about once."""
    judge = judged("a")
    outcomes = asyncio.run(Scorer(resolve_metrics("judged"), judge).score(sample("abac")))
    assert 3 == len(judge.prompts)
    assert all(isinstance(outcome, Score) for outcome in outcomes)
    assert [0.2, 1.0, 1.0, 1.0, 1.0] == [outcome.value for outcome in outcomes]


def test_a_judge_that_finds_nothing_relevant():
    """Precision is 0, and so is the reciprocal rank; an ideal of nothing is undefined."""
    found = {
        metric.card.name: score(metric, sample("ab"), judged()) for metric in RANKING if metric.card.group == "judged"
    }
    for name in ("judged.precision@5", "judged.hit_rate@5", "judged.reciprocal_rank"):
        assert 0.0 == found[name].value
    for name in ("judged.average_precision", "judged.ndcg@10"):
        assert isinstance(found[name], NotApplicable)
        assert "is undefined" in found[name].reason


def test_there_must_be_something_to_judge():
    """No passages, or passages without a text (a run file has ids only)."""
    judge = FakeJudge()
    nothing = score("judged.precision@5", Sample(id="s", query="Why?", contexts=()), judge)
    assert "retrieval returned no passages" in nothing.reason
    bare = Sample(id="s", query="Why?", contexts=(Passage(text="", id="a"),))
    assert "no text" in score("judged.precision@5", bare, judge).reason
    assert [] == judge.prompts


def test_one_label_that_fails_fails_the_metrics_that_need_it():
    """The error is the judge's, not a group of errors."""

    def broken(prompt):
        return JudgeError("down", kind="refused") if prompt.fields["passage"].endswith("c") else None

    judge = FakeJudge(1.0, fail=broken)
    metrics = [JudgedRankingMetric("precision", 2), JudgedRankingMetric("precision", 3)]
    first, second = asyncio.run(Scorer(metrics, judge).score(sample("abc")))
    assert 1.0 == first.value
    assert isinstance(second, Failure)
    assert "refused" == second.kind
