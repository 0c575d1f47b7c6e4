"""Citations as a list in the metadata of a sample, as model providers and structured outputs write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeGuard

from ragstone.metrics.citation._passages import Citation, CitedPassages
from ragstone.schema import Sample

_LISTS: Final = ("citations", "annotations")
_NESTED: Final = ("url_citation", "file_citation", "container_file_citation")
"""OpenAI's chat completions and assistants write what is cited into an object of this name."""
_NAMES: Final = (
    "source_id", "document_id", "doc_id", "passage_id", "id", "file_id", "url", "source", "filename", "title",
    "document_title",
)  # fmt: skip
"""Keys that name a passage, in the order in which they are tried."""
_PLACES: Final = (("start", "end"), ("start_index", "end_index"))
"""Keys of the part of the response. (`start_char_index` of Anthropic is a part of the document.)"""
_MAX_DIGITS: Final = 18
"""A longer text of digits is not the number of a passage."""


def read_list(sample: Sample, passages: CitedPassages) -> list[Citation] | None:
    """Return the citations in `citations` or `annotations` of the metadata, or None if these do not name a passage.

    An entry is a number, a name, or an object with `document_index` (from 0), `document_ids`, `sources`, or a key such
    as `source_id` or `url`. If a list of numbers contains 0, its numbers count from 0.
    """
    for key in _LISTS:
        entries = sample.metadata.get(key)
        if isinstance(entries, Sequence) and not isinstance(entries, str):
            listed = [each for entry in _described(entries) for each in _read(entry, sample.response or "", passages)]
            if any(citation.cited for citation in listed):
                return listed
    return None


def _described(entries: Sequence[object]) -> list[dict[str, Any]]:
    """Return entries as objects. Numbers that count from 0 become `document_index`."""
    plain = [{"source_id": entry} if isinstance(entry, int | str) else entry for entry in entries]
    objects = [_flat(entry) for entry in plain if isinstance(entry, Mapping)]
    numbers = frozenset(entry["source_id"] for entry in objects if _is_number(entry.get("source_id")))
    if 0 in numbers:
        for entry in objects:
            if _is_number(entry.get("source_id")):
                entry.setdefault("document_index", entry["source_id"])
    for entry in objects:
        entry["numbers"] = numbers
    return objects


def _flat(entry: Mapping[Any, Any]) -> dict[str, Any]:
    flat = {str(key): value for key, value in entry.items()}
    for key in _NESTED:
        if isinstance(inner := flat.get(key), Mapping):
            flat |= {str(name): value for name, value in inner.items()}
    return flat


def _read(entry: Mapping[str, Any], response: str, passages: CitedPassages) -> Iterable[Citation]:
    place = _find_place(entry, response)
    start, end = place or (0, len(response))
    for label, cited in _targets(entry, passages):
        yield Citation(start=start, end=end, cited=cited, label=label, whole=place is None)


def _targets(entry: Mapping[str, Any], passages: CitedPassages) -> list[tuple[str, tuple[int, ...]]]:
    index = entry.get("document_index")
    if _is_number(index):
        return [(f"document {index}", passages.by_index(index))]
    for key in ("document_ids", "sources"):
        if isinstance(several := entry.get(key), Sequence) and not isinstance(several, str):
            ids = [each.get("id") if isinstance(each, Mapping) else each for each in several]
            return [(name, passages.by_name(name)) for name in ids if isinstance(name, str)]
    found: list[tuple[str, tuple[int, ...]]] = []
    for key in _NAMES:
        value = entry.get(key)
        if _is_number(value):
            found.append((f"[{value}]", passages.by_number(value, entry["numbers"])))
        elif isinstance(value, str) and value.strip():
            is_number = value.strip().isdecimal() and len(value) <= _MAX_DIGITS
            by_number = passages.by_number(int(value)) if is_number else ()
            found.append((value, passages.by_name(value) or by_number))
    return next(([each] for each in found if each[1]), found[:1])


def _find_place(entry: Mapping[str, Any], response: str) -> tuple[int, int] | None:
    for first, last in _PLACES:
        start, end = entry.get(first), entry.get(last)
        if _is_number(start) and _is_number(end) and 0 <= start <= end <= len(response):
            return start, end
    index = entry.get("index")
    if entry.get("type") == "file_citation" and _is_number(index) and 0 <= index <= len(response):
        return index, index
    return None


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
