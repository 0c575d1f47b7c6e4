"""Constrained replies of an endpoint: an integer in a range, or JSON of a schema."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ragstone.judges._http.dialect import is_too_long
from ragstone.judges._http.endpoint import RequestRefusedError
from ragstone.judges._http.replies import completions
from ragstone.judges._http.turns import FirstOfKind
from ragstone.judges._model import Completion

__all__ = ["CONSTRAINTS", "ConstrainedReplies", "Constraint"]

_MAX_VALUES: Final = 1001
"""Maximum number of alternatives in a regular expression. Some servers refuse more."""
_REFUSALS: Final = 3
"""Refusals until schemas are given up. A single refusal may concern the text, as with content filters."""
_LENGTHS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems", "pattern"})
"""Keywords that several servers refuse in strict schemas. The caller validates the reply, so they are never sent."""
_RANGES: Final = frozenset({"minimum", "maximum"})
"""Keywords that some servers refuse, and that let others return only valid numbers."""


_SCORE: Final = r'\s*\{\s*"score"\s*:\s*(-?\d{1,9})\s*\}\s*'


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
    return _score_fields({"type": "integer", "minimum": low, "maximum": high})


def _plain_schema_fields(low: int, high: int) -> dict[str, Any]:
    del low, high
    return _score_fields({"type": "integer"})


def _score_fields(score: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"score": score},
        "required": ["score"],
        "additionalProperties": False,
    }
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "score", "strict": True, "schema": schema}}
    }


# vLLM and SGLang. Before the JSON Schema, which allows whitespace that small models repeat without end.
_REGEX: Final = Constraint("regex", _regex_fields, r"(-?\d{1,9})")
# OpenAI, Azure, llama.cpp, Ollama.
_SCHEMA: Final = Constraint("response_format.json_schema", _schema_fields, _SCORE)
# Servers that refuse ranges in strict schemas.
_PLAIN_SCHEMA: Final = Constraint("response_format.json_schema without a range", _plain_schema_fields, _SCORE)

CONSTRAINTS: Final[tuple[Constraint, ...]] = (_REGEX, _SCHEMA, _PLAIN_SCHEMA)
"""Ways to constrain a reply, best first."""


class _Ask(Protocol):
    def __call__(self, *, fields: Mapping[str, Any]) -> Awaitable[dict[str, Any]]:
        """Send the request with these fields added to its body."""
        ...


class ConstrainedReplies:
    """Constrained replies of one endpoint."""

    def __init__(self) -> None:
        self._constraints: tuple[Constraint, ...] = CONSTRAINTS
        self._first = FirstOfKind()
        self._schemas_refused = 0
        self._took_a_schema = False
        self._without: frozenset[str] = _LENGTHS

    async def number(self, ask: _Ask, low: int, high: int) -> Completion | None:
        """Return an integer in [low, high], or None if the endpoint obeys none of the constraints.

        Raises:
            JudgeError: If no reply is received.
        """
        for constraint in self._constraints if high - low < _MAX_VALUES else ():
            async with self._first.turn(constraint.name):
                if constraint not in self._constraints:
                    continue
                reply = await _unless_refused(ask, constraint.fields(low, high))
                self._first.settle(constraint.name)
            unusable = [constraint]
            if reply is not None:
                (completion, *_) = completions(reply)
                if completion.finish != "stop" or constraint.obeyed(completion.text, low, high):
                    return completion
                if constraint is _SCHEMA:
                    # Ignored, so that the schema without a range would be ignored as well.
                    unusable.append(_PLAIN_SCHEMA)
            self._constraints = tuple(usable for usable in self._constraints if usable not in unusable)
        return None

    async def json(self, ask: _Ask, schema: Mapping[str, Any]) -> Completion | None:
        """Return JSON of a schema, or None if the endpoint refuses schemas. The caller must validate the reply.

        The schema is sent without limits on lengths, and after a refusal also without ranges of numbers. After the
        first accepted schema, each request has one. Before that, only a few do.

        Raises:
            JudgeError: If no reply is received.
        """
        async with self._first.turn("json"):
            if self._schemas_refused >= _REFUSALS and not self._took_a_schema:
                return None
            for without, sent in self._forms(schema):
                form = {"name": "reply", "strict": True, "schema": sent}
                reply = await _unless_refused(ask, {"response_format": {"type": "json_schema", "json_schema": form}})
                if reply is not None:
                    self._without = without
                    self._took_a_schema = True
                    self._first.settle("json")
                    (completion, *_) = completions(reply)
                    return completion
            self._schemas_refused += 1
            return None

    def _forms(self, schema: Mapping[str, Any]) -> Iterator[tuple[frozenset[str], Any]]:
        """Yield the forms of a schema to try, and the keywords that each of them omits."""
        sent = _reduced(schema, self._without)
        yield self._without, sent
        bare = _reduced(schema, _LENGTHS | _RANGES)
        if bare != sent:
            yield _LENGTHS | _RANGES, bare


def _reduced(schema: Any, without: frozenset[str], *, names: bool = False) -> Any:
    """Return a JSON Schema without some keywords. The keys of `properties` and `$defs` are names, not keywords."""
    if isinstance(schema, list):
        return [_reduced(item, without) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: _reduced(value, without, names=not names and key in ("properties", "$defs"))
        for key, value in schema.items()
        if names or key not in without
    }


async def _unless_refused(ask: _Ask, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return await ask(fields=fields)
    except RequestRefusedError as refused:
        if refused.status not in (400, 422) or is_too_long(refused):
            raise
        return None
