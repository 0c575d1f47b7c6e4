"""What one endpoint accepts: learnt from its refusals, remembered, never guessed from its name."""

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

# A prompt that is too long names max_tokens as well, and changing the parameter's name does not make it shorter.
_TOO_LONG: Final = re.compile(r"context length|context window|too large|too long|maximum|max_model_len", re.IGNORECASE)
_NO_SYSTEM: Final = re.compile(r"system (?:role|message|prompt)s?\b.*\bnot\b.*\bsupport", re.IGNORECASE | re.DOTALL)
_MAX_VALUES: Final = 1001
"""A regular expression that lists more numbers than this is refused by some servers."""
_REFUSALS: Final = 3
"""A single refusal may be about the material, as content filters are; a server that refused so many takes no schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a chat request has to be written for an endpoint."""

    max_tokens_name: str = "max_tokens"
    omitted: frozenset[str] = frozenset()
    """Sampling parameters the endpoint refuses."""
    fold_system: bool = False
    """Whether the system message has to go into the first user message."""

    def body(
        self, *, model: str, messages: Sequence[Message], max_tokens: int, sampling: dict[str, Any]
    ) -> dict[str, Any]:
        """Write the request's body."""
        return {
            "model": model,
            "messages": self.written(messages),
            self.max_tokens_name: max_tokens,
            **{name: value for name, value in sampling.items() if name not in self.omitted},
        }

    def written(self, messages: Sequence[Message]) -> list[Message]:
        """The conversation as the endpoint takes it."""
        return _folded(messages) if self.fold_system and messages[0]["role"] == "system" else list(messages)

    def adapted(self, refused: RequestRefusedError, sampling: Mapping[str, Any]) -> Dialect | None:
        """The dialect to try after a refusal; None when the refusal is about something else."""
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
    """Whether a request was refused for its length, which says nothing about its other fields."""
    return _TOO_LONG.search(str(refused)) is not None


def _folded(messages: Sequence[Message]) -> list[Message]:
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A way to make a server reply with a whole number of a range, and to see whether it really did."""

    name: str
    fields: Callable[[int, int], dict[str, Any]]
    """Fields to add to the request's body."""
    pattern: str
    """What a reply that obeys looks like; the number is its only group."""

    def obeyed(self, reply: str, low: int, high: int) -> bool:
        """Whether the reply has the demanded form: many servers ignore fields they do not know, with status 200."""
        match = re.fullmatch(self.pattern, reply)
        return match is not None and low <= int(match[1]) <= high


def _regex_fields(low: int, high: int) -> dict[str, Any]:
    # Longest first, for engines that take the first alternative.
    numbers = "|".join(str(number) for number in range(high, low - 1, -1))
    # The field of vLLM and the field of SGLang; either passes over the other's.
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
    # vLLM and SGLang. Before the JSON Schema, because a schema leaves white space free and small models fill the reply with it.
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
    """What one endpoint can be made to reply."""

    def __init__(self) -> None:
        self._constraints: tuple[Constraint, ...] = CONSTRAINTS
        self._schemas_refused = 0
        self._took_a_schema = False

    async def number(self, ask: _Ask, low: int, high: int) -> Completion | None:
        """A whole number in [low, high]; None where no constraint that the endpoint obeys is left.

        Raises:
            JudgeError: No reply.
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
        """JSON of a schema; None where the endpoint refuses it. Whether it obeyed, the reader of the reply sees.

        An endpoint that took a schema once is offered one with each question; one that never did, a few times.

        Raises:
            JudgeError: No reply.
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
