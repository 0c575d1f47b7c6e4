"""Captures what an application does while it is evaluated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from ragstone._util.guard import Guard
from ragstone.capture import CaptureLimits, Converter
from ragstone.requests import Recorder, Request, RequestBlock, RequestBlocks, Statements, Step, TraceDraft, assemble
from ragstone.schema import Captured, Trace, spool_entry_adapter

__all__ = ["AppRecorder", "framework_capture"]

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
    """Takes the requests of an application that is evaluated. Requests of other recorders inside them join them."""

    takes_every_request = True

    def __init__(self) -> None:
        self._guard = Guard("ragstone.evaluate")
        self._converter = Converter(sample_rate=1.0, redact=None, limits=CaptureLimits())
        self._drafts: dict[str, TraceDraft | Request] = {}

    def record(self, draft: TraceDraft | Request) -> bool:
        """Keep a request of a block. Others join the block around them, or do not belong to the evaluation."""
        request = draft if isinstance(draft, Request) else _as_request(draft)
        if request.draft.source == "request":
            self._drafts[request.draft.trace_id] = draft
            return True
        block = self.current_request()
        return not block.ended and block.join(request)

    def take(self, block: RequestBlock) -> Trace:
        """Return the finished request of a block."""
        draft = self._drafts.pop(block.trace_id or "")
        _, line = self._converter.line(assemble(draft) if isinstance(draft, Request) else draft)
        entry = spool_entry_adapter.validate_json(line)
        assert isinstance(entry, Captured)  # noqa: S101 - nothing is sampled out at a rate of 1
        return entry.trace


def _as_request(draft: TraceDraft) -> Request:
    """Return a request that another recorder has assembled, with what it found as statements."""
    steps = [
        Step(id=(draft.trace_id, place), kind="retrieval", query=one.query, name=one.name, passages=one.passages)
        for place, one in enumerate(draft.retrievals)
    ]
    model = Step(id=draft.trace_id, kind="model", model=draft.model)
    model.input_tokens, model.output_tokens = draft.input_tokens, draft.output_tokens
    return Request(
        draft=draft,
        steps=[*steps, model],
        statements=Statements(contexts=draft.contexts, response=draft.response),
    )


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
