"""LlamaIndex's events, handed to the requests they belong to: models, their tokens, and contexts that are stated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.chat_engine import StreamChatDeltaReceivedEvent
from llama_index.core.instrumentation.events.exception import ExceptionEvent
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatInProgressEvent,
    LLMChatStartEvent,
    LLMCompletionEndEvent,
    LLMCompletionInProgressEvent,
    LLMCompletionStartEvent,
)

from llama_index.observability.ragstone._messages import model_from
from llama_index.observability.ragstone._requests import Handler, RequestTracker


class ContextsEvent(BaseEvent):
    """States the contexts in the prompt, for an application that searches without LlamaIndex's retrievers.

    ```python
    get_dispatcher().event(ContextsEvent(contexts=["A touchstone is a dark stone."]))
    ```
    """

    contexts: list[Any]
    """Texts or nodes, in prompt order."""

    @classmethod
    def class_name(cls) -> str:
        """Return its name for LlamaIndex."""
        return "RagstoneContextsEvent"


_ACTIONS: Final[Mapping[type[BaseEvent], Callable[[RequestTracker, Any], None]]] = {
    LLMChatStartEvent: lambda requests, event: requests.model_asked(event.span_id, model_from(event.model_dict)),
    LLMCompletionStartEvent: lambda requests, event: requests.model_asked(event.span_id, model_from(event.model_dict)),
    LLMChatInProgressEvent: lambda requests, event: requests.token_came(event.span_id, event.response.delta),
    LLMCompletionInProgressEvent: lambda requests, event: requests.token_came(event.span_id, event.response.delta),
    LLMChatEndEvent: lambda requests, event: requests.model_replied(event.span_id, event.response),
    LLMCompletionEndEvent: lambda requests, event: requests.model_replied(event.span_id, event.response),
    StreamChatDeltaReceivedEvent: lambda requests, event: requests.turn_grew(event.span_id, event.delta),
    ExceptionEvent: lambda requests, event: requests.stream_failed(event.span_id, event.exception),
    ContextsEvent: lambda requests, event: requests.contexts_stated(event.span_id, event.contexts),
}


def _canceled(requests: RequestTracker, event: Any) -> None:
    requests.canceled(event.span_id)


class RagstoneEventHandler(Handler, BaseEventHandler):
    """Hands the events inside spans to their requests, and keeps none."""

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:  # noqa: ARG002 - LlamaIndex's signature
        """Handle an event. Never raises."""
        action = _ACTIONS.get(type(event))
        if action is None:
            if type(event).__name__ != "SpanCancelledEvent":  # private to LlamaIndex's workflows
                return
            action = _canceled
        try:
            action(self.requests, event)
        except Exception as error:  # noqa: BLE001 - the application must continue after any error
            self.requests.count_error("handle", error)
