"""Our ranking metrics as LlamaIndex's retrieval metrics, in its own `RetrieverEvaluator`."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import pytest
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY

from llama_index.evaluation.ragstone import retrieval_metrics
from ragstone.errors import ConfigurationError
from ragstone.metrics import all_metrics, resolve_metrics
from ragstone.metrics.ranking import RankingMetric, average_precision, ndcg

RANKING = [metric.card.name for metric in all_metrics() if isinstance(metric, RankingMetric)]
OTHERS = [
    card.name
    for card in (metric.card for metric in all_metrics() if not isinstance(metric, RankingMetric))
    if card.extra is None or importlib.util.find_spec(card.extra.module) is not None
]
FOUND, WANTED = ["a", "b", "c"], ["b", "x"]


def computed(name: str, found: list[str] | None = FOUND, wanted: list[str] | None = WANTED) -> Any:
    """One metric of one query."""
    (metric,) = retrieval_metrics(name)
    return metric.compute("who?", wanted, found, None, None)


@pytest.mark.parametrize("name", RANKING)
def test_every_ranking_metric_is_available_by_name(name):
    """Each is a class of its own, named as ours, and finds what the core finds."""
    (metric,) = retrieval_metrics(name)
    assert name == metric.metric_name
    (ours,) = resolve_metrics(name)
    value = ours.measure.kind.function(FOUND, {"b": 1.0, "x": 1.0}, k=ours.measure.k, threshold=0.5)
    assert value == pytest.approx(computed(name).score)
    assert {"n_expected": 2, "n_retrieved": 3, "n_found": 1} == computed(name).metadata


@pytest.mark.parametrize("name", OTHERS)
def test_metrics_that_need_more_than_ids_say_so(name):
    """Judged and text metrics are evaluators and no retrieval metrics; the message says which."""
    with pytest.raises(ConfigurationError, match="RagstoneEvaluator"):
        retrieval_metrics(name)


def test_any_cut_off_has_a_name():
    """`NAME@K` works for every K, and the group for all that ids can tell."""
    assert ndcg(FOUND, {"b": 1.0, "x": 1.0}, k=2) == pytest.approx(computed("ndcg@2").score)
    assert average_precision(FOUND, {"b": 1.0, "x": 1.0}) == pytest.approx(computed("average_precision").score)
    assert RANKING == [metric.metric_name for metric in retrieval_metrics("ranking")]


def test_nothing_found_is_zero():
    """An empty list is a fact about the retriever, and no error."""
    assert [0.0] * len(RANKING) == [computed(name, found=[]).score for name in RANKING]


@pytest.mark.parametrize("wanted", [[], None])
def test_nothing_expected_is_an_error(wanted):
    """Where nothing is relevant there is no value, and no number is made up: a ValueError, as with LlamaIndex's own."""
    with pytest.raises(ValueError, match="undefined where nothing is relevant"):
        computed("recall@5", wanted=wanted)
    with pytest.raises(ValueError, match="retrieved_ids is None"):
        computed("recall@5", found=None)


def test_id_that_comes_twice_counts_once():
    """A repetition takes a place and is worth nothing there."""
    assert 0.5 == computed("precision@2", found=["b", "b"], wanted=["b"]).score


def test_retriever_evaluator_takes_instances(app):
    """`RetrieverEvaluator` computes ours beside its own, also inside a running loop."""
    evaluator = RetrieverEvaluator(
        metrics=[*retrieval_metrics("ndcg@10", "recall@5"), METRIC_REGISTRY["mrr"]()], retriever=app.retriever()
    )

    async def inside() -> Any:
        return evaluator.evaluate("who?", expected_ids=["id-beta"])

    found = asyncio.run(inside()).metric_vals_dict
    assert {"ndcg@10": pytest.approx(0.6309, abs=1e-4), "recall@5": 1.0, "mrr": 0.5} == found


def test_data_set_is_evaluated_question_by_question(app):
    """Many questions at once go through one evaluator, each with its own expected ids."""
    wanted = {"who?": ["id-alpha"], "where?": ["id-beta"], "why?": ["id-gamma"]}
    evaluator = RetrieverEvaluator(metrics=retrieval_metrics("reciprocal_rank"), retriever=app.retriever())

    async def whole() -> Any:
        return await asyncio.gather(*(evaluator.aevaluate(query, expected_ids=ids) for query, ids in wanted.items()))

    assert [1.0, 0.5, 0.0] == [each.metric_vals_dict["reciprocal_rank"] for each in asyncio.run(whole())]
