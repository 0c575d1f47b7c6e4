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

__all__ = ["Group", "distinct_choices", "enumerated_sums", "group_rows", "permuted_sums"]

_TABLE_MAX = 7
"""Largest k for which all k! orders of k cells are stored in a table (7! = 5,040)."""

_CELLS = 1 << 18
"""Rows times permutations per batch (14 bytes each, 4 MB in total)."""

_BINS = 1 << 19
"""Maximum numbers in the sums by order of one chunk (4 MB)."""

_MAX_UNITS = 1 << 14
"""Maximum number of rows that are permuted separately. More rows are summed in this number of blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows with values in the same columns, without rows whose values are all equal."""

    columns: tuple[int, ...]
    rows: NDArray[np.float64]
    """Rows by present columns, each centered at its mean."""


def group_rows(x: NDArray[np.float64], rng: np.random.Generator) -> list[Group]:
    """Group rows by the columns in which they have values.

    Rows with fewer than two values, or with equal values, do not contain information about differences of columns and
    are omitted. More than 16,384 rows are summed in random blocks, and each block is permuted as one row. This bounds the
    time and keeps the test exact, because the permutations of a block are a subgroup of those of its rows.

    Args:
        x: Rows by columns. NaN is a missing cell.
        rng: Random generator for the blocks.
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
            # Sorted rows make the result independent of the order of samples.
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
    """Sum random rows in blocks whose sizes differ by at most one."""
    import numpy as np

    block = rng.permutation(len(rows)) % n_blocks
    return np.stack([np.bincount(block, weights=column, minlength=n_blocks) for column in rows.T], axis=1)


def _orders(k: int) -> NDArray[np.intp]:
    """Return all orders of k cells. Order s puts cell `_orders(k)[s, j]` into column j."""
    import numpy as np

    return np.array(list(itertools.permutations(range(k))), dtype=np.intp)


def distinct_choices(groups: Sequence[Group], limit: int) -> list[list[NDArray[np.intp]]] | None:
    """Return for each row the orders that give distinct rows, or None if there are more than `limit` combinations."""
    import numpy as np

    total, choices = 1, []
    for group in groups:
        if len(group.columns) > _TABLE_MAX:
            return None
        table = _orders(len(group.columns))
        by_row = []
        for row in group.rows:
            _, first = np.unique(row[table], axis=0, return_index=True)
            total *= len(first)
            if total > limit:
                return None
            by_row.append(first.astype(np.intp))
        choices.append(by_row)
    return choices


def permuted_sums(
    groups: Sequence[Group], n_resamples: int, seed: np.random.SeedSequence
) -> Iterator[tuple[int, list[NDArray[np.float64]]]]:
    """Yield chunks of permutations: their number, and for each group the column sums, one row per permutation.

    The chunks depend only on the shape of the data. Each chunk uses its own child of the seed.
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
    """Yield chunks as `permuted_sums` does, with each combination of `distinct_choices` once."""
    import numpy as np

    sizes = [len(options) for by_row in choices for options in by_row]
    total, size = math.prod(sizes), _chunk_size(groups)
    sums = [_Summer(group.rows) for group in groups]
    for start in range(0, total, size):
        rest = np.arange(start, min(start + size, total))
        count, chunk = rest.size, []
        for one, by_row in zip(sums, choices, strict=True):
            orders = np.empty((len(by_row), count), dtype=np.int32)
            for row, options in enumerate(by_row):
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
    """Column sums of rows after a separate permutation of each row.

    Rows with the same order are summed first, for all permutations at once, as the product of a sparse matrix of ones and
    the rows. The k! sums are then permuted and added. This takes a third of the time of gathering every cell.
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
        """Compute the sums for given orders (rows by permutations), which are overwritten."""
        import numpy as np
        from scipy.sparse import csc_array

        n, count = orders.shape
        orders += np.arange(count, dtype=np.int32) * self._n_orders
        if self._ones.size < orders.size:
            self._ones = np.ones(orders.size)
        starts = np.arange(0, orders.size + 1, count, dtype=np.int32)
        which = csc_array((self._ones[: orders.size], orders.reshape(-1), starts), shape=(count * self._n_orders, n))
        by_order = np.asarray(which @ self._rows)
        # A product instead of `take` would start threads without a benefit.
        placed: NDArray[np.float64] = by_order.reshape(count, -1).take(self._place, axis=1).sum(axis=2)
        return placed
