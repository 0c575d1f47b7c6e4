"""What the reply of a model says of itself: its text, the model's name, and the tokens, as each provider names them.

LlamaIndex hands the provider's own answer on as `raw`, an object or a mapping, and has no names of its own for usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse

from ragstone.requests import TraceDraft

__all__ = ["LlmReply", "model_from", "reply_from"]

_USAGE = (("usage",), ("usage_metadata",), ("usageMetadata",), ("usage", "tokens"), ("meta", "billed_units"), ())
"""Where it is, in `raw`; at last in `raw` itself."""
_INPUT = (
    "prompt_tokens", "input_tokens", "prompt_token_count", "promptTokenCount", "inputTokens", "prompt_eval_count",
)  # fmt: skip
_OUTPUT = (
    "completion_tokens", "output_tokens", "candidates_token_count", "candidatesTokenCount", "outputTokens",
    "eval_count",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmReply:
    """What one call of a model contributes to a trace."""

    text: str | None
    """None when the reply is a call of a tool, or has no text."""
    model: str | None
    input_tokens: int | None
    output_tokens: int | None

    def add_to(self, draft: TraceDraft) -> None:
        """Name the model, and add the tokens to those of earlier calls."""
        draft.model = self.model or draft.model
        draft.input_tokens = _sum(draft.input_tokens, self.input_tokens)
        draft.output_tokens = _sum(draft.output_tokens, self.output_tokens)


def _sum(total: int | None, more: int | None) -> int | None:
    return total if more is None else (total or 0) + more


def model_from(payload: Mapping[str, Any]) -> str | None:
    """The model that a call asked for, as its description names it."""
    names = (payload.get("model"), payload.get("model_name"))
    return next((name for name in names if isinstance(name, str) and name and name != "unknown"), None)


def reply_from(response: object) -> LlmReply | None:
    """Read the reply of a chat or completion model; None where there is none."""
    if isinstance(response, ChatResponse):
        message = response.message
        text = None if _calls_tool(message) else message.content
        beside = [response.additional_kwargs, message.additional_kwargs]
    elif isinstance(response, CompletionResponse):
        text, beside = response.text, [response.additional_kwargs]
    else:
        return None
    raw = response.raw
    names = (_look_up(raw, "model"), _look_up(raw, "model_version"), _look_up(raw, "modelVersion"))
    places = [*(_at(raw, path) for path in _USAGE), *beside]
    return LlmReply(
        text=text,
        model=next((name for name in names if isinstance(name, str) and name), None),
        input_tokens=_count(places, _INPUT),
        output_tokens=_count(places, _OUTPUT),
    )


def _calls_tool(message: ChatMessage) -> bool:
    # By name: the blocks of the oldest versions know no such type.
    return bool(message.additional_kwargs.get("tool_calls")) or any(
        block.block_type == "tool_call" for block in message.blocks
    )


def _look_up(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = _look_up(value, name)
    return value


def _count(places: list[Any], names: tuple[str, ...]) -> int | None:
    for value in places:
        if value is None:
            continue
        for name in names:
            count = _look_up(value, name)
            if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
                return count
    return None
