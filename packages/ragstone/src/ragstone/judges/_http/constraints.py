"""Constrained replies of an endpoint: an integer in a range, or JSON of a schema."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Mapping
from typing import Any, Final, Protocol

from ragstone.judges._http.dialect import is_too_long
from ragstone.judges._http.errors import RequestRefusedError
from ragstone.judges._http.replies import completions
from ragstone.judges._http.turns import FirstOfKind
from ragstone.judges._model import Completion

MAX_VALUES: Final = 1001
"""Maximum number of alternatives in a regular expression. Some servers refuse more."""
_REFUSALS: Final = 3
"""Refusals until schemas are given up. A single refusal may concern the text, as with content filters."""
_UNSENT: Final = frozenset({"minLength", "minItems", "pattern"})
"""Keywords that several servers refuse in strict schemas. The caller validates the reply, so they are never sent."""
_BOUNDS: Final = frozenset({"maxLength", "maxItems"})
"""Keywords that some servers refuse, and that end the replies of models that repeat themselves."""
_RANGES: Final = frozenset({"minimum", "maximum"})
"""Keywords that some servers refuse, and that let others return only valid numbers."""
_MOST_LISTED: Final = 12
"""Maximum number of integers in an enumeration."""
_LEVELS: Final = 3
_KEYWORD: Final = re.compile(r"\b(?:minimum|maximum|enum|maxItems|maxLength|invalid schema|grammar)\b", re.IGNORECASE)
"""What a server names if it refuses a part of a schema, instead of schemas in general."""
STYLES: Final[tuple[str, ...]] = ("json_schema", "json_object")
"""Forms in which schemas are sent, the usual one first. Only llama-cpp-python knows the second one."""
_SCHEMA: Final = re.compile("schema|maxItems|maxLength|grammar", re.IGNORECASE)
_NO_SCHEMAS: Final = re.compile(r"response[_ ]format|json_schema|structured output", re.IGNORECASE)

CONSTRAINTS: Final[Mapping[str, str]] = {
    # vLLM and SGLang. Before the JSON Schema, which allows whitespace that small models repeat without end.
    "regex": r"(-?\d{1,9})",
    # OpenAI, Azure, llama.cpp, Ollama.
    "json_schema": r'\s*\{\s*"score"\s*:\s*(-?\d{1,9})\s*\}\s*',
}
"""Ways to make a server reply with an integer, best first, and the pattern of a valid reply. Its group is the
number."""


def is_obeyed(constraint: str, reply: str, low: int, high: int) -> bool:
    """Return whether the reply is valid. Many servers ignore unknown fields and reply with status 200."""
    match = re.fullmatch(CONSTRAINTS[constraint], reply)
    return match is not None and low <= int(match[1]) <= high


def number_pattern(low: int, high: int) -> str:
    """Return a regular expression for the integers of a range."""
    # Longest first, for engines that use the first matching alternative.
    return f"({'|'.join(map(str, range(high, low - 1, -1)))})"


def _score_schema(low: int, high: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"score": {"type": "integer", "minimum": low, "maximum": high}},
        "required": ["score"],
        "additionalProperties": False,
    }


class _Ask(Protocol):
    def __call__(self, *, fields: Mapping[str, Any]) -> Awaitable[dict[str, Any]]:
        """Send the request with these fields added to its body."""


class ConstrainedReplies:
    """Constrained replies of one endpoint."""

    def __init__(self) -> None:
        self._constraints = tuple(CONSTRAINTS)
        self._first = FirstOfKind()
        self._styles = STYLES
        self._schemas_refused = 0
        self._took_a_schema = False
        self._takes_bounds: bool | None = None
        """Whether the endpoint accepted bounds on lengths, or only the same schema without them. None: unknown."""
        self._level = 0
        """Form of schemas that the endpoint accepts (see `_form`), as far as known."""

    async def number(self, ask: _Ask, low: int, high: int) -> Completion | None:
        """Return an integer in [low, high], or None if the endpoint obeys none of the constraints."""
        for constraint in self._constraints if high - low < MAX_VALUES else ():
            async with self._first.turn(constraint):
                if constraint not in self._constraints:
                    continue
                if constraint == "json_schema":
                    completion = await self.json(ask, _score_schema(low, high))
                else:
                    pattern = number_pattern(low, high)
                    # The fields of vLLM and of SGLang. Each ignores the other's.
                    reply = await _or_refusal(ask, {"structured_outputs": {"regex": pattern}, "regex": pattern})
                    completion = None if isinstance(reply, RequestRefusedError) else completions(reply)[0]
                self._first.settle(constraint)
            if completion and (completion.finish != "stop" or is_obeyed(constraint, completion.text, low, high)):
                return completion
            self._constraints = tuple(usable for usable in self._constraints if usable != constraint)
        return None

    async def json(self, ask: _Ask, schema: Mapping[str, Any]) -> Completion | None:
        """Return JSON of a schema, or None if the endpoint refuses schemas. The caller must validate the reply.

        The schema is sent with bounds on lengths, and after a refusal without them, with enumerations in place of
        ranges, or without both. After the first accepted schema, each request has one. Before that, only a few do,
        first in the usual style and then in that of llama-cpp-python, which counts if the reply has the keys of the schema.
        """
        plain = _form(schema, _LEVELS - 1, bounded=False)
        parts = (_form(schema, _LEVELS - 1) != plain, _form(schema, 0, bounded=False) != plain)
        # Until a schema was accepted, its form is not the question.
        async with self._first.turn("schemas"), self._first.turn(parts):
            while self._styles:
                completion = await self._in_style(ask, schema, parts)
                # A server that refuses the usual style may refuse one schema. It knows the other style, or it does not.
                limit = _REFUSALS if self._styles == STYLES else 1
                if completion is not None or self._took_a_schema or self._schemas_refused < limit:
                    return completion
                self._styles, self._schemas_refused = self._styles[1:], 0
            return None

    async def _in_style(self, ask: _Ask, schema: Mapping[str, Any], parts: tuple[bool, bool]) -> Completion | None:
        """Send the forms of a schema that may be accepted, until one is. Otherwise count the refusal."""
        has_bounds, has_ranges = parts
        tried: list[Any] = []
        levels = [(self._level, True)] if has_bounds and self._takes_bounds is not False else []
        for level, bounded in (*levels, *((level, False) for level in range(self._level, _LEVELS))):
            if (sent := _form(schema, level, bounded=bounded)) in tried:
                continue
            tried.append(sent)
            reply = await _or_refusal(ask, {"response_format": schema_format(self._styles[0], sent)})
            if not isinstance(reply, RequestRefusedError):
                (completion, *_) = completions(reply)
                if self._styles[0] == "json_object" and not self._took_a_schema and not _has_keys(completion, schema):
                    # The server ignored the schema, and would ignore others.
                    self._schemas_refused = _REFUSALS
                    break
                self._level = max(self._level, level) if has_ranges else self._level
                self._takes_bounds = bounded if has_bounds else self._takes_bounds
                self._took_a_schema = True
                self._first.settle("schemas")
                self._first.settle(parts)
                return completion
            is_general = reply.isolated or _NO_SCHEMAS.search(reply.text)
            if bounded and self._takes_bounds is None and (self._took_a_schema or not is_general):
                # A server may refuse bounds without naming them.
                continue
            if not _KEYWORD.search(reply.text):
                # No form of the schema would be accepted, and if the server says so, no other schema either.
                self._schemas_refused += _REFUSALS if is_general else 0
                break
        self._schemas_refused += 1
        return None


def schema_format(style: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `response_format` of a schema, in the form of OpenAI or of llama-cpp-python."""
    if style == "json_object":
        return {"type": style, "schema": schema}
    return {"type": style, style: {"name": "reply", "strict": True, "schema": schema}}


