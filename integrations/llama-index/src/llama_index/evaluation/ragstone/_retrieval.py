"""Ragstone's ranking metrics as retrieval metrics of LlamaIndex: a class for each name, created on demand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric, RetrievalMetricResult

from ragstone.errors import ConfigurationError, DataError
from ragstone.metrics import resolve_metrics
from ragstone.metrics.ranking import RankingMetric


class _RetrievalMetric(BaseRetrievalMetric):
    """A ranking metric, for which the expected ids are relevant. It does not call a judge."""

    metric_name: ClassVar[str]
    metric: ClassVar[RankingMetric]

    def compute(
        self,
        query: str | None = None,  # noqa: ARG002  LlamaIndex's signature
        expected_ids: Sequence[str] | None = None,
        retrieved_ids: Sequence[str] | None = None,
        expected_texts: Sequence[str] | None = None,  # noqa: ARG002
        retrieved_texts: Sequence[str] | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> RetrievalMetricResult:
        """Measure one query. An empty retrieval scores 0.

        Raise DataError if no ids are expected: the metric is then undefined. (A `ValueError`, as with LlamaIndex's own
        metrics, whose results must contain a number.)
        """
        if retrieved_ids is None:
            raise DataError(f"{self.metric_name} compares ids, and retrieved_ids is None")
        if not expected_ids:
            raise DataError(
                f"{self.metric_name} is undefined where nothing is relevant, and expected_ids is {expected_ids!r}; "
                "leave such questions out"
            )
        measure, grades = self.metric.measure, dict.fromkeys(expected_ids, 1.0)
        value = measure.kind.function(list(retrieved_ids), grades, k=measure.k, threshold=self.metric.threshold)
        found = len(set(retrieved_ids) & set(expected_ids))
        about = {"n_expected": len(set(expected_ids)), "n_retrieved": len(retrieved_ids), "n_found": found}
        return RetrievalMetricResult(score=value or 0.0, metadata=about)


@cache
def _made(name: str) -> type[_RetrievalMetric]:
    (metric,) = resolve_metrics(name)
    kind = "".join(part.capitalize() for part in re.split(r"[\W_]", name.replace("@", "_at_")))
    body = {"metric_name": name, "metric": metric, "__module__": __name__, "__doc__": f"{name}."}
    return type(kind, (_RetrievalMetric,), body)


def retrieval_metrics(*names: str) -> list[BaseRetrievalMetric]:
    """Create ranking metrics for `RetrieverEvaluator(metrics=...)`.

    All expected ids count as equally relevant, and other ids as not relevant.

    Args:
        names: "ndcg@10", "recall@5", "reciprocal_rank" (LlamaIndex's "mrr"), ...; "ranking" for all.

    Raises:
        ConfigurationError: If a metric does not exist or needs more than ids.

    Examples:
        ```python
        RetrieverEvaluator(metrics=retrieval_metrics("ndcg@10", "recall@5"), retriever=retriever)
        ```
    """
    found: dict[str, BaseRetrievalMetric] = {}
    for name in names:
        # Of the group "ranking" those that need nothing but ids.
        usable = [metric for metric in resolve_metrics(name) if isinstance(metric, RankingMetric)]
        if not usable:
            raise ConfigurationError(
                f"{name!r} needs more than the ids of expected and retrieved nodes. Use a metric of 'ranking' except "
                f"alpha_ndcg (such as 'ndcg@10'), or RagstoneEvaluator({name!r})"
            )
        found |= {metric.card.name: _made(metric.card.name)() for metric in usable}
    return list(found.values())
