"""Signs that a model reasons before it answers, and the tokens that its replies need for that."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

REASONING_TOKENS: Final = 4096
"""Tokens that a request allows for reasoning, in addition to those for the answer."""
LEAST_REASONING_TOKENS: Final = 512
"""Minimum number of tokens for reasoning, for servers whose context is too short for more."""
_TAGS: Final = re.compile(r"</?(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_FIELDS: Final = ("reasoning_content", "reasoning")
_SHORT: Final = 16
"""Tokens with which a one-word reply is complete. Fewer may be used up by whitespace."""
_PROSE: Final = 512


def sign_of_reasoning(reply: Mapping[str, Any], max_tokens: int) -> str | None:
    """Return the evidence in a chat completion that the model reasons first, or None without evidence."""
    message = _first_choice(reply).get("message")
    message = message if isinstance(message, Mapping) else {}
    for name in _FIELDS:
        if message.get(name):
            return f"replies have {name!r} in addition to the answer"
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    if any(isinstance(part, Mapping) and part.get("type") == "thinking" for part in parts):
        return "replies have parts of type 'thinking'"
    if isinstance(content, str) and _TAGS.search(content):
        return "replies contain reasoning tags"
    usage = reply.get("usage")
    details = usage.get("completion_tokens_details") if isinstance(usage, Mapping) else None
    if isinstance(details, Mapping) and details.get("reasoning_tokens"):
        return f"{details['reasoning_tokens']} tokens of reasoning are counted"
    if not content and is_cut(reply) and max_tokens >= _SHORT:
        return "the reply was cut before its first word"
    return None


def is_cut(reply: Mapping[str, Any]) -> bool:
    """Return whether the first choice of a chat completion was cut at the length limit."""
    return bool(_first_choice(reply).get("finish_reason") == "length")


def _first_choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = reply.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


async def measure_reasoning(ask: Callable[[int], Awaitable[Mapping[str, Any]]]) -> str | None:
    """Return the evidence that a model reasons first, from one or two replies to a request for one word."""
    reply = await ask(_SHORT)
    if (sign := sign_of_reasoning(reply, _SHORT)) is None and is_cut(reply):
        # The reply is too long for one word. If the chat template starts the reasoning, only its end is visible.
        sign = sign_of_reasoning(await ask(_PROSE), _PROSE)
    return sign
