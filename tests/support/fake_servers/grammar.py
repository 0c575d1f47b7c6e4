"""The texts that a constraint allows, listed: regular expressions and JSON Schemas with few answers."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["allowed_texts"]

_MOST: Final = 20_000
_CLASSES: Final = {"d": tuple("0123456789"), "s": (" ",), "w": tuple("abcxyz019")}


def allowed_texts(fields: Mapping[str, Any]) -> list[str]:
    """All texts that the constraint in a request's fields allows (shortest forms where there is no end of them).

    Raises:
        ValueError: It cannot be read.
    """
    if "regex" in fields:
        return regex_texts(str(fields["regex"]))
    if "choice" in fields:
        return [str(choice) for choice in fields["choice"]]
    if "json" in fields:
        return [json.dumps(value) for value in _values(fields["json"])]
    raise ValueError(f"no known constraint among {sorted(fields)}")


def _values(schema: Mapping[str, Any]) -> list[Any]:
    if "enum" in schema:
        return list(schema["enum"])
    if "const" in schema:
        return [schema["const"]]
    match schema.get("type"):
        case "integer":
            return list(range(schema.get("minimum", 0), schema.get("maximum", 9) + 1))
        case "boolean":
            return [False, True]
        case "number":
            return [schema.get("minimum", 0)]
        case "array":
            return [[]]
        case "object":
            names = list(schema.get("properties", {}))
            rows = itertools.product(*(_values(schema["properties"][name]) for name in names))
            return [dict(zip(names, row, strict=True)) for row in itertools.islice(rows, _MOST)]
        case _:
            return [""]


def regex_texts(pattern: str) -> list[str]:
    """The texts that match: literals, groups, alternatives, classes, counts; unbounded counts stand at their least.

    Raises:
        ValueError: Something else is in it.
    """
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    texts, rest = _alternatives(pattern)
    if rest:
        raise ValueError(f"cannot list what {pattern!r} matches, from {rest!r} on")
    return list(dict.fromkeys(texts))


def _alternatives(text: str) -> tuple[list[str], str]:
    found, text = _sequence(text)
    while text.startswith("|"):
        more, text = _sequence(text[1:])
        found = found + more
    return found, text


def _sequence(text: str) -> tuple[list[str], str]:
    found = [""]
    while text and text[0] not in "|)":
        atom, text = _atom(text)
        low, high, text = _count(text)
        repeated = ["".join(parts) for times in range(low, high + 1) for parts in itertools.product(atom, repeat=times)]
        found = [head + tail for head, tail in itertools.islice(itertools.product(found, repeated), _MOST)]
    return found, text


def _atom(text: str) -> tuple[list[str], str]:
    if text[0] == "(":
        found, rest = _alternatives(text[1:].removeprefix("?:"))
        return found, rest[1:]
    if text[0] == "[":
        end = text.index("]", 2)
        return _class(text[1:end]), text[end + 1 :]
    if text[0] == "\\":
        return list(_CLASSES.get(text[1], (text[1],))), text[2:]
    if text[0] == ".":
        return ["x"], text[1:]
    return [text[0]], text[1:]


def _class(inside: str) -> list[str]:
    found: list[str] = []
    for match in re.finditer(r"\\(.)|(.)-(.)|(.)", inside):
        escaped, first, last, plain = match.groups()
        if escaped:
            found += _CLASSES.get(escaped, (escaped,))
        elif first:
            found += map(chr, range(ord(first), ord(last) + 1))
        else:
            found.append(plain)
    return found


def _count(text: str) -> tuple[int, int, str]:
    match = re.match(r"\{(\d+)(?:,(\d*))?\}", text)
    if match:
        low = int(match[1])
        return low, int(match[2]) if match[2] else low, text[match.end() :]
    for sign, low, high in (("?", 0, 1), ("*", 0, 0), ("+", 1, 1)):
        if text.startswith(sign):
            return low, high, text[1:]
    return 1, 1, text
