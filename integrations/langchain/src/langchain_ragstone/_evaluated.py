"""Capture of an application while `ragstone.evaluate` or `ragstone.repair` runs it (entry point `ragstone.capture`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from langchain_ragstone._activation import _block, _register
from langchain_ragstone._changed import changed_retrievers
from langchain_ragstone._handler import RagstoneCallbackHandler
from ragstone.requests import Recorder


@contextmanager
def capture_into(recorder: Recorder) -> Iterator[None]:
    """Capture LangChain calls inside the context into a recorder, in tasks and threads that inherit it."""
    _register()
    token = _block.set(RagstoneCallbackHandler(recorder))
    try:
        with changed_retrievers() if getattr(recorder, "changes_retrieval", False) else nullcontext():
            yield
    finally:
        _block.reset(token)
