"""Request format that an endpoint accepts, detected from its refusals instead of its name."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ragstone.judges._http.endpoint import RequestRefusedError
from ragstone.judges._http.replies import completions
from ragstone.judges._model import Completion
from ragstone.judges._render import Message

__all__ = ["CONSTRAINTS", "ConstrainedReplies", "Constraint", "Dialect", "is_too_long"]

# The error for a prompt that is too long also contains "max_tokens", but another parameter name does not help.
_TOO_LONG: Final = re.compile(r"context length|context window|too large|too long|maximum|max_model_len", re.IGNORECASE)
_NO_SYSTEM: Final = re.compile(r"system (?:role|message|prompt)s?\b.*\bnot\b.*\bsupport", re.IGNORECASE | re.DOTALL)
_MAX_VALUES: Final = 1001
"""Maximum number of alternatives in a regular expression. Some servers refuse more."""
_REFUSALS: Final = 3
"""Refusals until schemas are given up. A single refusal may concern the text, as with content filters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Format of chat requests for an endpoint."""

    max_tokens_name: str = "max_tokens"
    omitted: frozenset[str] = frozenset()
    """Sampling parameters that the endpoint refuses."""
    fold_system: bool = False
    """Whether the system message must be a part of the first user message."""

    def body(
        self, *, model: str, messages: Sequence[Message], max_tokens: int, sampling: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the body of a request."""
        return {
            "model": model,
            "messages": self.written(messages),
            self.max_tokens_name: max_tokens,
            **{name: value for name, value in sampling.items() if name not in self.omitted},
        }

    def written(self, messages: Sequence[Message]) -> list[Message]:
        """Return the conversation in the form that the endpoint accepts."""
        return _folded(messages) if self.fold_system and messages[0]["role"] == "system" else list(messages)

    def adapted(self, refused: RequestRefusedError, sampling: Mapping[str, Any]) -> Dialect | None:
        """Return the dialect to try after a refusal, or None if the refusal has another reason."""
        if refused.status not in (400, 422):
            return None
        message = str(refused)
        if not self.fold_system and _NO_SYSTEM.search(message):
            return replace(self, fold_system=True)
        named = [refused.param] if refused.param else re.findall(r"\w+", message)
        if self.max_tokens_name == "max_tokens" and "max_tokens" in named:
            return None if _TOO_LONG.search(message) else replace(self, max_tokens_name="max_completion_tokens")
        for name in sampling:
            if name in named and name not in self.omitted:
                return replace(self, omitted=self.omitted | {name})
        return None


def is_too_long(refused: RequestRefusedError) -> bool:
    """Return whether a request was refused for its length, which is unrelated to its other fields."""
    return _TOO_LONG.search(str(refused)) is not None


def _folded(messages: Sequence[Message]) -> list[Message]:
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A way to make a server reply with an integer in a range, and to check that it did."""

    name: str
    fields: Callable[[int, int], dict[str, Any]]
    """Returns fields to add to the request's body."""
    pattern: str
    """Pattern of a valid reply. The number is its only group."""

    def obeyed(self, reply: str, low: int, high: int) -> bool:
        """Return whether the reply is valid. Many servers ignore unknown fields and reply with status 200."""
        match = re.fullmatch(self.pattern, reply)
        return match is not None and low <= int(match[1]) <= high


def _regex_fields(low: int, high: int) -> dict[str, Any]:
    # Longest first, for engines that use the first matching alternative.
    numbers = "|".join(str(number) for number in range(high, low - 1, -1))
    # The fields of vLLM and of SGLang. Each ignores the other's.
    return {"structured_outputs": {"regex": f"({numbers})"}, "regex": f"({numbers})"}


def _schema_fields(low: int, high: int) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"score": {"type": "integer", "minimum": low, "maximum": high}},
        "required": ["score"],
        "additionalProperties": False,
    }
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "score", "strict": True, "schema": schema}}
    }


CONSTRAINTS: Final[tuple[Constraint, ...]] = (
    # vLLM and SGLang. Before the JSON Schema, which allows whitespace that small models repeat without end.
    Constraint("regex", _regex_fields, r"(-?\d{1,9})"),
    # OpenAI, Azure, llama.cpp, Ollama.
    Constraint("response_format.json_schema", _schema_fields, r'\s*\{\s*"score"\s*:\s*(-?\d{1,9})\s*\}\s*'),
)
"""Ways to constrain a reply, best first."""


class _Ask(Protocol):
    def __call__(self, *, fields: Mapping[str, Any]) -> Awaitable[dict[str, Any]]:
        """Send the request with these fields added to its body."""
        ...


class ConstrainedReplies:
    """Constrained replies of one endpoint."""

    def __init__(self) -> None:
        self._constraints: tuple[Constraint, ...] = CONSTRAINTS
        self._schemas_refused = 0
        self._took_a_schema = False

    async def number(self, ask: _Ask, low: int, high: int) -> Completion | None:
        """Return an integer in [low, high], or None if the endpoint obeys none of the constraints.

        Raises:
            JudgeError: If no reply is received.
        """
        for constraint in self._constraints if high - low < _MAX_VALUES else ():
            reply = await _unless_refused(ask, constraint.fields(low, high))
            if reply is not None:
                (completion, *_) = completions(reply)
                if completion.finish != "stop" or constraint.obeyed(completion.text, low, high):
                    return completion
            self._constraints = tuple(usable for usable in self._constraints if usable is not constraint)
        return None

    async def json(self, ask: _Ask, schema: Mapping[str, Any]) -> Completion | None:
        """Return JSON of a schema, or None if the endpoint refuses schemas. The caller must validate the reply.

        After the first accepted schema, each request has one. Before that, only a few do.

        Raises:
            JudgeError: If no reply is received.
        """
        if self._schemas_refused >= _REFUSALS and not self._took_a_schema:
            return None
        form = {"name": "reply", "strict": True, "schema": schema}
        reply = await _unless_refused(ask, {"response_format": {"type": "json_schema", "json_schema": form}})
        if reply is None:
            self._schemas_refused += 1
            return None
        self._took_a_schema = True
        (completion, *_) = completions(reply)
        return completion


async def _unless_refused(ask: _Ask, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return await ask(fields=fields)
    except RequestRefusedError as refused:
        if refused.status not in (400, 422) or is_too_long(refused):
            raise
        return None
