"""Capture of an application while `ragstone.evaluate` or `ragstone.repair` runs it (entry point `ragstone.capture`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from langchain_ragstone._activation import _block, _register
from langchain_ragstone._handler import RagstoneCallbackHandler
from ragstone.requests import Recorder, RetrievalStage, changed_results

_DEFAULT_K: Final = 4
"""Number of documents that vector stores return without `search_kwargs`."""


@contextmanager
def capture_into(recorder: Recorder) -> Iterator[None]:
    """Capture LangChain calls inside the context into a recorder, in tasks and threads that inherit it."""
    _register()
    token = _block.set(RagstoneCallbackHandler(recorder))
    try:
        with _changed_retrievers() if getattr(recorder, "changes_retrieval", False) else nullcontext():
            yield
    finally:
        _block.reset(token)


@contextmanager
def _changed_retrievers() -> Iterator[None]:
    """Change the results of all retrievers in requests of a trial. Retrievers inside others are not changed."""

    def make(text: str, _: object) -> Document:
        return Document(page_content=text)

    options: dict[str, Any] = {"text": _text, "make": make, "widen": _widen}
    with changed_results(BaseRetriever, "invoke", **options), changed_results(BaseRetriever, "ainvoke", **options):
        yield


def _text(document: Any) -> str:
    if not isinstance(document, Document):
        raise TypeError(f"expected a document, got {type(document).__name__}")
    return document.page_content


def _widen(stage: RetrievalStage, args: Any, kwargs: Any) -> tuple[Any, Any]:
    retriever, *others = args
    update: dict[str, Any] = {}
    if isinstance(search := getattr(retriever, "search_kwargs", None), dict):
        update = {"search_kwargs": search | {"k": stage.wider(search.get("k", _DEFAULT_K))}}
    elif isinstance(k := getattr(retriever, "k", None), int):
        update = {"k": stage.wider(k)}
    return (retriever.model_copy(update=update) if update else retriever, *others), kwargs
