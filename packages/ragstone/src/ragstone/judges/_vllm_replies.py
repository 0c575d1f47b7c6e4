"""What vLLM's engine puts out, read as replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ragstone.judges._model import Completion, TokenReading

__all__ = ["completion_of"]


def completion_of(choice: Any) -> Completion:
    """A choice of the engine (`vllm.CompletionOutput`) as a reply."""
    finish: Literal["stop", "length"] = "length" if choice.finish_reason == "length" else "stop"
    tokens = None
    if choice.logprobs is not None:
        tokens = tuple(
            _reading(token, alternatives) for token, alternatives in zip(choice.token_ids, choice.logprobs, strict=True)
        )
    # A lone surrogate would break whoever writes the text to a file.
    return Completion(text=choice.text.encode(errors="replace").decode(), finish=finish, tokens=tokens)


def _reading(token: int, alternatives: Mapping[int, Any]) -> TokenReading:
    said = alternatives[token]
    ranked = sorted(alternatives.values(), key=lambda other: -other.logprob)
    return TokenReading(
        text=said.decoded_token or "",
        logprob=float(said.logprob),
        top=tuple((other.decoded_token or "", float(other.logprob)) for other in ranked),
    )
