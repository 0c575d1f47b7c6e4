"""Captures what an application does while it is evaluated."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.metadata import EntryPoint, entry_points
from types import CodeType
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

    Text results of `retriever_tools` are passages (see `Request`).
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
    """Capture requests of the frameworks that the application imports, while the context is open.

    Their integrations import them, which takes seconds, so those of other frameworks are not loaded. If the application
    imports a framework only while it is called, and its code does not show that, a warning is logged.
    """
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
    imported = _imported_by(app)
    skipped: list[EntryPoint] = []
    with ExitStack() as stack:
        for entry in installed.values():
            if not _is_used(entry, imported):
                skipped.append(entry)
                continue
            try:
                capture: Callable[[Recorder], AbstractContextManager[Any]] = entry.load()
            except Exception as error:  # noqa: BLE001 - a framework of a version that the integration does not know
                logger.warning("requests of %s are not captured: %s", entry.name, error)
                continue
            stack.enter_context(capture(recorder))
        yield
        for entry in skipped:
            if _is_used(entry, frozenset()):
                logger.warning(
                    "requests of %s were not captured, because the application imported it while it was called. "
                    "Import it at the beginning of the application's module",
                    entry.name,
                )


def _is_used(entry: EntryPoint, imported: Collection[str]) -> bool:
    """Whether the framework of an integration is imported, or is among the names that the application imports."""
    distribution = entry.dist.name if entry.dist else ""
    frameworks = [framework for framework, name in _INTEGRATIONS.items() if name == distribution]
    return not frameworks or any(name in sys.modules or name in imported for name in frameworks)


def _imported_by(app: object) -> set[str]:
    """Return the top packages that the functions in the application's module import when they are called."""
    module = sys.modules.get(getattr(app, "__module__", None) or type(app).__module__)
    waiting = [getattr(item, "__code__", None) for item in (app, *vars(module or object).values())]
    found: set[str] = set()
    while waiting:
        if isinstance(code := waiting.pop(), CodeType):
            found.update(name.partition(".")[0] for name in code.co_names)
            waiting += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return found
