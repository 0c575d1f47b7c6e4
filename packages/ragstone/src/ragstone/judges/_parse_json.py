"""From a judge's reply to a value of a given shape, or to an error: a reply of another shape is never mended."""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragstone.errors import JudgeReplyError
from ragstone.judges._reasoning import after_reasoning

__all__ = ["json_request", "json_schema_of", "parse_json"]

T = TypeVar("T")

_FENCED: Final = re.compile(r"```[a-z]*\s*(.*?)\s*```", re.DOTALL | re.IGNORECASE)
_DECODER: Final = json.JSONDecoder()


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

    Raises:
        JudgeReplyError: Kind "unparseable": no JSON, several different values, or a value of another shape. `raw` is
            the reply.

    Example:
        >>> parse_json('Here it is: {"n": 3}', TypeAdapter(dict[str, int]))
        {'n': 3}
    """
    rest = after_reasoning(text)
    found = [] if rest is None else _values(rest)
    if not found:
        msg = f"the reply holds no JSON: {_short(text)!r}"
        raise JudgeReplyError(msg, raw=text)
    if any(value != found[0] for value in found[1:]):
        msg = f"the reply holds {len(found)} JSON values where one was asked for: {_short(text)!r}"
        raise JudgeReplyError(msg, raw=text)
    try:
        return shape.validate_python(found[0])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        msg = f"the reply has another shape than was asked for ({place}: {first['msg']}): {_short(text)!r}"
        raise JudgeReplyError(msg, raw=text) from None
    except RecursionError:
        msg = f"the reply is nested too deeply: {_short(text)!r}"
        raise JudgeReplyError(msg, raw=text) from None


def _values(text: str) -> list[Any]:
    """The objects and lists in a text, each read where it begins; what is inside one is a part of it."""
    if fenced := _FENCED.findall(text):
        text = "\n".join(fenced)
    found: list[Any] = []
    at = 0
    while (start := _next_opening(text, at)) is not None:
        try:
            value, at = _DECODER.raw_decode(text, start)
        except ValueError:
            # A broken object may hold sound ones, and they are not what was meant; a bracket may be a part of a sentence.
            if text[start] == "{":
                return []
            at = start + 1
            continue
        except RecursionError:
            return []
        found.append(value)
    return found


def _next_opening(text: str, at: int) -> int | None:
    places = [place for mark in "{[" if (place := text.find(mark, at)) >= 0]
    return min(places) if places else None


def _short(text: str, max_chars: int = 200) -> str:
    text = text.strip()
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
