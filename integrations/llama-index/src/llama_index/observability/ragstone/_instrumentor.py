"""The instrumentor: an application calls it to start and to stop the capture."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]  # re-exported

from llama_index.observability.ragstone._event_handler import RagstoneEventHandler
from llama_index.observability.ragstone._live import LiveRequests
from llama_index.observability.ragstone._requests import RequestTracker
from llama_index.observability.ragstone._span_handler import RagstoneSpanHandler
from ragstone.capture import Guard, after_fork_in_child, register_exit_hook
from ragstone.requests import CaptureOptions, InFlight, Recorder, RetrieverTools

QuestionExtractor = Callable[[Mapping[str, Any]], str | None]
ContextsExtractor = Callable[[Any], Iterable[Any] | None]
AnswerExtractor = Callable[[Any], str | None]

_logger = logging.getLogger("ragstone")
_registering = threading.Lock()


class RagstoneInstrumentor(InFlight.Counts):
    """Captures each request of LlamaIndex's query engines, chat engines, agents and workflows in this process.

    Create one per process. It keeps references to texts and copies of nodes, never raises into the application, never
    waits, and does not read streams.

    ```python
    monitor = Monitor(store="ragstone.db")
    RagstoneInstrumentor(monitor).start_registering()
    query_engine.query(question)
    ```

    `instrument_tags({...})` of LlamaIndex may contain `user_id`, `session_id`, `reference` (one correct answer, or
    several) and `tags`. An application that searches without LlamaIndex's retrievers can dispatch a `ContextsEvent`.
    Calls inside a
    `Monitor.request` block become steps of that request. Bare calls of models, and the calls that evaluators and
    constructors of indexes make, are not requests.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        question: QuestionExtractor | None = None,
        contexts: ContextsExtractor | None = None,
        answer: AnswerExtractor | None = None,
        retriever_tools: Iterable[str] | RetrieverTools = (),
        ttl_s: float = 3600.0,
        max_live: int = 10_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        r"""Capture into `recorder`, once `start_registering` is called.

        Args:
            recorder: Takes the finished requests: a `ragstone.Monitor`, or any object with its `record` method.
            question: Finds the question in the arguments of a request's outermost call, by their names, if the usual
                rules do not. None means "not found".
            contexts: Finds the nodes (or texts) of the prompt in the result of that call.
            answer: Finds the answer in the result of that call. It is not called for a stream, which the application
                reads.
            retriever_tools: Names of tools whose text results are passages: `{"search_policy"}`, or with the separator
                between passages, `{"search_policy": "\n\n"}`. Tools that return nodes need no entry.
            ttl_s: Age in seconds at which a request that has not ended (a stream that is not read) is recorded as
                `abandoned`.
            max_live: Number of requests in flight beyond which the oldest is recorded as `abandoned`.
            clock: Unix time in seconds.

        Raises:
            ConfigurationError: If the recorder does not have a `record` method or is an instrumentor, if `question`,
                `contexts` or `answer` is not a function, or if `retriever_tools` contains anything but names and separators.
        """
        self._guard = Guard("ragstone.llamaindex")
        options = CaptureOptions(
            recorder, self._guard, question=question, contexts=contexts, answer=answer, retriever_tools=retriever_tools
        )
        self._live = LiveRequests(ttl_s=ttl_s, max_live=max_live, clock=clock)
        self._requests = RequestTracker(options, self._live, guard=self._guard, clock=clock)
        self._record = self._requests.record
        register_exit_hook(self._requests.end_all)
        self._span_handler = RagstoneSpanHandler.of(self._requests)
        self._event_handler = RagstoneEventHandler.of(self._requests)

    def start_registering(self) -> None:
        """Start the capture, in all threads and tasks. Calling it again changes nothing."""
        dispatcher = get_dispatcher()
        with _registering:
            others = (one for one in dispatcher.span_handlers if isinstance(one, RagstoneSpanHandler))
            if any(
                one is not self._span_handler and one.requests.recorder is self._requests.recorder for one in others
            ):
                _logger.warning(
                    "ragstone: an instrumentor of this recorder is registered already; create one for the process"
                )
                return
            # New lists rather than changed ones: other threads may be walking through them.
            if not _holds(dispatcher.span_handlers, self._span_handler):
                dispatcher.span_handlers = [*dispatcher.span_handlers, self._span_handler]
            if not _holds(dispatcher.event_handlers, self._event_handler):
                dispatcher.event_handlers = [*dispatcher.event_handlers, self._event_handler]

    def stop_registering(self) -> None:
        """Stop the capture. Calling it again changes nothing.

        Requests in flight are recorded as `abandoned`, except streams that were handed out, which are recorded when the
        application has read them.
        """
        dispatcher = get_dispatcher()
        with _registering:
            dispatcher.span_handlers = _without(dispatcher.span_handlers, self._span_handler)
            dispatcher.event_handlers = _without(dispatcher.event_handlers, self._event_handler)
        self._requests.leave()


# By identity: LlamaIndex's handlers are equal if their fields are.


def _holds(handlers: list[Any], ours: Any) -> bool:
    return any(handler is ours for handler in handlers)


def _without(handlers: list[Any], ours: Any) -> list[Any]:
    return [handler for handler in handlers if handler is not ours]


def _renew_lock_in_child() -> None:
    global _registering  # noqa: PLW0603 - a thread of the parent may hold the lock
    _registering = threading.Lock()


after_fork_in_child(_renew_lock_in_child)
