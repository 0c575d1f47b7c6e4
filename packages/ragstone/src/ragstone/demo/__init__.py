"""The demo: a small handbook, questions about it, and a retriever and an answerer that need no model."""

from ragstone.demo._answer import NOT_FOUND, extract_answer
from ragstone.demo._bm25 import Bm25
from ragstone.demo._chain import DemoChain, DemoChainBuilder
from ragstone.demo._handbook import DemoPassage, DemoQuestion, load_corpus, load_questions

__all__ = [
    "NOT_FOUND",
    "Bm25",
    "DemoChain",
    "DemoChainBuilder",
    "DemoPassage",
    "DemoQuestion",
    "extract_answer",
    "load_corpus",
    "load_questions",
]
