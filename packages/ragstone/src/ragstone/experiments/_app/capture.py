"""Captures what an application does while it is evaluated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from ragstone._util.guard import Guard
from ragstone.capture import Converter
from ragstone.requests import (
    Recorder,
    Request,
    RequestBlock,
    RequestBlocks,
    RetrieverTools,
    TraceDraft,
    read_retriever_tools,
)
from ragstone.schema import Captured, Trace, spool_entry_adapter
from ragstone.settings import Lengths

logger = logging.getLogger("ragstone")

_GROUP: Final = "ragstone.capture"
"""Entry points of integrations: functions of a recorder that return a context manager, which captures into it."""
_INTEGRATIONS: Final[Mapping[str, str]] = {
    "langchain": "langchain-ragstone",
    "langchain_core": "langchain-ragstone",
    "langchain_classic": "langchain-ragstone",
    "langgraph": "langchain-ragstone",
    "llama_index": "llama-index-observability-ragstone",
}
"""Distribution that captures a framework, by the framework's top package."""


class AppRecorder(RequestBlocks):
    """Takes the requests of an application that is evaluated. Requests of other recorders inside them join them.

    Args:
        retriever_tools: Tools whose text results are passages (see `Request`).
    """

    takes_every_request = True

    def __init__(self, retriever_tools: Iterable[str] | RetrieverTools = ()) -> None:
        self._guard = Guard("ragstone.evaluate")
        self._converter = Converter(sample_rate=1.0, redact=None, lengths=Lengths())
        self._retriever_tools = read_retriever_tools(retriever_tools)
        self._requests: dict[str, Request] = {}

    def record(self, draft: TraceDraft | Request) -> bool:
        """Keep the request of a block. Anything else is a call of this process that is not part of the evaluation."""
        if not isinstance(draft, Request) or draft.draft.source != "request":
            return False
        draft.retriever_tools = {**self._retriever_tools, **draft.retriever_tools}
        self._requests[draft.draft.trace_id] = draft
        return True

    def take(self, block: RequestBlock) -> Trace:
        """Return the finished request of a block."""
        _, line = self._converter.line(self._requests.pop(block.trace_id or ""))
        entry = spool_entry_adapter.validate_json(line)
        assert isinstance(entry, Captured)  # noqa: S101 - nothing is sampled out at a rate of 1
        return entry.trace


@contextmanager
def framework_capture(recorder: Recorder, app: object) -> Iterator[None]:
    """Capture requests of all frameworks whose integration is installed, while the context is open."""
    installed: dict[str, EntryPoint] = {entry.name: entry for entry in entry_points(group=_GROUP)}
    framework = type(app).__module__.partition(".")[0]
    integration = _INTEGRATIONS.get(framework)
    if integration is not None and not any(
        entry.dist and entry.dist.name == integration for entry in installed.values()
    ):
        logger.warning(
            "%s is not installed, so contexts are only those that the application returns. Install it with: pip install %s",
            integration,
            integration,
        )
    with ExitStack() as stack:
        for entry in installed.values():
            try:
                capture: Callable[[Recorder], AbstractContextManager[Any]] = entry.load()
            except Exception as error:  # noqa: BLE001 - a framework of a version that the integration does not know
                logger.warning("requests of %s are not captured: %s", entry.name, error)
                continue
            stack.enter_context(capture(recorder))
        yield
