"""One rule that makes a result short enough for the context of a language model, and counts what it leaves out."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

MAX_BYTES: Final = 8_000
_OF_LINE: Final = 100
"""Bytes for the rest of `left_out`."""
_ITEMS: Final = 20
"""Items of a list to begin with."""
_DETAILS: Final = ((5, 300), (3, 150), (2, 100), (1, 100))
"""Items of a list within a list, and characters of a text. The first pair is taken that is short enough."""
_MAX_KEYS: Final = 50
"""Keys of a mapping above which it is shortened like a list."""


def shorten(value: Any, everything: str) -> Any:
    """Return a result as it is if its JSON has at most `MAX_BYTES`, otherwise with shorter lists and texts.

    Texts and lists within lists become shorter first. Then the longest lists lose their last items. `left_out` of the
    short result has the numbers of items by the path of their list, the number of characters, and `everything`: how to get the whole result.
    """
    if _is_short(value):
        return value
    left_out = Counter[str]()
    short: dict[str, Any] = {}
    for n_nested, n_characters in _DETAILS:
        left_out.clear()
        short = {"left_out": left_out} | _cut(value, "", (_ITEMS, n_nested), n_characters, left_out)
        if _is_short(short):
            break
    lists = dict(_lists(short, ""))
    while not _is_short(short) and any(lists.values()):
        path = max(lists, key=lambda name: len(json.dumps(lists[name], default=str)))
        lists[path].pop()
        left_out[path] += 1
    return short | {"left_out": dict(left_out) | {"everything": everything}}


def _is_short(value: Any) -> bool:
    return len(json.dumps(value, default=str)) <= MAX_BYTES - _OF_LINE


def _lists(value: Any, path: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the lists of a result that are not within other lists, by path."""
    if isinstance(value, list):
        yield f"{path}[]", value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _lists(item, f"{path}.{key}".lstrip("."))


def _cut(value: Any, path: str, n_items: tuple[int, int], n_characters: int, left_out: Counter[str]) -> Any:
    if isinstance(value, str) and len(value) > n_characters:
        left_out["characters of texts"] += len(value) - n_characters
        return f"{value[:n_characters]}…"
    if isinstance(value, list | tuple) or (isinstance(value, dict) and len(value) > _MAX_KEYS):
        n, nested = n_items
        if len(value) > n:
            left_out[f"{path}[]"] += len(value) - n
        if isinstance(value, dict):
            value = dict(itertools.islice(value.items(), n))
        else:
            return [_cut(item, f"{path}[]", (nested, nested), n_characters, left_out) for item in value[:n]]
    if isinstance(value, dict):
        return {
            key: _cut(item, f"{path}.{key}".lstrip("."), n_items, n_characters, left_out) for key, item in value.items()
        }
    return value
