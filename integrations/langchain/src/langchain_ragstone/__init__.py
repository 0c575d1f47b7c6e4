"""Ragstone for LangChain: one callback captures what a RAG application did, off the request path."""

from langchain_ragstone import _compat as _compat  # first: it says what to install where the rest would not import
from langchain_ragstone._activation import collect_traces, ragstone_disable, ragstone_enable
from langchain_ragstone._evaluator import RagstoneEvaluator
from langchain_ragstone._handler import RagstoneCallbackHandler
from langchain_ragstone._judge import LangChainJudge, LangChainModel

__all__ = [
    "LangChainJudge",
    "LangChainModel",
    "RagstoneCallbackHandler",
    "RagstoneEvaluator",
    "collect_traces",
    "ragstone_disable",
    "ragstone_enable",
]
