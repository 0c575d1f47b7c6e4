"""Four metrics of a RAG answer with deepeval, as its `evaluate` runs them."""

from __future__ import annotations

import os
from typing import Any

os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "1", "DEEPEVAL_DISABLE_DOTENV": "1", "ERROR_REPORTING": "0"}

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import (
    AnswerRelevancyMetric,
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    FaithfulnessMetric,
)
from deepeval.models import GPTModel
from deepeval.test_case import LLMTestCase
from rows import report


def work(url: str, data: list[dict[str, Any]]) -> dict[str, Any]:
    """Evaluate, and return what a user sees for each metric."""
    model = GPTModel(model="gpt-4o-mini", base_url=url, api_key="none")
    classes = (FaithfulnessMetric, AnswerRelevancyMetric, ContextualPrecisionMetric, ContextualRecallMetric)
    metrics = [cls(model=model, include_reason=False) for cls in classes]
    cases = [
        LLMTestCase(
            input=row["query"],
            actual_output=row["response"],
            expected_output=row["reference"],
            retrieval_context=row["contexts"],
        )
        for row in data
    ]
    result = evaluate(
        cases,
        metrics,
        async_config=AsyncConfig(max_concurrent=16),
        display_config=DisplayConfig(show_indicator=False, print_results=False),
        cache_config=CacheConfig(write_cache=False, use_cache=False),
        error_config=ErrorConfig(ignore_errors=True),
    )
    scores: dict[str, list[float]] = {}
    for test in result.test_results:
        for one in test.metrics_data:
            scores.setdefault(one.name, [])
            if one.score is not None:
                scores[one.name].append(float(one.score))
    return {
        "means": {name: sum(found) / len(found) if found else None for name, found in scores.items()},
        "scored": {name: len(found) for name, found in scores.items()},
        "printed": f"{sum(test.success for test in result.test_results)} of {len(result.test_results)} tests passed",
    }


report(work)
