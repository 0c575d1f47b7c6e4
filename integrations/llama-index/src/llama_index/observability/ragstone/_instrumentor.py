"""What an application calls: start capturing, and stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]  # re-exported, if not by the letter

from llama_index.observability.ragstone._event_handler import RagstoneEventHandler
from llama_index.observability.ragstone._requests import RequestTracker
from llama_index.observability.ragstone._span_handler import RagstoneSpanHandler
from llama_index.observability.ragstone._tree import SpanTree
from ragstone.capture import Guard, after_fork_in_child, register_exit_hook
from ragstone.errors import ConfigurationError
from ragstone.requests import Recorder

__all__ = ["RagstoneInstrumentor"]

_registering = threading.Lock()


class RagstoneInstrumentor:
    """Captures each request of LlamaIndex's query engines, chat engines, agents and workflows in this process.

    Make one for the process. It copies what it needs as plain strings, never raises into the application, waits for
    nothing, and leaves streams to be read by the application.

    ```python
    monitor = Monitor(store="ragstone.db")
    RagstoneInstrumentor(monitor).start_registering()
    query_engine.query(question)
    ```

    `instrument_tags({...})` of LlamaIndex may name `user_id`, `session_id`, `reference` (one correct answer, or several)
    and `tags`. An application that searches without LlamaIndex's retrievers can dispatch a `ContextsEvent`.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        question: Callable[[Mapping[str, Any]], str | None] | None = None,
        contexts: Callable[[Any], Iterable[Any] | None] | None = None,
        answer: Callable[[Any], str | None] | None = None,
        ttl_s: float = 3600.0,
        max_live: int = 10_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Capture into `recorder`, once `start_registering` is called.

        Args:
            recorder: Takes the finished requests: a `ragstone.Monitor`, or anything else with its `record` method.
            question: Finds the question in the arguments of a request's outermost call, by their names, where the usual
                rules do not; None means "not here".
            contexts: Finds in what that call returned the nodes (or texts) that were put into the prompt.
            answer: Finds the answer in what that call returned. Not asked about streams, which the application reads.
            ttl_s: Age in seconds at which a request that has not ended (a stream that nobody reads) is recorded as
                `abandoned`.
            max_live: Requests in flight beyond which the oldest is recorded as `abandoned`.
            clock: Unix time in seconds.

        Raises:
            ConfigurationError: The recorder has no `record` method, or is an instrumentor.
        """
        if isinstance(recorder, RagstoneInstrumentor) or not callable(getattr(recorder, "record", None)):
            raise ConfigurationError(f"needs a recorder, such as a ragstone.Monitor, got {type(recorder).__name__}")
        self.question = question
        self.contexts = contexts
        self.answer = answer
        self._tree = SpanTree(ttl_s=ttl_s, max_live=max_live, clock=clock)
        self._guard = Guard("ragstone.llamaindex")
        self._requests = RequestTracker(recorder, self, self._tree, guard=self._guard, clock=clock)
        register_exit_hook(self._requests.end_all)
        self._span_handler = RagstoneSpanHandler(self._requests)
        self._event_handler = RagstoneEventHandler(self._requests, self._guard)

    def start_registering(self) -> None:
        """Capture from now on, in all threads and tasks; calling it again changes nothing."""
        dispatcher = get_dispatcher()
        with _registering:
            # New lists rather than changed ones: other threads may be walking through them.
            if not _holds(dispatcher.span_handlers, self._span_handler):
                dispatcher.span_handlers = [*dispatcher.span_handlers, self._span_handler]
            if not _holds(dispatcher.event_handlers, self._event_handler):
                dispatcher.event_handlers = [*dispatcher.event_handlers, self._event_handler]

    def stop_registering(self) -> None:
        """Capture no more requests; calling it again changes nothing.

        Requests in flight are recorded as `abandoned`, except streams that were handed out, which are recorded when the
        application has read them.
        """
        dispatcher = get_dispatcher()
        with _registering:
            dispatcher.span_handlers = _without(dispatcher.span_handlers, self._span_handler)
            dispatcher.event_handlers = _without(dispatcher.event_handlers, self._event_handler)
        self._requests.leave()

    @property
    def errors(self) -> int:
        """How many spans and events failed inside this package; 0 unless it has a bug, or an extractor raised."""
        return self._guard.total

    @property
    def late_events(self) -> int:
        """How many spans were ignored because they came twice, or after their request had ended."""
        return self._tree.late

    @property
    def in_flight(self) -> int:
        """How many requests are in flight."""
        return len(self._tree)

    def record_abandoned(self, *, older_than_s: float | None = None) -> int:
        """Record requests that have not ended for too long as `abandoned`.

        Each new request sweeps a little, and the end of the process sweeps all; call this where no new requests come,
        or before you close the monitor yourself.

        Args:
            older_than_s: Age in seconds from which a request counts as abandoned; `ttl_s` by default, 0 for all.

        Returns:
            How many were recorded.
        """
        return self._requests.record_abandoned(older_than_s=older_than_s)


# By identity: LlamaIndex's handlers are equal when their fields are.


def _holds(handlers: list[Any], ours: Any) -> bool:
    return any(handler is ours for handler in handlers)


def _without(handlers: list[Any], ours: Any) -> list[Any]:
    return [handler for handler in handlers if handler is not ours]


def _renew_lock_in_child() -> None:
    global _registering  # noqa: PLW0603 - the parent's may be held by a thread that the child does not have
    _registering = threading.Lock()


after_fork_in_child(_renew_lock_in_child)
