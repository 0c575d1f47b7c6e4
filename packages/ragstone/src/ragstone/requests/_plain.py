"""Counts of tokens and metadata of frameworks' objects, copied as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Final

from ragstone.requests._shape import get, whole_number
from ragstone.schema import TOKEN_NAMES

_FLAT: Final = frozenset({str, int, float, bool, type(None)})


def read_tokens(places: Iterable[object]) -> tuple[int | None, int | None]:
    """Return the tokens read and written, each under the first name with a count in the first place that has one.

    Args:
        places: Objects or mappings that may hold the counts.
    """
    holders = [place for place in places if place]
    read, written = (
        next((n for holder in holders for name in names if (n := whole_number(get(holder, name))) is not None), None)
        for names in TOKEN_NAMES
    )
    return read, written


def flat_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the flat values of metadata. NumPy's numbers become Python's."""
    if _FLAT.issuperset(map(type, metadata.values())):
        return dict(metadata)
    flat: dict[str, Any] = {}
    for key, value in metadata.items():
        if type(value) in _FLAT:
            flat[key] = value
        elif isinstance(value, str):
            flat[str(key)] = str(value)
        elif isinstance(value, Integral):
            flat[str(key)] = int(value)  # the id of a data frame's row is 7, not 7.0
        elif isinstance(value, Real):
            flat[str(key)] = float(value)
    return flat
