"""What the body of a request says: how long its replies can be, and its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from ragstone.judges._http.transport import MAX_REPLY_BYTES

EMBEDDINGS: Final = "/embeddings"
_CHARACTERS_PER_TOKEN: Final = 4
_BYTES_PER_VECTOR: Final = 2**18
"""A vector of 8,192 numbers, each of at most 25 characters with its comma, and some room."""
_BYTES_PER_VALUE: Final = 256
"""A token with its log-probability, and some room."""
_PER_PROMPT_TOKEN: Final = ("echo", "prompt_logprobs", "return_token_ids")
"""Fields that request something for each token of the prompt."""
_MOST_TOKENS: Final = 3
"""Ratio of the tokens of a text to their estimate that replies allow for."""


def log_probabilities(body: Mapping[str, Any] | None) -> Literal["id", "top"] | None:
    """Return which log-probabilities a request reads: of tokens by "id", of the "top" tokens, or none."""
    if body is None or not body.get("logprobs"):
        return None
    return "id" if body.get("logprob_token_ids") else "top"


def reply_limit(path: str, body: Mapping[str, Any] | None) -> int:
    """Return the limit on the bytes of a reply, which is larger for vectors and log-probabilities, by their number."""
    if body is None:
        return MAX_REPLY_BYTES
    if path == EMBEDDINGS:
        n_texts = len(texts) if isinstance(texts := body.get("input"), list) else 1
        return max(MAX_REPLY_BYTES, n_texts * _BYTES_PER_VECTOR)
    n_values = 0.0
    if any(body.get(name) not in (None, False) for name in _PER_PROMPT_TOKEN):
        # Some languages have a token for each character.
        n_values += _MOST_TOKENS * sum(map(_size, _texts(body)))
    if body.get("logprobs"):
        n_listed = sum(value for name in ("logprobs", "top_logprobs") if isinstance(value := body.get(name), int))
        n_listed += len(ids) if isinstance(ids := body.get("logprob_token_ids"), list) else 0
        n_prompts = len(prompts) if isinstance(prompts := body.get("prompt"), list) else 1
        n_replies = n if isinstance(n := body.get("n"), int) else 1
        n_values += n_prompts * n_replies * max(1, reply_length(body)) * n_listed
    return MAX_REPLY_BYTES + int(_BYTES_PER_VALUE * n_values)


def reply_length(body: Mapping[str, Any]) -> int:
    """Return the maximum number of tokens of one reply, or 0 if the request does not contain it."""
    for name in ("max_tokens", "max_completion_tokens"):
        if isinstance(length := body.get(name), int):
            return length
    return 0


def estimated_tokens(body: Mapping[str, Any]) -> float:
    """Estimate the tokens of a request: one per four characters, and the maximum length of the replies."""
    n_replies = n if isinstance(n := body.get("n"), int) else 1
    return sum(map(_size, _texts(body))) + reply_length(body) * n_replies


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
    yield body.get("input")
