"""Random arrangements of cells within their rows, many at a time: what paired randomisation tests permute."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Group", "distinct_choices", "enumerated_sums", "group_rows", "permuted_sums"]

_TABLE_MAX = 7
"""Up to here all k! orders of k cells are tabled: 7! = 5,040 of them."""

_CELLS = 1 << 18
"""Rows times permutations worked on at once: 14 bytes each, so 4 MB."""

_BINS = 1 << 19
"""Numbers in the sums by order of one chunk: 4 MB."""

_MAX_UNITS = 1 << 14
"""Rows permuted apart; beyond, rows are added up in this many blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows that have values in the same columns, less those whose values are all equal."""

    columns: tuple[int, ...]
    rows: NDArray[np.float64]
    """Rows by present columns, each centred on its mean."""


def group_rows(x: NDArray[np.float64], rng: np.random.Generator) -> list[Group]:
    """Group rows by the columns they have values in.

    Rows with fewer than two values, or with equal values, say nothing about a difference of columns and are left out.
    Beyond 16,384 rows, random rows are added up to blocks that are permuted as one. That keeps the test exact, because
    the common rearrangements of a block are a subgroup of those of its rows, and bounds its time.

    Args:
        x: Rows by columns; NaN is a missing cell.
        rng: Makes the blocks.
    """
    import numpy as np

    present = ~np.isnan(x)
    patterns, inverse = np.unique(np.packbits(present, axis=1), axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    groups = []
    for pattern in range(len(patterns)):
        members = np.flatnonzero(inverse == pattern)
        columns = np.flatnonzero(present[members[0]])
        if columns.size < 2:
            continue
        rows = x[np.ix_(members, columns)] if len(patterns) > 1 else x[:, columns]
        rows = rows[rows.min(axis=1) < rows.max(axis=1)]
        if len(rows):
            # Samples arrive in any order, and the result is a function of the rows alone.
            rows = rows[np.lexsort(rows.T)]
            groups.append(Group(columns=tuple(columns.tolist()), rows=rows - rows.mean(axis=1, keepdims=True)))
    total = sum(len(group.rows) for group in groups)
    if total <= _MAX_UNITS:
        return groups
    return [
        Group(columns=group.columns, rows=_blocks(group.rows, math.ceil(len(group.rows) * _MAX_UNITS / total), rng))
        for group in groups
    ]


def _blocks(rows: NDArray[np.float64], n_blocks: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Sums of random rows, in blocks of equal size, give or take one."""
    import numpy as np

    block = rng.permutation(len(rows)) % n_blocks
    return np.stack([np.bincount(block, weights=column, minlength=n_blocks) for column in rows.T], axis=1)


def _orders(k: int) -> NDArray[np.intp]:
    """All orders of k cells: order s puts cell `_orders(k)[s, j]` into column j."""
    import numpy as np

    return np.array(list(itertools.permutations(range(k))), dtype=np.intp)


def distinct_choices(groups: Sequence[Group], limit: int) -> list[list[NDArray[np.intp]]] | None:
    """For each row the orders that give different rows; None where their combinations number more than `limit`."""
    import numpy as np

    total, choices = 1, []
    for group in groups:
        if len(group.columns) > _TABLE_MAX:
            return None
        table = _orders(len(group.columns))
        mine = []
        for row in group.rows:
            _, first = np.unique(row[table], axis=0, return_index=True)
            total *= len(first)
            if total > limit:
                return None
            mine.append(first.astype(np.intp))
        choices.append(mine)
    return choices


def permuted_sums(
    groups: Sequence[Group], n_resamples: int, seed: np.random.SeedSequence
) -> Iterator[tuple[int, list[NDArray[np.float64]]]]:
    """Yield chunk after chunk of permutations: how many, and for each group their column sums, one row a permutation.

    The chunks depend on the data's shape alone, and each has a child of the seed of its own.
    """
    import numpy as np

    size = _chunk_size(groups)
    children = seed.spawn(math.ceil(n_resamples / size))
    sums = [_Summer(group.rows) for group in groups]
    for number, child in enumerate(children):
        count = min(size, n_resamples - number * size)
        rng = np.random.default_rng(child)
        yield count, [one.random(count, rng) for one in sums]


def enumerated_sums(
    groups: Sequence[Group], choices: Sequence[Sequence[NDArray[np.intp]]]
) -> Iterator[tuple[int, list[NDArray[np.float64]]]]:
    """Yield the same for each combination of `distinct_choices`, once."""
    import numpy as np

    sizes = [len(options) for mine in choices for options in mine]
    total, size = math.prod(sizes), _chunk_size(groups)
    sums = [_Summer(group.rows) for group in groups]
    for start in range(0, total, size):
        rest = np.arange(start, min(start + size, total))
        count, chunk = rest.size, []
        for one, mine in zip(sums, choices, strict=True):
            orders = np.empty((len(mine), count), dtype=np.int32)
            for row, options in enumerate(mine):
                rest, digit = np.divmod(rest, len(options))
                orders[row] = options[digit]
            chunk.append(one.ordered(orders))
        yield count, chunk


def _chunk_size(groups: Sequence[Group]) -> int:
    rows = max((len(group.rows) for group in groups), default=1)
    widths = [len(group.columns) for group in groups]
    bins = max((math.factorial(k) * k for k in widths if k <= _TABLE_MAX), default=1)
    cells = rows * max((k for k in widths if k > _TABLE_MAX), default=1)
    return max(1, min(256, _CELLS // cells, _BINS // bins))


class _Summer:
    """Column sums of rows after each was put into an order of its own.

    Rows that got the same order are added up first, all permutations at once, as the product of a sparse matrix of ones
    and the rows; the k! sums are then put in order and added. That takes a third of the time of gathering every cell.
    """

    __slots__ = ("_n_orders", "_ones", "_place", "_rows")

    def __init__(self, rows: NDArray[np.float64]) -> None:
        import numpy as np

        self._rows = rows
        k = rows.shape[1]
        if k > _TABLE_MAX:
            return
        table = _orders(k)
        self._n_orders = len(table)
        # Column j is the sum over all orders s of cell table[s, j].
        self._place = (np.arange(self._n_orders) * k + table.T).astype(np.intp)
        self._ones = np.ones(0)

    def random(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        import numpy as np

        n, k = self._rows.shape
        if k > _TABLE_MAX:
            copies = np.broadcast_to(self._rows, (count, n, k))
            total: NDArray[np.float64] = rng.permuted(copies, axis=2).sum(axis=1)
            return total
        return self.ordered(rng.integers(0, self._n_orders, (n, count), dtype=np.uint16).astype(np.int32))

    def ordered(self, orders: NDArray[np.int32]) -> NDArray[np.float64]:
        """Sums for given orders, rows by permutations; overwrites them."""
        import numpy as np
        from scipy.sparse import csc_array

        n, count = orders.shape
        orders += np.arange(count, dtype=np.int32) * self._n_orders
        if self._ones.size < orders.size:
            self._ones = np.ones(orders.size)
        starts = np.arange(0, orders.size + 1, count, dtype=np.int32)
        which = csc_array((self._ones[: orders.size], orders.reshape(-1), starts), shape=(count * self._n_orders, n))
        by_order = np.asarray(which @ self._rows)
        # Gathered, not multiplied: a product would wake threads for nothing.
        placed: NDArray[np.float64] = by_order.reshape(count, -1).take(self._place, axis=1).sum(axis=2)
        return placed
