"""Four metrics of a RAG answer with Ragstone."""

from __future__ import annotations

from typing import Any

from rows import report

import ragstone

METRICS = ["ragas.faithfulness", "ragas.answer_relevancy", "ragas.context_precision", "ragas.context_recall"]


def work(url: str, data: list[dict[str, Any]]) -> dict[str, Any]:
    """Evaluate, and return what a user sees for each metric."""
    result = ragstone.evaluate(data, METRICS, judge=url, stop_early=False, max_outage_s=0)
    return {
        "means": {row.metric: row.estimate and row.estimate.value for row in result.summary()},
        "scored": {row.metric: row.n_scored for row in result.summary()},
        "printed": str(result)[:2000],
    }


report(work)
