"""What the values of the first rows show: which fields a column cannot be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.reading._cells import MISSING_TEXTS, begins_like_list, parse_cell
from ragstone.reading._columns import FIELD_ALIASES, name_key
from ragstone.reading._messages import are_messages
from ragstone.reading._row_values import finite, is_missing, json_value, read_passages, to_plain, walk

FIRST_ROWS: Final = 50
_FIRST_CHARS: Final = 2**22
"""Characters of the first rows, after which no more of them are kept."""
_MAX_TEXT: Final = 2000
_FEW: Final = 3
"""Rows with the same text that are not a coincidence."""
_LABELS: Final = "labels"
_WEAK_LABELS: Final = "labels (yes, no)"
_NUMBERS: Final = "numbers"
_SAME: Final = "the same text in all rows"
_ADDRESSES: Final = "URLs or file names"
PLACES: Final = "places in files"
_PASSAGE_IDS: Final = "places of passages (ids)"
_ONE_NUMBER: Final = "one number in all rows"
PROMPTS: Final = "prompts with passages in them"
_PROMPT: Final = re.compile(
    r"</?(?:context|document|passage|source)s?\b|^[\W_]{0,9}(?:\w{1,12} ){0,2}(?:context|document|passage|source|kontext|contexto)"
    r"s?(?: \w{1,12}){0,3}\W{0,3}:",
    re.IGNORECASE | re.MULTILINE,
)
"""A tag, or a heading at the start of a line, before passages in a prompt."""
JSON: Final = "JSON texts"
MESSAGES: Final = "messages"
_NEVER: Final = frozenset({_LABELS, _ADDRESSES, PLACES, _PASSAGE_IDS, _ONE_NUMBER, "times", "ids", _SAME})
_SUFFIXES: Final = r"\.(?:pdf|md|txt|html?|docx?|pptx?|xlsx?|csv|jsonl?|rst)"
_PLACE: Final = (
    rf"(?:\S+ ){{0,2}}\S*{_SUFFIXES}(?:#\S+|[\s,;:(\[#]{{1,4}}(?:(?:pp?|pages?|seiten?|s|lines?|sec|section|slide)\b[.:=]?\s?)?+"
    "[\\d.,\\s\N{EN DASH}-]{1,12}[)\\]]?)"
)
_KINDS: Final = (
    (_LABELS, r"true|false|pass(?:ed)?|fail(?:ed)?|(?:in)?correct|wrong|good|bad|(?:ir)?relevant|(?:un)?supported"),
    (_WEAK_LABELS, r"yes|no|[yna-f]"),
    (_NUMBERS, r"[+-]?+(?:\d++\.?+\d*+|\.\d++)(?:e[+-]?+\d++)?+"),
    ("times", r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.+Z-]*+"),
    ("ids", r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=\S*\d)[0-9a-f]{32,64}"),
    (_ADDRESSES, r"(?:https?|s3|gs|file)://\S++"),
    (_ADDRESSES, rf"(?:\S+ ){{0,2}}\S*{_SUFFIXES}"),
    (PLACES, _PLACE),
    (PLACES, r"[^.?!\n]{1,60}[,(] ?(?:pp?|pages?|seiten?)\.? ?\d{1,4}(?:-\d{1,4})?\)?"),
    (_PASSAGE_IDS, r"(?:docs?|document|chunk|passage|node|page)[-_:#/]\d{1,8}"),
)
_PATTERNS: Final = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)


class FirstRows:
    """The first rows of a dataset, with what is nested under `inputs` and `outputs` lifted."""

    def __init__(self, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        self._rows = rows
        self._kinds: dict[str, str] = {}

    def values(self, column: str) -> list[Any]:
        """Return the values of a column, or at a path, without the missing ones."""
        found = (to_plain(row[column] if column in row else walk(row, column)) for row in self._rows)
        return [value for value in found if not _is_empty(value)]

    def kind(self, column: str) -> str:
        """Return what all values of a column are, such as "labels" or "messages", or "" for texts and mixed values."""
        if (kind := self._kinds.get(column)) is None:
            kind = self._kinds[column] = self._kind(self.values(column))
        return kind

    def problem(self, column: str, field: str, *, is_guess: bool = False) -> str:
        """Return why the values of a column, or at a path, cannot be a field, or "".

        If the name has several meanings, numbers and few different words are not a text either.
        """
        kind = self.kind(column)
        if field not in ("query", "response", "reference", "contexts") or (
            kind == _SAME and field in ("reference", "contexts")
        ):
            return ""
        if kind == _PASSAGE_IDS and field != "reference":
            return ""
        if kind == PROMPTS:
            return kind if field == "query" else ""
        if (
            kind in _NEVER
            or (kind == _NUMBERS and (is_guess or field == "contexts"))
            or (is_guess and kind == _WEAK_LABELS)
        ):
            return kind + (f" in the first {FIRST_ROWS} rows" if len(self._rows) == FIRST_ROWS else "")
        if is_guess and self._has_few(column):
            return "few different words"
        is_object = kind == "objects" and field == "contexts"
        return "objects without a text" if is_object and not any(map(_has_passages, self.values(column))) else ""

    def has_texts(self, column: str) -> bool:
        """Return whether the values of a column are texts of several words."""
        values = self.values(column)
        return (
            bool(values) and all(isinstance(value, str) for value in values) and any(" " in value for value in values)
        )

    def _kind(self, values: list[Any]) -> str:
        kinds = {_kind(value) for value in values}
        if kinds == {_WEAK_LABELS} and len(values) == 1:  # one letter can be an answer
            return ""
        if len(kinds) != 1:
            return _LABELS if _LABELS in kinds and kinds <= {_LABELS, _WEAK_LABELS, _NUMBERS} else ""
        (kind,) = kinds
        if kind == _NUMBERS and len(values) > 1 and {finite(str(value)) for value in values} <= {0.0, 1.0}:
            return _LABELS
        if kind == _NUMBERS and len(values) >= _FEW and len({str(value).strip() for value in values}) == 1:
            return _ONE_NUMBER
        if kind == "" and isinstance(values[0], str):
            if len({str(value).strip() for value in values}) == 1 and len(values) >= _FEW:
                return _SAME
            ids = [name for name in self._rows[0] if name_key(name) in map(name_key, FIELD_ALIASES["id"])]
            return "ids" if len(values) > 1 and any(values == self.values(name) for name in ids) else ""
        return kind

    def _has_few(self, column: str) -> bool:
        texts = [value for value in self.values(column) if isinstance(value, str)]
        return len(texts) > _FEW and 2 * len({*texts}) <= len(texts) and all(len(text.split()) <= 2 for text in texts)


def first_of(rows: Iterable[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Return the first rows of an iterator, with their positions."""
    first: list[tuple[int, Any]] = []
    n_chars = 0
    for item in rows:
        first.append(item)
        n_chars += len(repr(item))
        if len(first) >= FIRST_ROWS or n_chars > _FIRST_CHARS:
            break
    return first


def _is_empty(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip() or value.strip() in MISSING_TEXTS
    return is_missing(value) or (isinstance(value, list | tuple | Mapping) and not value)


def _has_passages(value: Any) -> bool:
    try:
        return bool(read_passages(value if isinstance(value, list | tuple) else [value], 1))
    except DataError:
        return False


def _kind(value: Any) -> str:
    """Return what one value is, or "" for a text."""
    if isinstance(value, str):
        text = value.strip()
        if "\n" in text and _PROMPT.search(text[:_MAX_TEXT]) is not None:
            return PROMPTS
        if len(text) > _MAX_TEXT:
            return ""
        if text.startswith("[") and begins_like_list(text):
            try:
                return _kind(parse_cell(text))
            except DataError:
                return ""
        if text[:1] in ("{", '"') and json_value(text) is not None:
            return JSON
        return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(text)), "")
    if isinstance(value, bool | int | float):
        return _LABELS if isinstance(value, bool) else _NUMBERS
    if isinstance(value, list | tuple):
        kinds = {MESSAGES} if are_messages(value) else {_kind(item) for item in value}
        return kinds.pop() if len(kinds) == 1 else ""
    return "objects" if isinstance(value, Mapping) else ""
