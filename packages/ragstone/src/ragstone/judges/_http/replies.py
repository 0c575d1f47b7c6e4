"""What an endpoint's JSON says: replies, their tokens, token ids."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

from ragstone.errors import JudgeReplyError
from ragstone.judges._model import Completion, TokenLogprobs

__all__ = ["completions", "logprob_or_none", "token_ids"]

_ROUNDING: Final = 0.01
"""Servers compute in half precision, and the logarithm of what certainly comes may end above 0."""
_LEAST: Final = -1e300
"""JSON has integers that no float can hold."""
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
        raise JudgeReplyError(f"the completion has no message, only {sorted(reply)}")
    return found


def token_ids(reply: Mapping[str, Any]) -> list[int]:
    """The token ids in a `/tokenize` reply.

    Raises:
        JudgeReplyError: There are none.
    """
    ids = reply.get("tokens")
    if not isinstance(ids, list) or not all(type(token) is int and token >= 0 for token in ids):
        raise JudgeReplyError(f"the reply to /tokenize has no token ids, only {sorted(reply)}")
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


def _tokens(logprobs: object) -> tuple[TokenLogprobs, ...] | None:
    """Token readings, None where there are none: one value that is no log-probability spoils them all."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return None
    try:
        return tuple(
            TokenLogprobs(
                text=str(token["token"]),
                logprob=_logprob(token["logprob"]),
                top=tuple(
                    sorted(
                        (
                            (str(other["token"]), logprob)
                            for other in token.get("top_logprobs") or ()
                            if (logprob := _logprob(other["logprob"])) > _NOTHING
                        ),
                        key=lambda pair: -pair[1],
                    )
                ),
            )
            for token in content
        )
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        return None


def _logprob(value: object) -> float:
    """A number as it stands in a reply, held against what a log-probability can be.

    Raises:
        ValueError: It is none.
    """
    found = logprob_or_none(value)
    if found is None:
        raise ValueError(f"{value!r:.40} is no log-probability")
    return found


def logprob_or_none(value: object) -> float | None:
    """A log-probability: minus infinity to 0, with room for rounding above; None where it is none.

    To take what is no log-probability for a certain event would make a number of nonsense.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= _ROUNDING:
        return None
    return float(value) if value > _LEAST else -math.inf
