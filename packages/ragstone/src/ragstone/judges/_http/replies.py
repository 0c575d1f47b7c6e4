"""What an endpoint's JSON says: replies, their tokens, token ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from ragstone.errors import JudgeReplyError
from ragstone.judges._model import Completion, TokenReading

__all__ = ["completions", "token_ids"]

_NOTHING: Final = -9000.0
"""What vLLM writes for minus infinity is below. Version 0.32 fills the lists of requests with it whose step they share
with one that asks for tokens by id, instead of the tokens that belong there: that is no likeliest token, and to read it as
one would mean that all tokens which are not listed are impossible."""


def completions(reply: Mapping[str, Any]) -> tuple[Completion, ...]:
    """The replies in a chat completion; an error when there is none.

    Raises:
        JudgeReplyError: Not one choice with a message.
    """
    try:
        found = tuple(_completion(choice) for choice in reply["choices"])
    except (KeyError, TypeError, AttributeError):
        found = ()
    if not found:
        msg = f"the completion has no message, only {sorted(reply)}"
        raise JudgeReplyError(msg)
    return found


def token_ids(reply: Mapping[str, Any]) -> list[int]:
    """The token ids in a `/tokenize` reply.

    Raises:
        JudgeReplyError: There are none.
    """
    ids = reply.get("tokens")
    if not isinstance(ids, list) or not all(isinstance(token, int) for token in ids):
        msg = f"the reply to /tokenize has no token ids, only {sorted(reply)}"
        raise JudgeReplyError(msg)
    return ids


def _completion(choice: Mapping[str, Any]) -> Completion:
    message = choice["message"]
    text, refusal = message.get("content"), message.get("refusal")
    # A lone surrogate is legal in JSON and nowhere else.
    text = text.encode(errors="replace").decode() if isinstance(text, str) else ""
    finish: Literal["stop", "length", "refused"] = "stop"
    if refusal or choice.get("finish_reason") == "content_filter":
        finish, text = "refused", str(refusal or text)
    elif choice.get("finish_reason") == "length":
        finish = "length"
    return Completion(text=text, finish=finish, tokens=_tokens(choice.get("logprobs")))


def _tokens(logprobs: object) -> tuple[TokenReading, ...] | None:
    """Token readings, None where there are none; what is not a finite number is none."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return None
    try:
        return tuple(
            TokenReading(
                text=str(token["token"]),
                logprob=float(token["logprob"]),
                top=tuple(
                    sorted(
                        (
                            (str(other["token"]), float(other["logprob"]))
                            for other in token.get("top_logprobs") or ()
                            if float(other["logprob"]) > _NOTHING
                        ),
                        key=lambda pair: -pair[1],
                    )
                ),
            )
            for token in content
        )
    except (KeyError, TypeError, ValueError):
        return None
