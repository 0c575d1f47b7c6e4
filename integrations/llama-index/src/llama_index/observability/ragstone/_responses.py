"""Responses of LlamaIndex whose text comes later: which they are, and how the instrumentor sees their text."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import AsyncStreamingResponse, PydanticResponse, StreamingResponse
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.chat_engine.types import StreamingAgentChatResponse

from llama_index.observability.ragstone._stream import StreamListener, tap_async, wrap_stream


def is_token_stream(result: object) -> bool:
    """Whether the answer comes later, token by token, when the application asks for it."""
    if isinstance(result, StreamingAgentChatResponse):
        return not result.is_writing_to_memory  # some engines of older versions, and of other packages
    return isinstance(result, (StreamingResponse, AsyncStreamingResponse)) and result.response_gen is not None


def is_chat_stream(result: object) -> bool:
    """Whether the answer comes later, read by the chat engine itself."""
    return isinstance(result, StreamingAgentChatResponse) and result.is_writing_to_memory


def install_tap(result: Any, listener: StreamListener) -> bool:
    """Put a tap before a stream; return False if there is nothing to tap."""
    # By the response: what other observers put before a stream may look like either kind.
    if isinstance(result, StreamingAgentChatResponse):
        place = "chat_stream" if result.achat_stream is None else "achat_stream"
    else:
        place = "response_gen"
    tokens = getattr(result, place)
    if place == "achat_stream" or isinstance(result, AsyncStreamingResponse):
        if hasattr(tokens, "__anext__"):
            setattr(result, place, tap_async(tokens, listener, _item_text))
            return True
    elif hasattr(tokens, "__next__"):
        setattr(result, place, wrap_stream(tokens, listener, _item_text))
        return True
    return False


def _item_text(item: object) -> str | None:
    """Return the text of an item of a stream that is not a piece of text: a whole version of the answer."""
    if isinstance(item, ChatResponse):
        return item.message.content
    if isinstance(item, CompletionResponse):
        return item.text
    if isinstance(item, PydanticResponse):
        item = item.response
    return item.model_dump_json() if isinstance(item, BaseModel) else None


def writer_text(response: object) -> str | None:
    """Return what a streamed chat turn has become, if it says so: older versions leave that to its reader."""
    return response.response or None if isinstance(response, StreamingAgentChatResponse) else None
