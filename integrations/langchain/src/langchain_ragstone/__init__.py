"""Ragstone for LangChain: one callback captures what a RAG application did, off the request path."""

from langchain_ragstone._compat import check_floor

check_floor()

from langchain_ragstone._handler import RagstoneCallbackHandler  # noqa: E402 - the floor comes first

__all__ = ["RagstoneCallbackHandler"]