def _has_keys(completion: Completion, schema: Mapping[str, Any]) -> bool:
    """Return whether a reply has the keys of the schema, or was cut."""
    try:
        return completion.finish != "stop" or json.loads(completion.text).keys() == schema["properties"].keys()
    except (ValueError, AttributeError, KeyError):
        return False


def _form(schema: Any, level: int, *, bounded: bool = True, names: bool = False) -> Any:
    """Return a JSON Schema as it is sent. The keys of `properties` and `$defs` are names, not keywords.

    Level 0 sends ranges of numbers, 1 short ranges as enumerations, 2 neither. `names`: the keys of `schema` are names.
    """
    if isinstance(schema, list):
        return [_form(item, level, bounded=bounded) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    unsent = _UNSENT | (_RANGES if level else frozenset()) | (frozenset() if bounded else _BOUNDS)
    sent = {
        key: _form(value, level, bounded=bounded, names=not names and key in ("properties", "$defs"))
        for key, value in schema.items()
        if names or key not in unsent
    }
    low, high = schema.get("minimum"), schema.get("maximum")
    if level == 1 and not names and isinstance(low, int) and isinstance(high, int) and high - low < _MOST_LISTED:
        sent["enum"] = list(range(low, high + 1))
    return sent


async def _or_refusal(ask: _Ask, fields: Mapping[str, Any]) -> dict[str, Any] | RequestRefusedError:
    try:
        return await ask(fields=fields)
    except RequestRefusedError as refused:
        # A refused schema may contain the word "maximum", as messages about the length do.
        too_long = is_too_long(refused) and not _SCHEMA.search(refused.text)
        if not refused.isolated and (refused.status not in (400, 422) or too_long):
            raise
        return refused
