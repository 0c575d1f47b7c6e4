"""Ragstone's metrics as LlamaIndex's evaluators and retrieval metrics, and LlamaIndex's models as judges."""

from llama_index.evaluation.ragstone._evaluator import RagstoneEvaluator
from llama_index.evaluation.ragstone._judge import LlamaIndexJudge, LlamaIndexModel
from llama_index.evaluation.ragstone._retrieval import retrieval_metrics

__all__ = [
    "LlamaIndexJudge",
    "LlamaIndexModel",
    "RagstoneEvaluator",
    "retrieval_metrics",
]
