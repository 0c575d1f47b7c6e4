"""Ids of the rows of one dataset: each occurs once, and none is a position."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ragstone._util.id_table import IdTable
from ragstone.errors import DataError
from ragstone.reading._columns import FIELD_ALIASES
from ragstone.reading._row_values import to_plain
from ragstone.reading._rows import flatten, sample_from_row
from ragstone.schema import Sample, derive_id

_MAX_ADDED: Final = 3
"""Most columns that a proposed id adds to the id."""
_MAX_COLUMNS: Final = 20
_MAX_CHARS: Final = 200
"""Longest value of a column that can be a part of an id."""
_MEASURES: Final = re.compile(r"(?:^|[_\W])(?:labels?|scores?|ratings?|grades?)$", re.IGNORECASE)
"""Names of columns that say how good an answer is, not which answer it is."""
_CONTENT: Final = {name for field, names in FIELD_ALIASES.items() if field != "id" for name in names}


class RowIds:
    """The ids of the rows that were read."""

    def __init__(self) -> None:
        self.seen = IdTable()
        """Ids with the positions of their rows."""
        self.repeated: dict[str, None] = {}
        """Given ids that occur more than once."""
        self._derived: Counter[str] = Counter()

    def add(self, sample: Sample, position: int, *, is_row: bool) -> Sample:
        """Return the sample with an id that no earlier row has. A derived id that occurs again gets a number.

        Args:
            sample: The sample.
            position: 1-based position of its row.
            is_row: Whether it was read from a row. The ids of samples that the caller made are given ids.

        Raises:
            DataError: If an earlier row has the same given id.
        """
        if (earlier := self.seen.number(sample.id)) is not None:
            if not is_row or sample.id != derive_id(sample):
                self.repeated[sample.id] = None
                raise DataError(f"row {position} has the id {sample.id!r} of row {earlier}. Ids must be unique")
            self._derived[sample.id] += 1
            sample = sample.model_copy(update={"id": f"{sample.id}-{self._derived[sample.id] + 1}"})
        self.seen.add(sample.id, position)
        return sample


def id_remedy(ids: RowIds, data: object, rows: Callable[[], Iterable[Any]], fields: Mapping[str, str] | None) -> str:
    """Return how the ids of a dataset become unique: the smallest set of columns to add to the id, as a ready option.

    Args:
        ids: The ids of the dataset.
        data: The dataset. An iterator cannot be read again.
        rows: Reads its rows again.
        fields: Field names of the data.
    """
    several = "Several rows share an id, such as several answers to one question."
    if isinstance(data, str | os.PathLike | Sequence) or hasattr(data, "columns"):
        name, groups = "", []
        for row in rows():
            found = _id_of(row, fields)
            if found is not None and found[0] in ids.repeated:
                name = found[1]
                groups.append((found[0], _columns(row)))
        added = _smallest_set(groups) if name else None
        if added:
            together = "+".join((name, *added))
            return f"{several} These columns are unique together: --field id={together} (fields={{'id': {together!r}}})"
    return (
        f"{several} Name the columns that are unique together: --field id=COLUMN+COLUMN "
        "(fields={'id': 'COLUMN+COLUMN'}). If there are none, add a column that is"
    )


def _id_of(row: object, fields: Mapping[str, str] | None) -> tuple[str, str] | None:
    """Return the id of a row and the name of its column."""
    if not isinstance(row, Mapping):
        return None
    try:
        id_ = sample_from_row(row, position=1, fields=fields).id
    except DataError:
        return None
    named = (fields or {}).get("id")
    flat = flatten(row)
    name = named or next((each for each in FIELD_ALIASES["id"] if str(to_plain(flat.get(each))) == id_), None)
    return None if name is None else (id_, name)


def _columns(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that can be a part of an id, by column."""
    plain = {
        name: to_plain(value)
        for name, value in flatten(row).items()
        if name not in _CONTENT and not _MEASURES.search(name)
    }
    return {
        name: str(value)
        for name, value in plain.items()
        if isinstance(value, str | int) and 0 < len(str(value)) <= _MAX_CHARS
    }


def _smallest_set(rows: Sequence[tuple[str, Mapping[str, str]]]) -> tuple[str, ...] | None:
    """Return the smallest set of columns whose values, together with the id, differ for all rows."""
    names = [name for name in rows[0][1] if all(name in columns for _, columns in rows)]
    varied = [name for name in names if len({(id_, columns[name]) for id_, columns in rows}) > len({*dict(rows)})]
    sizes = range(1, _MAX_ADDED + 1)
    sets = itertools.chain.from_iterable(itertools.combinations(varied[:_MAX_COLUMNS], size) for size in sizes)
    return next(
        (names for names in sets if len({(id_, *map(columns.get, names)) for id_, columns in rows}) == len(rows)), None
    )
