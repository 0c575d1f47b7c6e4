"""From a judge's reply to a value of a given shape, or to an error: a reply of another shape is never mended."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragstone.errors import JudgeReplyError
from ragstone.judges._reasoning import after_reasoning

__all__ = ["json_request", "json_schema_of", "parse_json"]

T = TypeVar("T")

_FENCE: Final = re.compile("[ \\t]*```[a-zA-Z]*")
_OPENING: Final = re.compile(r"[\[{]")


def json_schema_of(shape: TypeAdapter[Any]) -> dict[str, Any]:
    """The shape as JSON Schema, without the titles that pydantic adds."""
    schema: dict[str, Any] = _untitled(shape.json_schema())
    return schema


def _untitled(value: Any) -> Any:
    if isinstance(value, dict):
        # A property may be called "title": that one has a schema, the others a text.
        return {k: _untitled(v) for k, v in value.items() if not (k == "title" and isinstance(v, str))}
    return [_untitled(item) for item in value] if isinstance(value, list) else value


def json_request(schema: dict[str, Any]) -> str:
    """Say what kind of reply is wanted: JSON of the schema."""
    form = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return f"Reply with one JSON value and nothing else. It must follow this JSON Schema:\n{form}"


def parse_json(text: str, shape: TypeAdapter[T]) -> T:
    """Read the one JSON value that a reply states, inside or outside a code fence, after any reasoning.

    Strictly: a number in quotes is no number, true is not 1, and names that come twice, NaN and Infinity are no JSON. Of
    several values the one that has the shape counts; two different ones that have it are none.

    Raises:
        JudgeReplyError: Kind "unparseable": no JSON, several different values, or a value of another shape. `raw` is
            the reply.

    Example:
        >>> parse_json('Here it is: {"n": 3}', TypeAdapter(dict[str, int]))
        {'n': 3}
    """
    try:
        return _parsed(text, shape)
    except RecursionError:
        raise JudgeReplyError(f"the reply is nested too deeply: {_short(text)!r}", raw=text) from None


def _parsed(text: str, shape: TypeAdapter[T]) -> T:
    stated = _whole(text)
    if not stated and (rest := after_reasoning(text)) is not None:
        stated = _values(rest)
    if not stated:
        raise JudgeReplyError(f"the reply holds no JSON, or none that can be read: {_short(text)!r}", raw=text)
    fit: list[T] = []
    problems: list[str] = []
    for value in stated:
        try:
            # As JSON once more: there a list may become a tuple, and a lone surrogate is refused.
            fit.append(shape.validate_json(json.dumps(value), strict=True))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            problems.append(f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}")
    if not fit:
        raise JudgeReplyError(
            f"the reply has another shape than was asked for ({problems[0]}): {_short(text)!r}", raw=text
        )
    if any(value != fit[0] for value in fit[1:]):
        raise JudgeReplyError(
            f"the reply holds {len(fit)} values of the shape where one was asked for: {_short(text)!r}", raw=text
        )
    return fit[0]


def _whole(text: str) -> list[Any]:
    """The value, if the reply is nothing else: then a tag in one of its texts ends no reasoning."""
    text = text.strip()
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return []
    return [value] if end == len(text) and isinstance(value, dict | list) else []


def _values(text: str) -> list[Any]:
    """The objects and lists in a text, each read where it begins; what is inside one is a part of it."""
    text = _fenced(text) or text
    found: list[Any] = []
    at = 0
    while opening := _OPENING.search(text, at):
        try:
            value, at = _DECODER.raw_decode(text, opening.start())
        except ValueError:
            # A broken object may hold sound ones, and they are not what was meant; a bracket may be a part of a sentence.
            if opening.group() == "{":
                return []
            at = opening.end()
            continue
        found.append(value)
    return found


def _fenced(text: str) -> str:
    """What stands between code fences, each from the start of one line to the end of another (or of the same).

    A text in a value holds no line break, so marks in these places are no part of one.
    """
    inside: list[str] = []
    kept: list[str] = []
    is_open = False
    for line in text.split("\n"):
        rest = line
        if not is_open:
            fence = _FENCE.match(line)
            if fence is None:
                continue
            is_open, rest = True, line[fence.end() :]
        inside.append(rest.rstrip().removesuffix("```"))
        if rest.rstrip().endswith("```"):
            kept += inside
            inside, is_open = [], False
    return "\n".join(kept)


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError("a name comes twice")
    return named


def _finite(text: str) -> float:
    """Refuses what Python's reader adds to JSON, and numbers beyond what a float holds."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number of JSON")
    return value


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_named_once, parse_constant=_finite, parse_float=_finite)


def _short(text: str, max_chars: int = 200) -> str:
    text = text.strip()
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
