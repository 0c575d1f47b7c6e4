"""Ragstone for LangChain: one callback captures what a RAG application did, off the request path."""

from langchain_ragstone import _compat as _compat  # first: it says what to install where the rest would not import
from langchain_ragstone._handler import RagstoneCallbackHandler

__all__ = ["RagstoneCallbackHandler"]
