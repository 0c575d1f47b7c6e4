"""Ragstone's metrics as LlamaIndex's evaluators, and LlamaIndex's models as judges."""

from llama_index.evaluation.ragstone._evaluator import RagstoneEvaluator
from llama_index.evaluation.ragstone._judge import LlamaIndexJudge, LlamaIndexModel

__all__ = ["LlamaIndexJudge", "LlamaIndexModel", "RagstoneEvaluator"]
