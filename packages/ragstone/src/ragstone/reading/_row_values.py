"""Values in the rows of datasets: passages, labels and numbers, of any common type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.schema import field_names

_PLAIN: Final = frozenset({str, int, bool, list, dict})
_ABOUT: Final = frozenset({"title", "name", "url", "source", "id", "doc_id", "score", "metadata"})
"""Keys of an object that is one passage."""
_LABEL_WORDS: Final = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_TEXT_KEYS: Final = field_names("text", "row")
_ID_KEYS: Final = field_names("id", "row")


def read_passage(item: Any, rank: int, position: int) -> dict[str, Any]:
    """Read the fields of a passage: of a text, or of an object with one and its id, score, label and metadata.

    Raises:
        DataError: If it does not have a text, or its label cannot be read.
    """
    if type(item) is str:
        return {"text": item, "rank": rank}
    is_object = type(item) is dict or isinstance(item, Mapping)
    if not is_object and isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str):
        text, other = item
        if (score := to_number(other)) is not None:  # as vector stores return them
            return {"text": text, "score": score, "rank": rank}
        if isinstance(other, list | tuple) and _are_texts(other):
            return {"text": " ".join(map(str.strip, other)), "id": text, "rank": rank}  # a title and sentences
    if is_object:
        node = item.get("node")
        body: Mapping[str, Any] = node if node is not None and isinstance(node, Mapping) else item
        for key in _TEXT_KEYS:
            if type(body.get(key)) is str:
                identity = next((body[k] for k in _ID_KEYS if not is_missing(body.get(k))), None)
                passage = {"text": body[key], "id": None if identity is None else str(identity), "rank": rank}
                if item.get("score") is not None:
                    passage["score"] = to_number(item["score"])
                if body.get("relevance") is not None:
                    passage["relevance"] = _label(body["relevance"], rank, position)
                if isinstance(metadata := body.get("metadata"), dict):
                    passage["metadata"] = dict(metadata)
                return passage
    raise DataError(
        f"row {position}: passage {rank + 1} must be text or an object with one of {_TEXT_KEYS}, got {shorten(item)}"
    )


def passages_by_id(value: Any) -> list[Any] | None:
    """Return the passages of an object of texts by id (`{"doc1": "..."}`), or None for any other value."""
    if not isinstance(value, Mapping) or not value or not {"node", *_TEXT_KEYS, *_ABOUT}.isdisjoint(value):
        return None
    return [{"id": key, "text": text} for key, text in value.items()] if _are_texts(value.values()) else None


def _are_texts(items: Iterable[Any]) -> bool:
    return all(isinstance(item, str) for item in items)


def _label(value: Any, rank: int, position: int) -> float | None:
    """Return a label. An unreadable label is an error, because a missing label changes what is scored."""
    if getattr(value, "shape", None) == ():  # NumPy's numbers and truth values
        value = value.item()
    if isinstance(value, bool):
        return float(value)
    if (
        value is None
        or (isinstance(value, str) and not value.strip())
        or (isinstance(value, float) and math.isnan(value))
    ):
        return None
    number = to_number(value)
    if number is None and isinstance(value, str):
        number = _LABEL_WORDS.get(value.strip().lower(), finite(value))
    if number is None:
        raise DataError(
            f"row {position}: passage {rank + 1} has the relevance {shorten(value)}; a label is a number (0, 1, or a grade), "
            "true or false, yes or no; leave it out if the passage does not have a label"
        )
    return number


def to_number(value: Any) -> float | None:
    """Return a finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def finite(text: str) -> float | None:
    """Return the finite number that a text consists of, or None."""
    try:
        return to_number(float(text))
    except ValueError:
        return None


def is_missing(value: object) -> bool:
    """Return whether a value is None or not a number, as pandas writes an empty cell."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def to_plain(value: Any) -> Any:
    """Return arrays and scalars of NumPy as plain values, without importing it."""
    if value is None or type(value) in _PLAIN:
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if is_missing(value) else value


@cache
def path_steps(path: str) -> tuple[str, ...]:
    """Return the steps of a path."""
    return tuple(step for step in path.replace("[]", ".[]").split(".") if step)


def walk(value: Any, path: str | tuple[str, ...]) -> Any:
    """Return the value at a path in objects and lists, or None.

    Args:
        value: The outermost object.
        path: Keys joined by ".". A number is a position in a list, and "[]" stands for all items of a list.
    """
    steps = path_steps(path) if isinstance(path, str) else path
    for n, step in enumerate(steps):
        value = to_plain(value)
        if step == "[]":
            if is_missing(value):
                return None
            items = value if isinstance(value, list | tuple) else [value]
            rest = steps[n + 1 :]
            found = [inner for item in items if (inner := walk(item, rest)) is not None]
            return [part for inner in found for part in inner] if "[]" in rest else found
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list | tuple) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return to_plain(value)


def shorten(value: object) -> str:
    """Return type and beginning of a value, for messages."""
    text = repr(value)
    return f"{type(value).__name__} {text[:80]}{'…' if len(text) > 80 else ''}"
