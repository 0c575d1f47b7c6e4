"""LlamaIndex's events, handed to the requests they belong to: models, their tokens, and what an application states."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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

from llama_index.observability.ragstone._replies import model_from
from llama_index.observability.ragstone._requests import RequestTracker
from ragstone.capture import Guard, guarded

__all__ = ["ContextsEvent", "RagstoneEventHandler"]


class ContextsEvent(BaseEvent):
    """States which contexts were put into the prompt, by an application that searches without LlamaIndex's retrievers.

    ```python
    get_dispatcher().event(ContextsEvent(contexts=["A touchstone is a dark stone."]))
    ```
    """

    contexts: list[Any]
    """Texts or nodes, in prompt order."""

    @classmethod
    def class_name(cls) -> str:
        """The name LlamaIndex knows it by."""
        return "RagstoneContextsEvent"


def _model_asked(requests: RequestTracker, event: Any) -> None:
    requests.on_model_request(event.span_id, model_from(event.model_dict))


def _model_replied(requests: RequestTracker, event: Any) -> None:
    requests.on_model_response(event.span_id, event.response)


def _token_came(requests: RequestTracker, event: Any) -> None:
    requests.on_token(event.span_id, event.response.delta)


_HEARD: dict[type[BaseEvent], Callable[[RequestTracker, Any], None]] = {
    LLMChatStartEvent: _model_asked,
    LLMCompletionStartEvent: _model_asked,
    LLMChatInProgressEvent: _token_came,
    LLMCompletionInProgressEvent: _token_came,
    LLMChatEndEvent: _model_replied,
    LLMCompletionEndEvent: _model_replied,
    StreamChatDeltaReceivedEvent: lambda requests, event: requests.on_turn_update(event.span_id, event.delta),
    ExceptionEvent: lambda requests, event: requests.stream_failed(event.span_id, event.exception),
    ContextsEvent: lambda requests, event: requests.contexts_stated(event.span_id, event.contexts),
}


class RagstoneEventHandler(BaseEventHandler):
    """Hears what happens inside spans; keeps nothing itself."""

    if TYPE_CHECKING:
        requests: RequestTracker
        _guard: Guard

    def __init__(self, requests: RequestTracker, guard: Guard) -> None:
        super().__init__()
        # Past pydantic, whose private attributes cost microseconds at every look.
        self.__dict__["requests"] = requests
        self.__dict__["_guard"] = guard

    @classmethod
    def class_name(cls) -> str:
        """The name LlamaIndex knows it by."""
        return "RagstoneEventHandler"

    @guarded
    def handle(self, event: BaseEvent, **kwargs: Any) -> None:  # noqa: ARG002 - LlamaIndex's signature
        """Something happened."""
        hear = _HEARD.get(type(event))
        if hear is not None:
            hear(self.requests, event)
        elif type(event).__name__ == "SpanCancelledEvent":  # private to LlamaIndex's workflows
            self.requests.cancelled(event.span_id)
