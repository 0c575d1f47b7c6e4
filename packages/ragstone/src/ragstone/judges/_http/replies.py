"""Parser of an endpoint's JSON: replies, their tokens, token ids."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, Literal

from ragstone.errors import JudgeReplyError
from ragstone.judges._model import Completion, TokenLogprobs

_ROUNDING: Final = 0.01
"""Tolerance above 0: servers compute in half precision, so the logarithm of probability 1 may be positive."""
_LEAST: Final = -1e300
"""Smallest number that is read. JSON allows integers that no float can hold."""
_NOTHING: Final = -9000.0
"""Numbers below this mean minus infinity for vLLM.

Version 0.32 writes it for all listed tokens of a request that shares a step with a request for tokens by id. These are
not the most likely tokens. If they were read as such, all tokens that are not listed would seem impossible.
"""


def completions(reply: Mapping[str, Any]) -> tuple[Completion, ...]:
    """Return the replies of a chat completion. Raise JudgeReplyError if no choice has a message."""
    try:
        replies = tuple(_completion(choice) for choice in reply["choices"])
    except (KeyError, TypeError, AttributeError):
        replies = ()
    if not replies:
        raise JudgeReplyError(f"the completion does not contain a message, only {sorted(reply)}")
    return replies


def read_stream(body: bytes) -> dict[str, Any] | None:
    """Return the chat completion of an event stream, or None if the body is not a complete one.

    Some servers send a stream although none was requested. It must have its end ("[DONE]"). It is read without
    log-probabilities.
    """
    events = [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")]
    if not body.startswith((b"data:", b"event:", b":", b"id:")) or not events or events[-1] != b"[DONE]":
        return None
    texts: dict[int, str] = {}
    completion: dict[str, Any] = {}
    finishes: dict[int, str] = {}
    try:
        for part in map(json.loads, events[:-1]):
            completion |= {name: value for name, value in part.items() if value}
            for choice in part.get("choices") or ():
                index = choice.get("index", 0)
                texts[index] = texts.get(index, "") + (choice["delta"].get("content") or "")
                finishes[index] = choice.get("finish_reason") or finishes.get(index, "")
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return None
    choices = [{"message": {"content": texts[i]}, "finish_reason": finishes[i]} for i in sorted(texts)]
    return completion | {"choices": choices} if choices else completion


def token_ids(reply: Mapping[str, Any]) -> list[int]:
    """Return the token ids of a `/tokenize` reply. Raise JudgeReplyError if there are none."""
    ids = reply.get("tokens")
    if not isinstance(ids, list) or not all(type(token) is int and token >= 0 for token in ids):
        raise JudgeReplyError(f"the reply to /tokenize does not contain token ids, only {sorted(reply)}")
    return ids


def _completion(choice: Mapping[str, Any]) -> Completion:
    message = choice["message"]
    text, refusal = _joined(message.get("content")), message.get("refusal")
    # A lone surrogate is valid in JSON, but cannot be encoded.
    text = text.encode(errors="replace").decode() if isinstance(text, str) else ""
    finish: Literal["stop", "length", "refused"] = "stop"
    if refusal or choice.get("finish_reason") == "content_filter":
        finish, text = "refused", str(refusal or text)
    elif choice.get("finish_reason") == "length":
        finish = "length"
    return Completion(text=text, finish=finish, tokens=read_tokens(choice.get("logprobs")))


def _joined(content: object) -> object:
    """Return the text of a content that is a list of parts. Parts of other types contain reasoning, not the answer."""
    if not isinstance(content, list):
        return content
    parts = (part for part in content if isinstance(part, Mapping) and part.get("type") == "text")
    return "".join(str(part.get("text") or "") for part in parts)


def read_tokens(logprobs: object) -> tuple[TokenLogprobs, ...] | None:
    """Return the tokens, or None if there are none or one value is not a log-probability."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return None
    try:
        return tuple(map(_token, content))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        return None


def _token(token: Mapping[str, Any]) -> TokenLogprobs:
    listed = ((str(other["token"]), _logprob(other["logprob"])) for other in token.get("top_logprobs") or ())
    top = sorted((pair for pair in listed if pair[1] > _NOTHING), key=lambda pair: -pair[1])
    return TokenLogprobs(text=str(token["token"]), logprob=_logprob(token["logprob"]), top=tuple(top))


def _logprob(value: object) -> float:
    """Return a number of a reply as a log-probability. Raise ValueError if it is not one."""
    if (logprob := logprob_or_none(value)) is None:
        raise ValueError(f"{value!r:.40} is not a log-probability")
    return logprob


def logprob_or_none(value: object) -> float | None:
    """Return a log-probability (minus infinity to 0, with a tolerance for rounding), or None if the value is not one.

    An invalid value must not be read as a certain event.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= _ROUNDING:
        return None
    return float(value) if value > _LEAST else -math.inf
