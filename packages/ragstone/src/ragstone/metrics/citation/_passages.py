"""From what a citation names (a number, an id, a URL) to the positions of passages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone.schema import Passage

_NAMED_BY: Final = ("source", "url", "file_name", "filename", "title", "file_id", "link")
"""Keys of a passage's metadata by which a citation can name it, as frameworks write them."""
_NUMBERED_TEXT: Final = re.compile(r"\s*Source (\d{1,4}):")
"""Beginning of the passages of LlamaIndex's `CitationQueryEngine`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """One citation in an answer."""

    start: int
    """Where the cited part of the response, or the marker, starts."""
    end: int
    cited: tuple[int, ...]
    """Positions of the passages, from 1. Empty if the citation does not refer to a passage of the sample."""
    label: str
    """The citation as written."""
    whole: bool = False
    """Whether it is not known to which part of the response the citation belongs."""


class CitedPassages:
    """The passages of one sample, to look up by the numbers and names in its citations.

    A number is the position of a passage, counted from 1, with these exceptions:

    - All passages start with "Source N:", as LlamaIndex writes them. Then N is the number.
    - The ids of the passages are the numbers 0 to k - 1, or 1 to k. Then the id is the number.
    - Not all cited numbers are positions, but all are ids. Then they are ids.

    A name is an id, or a value in the passage's metadata under `source`, `url`, `file_name`, `filename`, `title`,
    `file_id` or `link`. If several passages have the name, the citation refers to all of them.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._by_id = _index((passage.id, n) for n, passage in enumerate(passages, start=1))
        self._by_name = _index(
            (passage.metadata.get(key), n) for n, passage in enumerate(passages, start=1) for key in _NAMED_BY
        )
        self._shapes = {_shape(name) for name in self._by_id}
        self._count = len(passages)
        self._cited: dict[frozenset[int], tuple[bool, bool]] = {}
        """By the numbers that an answer cites, whether all are positions and whether all are ids."""
        self._numbers = _printed_numbers(passages) or _numbers_in_ids(passages)

    def by_name(self, name: str) -> tuple[int, ...]:
        """Return the positions, from 1, of the passages with this id or other name."""
        key = _key(name)
        return self._by_id.get(key) or self._by_name.get(key) or ()

    def by_number(self, number: int, cited: frozenset[int] = frozenset()) -> tuple[int, ...]:
        """Return the position of the passage with this number. `cited` contains all numbers that the answer cites."""
        if self._numbers:
            return self._numbers.get(number, ())
        if cited not in self._cited:
            self._cited[cited] = (all(map(self._is_position, cited)), all(str(each) in self._by_id for each in cited))
        are_positions, are_ids = self._cited[cited]
        if are_ids and not (are_positions and self._is_position(number)) and str(number) in self._by_id:
            return self._by_id[str(number)]
        return (number,) if self._is_position(number) else ()

    def _is_position(self, number: int) -> bool:
        return 1 <= number <= self._count

    def by_index(self, index: int) -> tuple[int, ...]:
        """Return the position of the passage with an index that counts from 0."""
        return (index + 1,) if 0 <= index < self._count else ()

    def looks_like_id(self, name: str) -> bool:
        """Return whether a name has the form of the passages' ids, such as "doc-9" if there is a "doc-1"."""
        return any(map(str.isdigit, name)) and _shape(_key(name)) in self._shapes


def _printed_numbers(passages: Sequence[Passage]) -> dict[int, tuple[int, ...]]:
    printed = [_NUMBERED_TEXT.match(passage.text) for passage in passages]
    return _positions([int(match[1]) for match in printed if match]) if all(printed) else {}


def _numbers_in_ids(passages: Sequence[Passage]) -> dict[int, tuple[int, ...]]:
    ids = [int(passage.id) for passage in passages if passage.id is not None and re.fullmatch(r"\d{1,4}", passage.id)]
    k = len(passages)
    return _positions(ids) if sorted(ids) in (list(range(k)), list(range(1, k + 1))) else {}


def _positions(numbers: Sequence[int]) -> dict[int, tuple[int, ...]]:
    positions: dict[int, list[int]] = {}
    for n, number in enumerate(numbers, start=1):
        positions.setdefault(number, []).append(n)
    return {number: tuple(each) for number, each in positions.items()}


def _index(named: Iterable[tuple[object, int]]) -> dict[str, tuple[int, ...]]:
    index: dict[str, dict[int, None]] = {}
    for name, position in named:
        if isinstance(name, str) and (key := _key(name)):
            index.setdefault(key, {})[position] = None
    return {key: tuple(positions) for key, positions in index.items()}


def _key(name: str) -> str:
    return name.strip().casefold()


def _shape(name: str) -> str:
    return re.sub(r"[0-9a-f]+" if re.fullmatch(r"[0-9a-f-]{16,}", name) else r"\d+", "#", name)
