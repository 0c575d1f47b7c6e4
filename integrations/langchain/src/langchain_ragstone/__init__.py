"""Ragstone for LangChain: one callback captures what a RAG application did, off the request path."""

from importlib import import_module
from typing import TYPE_CHECKING

from langchain_ragstone._activation import ragstone_disable, ragstone_enable
from langchain_ragstone._handler import RagstoneCallbackHandler

if TYPE_CHECKING:
    from langchain_ragstone._evaluator import RagstoneEvaluator
    from langchain_ragstone._judge import LangChainJudge, LangChainModel

__all__ = [
    "LangChainJudge", "LangChainModel", "RagstoneCallbackHandler", "RagstoneEvaluator", "ragstone_disable",
    "ragstone_enable",
]  # fmt: skip

# An application that captures does not pay for metrics and judges, which the worker may run elsewhere (PEP 562).
# Reasons: docs/decisions/0002-packages-import-their-names-lazily.md.
_MODULE_OF = {"LangChainJudge": "_judge", "LangChainModel": "_judge", "RagstoneEvaluator": "_evaluator"}


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")  # codespell:ignore
        value = getattr(import_module(f"{__name__}.{module}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
