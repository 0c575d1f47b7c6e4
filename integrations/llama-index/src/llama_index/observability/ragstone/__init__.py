"""Ragstone for LlamaIndex: one call captures what a RAG application did, off the request path."""

from llama_index.observability.ragstone._event_handler import ContextsEvent
from llama_index.observability.ragstone._instrumentor import RagstoneInstrumentor

__all__ = ["ContextsEvent", "RagstoneInstrumentor"]
