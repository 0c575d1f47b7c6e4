"""Access to objects of libraries that are not imported: items, attributes, numbers, counts of tokens and metadata."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Final, TypeGuard

from ragstone.schema import TOKEN_NAMES


def get(value: object, name: str) -> Any:
    """Return an item of a mapping or an attribute of another object, or None if it is absent or cannot be read."""
    try:
        return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of the application's object; it says nothing then
        return None


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list of things, which a text is not."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def whole_number(value: object) -> int | None:
    """Return a count, such as a number of tokens, or None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def finite_number(value: object) -> float | None:
    """Return a finite number of any type, NumPy's too, as a float; None for anything else."""
    if type(value) is not float:  # nearly always, and asking for `Real` is slow
        if isinstance(value, bool) or not isinstance(value, Real):
            return None
        try:
            value = float(value)
        except (OverflowError, ValueError, TypeError):
            return None
    return value if math.isfinite(value) else None


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
