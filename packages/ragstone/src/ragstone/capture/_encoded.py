r"""Redaction of JSON: values, texts that are JSON, and strings of JSON within other text.

In an encoded text, the letter of an escape stands directly before what follows it, as in `"\nsk-..."`. So the strings
are decoded before they are redacted, and encoded again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ragstone._util.unicode import replace_surrogates

Redactor = Callable[[str], str]
"""A function that returns a text without what must not be stored. The writer's thread calls it for each text."""

_START: Final = re.compile(r'[ \t\n\r]*+[{\["]')
_TOKEN: Final = re.compile(
    r'"(?:[^"\\]++|\\.)*+(?:"([ \t\n\r]*+:)?|\\?\Z)|[{}]|(?<![0-9.eE+-])-?[0-9]{13}[0-9.eE+-]*+', re.DOTALL
)
"""A string, with its colon if it is a key, an end of an object, or a number that is long enough for a card."""
_LONG_NUMBER: Final = re.compile(r"-?[0-9]{13}[0-9.eE+-]*+")
_STRING: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)("|\\?\Z)', re.DOTALL)
"""A string of JSON within other text. The last one may be cut."""
_CUT_ESCAPE: Final = re.compile(r"\\u[0-9A-Fa-f]{0,3}\Z")
_MAX_VALUES: Final = 250_000
"""Values of a JSON text that are parsed. A larger one takes much memory, and is redacted as text that contains JSON."""
# Values of numbers are not needed, and integers of many digits take quadratic time.
_DECODER: Final = json.JSONDecoder(strict=False, parse_int=len, parse_float=len)


def redact_encoded(text: str, redact: Redactor, *, also_whole: bool = False) -> str:
    """Return a text redacted, also in what is encoded in it.

    - Of a JSON text, each string is decoded, redacted and encoded, also if it is a JSON text itself. Numbers of 13
      digits or more are redacted, and become strings if that changes them. All else stays as it is written.
    - Of another text, its JSON strings with escapes are redacted in the same way, then the text as a whole.

    `also_whole` applies `redact` to a whole JSON text too, because it may know a secret by the JSON around it.
    """
    inner = partial(redact_encoded, redact=redact, also_whole=also_whole)
    if _START.match(text) and _is_json(text):
        text = _JsonText(text, inner).redacted()
        return redact(text) if also_whole else text
    if "\\" in text and '"' in text:
        text = _STRING.sub(partial(_redact_string, redact=inner, is_ascii=text.isascii()), text)
    return redact(text)


def redact_json(value: Any, redact: Redactor, *, key: str = "") -> Any:
    """Return a JSON value with its texts, long numbers and keys redacted. Different keys stay different."""
    if isinstance(value, str):
        return _redact_member(key, value, redact)
    if isinstance(value, dict):
        names = _Names()
        return {
            names.unique(name, redact(name)) if isinstance(name, str) else name: redact_json(
                item, redact, key=name if isinstance(name, str) else ""
            )
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_json(item, redact, key=key) for item in value]
    if isinstance(value, int | float) and _LONG_NUMBER.fullmatch(number := repr(value)):
        redacted = redact(number)
        return value if redacted == number else redacted
    return value


def _redact_member(key: str, value: str, redact: Redactor) -> str:
    """Return the redacted value of a member. Credentials of HTTP are only recognized after the name of their header."""
    if key.lower().endswith(("authorization", "api-key")) and not value.lstrip().startswith(("{", "[")):
        prefix = f"{key[-13:]}: "
        redacted = redact(prefix + value)
        if redacted.startswith(prefix):
            return redacted[len(prefix) :]
    return redact(value)


class _Names:
    """The keys of one object. A number is appended to a redacted key that another one has become already."""

    __slots__ = ("_names", "_numbers", "_taken")

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._taken: set[str] = set()

    def unique(self, key: str, redacted: str) -> str:
        """Return the name of a key. The same key always has the same name."""
        name = self._names.get(key)
        if name is None:
            name = redacted
            while name in self._taken:
                self._numbers[redacted] = number = self._numbers.get(redacted, 1) + 1
                name = f"{redacted} #{number}"
            self._names[key] = name
            self._taken.add(name)
        return name


class _JsonText:
    """A valid JSON text, and the place in it up to which it is redacted."""

    def __init__(self, text: str, redact: Redactor) -> None:
        self._text = text
        self._is_ascii = text.isascii()
        self._redact = redact
        self._names = _Names()
        self._key = ""
        self._outer: list[tuple[_Names, str]] = []

    def redacted(self) -> str:
        return _TOKEN.sub(self._token, self._text)

    def _token(self, match: re.Match[str]) -> str:
        part, colon = match[0], match[1]
        if part == "{":
            self._outer.append((self._names, self._key))
            self._names, self._key = _Names(), ""
            return part
        if part == "}":
            self._names, self._key = self._outer.pop()
            return part
        if part[0] != '"':
            redacted = self._redact(part)
            return part if redacted == part else self._encoded(redacted)
        text = _decoded(part if colon is None else part[: -len(colon)])
        if colon is None:
            redacted = _redact_member(self._key, text, self._redact)
        else:
            self._key, redacted = text, self._names.unique(text, self._redact(text))
        return part if redacted == text else self._encoded(redacted) + (colon or "")

    def _encoded(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self._is_ascii)


def _is_json(text: str) -> bool:
    if sum(map(text.count, "[{,")) > _MAX_VALUES:
        return False
    try:
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _decoded(string: str) -> str:
    return replace_surrogates(str(_DECODER.decode(string))) if "\\" in string else string[1:-1]


def _redact_string(match: re.Match[str], *, redact: Redactor, is_ascii: bool) -> str:
    """Return a JSON string within other text redacted, or unchanged if it does not have escapes or is not valid."""
    content, end = match.groups()
    if "\\" not in content:
        return match[0]
    if end != '"':
        content = _CUT_ESCAPE.sub("", content)
    try:
        text = _decoded(f'"{content}"')
    except ValueError:
        return match[0]
    redacted = redact(text)
    return match[0] if redacted == text else json.dumps(redacted, ensure_ascii=is_ascii)[:-1] + end
