"""Detection of prompts that a server cut without an error, from the number of prompt tokens in its replies.

A server that cuts prompts (Ollama at `num_ctx`) replies with status 200, and the number of prompt tokens stops growing.
The tokenizer is unknown here, so there are two steps:

1. A reply is *suspicious* if it counts a multiple of 1,024 tokens, or fewer than `least_tokens` of its prompt times 0.8
   times the smallest ratio of tokens to `least_tokens` that this endpoint has shown for shorter prompts.
2. A suspicion is *measured*: the same prompt is sent with its longest message twice. If the number of tokens does not
   grow by half, the endpoint has a limit. Otherwise it accepts prompts of that length, and replies that count fewer
   tokens are not checked any more, so there are only a few measurements.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ragstone.errors import JudgeRejectedError
from ragstone.judges._model import PerLoop

_LARGEST: Final = 10**9
"""Largest number of tokens that a reply can state. A larger one is not a count."""
_SHORTEST: Final = 256
"""Shorter prompts, in tokens, are not checked. No server has such a small limit."""
_LONG_WORD: Final = 24
"""Longer words are not words of a language: encoded data, identifiers, text of a script without spaces."""
_CHARACTERS_IN_LONG_WORD: Final = 8
_REPEATED: Final = re.compile(r"(.)\1{7,}")
_CHARACTERS_PER_IDEOGRAPH_TOKEN: Final = 3
_IDEOGRAPHS: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]"
)
"""Characters of scripts without spaces between words, and of Korean."""
_CALIBRATED_BY: Final = 8
"""Number of replies from which the ratio of an endpoint is taken. Before that, it is 1."""
_REMEMBERED: Final = 64
_MARGIN: Final = 0.8
"""Factor of the calibrated ratio, because texts differ."""
_GROWTH: Final = 1.5
"""Least growth of the tokens of a prompt with its material twice, if it is not cut. Without a cut it is nearly 2."""
_AT_LIMIT: Final = 0.99
_USUAL_LIMIT: Final = 1024
"""Servers' limits are multiples of this number."""
_ONLY_FIRST: Final = (
    "n",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "response_format",
    "structured_outputs",
    "regex",
)
"""Fields that the measurement does not need."""


def least_tokens(text: str) -> int:
    """Return the number of tokens that a text has at least, with nearly every tokenizer of a chat model.

    One for each word, because tokens do not span words. Words of more than 24 characters count one more for each 8
    characters. Characters that are repeated 8 times or more do not count. Scripts without spaces count one for each 3
    characters.
    """
    ideographs = 0
    if not text.isascii():
        text, ideographs = _IDEOGRAPHS.subn(" ", text)
    words = text.split()
    extra = 0
    if max(map(len, words), default=0) > _LONG_WORD:
        long = (_REPEATED.sub("", word) for word in words if len(word) > _LONG_WORD)
        extra = sum(len(word) // _CHARACTERS_IN_LONG_WORD for word in long)
    return len(words) + extra + ideographs // _CHARACTERS_PER_IDEOGRAPH_TOKEN


class WholePrompts:
    """Checks that the prompts of one endpoint arrive whole."""

    def __init__(self, send: Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]], *, name: str) -> None:
        self._send = send
        self._name = name
        self._limit: int | None = None
        """Number of tokens at which the endpoint cuts, if it was measured."""
        self._accepted = 0
        """Largest number of tokens that a reply has counted."""
        self._unchecked = False
        """Whether the endpoint refuses prompts that are too long, as it should, or does not count tokens."""
        self._seen: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)
        self._lock = PerLoop(asyncio.Lock)

    async def check(self, body: Mapping[str, Any], reply: Mapping[str, Any]) -> None:
        """Check a reply to a chat request.

        Raise JudgeRejectedError with kind "prompt_truncated" if the server cut the prompt, and JudgeError if a
        suspicion could not be measured.
        """
        n = _prompt_tokens(reply)
        if self._unchecked or n is None or (n < self._accepted and len(self._seen) == _REMEMBERED):
            return
        least = sum(least_tokens(message["content"]) for message in body["messages"])
        if max(n, least) < _SHORTEST:
            return
        if self._is_suspicious(n, least):
            async with self._lock.get():
                if self._is_suspicious(n, least):
                    await self._measure(body, n)
        elif self._limit is None:
            self._accepted = max(self._accepted, n)
            self._seen.append((n, n / max(1, least)))
        if self._limit is not None and n >= _AT_LIMIT * self._limit:
            raise JudgeRejectedError(
                f"{self._name}: the server cut the prompt at {n} tokens without an error, so the reply is about a part of "
                "the sample. Raise the context length of the server (Ollama: num_ctx, or OLLAMA_CONTEXT_LENGTH=16384), "
                "or retrieve less text",
                kind="prompt_truncated",
            )

    def _is_suspicious(self, n: int, least: int) -> bool:
        """Return whether the prompt may have been cut, and the limit of the endpoint is still unknown."""
        if self._limit is not None or self._unchecked or n < self._accepted:
            return False
        # The longest prompts so far may have been cut.
        whole = [ratio for tokens, ratio in self._seen if tokens < self._accepted]
        ratio = max(1.0, _MARGIN * min(whole)) if len(whole) >= _CALIBRATED_BY else 1.0
        return n < ratio * least or n % _USUAL_LIMIT == 0

    async def _measure(self, body: Mapping[str, Any], n: int) -> None:
        """Send the prompt with its longest message twice, behind a text that no cache contains."""
        messages = [dict(message) for message in body["messages"]]
        longest = max(messages, key=lambda message: len(message["content"]))
        longest["content"] = f"{longest['content']}\n{longest['content']}"
        messages[0]["content"] = f"{secrets.token_hex(8)}\n{messages[0]['content']}"
        fields = {name: value for name, value in body.items() if name not in _ONLY_FIRST}
        try:
            reply = await self._send({**fields, "messages": messages})
        except JudgeRejectedError:
            # A server that refuses long prompts does not cut them.
            self._unchecked = True
            return
        grown = _prompt_tokens(reply)
        if grown is None or grown < _SHORTEST:
            # The server does not count the tokens of prompts.
            self._unchecked = True
        elif grown < _GROWTH * n:
            self._limit = max(n, grown)
        else:
            self._accepted = max(self._accepted, grown)


def _prompt_tokens(reply: Mapping[str, Any]) -> int | None:
    """Return the number of tokens of the prompt, or None if the reply does not contain it."""
    usage = reply.get("usage")
    n = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    return n if isinstance(n, int) and 0 < n <= _LARGEST else None
