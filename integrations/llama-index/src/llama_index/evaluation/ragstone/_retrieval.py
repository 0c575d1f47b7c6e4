"""Our ranking metrics as LlamaIndex's retrieval metrics: a class for each name, made when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric, RetrievalMetricResult

from ragstone.errors import ConfigurationError, DataError
from ragstone.metrics import resolve_metrics
from ragstone.metrics.ranking import RankingMetric, ranking_measures

__all__ = ["register_retrieval_metrics", "retrieval_metrics"]

_QUERY = "query"


class _RetrievalMetric(BaseRetrievalMetric):
    """A ranking metric with the expected ids as what is relevant. Asks nobody."""

    metric_name: ClassVar[str]

    def compute(
        self,
        query: str | None = None,  # noqa: ARG002  LlamaIndex's signature
        expected_ids: Sequence[str] | None = None,
        retrieved_ids: Sequence[str] | None = None,
        expected_texts: Sequence[str] | None = None,  # noqa: ARG002
        retrieved_texts: Sequence[str] | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> RetrievalMetricResult:
        """Measure one query. What was not found at all counts as 0.

        Raises:
            DataError: No ids are expected: the metric is undefined where nothing is relevant. (A `ValueError`, as with
                LlamaIndex's own metrics, whose results cannot be without a number.)
        """
        if retrieved_ids is None:
            raise DataError(f"{self.metric_name} compares ids, and retrieved_ids is None")
        if not expected_ids:
            raise DataError(
                f"{self.metric_name} is undefined where nothing is relevant, and expected_ids is {expected_ids!r}; "
                "leave such questions out"
            )
        measured = ranking_measures(
            {_QUERY: list(retrieved_ids)}, {_QUERY: dict.fromkeys(expected_ids, 1.0)}, [self.metric_name]
        )
        value = measured.values[self.metric_name][_QUERY]
        found = len(set(retrieved_ids) & set(expected_ids))
        about = {"n_expected": len(set(expected_ids)), "n_retrieved": len(retrieved_ids), "n_found": found}
        return RetrievalMetricResult(score=value, metadata=about)


@cache
def _made(name: str) -> type[_RetrievalMetric]:
    kind = "".join(part.capitalize() for part in name.replace("@", "_at_").split("_"))
    return type(kind, (_RetrievalMetric,), {"metric_name": name, "__module__": __name__, "__doc__": f"{name}."})


def _classes(names: Sequence[str]) -> list[type[_RetrievalMetric]]:
    found: dict[str, type[_RetrievalMetric]] = {}
    for name in names:
        # Of the group "ranking" those that ids can tell.
        usable = [metric for metric in resolve_metrics(name) if isinstance(metric, RankingMetric)]
        if not usable:
            raise ConfigurationError(
                f"{name!r} is no metric that ids of expected and retrieved nodes tell; there are all of 'ranking' but "
                f"alpha_ndcg (such as 'ndcg@10'). Score it with RagstoneEvaluator({name!r})"
            )
        found |= {metric.card.name: _made(metric.card.name) for metric in usable}
    return list(found.values())


def retrieval_metrics(*names: str) -> list[BaseRetrievalMetric]:
    """Ranking metrics for `RetrieverEvaluator(metrics=...)`.

    Expected ids are relevant, all of them alike, and no other node is.

    Args:
        names: "ndcg@10", "recall@5", "reciprocal_rank" (LlamaIndex's "mrr"), ...; "ranking" for all.

    Raises:
        ConfigurationError: There is no such metric, or it needs more than ids.

    Example:
        ```python
        RetrieverEvaluator(metrics=retrieval_metrics("ndcg@10", "recall@5"), retriever=retriever)
        ```
    """
    return [kind() for kind in _classes(names)]


def register_retrieval_metrics(*names: str) -> None:
    """Let `RetrieverEvaluator.from_metric_names` know ranking metrics by their names, in this process.

    Args:
        names: As for `retrieval_metrics`.

    Raises:
        ConfigurationError: There is no such metric, it needs more than ids, or LlamaIndex knows another one of that name.

    Example:
        ```python
        register_retrieval_metrics("ndcg@10", "recall@5")
        RetrieverEvaluator.from_metric_names(["ndcg@10", "mrr"], retriever=retriever)
        ```
    """
    kinds = {kind.metric_name: kind for kind in _classes(names)}
    if taken := [name for name, kind in kinds.items() if METRIC_REGISTRY.get(name, kind) is not kind]:
        raise ConfigurationError(
            f"LlamaIndex knows other metrics called {', '.join(map(repr, taken))}; pass retrieval_metrics({taken[0]!r}) to "
            "RetrieverEvaluator(metrics=...) instead"
        )
    METRIC_REGISTRY.update(kinds)
