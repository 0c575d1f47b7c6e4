"""Capture of an application while `ragstone.evaluate` or `ragstone.repair` runs it (entry point `ragstone.capture`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from llama_index.observability.ragstone._changed import changed_retrievers
from llama_index.observability.ragstone._instrumentor import RagstoneInstrumentor
from ragstone.requests import Recorder


@contextmanager
def capture_into(recorder: Recorder) -> Iterator[None]:
    """Capture LlamaIndex requests of this process into a recorder while the context is open."""
    instrumentor = RagstoneInstrumentor(recorder)
    instrumentor.start_registering()
    try:
        with changed_retrievers() if getattr(recorder, "changes_retrieval", False) else nullcontext():
            yield
    finally:
        instrumentor.stop_registering()
