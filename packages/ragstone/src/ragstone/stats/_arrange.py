"""Batches of random permutations of cells within rows, for paired randomization tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TABLE_MAX = 7
"""Largest k for which all k! orders of k cells are stored in a table (7! = 5,040)."""

_CELLS = 1 << 18
"""Units times permutations per batch (14 bytes each, 4 MB in total)."""

_MAX_UNITS = 1 << 14
"""Maximum number of units that are permuted separately. More units are joined to this number of blocks."""

_ROUNDING = 1e-12
"""Relative range of the sums of a unit below which they are equal."""

ChunkSums = tuple[int, list["NDArray[np.float64]"]]
"""Number of permutations, and for each group the column sums, one row per permutation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Units with values in the same columns, without units whose values are all equal."""

    columns: tuple[int, ...]
    rows: NDArray[np.float64]
    """Units by present columns: sums over the rows of the unit, each row centered at its mean."""
    units: NDArray[np.intp]
    """Number of the unit of each row."""


class Arrangement:
    """Permutations of the columns of a table, with the same order for all cells of a unit.

    A unit is a row, or a cluster of rows that are not independent of each other. Rows with fewer than two values, or
    with equal values, do not contain information about differences of columns and are omitted. If a cell is missing,
    the order of the unit is that of its present cells. More than 16,384 units are joined to random blocks, and each
    block is permuted as one unit. This bounds the time and keeps the test exact, because the permutations of a block
    are a subgroup of those of its units. `x` are rows by columns, in which NaN is a missing cell. `clusters` are the
    numbers of the rows' clusters. `rng` makes the blocks.
    """

    def __init__(self, x: NDArray[np.float64], clusters: NDArray[np.intp] | None, rng: np.random.Generator) -> None:
        import numpy as np

        n_rows, self._k = x.shape
        units = np.arange(n_rows) if clusters is None else clusters
        present = ~np.isnan(x)
        high = np.where(present, x, -np.inf).max(axis=1)
        low = np.where(present, x, np.inf).min(axis=1)
        varies = (present.sum(axis=1) > 1) & (low < high)
        used, inverse = np.unique(units[varies], return_inverse=True)
        if used.size > _MAX_UNITS:
            inverse = (rng.permutation(used.size) % _MAX_UNITS)[inverse]
        unit_of_row = np.full(n_rows, -1, dtype=np.intp)
        unit_of_row[varies] = inverse.reshape(-1)
        self.groups, self.n_units = _sorted_units(_group(x, unit_of_row))
        self._tables = [_orders(self._k, group.columns) for group in self.groups] if self._k <= _TABLE_MAX else []

    def choices(self, limit: int) -> list[NDArray[np.intp]] | None:
        """Return for each unit the orders that give distinct sums, or None if there are more than `limit` combinations."""
        import numpy as np

        if self._k > _TABLE_MAX:
            return None
        cells: list[list[NDArray[np.float64]]] = [[] for _ in range(self.n_units)]
        total, by_unit = 1, []
        for group, table in zip(self.groups, self._tables, strict=True):
            if len(group.rows) > limit.bit_length():
                # Each unit has at least two distinct orders.
                return None
            for unit, row in zip(group.units.tolist(), group.rows, strict=True):
                cells[unit].append(row[table])
        for arranged in cells:
            _, first = np.unique(np.concatenate(arranged, axis=1), axis=0, return_index=True)
            total *= len(first)
            if total > limit:
                return None
            by_unit.append(first.astype(np.intp))
        return by_unit

    def random(self, n_resamples: int, seed: np.random.SeedSequence) -> Iterator[ChunkSums]:
        """Yield chunks of random permutations.

        The chunks depend only on the shape of the data. Each chunk uses its own child of the seed.
        """
        import numpy as np

        size = self._chunk_size()
        for number, child in enumerate(seed.spawn(math.ceil(n_resamples / size))):
            count = min(size, n_resamples - number * size)
            rng = np.random.default_rng(child)
            if self._k <= _TABLE_MAX:
                orders = rng.integers(0, math.factorial(self._k), (self.n_units, count), dtype=np.uint16)
                yield count, self._sums(orders)
            else:
                keys = rng.random((count, self.n_units, self._k))
                by_keys = (keys[:, group.units][:, :, list(group.columns)].argsort(axis=2) for group in self.groups)
                yield (
                    count,
                    [
                        np.take_along_axis(group.rows[None], order, axis=2).sum(axis=1)
                        for group, order in zip(self.groups, by_keys, strict=True)
                    ],
                )

    def enumerated(self, choices: Sequence[NDArray[np.intp]]) -> Iterator[ChunkSums]:
        """Yield chunks as `random` does, with each combination of `choices` once."""
        import numpy as np

        sizes = [len(options) for options in choices]
        total, size = math.prod(sizes), self._chunk_size()
        for start in range(0, total, size):
            rest = np.arange(start, min(start + size, total))
            orders = np.empty((self.n_units, rest.size), dtype=np.uint16)
            for unit, options in enumerate(choices):
                rest, digit = np.divmod(rest, len(options))
                orders[unit] = options[digit]
            yield orders.shape[1], self._sums(orders)

    def _sums(self, orders: NDArray[np.uint16]) -> list[NDArray[np.float64]]:
        """Return the column sums of each group for the orders of all units (units by permutations)."""
        import numpy as np

        return [
            np.take_along_axis(group.rows[:, None], table[orders[group.units]], axis=2).sum(axis=0)
            for group, table in zip(self.groups, self._tables, strict=True)
        ]

    def _chunk_size(self) -> int:
        cells = max(self.n_units, 1) * (1 if self._k <= _TABLE_MAX else self._k)
        return max(1, min(256, _CELLS // cells))


def _group(x: NDArray[np.float64], unit_of_row: NDArray[np.intp]) -> list[Group]:
    """Sum the rows of each unit, separately by the columns in which they have values."""
    import numpy as np

    present = ~np.isnan(x)
    patterns, inverse = np.unique(np.packbits(present, axis=1), axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    groups = []
    for pattern in range(len(patterns)):
        members = np.flatnonzero((inverse == pattern) & (unit_of_row >= 0))
        if not members.size or present[members[0]].sum() < 2:
            continue
        columns = np.flatnonzero(present[members[0]])
        rows = x[np.ix_(members, columns)]
        rows = rows - rows.mean(axis=1, keepdims=True)
        units, place = np.unique(unit_of_row[members], return_inverse=True)
        place = place.reshape(-1)
        sums = np.stack([np.bincount(place, weights=column, minlength=units.size) for column in rows.T], axis=1)
        size = np.bincount(place, weights=np.abs(rows).sum(axis=1), minlength=units.size)
        kept = np.ptp(sums, axis=1) > _ROUNDING * size
        if kept.any():
            groups.append(Group(columns=tuple(columns.tolist()), rows=sums[kept], units=units[kept]))
    return groups


def _sorted_units(groups: list[Group]) -> tuple[list[Group], int]:
    """Sort the units by their sums, so that the result does not depend on the order of samples."""
    import numpy as np

    if not groups:
        return groups, 0
    used = np.unique(np.concatenate([group.units for group in groups]))
    contents = np.zeros((used.size, sum(len(group.columns) for group in groups)))
    start = 0
    for group in groups:
        stop = start + len(group.columns)
        contents[np.searchsorted(used, group.units), start:stop] = group.rows
        start = stop
    rank = np.empty(used.size, dtype=np.intp)
    rank[np.lexsort(contents.T)] = np.arange(used.size)

    def renumbered(group: Group) -> Group:
        units = rank[np.searchsorted(used, group.units)]
        order = np.argsort(units)
        return Group(columns=group.columns, rows=group.rows[order], units=units[order])

    return [renumbered(group) for group in groups], int(used.size)


def _orders(k: int, columns: Sequence[int]) -> NDArray[np.intp]:
    """Return for each order of k cells the order of the cells of some columns that sorts them in the same way.

    Order s puts the cell `_orders(k, columns)[s, j]` into the column `columns[j]`.
    """
    import numpy as np

    orders = np.array(list(itertools.permutations(range(k))), dtype=np.intp)
    return orders[:, list(columns)].argsort(axis=1).argsort(axis=1)
