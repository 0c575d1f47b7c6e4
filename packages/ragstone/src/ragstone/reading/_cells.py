"""Lists in the cells of tables, as JSON, Python, NumPy, pandas and LangChain write them."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any, Final

from ragstone._util.unicode import replace_surrogates_in
from ragstone.errors import DataError

MISSING_TEXTS: Final = frozenset({
    "nan", "NaN", "Nan", "-nan", "NaT", "None", "null", "NULL", "NA", "N/A", "n/a", "N.A.",
    "n.a.", "s/d", "k.A.", "<NA>", "<null>", "(null)", "(blank)", "\\N", "-", "--", "---", "\N{EN DASH}", "—",
    "#N/A", "#NA", "#NV", "#N/D", "#REF!", "#BEZUG!", "#¡REF!", "#VALUE!", "#WERT!", "#¡VALOR!", "#VALEUR!",
    "#NAME?", "#¿NOMBRE?", "#NOM?", "#NOMBRE!", "#DIV/0!", "#¡DIV/0!", "#NULL!", "#NUM!", "#¡NUM!", "#ZAHL!",
    "#SPILL!", "#CALC!", "#ERROR!", "k. A.", "NONE", "TBD", "tbd", "t.b.d.", "TBA", "TODO", "?", "??", "???", "...",
    "\N{HORIZONTAL ELLIPSIS}",
})  # fmt: skip
"""Texts that tools and people write for a missing value, and spreadsheets for one that they could not compute."""

_MAX_DEPTH: Final = 50
_OPENERS: Final = {"[": "]", "(": ")", "{": "}"}
_CALLS: Final = r"(?:array|ndarray|Index|Series|deque|dict_values|list|tuple)"
_BEGINS: Final = re.compile(
    rf"""\s*+(?:{_CALLS}\(\s*+[\[(]|c\(\s*+['"]|(?:WrappedArray|ArrayBuffer|ArraySeq)\(|“[^”]*+”\s*+,\s*+“|page_content=['"]|"[\[{{]\\"|Document\(\w++=|(?:[\[(]\s*+)++(?:['"{{]|Document\(|{_CALLS}\(|$|[\])]\s*+$)|\{{\s*+(?:['"]|\}}\s*+$)|\[\s*+\[\s*+[\d.]++\s*+,\s*+['"])"""
)
"""A bracket with a quote, an object or nothing in it, or the call of a constructor with a list."""
_TYPOGRAPHIC: Final = (
    "\N{LEFT DOUBLE QUOTATION MARK}", "\N{LEFT SINGLE QUOTATION MARK}", "\N{DOUBLE LOW-9 QUOTATION MARK}", "«",
)  # fmt: skip
_SPACE: Final = re.compile(r"\s*+")
_STRING: Final = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\"""", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?+(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?+\d++)?+(?![\w.])")
_WORD: Final = re.compile(r"[A-Za-z_]\w*+")
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES: Final = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
"""Escapes that both Python's `repr` and JSON write. `\\b` would be a backspace in one text and LaTeX in another."""
_WORDS: Final = {
    "None": None, "null": None, "nan": None, "NaN": None, "True": True, "true": True, "False": False, "false": False,
}  # fmt: skip
_ARGUMENTS: Final = {**_WORDS, "object": "object", "str": "str"}
"""The same in a call, with the names of types (`dtype=object`), which are not needed."""
_SERIES: Final = re.compile(r"(?:Name: [^\n]{0,1000}, )?(?:Length: \d{1,20}, )?dtype: [\w\[\], .-]{1,100}\s{0,100}$")


class CellError(DataError):
    """A text that begins like a list and cannot be read as one."""


def begins_like_list(text: str) -> bool:
    """Return whether a text claims to be a list or an object, by its beginning, or by brackets around all of it.

    Prose may begin with a bracket: `[1] see the appendix` and `(Paris) is a city` close it before the end, and no quote
    opens directly after it.

    Examples:
        >>> begins_like_list("['a','b']"), begins_like_list("[1, 2]"), begins_like_list("[1] see the appendix")
        (True, True, False)
    """
    if _BEGINS.match(text) is not None or _is_series(text):
        return True
    stripped = text.strip()
    # "[see the appendix]" and "[see the appendix" are whole or cut lists. "[1] and [2]" is prose: the first bracket closes.
    return stripped.startswith("[") and stripped.find("]") in (-1, len(stripped) - 1)


def _is_series(text: str) -> bool:
    """Return whether a text ends like a printed pandas Series."""
    end = text[-1300:]
    return "dtype: " in end and _SERIES.search(end) is not None


def parse_cell(text: str) -> list[Any]:
    """Return the items of a list in a cell. An object is the only item.

    The text is read once, so that the time is linear in its length.

    Examples:
        >>> parse_cell("['a','b',]"), parse_cell("[Document(page_content='a')]")
        (['a', 'b'], [{'page_content': 'a'}])
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise CellError(_message(text, f"it is nested more than {_MAX_DEPTH} times")) from None
    except ValueError:
        value = _python_list(text)
        if value is None:
            value = _Reader(text).whole()
    if "\\" in text or not text.isascii():  # otherwise it is without surrogates
        value = replace_surrogates_in(value)
    if isinstance(value, str) and begins_like_list(value):  # a list that was encoded twice
        return parse_cell(value)
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise CellError(_message(text, "it is one value in brackets"))
    return value


def _python_list(text: str) -> list[Any] | None:
    """Return a list exactly as Python writes it, or None. Python's parser is faster than ours."""
    text = text.strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # a text's backslashes are its own
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, list) and repr(value) == text else None


def _message(text: str, problem: str) -> str:
    shown = text if len(text) <= 60 else f"{text[:60]}…"
    return (
        f"the cell begins like a list and cannot be read as one: {problem}: {shown!r}. Write lists with json.dumps, "
        "or as a JSONL file"
    )


class _Reader:
    """Reads one value, from the first character to the last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Any:
        if _is_series(self._text) and not self._text.lstrip().startswith("["):
            raise self._error("a printed pandas Series shortens its texts")
        self._blank()
        if self._text.startswith("page_content=", self._at):
            value: Any = self._entries("", 1, sign="=", between=" ")[1]
        else:
            value = self._value(0)
        self._blank()
        if self._at < len(self._text):
            raise self._error(f"text follows after character {self._at}")
        return value

    def _error(self, problem: str) -> CellError:
        return CellError(_message(self._text, problem))

    def _blank(self) -> bool:
        """Skip whitespace, and return whether there was any."""
        start = self._at
        found = _SPACE.match(self._text, start)
        self._at = start if found is None else found.end()
        return self._at > start

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if found is None:
            raise self._error(f"the quote at character {self._at + 1} is not closed")
        self._at = found.end()
        body = found[0][1:-1]
        return _ESCAPE.sub(self._character, body) if "\\" in body else body

    def _character(self, found: re.Match[str]) -> str:
        escape = found[1]
        if len(escape) > 1:
            code = int(escape[1:], 16)
            if code > 0x10FFFF:
                raise self._error(f"the escape \\{escape} is not a character")
            return chr(code)
        if escape not in _ESCAPES:
            raise self._error(f"the escape \\{escape} has more than one meaning")
        return _ESCAPES[escape]

    def _take(self, sign: str) -> bool:
        """Skip a sign, and return whether it was there."""
        is_there = self._text.startswith(sign, self._at)
        self._at += len(sign) * is_there
        return is_there

    def _ends(self, closer: str) -> bool:
        return self._text.startswith(closer, self._at) if closer else self._at == len(self._text)

    def _value(self, depth: int, words: Mapping[str, Any] = _WORDS) -> Any:
        if depth > _MAX_DEPTH:
            raise self._error(f"it is nested more than {_MAX_DEPTH} times")
        char = self._text[self._at : self._at + 1]
        if char in ("'", '"'):
            return self._string()
        if char in _OPENERS:
            self._at += 1
            if char == "{":
                return self._entries("}", depth, sign=":", between=",")[1]
            values, _, used = self._entries(_OPENERS[char], depth)
            if char == "[" or "," in used or not values:
                return values
            if len(values) > 1:
                raise self._error("texts in parentheses without a comma")
            return values[0]
        if self._text.startswith("...", self._at):
            raise self._error("items are omitted (...)")
        if (number := _NUMBER.match(self._text, self._at)) is not None:
            self._at = number.end()
            return float(number[0]) if set(number[0]) & set(".eE") or len(number[0]) > 300 else int(number[0])
        word = _WORD.match(self._text, self._at)
        if word is None:
            if char in _TYPOGRAPHIC:
                raise self._error(f'replace the quote {char} at character {self._at + 1} with a straight one (")')
            raise self._error(f"no value at character {self._at + 1}" if char else "it does not end")
        self._at = word.end()
        if word[0] == "c" and self._take("("):  # of R
            return self._entries(")", depth)[0]
        if self._take("("):
            values, fields, _ = self._entries(")", depth, sign="=", between=",")
            if values and not isinstance(values[0], list):
                raise self._error("a call of something that is not a list")
            return values[0] if values else fields
        if word[0] not in words:
            raise self._error(f"{word[0][:30]!r} is not in quotes")
        return words[word[0]]

    def _entries(
        self, closer: str, depth: int, *, sign: str = "", between: str = ", "
    ) -> tuple[list[Any], dict[Any, Any], set[str]]:
        """Read values, or names and values with a sign between them, until a closing sign, or until the end for "".

        All entries are separated by commas or by blanks alone, as NumPy does, if `between` has both.
        """
        values: list[Any] = []
        fields: dict[Any, Any] = {}
        used: set[str] = set()
        self._blank()
        while not self._ends(closer):
            name = _WORD.match(self._text, self._at) if sign == "=" else None
            if name is not None and self._text.startswith("=", name.end()):
                self._at = name.end() + 1
                fields[name[0]] = self._value(depth + 1, _ARGUMENTS)
            elif sign == "=" and (values or fields):
                raise self._error(f"no name of a field at character {self._at + 1}")
            else:
                values.append(self._value(depth + 1))
            has_blank = self._blank()
            if sign == ":":
                if not self._take(":"):
                    raise self._error("no colon after a name" if fields else "a set is unordered")
                if not isinstance(key := values.pop(), str | int | float | None):
                    raise self._error("the name of a field is a list")
                self._blank()
                fields[key] = self._value(depth + 1)
                has_blank = self._blank()
            if "," in between and self._take(","):
                self._blank()
                used.add(",")
            elif not self._ends(closer):
                if self._at == len(self._text):
                    raise self._error("it does not end")
                if not has_blank or " " not in between:
                    shown = {",": "comma", " ": "blank"}.get(between, "comma or blank")
                    raise self._error(f"no {shown} after character {self._at}")
                used.add(" ")
            if len(used) > 1:
                raise self._error("some items are separated by commas and others are not")
        self._at += len(closer)
        return values, fields, used
