"""Capture of an application while `ragstone.evaluate` runs it (entry point `ragstone.capture`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llama_index.observability.ragstone._instrumentor import RagstoneInstrumentor
from ragstone.requests import Recorder


@contextmanager
def capture_into(recorder: Recorder) -> Iterator[None]:
    """Capture LlamaIndex requests of this process into a recorder while the context is open."""
    instrumentor = RagstoneInstrumentor(recorder)
    instrumentor.start_registering()
    try:
        yield
    finally:
        instrumentor.stop_registering()
