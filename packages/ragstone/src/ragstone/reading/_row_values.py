"""Values in the rows of datasets: passages, labels and numbers, of any common type."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from ragstone._util.quantities import text_of
from ragstone._util.unicode import replace_surrogates_in
from ragstone.errors import DataError
from ragstone.requests import finite_number
from ragstone.schema import field_names

_PLAIN: Final = frozenset({str, int, bool, list, dict})
_ABOUT: Final = frozenset({"title", "name", "url", "source", "id", "doc_id", "score", "metadata"})
"""Keys of an object that is one passage."""
_CONTAINERS: Final = (
    "hits", "documents", "passage_text", "retrievalResults", "contexts", "passages", "matches", "points", "results", "chunks",
)  # fmt: skip
"""Names of the lists in what vector databases and search engines return."""
_INNER: Final = ("_source", "content", "document", "doc", "chunk", "payload", "entity", "properties", "metadata")
"""Names of the object in a hit that has the text."""
_MAX_CONTAINERS: Final = 3
_LABEL_WORDS: Final = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_TEXT_KEYS: Final = field_names("text", "row")
_ID_KEYS: Final = field_names("id", "row")


def read_passage(item: Any, rank: int, position: int) -> dict[str, Any]:
    """Read the fields of a passage: of a text, or of an object with one and its id, score, label and metadata.

    Raise DataError if it does not have a text, or its label cannot be read.
    """
    if isinstance(item, str):
        return {"text": item, "rank": rank}
    is_object = type(item) is dict or isinstance(item, Mapping)
    if not is_object and isinstance(item, list | tuple) and len(item) > 2:  # a row of a database: id, text, distance
        texts = [part for part in item if isinstance(part, str)]
        if 0 < len(texts) < 3 and [text for text in texts if " " in text] == texts[-1:]:
            return {"text": texts[-1], "id": text_of(item[0]) if item[0] != texts[-1] else None, "rank": rank}
    if not is_object and isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str):
        text, other = item
        if (score := finite_number(other)) is not None:  # as vector stores return them
            return {"text": text, "score": score, "rank": rank}
        if isinstance(other, list | tuple) and _are_texts(other):
            return {"text": " ".join(map(str.strip, other)), "id": text, "rank": rank}  # a title and sentences
    if is_object:
        node = item.get("node")
        body: Mapping[str, Any] = node if node is not None and isinstance(node, Mapping) else item
        for key in _TEXT_KEYS:
            if type(body.get(key)) is str:
                identity = next((body[k] for k in _ID_KEYS if k in body and not is_missing(body[k])), None)
                passage = {"text": body[key], "id": None if identity is None else text_of(identity), "rank": rank}
                if item.get("score") is not None:
                    passage["score"] = finite_number(item["score"])
                if body.get("relevance") is not None:
                    passage["relevance"] = _label(body["relevance"], rank, position)
                if isinstance(metadata := body.get("metadata"), dict):
                    passage["metadata"] = dict(metadata)
                return passage
    raise DataError(
        f"row {position}: passage {rank + 1} must be text or an object with one of {_TEXT_KEYS}, got {shorten(item)}"
    )


def read_passages(items: Sequence[Any], position: int) -> list[dict[str, Any]]:
    """Read passages, also those in an object of a vector database or a search engine."""
    try:
        return [
            {"text": item, "rank": rank} if type(item) is str else read_passage(item, rank, position)
            for rank, item in enumerate(items)
        ]
    except DataError:
        found = _hits(items[0] if len(items) == 1 and isinstance(items[0], Mapping) else items)
        if found is None:
            raise
        return [read_passage(item, rank, position) for rank, item in enumerate(found)]


def _hits(value: Any, ids: Any = None, depth: int = 0) -> list[Any] | None:
    """Return the items of a container of passages, or None.

    Containers have a list (`{"hits": {"hits": [...]}}`), texts and ids (Chroma), texts by id, or scores by text.
    """
    value, ids = to_plain(value), to_plain(ids)
    if depth > _MAX_CONTAINERS:
        return None
    if isinstance(value, Mapping):
        inner = next((value[key] for key in _CONTAINERS if isinstance(value.get(key), list | tuple | Mapping)), None)
        if inner is not None:
            return _hits(inner, value.get("ids"), depth + 1)
        if {"node", *_TEXT_KEYS, *_ABOUT}.isdisjoint(value) and not all(map(_is_name, value)):
            if value and _are_texts(value.values()):
                return [{"id": key, "text": text} for key, text in value.items()]
            if value and all(finite_number(score) is not None for score in value.values()):
                return [{"text": text, "score": score} for text, score in value.items()]
        return [hit] if (hit := _hit(value)) is not value else None
    if not isinstance(value, list | tuple):
        return None
    if depth and len(value) == 1 and isinstance(value[0], list | tuple) and _are_texts(value[0]):  # of one query
        return _hits(value[0], ids[0] if isinstance(ids, list) and len(ids) == 1 else None, depth + 1)
    if isinstance(ids, list) and len(ids) == len(value) and _are_texts(value):
        return [{"id": name, "text": text} for name, text in zip(ids, value, strict=True)]
    return [_hit(item) for item in value]


def _is_name(key: Any) -> bool:
    """Return whether a key is the name of a field, and neither an id nor a text."""
    return isinstance(key, str) and key.isidentifier() and not any(map(str.isdigit, key))


def _hit(item: Any) -> Any:
    """Return a pair of score and text, or an object with the text inside, as a passage."""
    if isinstance(item, list | tuple) and len(item) == 2 and finite_number(item[0]) is not None:
        return {"text": item[1], "score": item[0]}
    if not isinstance(item, Mapping) or any(isinstance(item.get(key), str) for key in _TEXT_KEYS):
        return item
    inner = next((item[key] for key in _INNER if isinstance(item.get(key), Mapping)), None)
    if inner is None or not any(isinstance(inner.get(key), str) for key in _TEXT_KEYS):
        return item
    outer = {key: item[key] for key in _ID_KEYS if key in item}
    return {**inner, **outer, "score": item.get("score", item.get("_score"))}


def _are_texts(items: Iterable[Any]) -> bool:
    return all(isinstance(item, str) for item in items)


def _label(value: Any, rank: int, position: int) -> float | None:
    """Return a label. An unreadable label is an error, because a missing label changes what is scored."""
    plain = to_plain(value)
    if plain is None or (isinstance(plain, str) and not plain.strip()):
        return None
    if isinstance(plain, str):
        number = _LABEL_WORDS.get(plain.strip().lower(), finite(plain))
    else:
        number = float(plain) if isinstance(plain, bool) else finite_number(plain)
    if number is None:
        raise DataError(
            f"row {position}: passage {rank + 1} has the relevance {shorten(value)}; a label is a number (0, 1, or a "
            "grade), true or false, yes or no; leave it out if the passage does not have a label"
        )
    return number


def finite(text: str) -> float | None:
    """Return the finite number that a text consists of, or None."""
    try:
        return finite_number(float(text))
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


def json_value(text: object) -> Any:
    """Return the object, list or text that a text is as JSON, or None for anything else."""
    try:
        value = json.loads(text) if isinstance(text, str) and text.lstrip()[:1] in ("{", "[", '"') else None
    except (ValueError, RecursionError):
        return None
    return replace_surrogates_in(value)


@cache
def path_steps(path: str) -> tuple[str, ...]:
    """Return the steps of a path."""
    return tuple(step for step in path.replace("[]", ".[]").split(".") if step)


def walk(value: Any, path: str | tuple[str, ...]) -> Any:
    """Return the value at a path in objects and lists, or None.

    The path is keys joined by ".". A number is a position in a list, and "[]" stands for all items of a list.
    """
    steps = path_steps(path) if isinstance(path, str) else path
    for n, step in enumerate(steps):
        value = json_value(value) if isinstance(value, str) else to_plain(value)
        if step == "[]":
            if is_missing(value):
                return None
            items = value if isinstance(value, list | tuple) else [value]
            rest = steps[n + 1 :]
            found = [inner for item in items if (inner := walk(item, rest)) is not None]
            return [part for inner in found for part in inner] if "[]" in rest else found
        if isinstance(value, Mapping):
            ends = range(n + 2, len(steps) + 1)  # of a key with dots in it
            if step not in value and (end := next((end for end in ends if ".".join(steps[n:end]) in value), 0)):
                return walk(value[".".join(steps[n:end])], steps[end:])
            value = value.get(step)
        elif isinstance(value, list | tuple) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return to_plain(value)


def new_file(source: str, suffix: str = "jsonl") -> str:
    """Return the name of the file that a command in a message writes: never the source, which a shell empties first."""
    stem = Path(source).stem
    return f"{stem}-2.{suffix}" if stem.replace("-2", "") == "NEW" else f"NEW.{suffix}"


def shorten(value: object) -> str:
    """Return type and beginning of a value, for messages."""
    text = repr(value)
    return f"{type(value).__name__} {text[:80]}{'…' if len(text) > 80 else ''}"
