"""Four metrics of a RAG answer with ragas, as its `evaluate` runs them."""

from __future__ import annotations

import os
from typing import Any

os.environ["RAGAS_DO_NOT_TRACK"] = "true"

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from ragas import EvaluationDataset, RunConfig, evaluate
from ragas.embeddings import LangchainEmbeddingsWrapper
from ragas.llms import LangchainLLMWrapper
from ragas.metrics import Faithfulness, LLMContextPrecisionWithReference, LLMContextRecall, ResponseRelevancy
from rows import report


def work(url: str, data: list[dict[str, Any]]) -> dict[str, Any]:
    """Evaluate, and return what a user sees for each metric."""
    llm = LangchainLLMWrapper(ChatOpenAI(model="gpt-4o-mini", base_url=url, api_key="none", max_retries=2))
    embeddings = LangchainEmbeddingsWrapper(
        OpenAIEmbeddings(model="embedder", base_url=url, api_key="none", check_embedding_ctx_length=False)
    )
    dataset = EvaluationDataset.from_list(
        [
            {
                "user_input": row["query"],
                "retrieved_contexts": row["contexts"],
                "response": row["response"],
                "reference": row["reference"],
            }
            for row in data
        ]
    )
    metrics = [Faithfulness(), ResponseRelevancy(), LLMContextPrecisionWithReference(), LLMContextRecall()]
    config = RunConfig(max_workers=16, max_retries=2, max_wait=1, timeout=60)
    result = evaluate(dataset, metrics, llm=llm, embeddings=embeddings, run_config=config, show_progress=False)
    frame = result.to_pandas()
    names = [metric.name for metric in metrics]
    return {
        "means": {name: None if (mean := frame[name].mean()) != mean else float(mean) for name in names},
        "scored": {name: int(frame[name].notna().sum()) for name in names},
        "printed": str(result),
    }


report(work)
