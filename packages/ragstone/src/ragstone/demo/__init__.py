"""The demo: a small handbook, questions about it, and a retriever and a generator that work without a model."""

from ragstone.demo._chain import (
    NOT_FOUND,
    Bm25,
    DemoChain,
    DemoChainBuilder,
    DemoPassage,
    DemoQuestion,
    extract_answer,
    load_corpus,
    load_questions,
)

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
