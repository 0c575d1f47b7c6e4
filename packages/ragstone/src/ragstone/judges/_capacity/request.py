"""What can be told from a request before it is sent: how long its reply may get, what it takes, with what it belongs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["affinity", "estimated_tokens", "reply_length"]

_CHARACTERS_PER_TOKEN: Final = 4
_AFFINITY_CHARACTERS: Final = 1024


def reply_length(body: Mapping[str, Any]) -> int:
    """The most tokens that one reply may have; 0 when the request does not say."""
    for name in ("max_tokens", "max_completion_tokens"):
        if isinstance(length := body.get(name), int):
            return length
    return 0


def estimated_tokens(body: Mapping[str, Any]) -> float:
    """Tokens that a request may take: four characters each, and replies as long as they may get."""
    n = body.get("n")
    replies = reply_length(body) * (n if isinstance(n, int) else 1)
    return sum(_size(text) for text in _texts(body)) + replies


def _size(text: object) -> float:
    if isinstance(text, str):
        return len(text) / _CHARACTERS_PER_TOKEN
    if isinstance(text, list):
        return sum(_size(part) if isinstance(part, list | str) else 1.0 for part in text)
    return 0.0


def _texts(body: Mapping[str, Any]) -> Iterator[object]:
    for message in body.get("messages") or ():
        yield message.get("content")
    yield body.get("prompt")


def affinity(body: Mapping[str, Any]) -> str:
    """A name for how a request begins: the system message and the first 1,024 characters of the first user message.

    Requests of one name share what a server keeps of their beginning, so a router does well to send them to one place.
    Token-id prompts are told apart by their first 256 tokens.
    """
    parts: list[str] = []
    for message in body.get("messages") or ():
        content = str(message.get("content"))
        if message.get("role") == "user":
            parts.append(content[:_AFFINITY_CHARACTERS])
            break
        parts.append(content)
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        parts.append(prompt[:_AFFINITY_CHARACTERS])
    elif isinstance(prompt, list) and prompt:
        tokens = prompt[0] if isinstance(prompt[0], list) else prompt
        parts.append(repr(tokens[: _AFFINITY_CHARACTERS // _CHARACTERS_PER_TOKEN]))
    # A length before each part: two parts never look like one.
    digest = hashlib.sha256("".join(f"{len(part)}:{part}" for part in parts).encode(errors="replace"))
    return digest.hexdigest()[:16]
