"""Rows of a Parquet or Arrow file in bounded memory, although a small file can describe gigabytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from ragstone._util.lazy import needs_extra
from ragstone._util.row_limits import MAX_ROW_BYTES, MAX_ROW_VALUES, refuse_repeated
from ragstone.errors import DataError

_BATCH: Final = 64
"""Rows that are read at once, if they are small."""
_PAGES_BYTES: Final = 128 * 2**20
"""Sum over the columns of their largest pages, which are in memory together."""
_REPEATED: Final = 16_000_000
"""Values in lists of one row group: one row may have all of them."""
_DAMAGE: Final = (OSError, ValueError, LookupError, TypeError, RecursionError, OverflowError, MemoryError)
"""Errors that pyarrow raises for damage, by place, in addition to its own."""
_VALUE_BYTES: Final = 64
"""Memory of a value besides its text."""


def parquet_rows(path: Path, *, extra: str, name: str = "") -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Yield the rows with their number from 1, or for a row that is too large its error.

    Raise DataError if the file, or the rest of it, cannot be read, or would take too much memory. Raise
    MissingExtraError if pyarrow is not installed.
    """
    with needs_extra(extra, "pyarrow", "Reading Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    number = 0
    try:
        with path.open("rb") as file:
            groups = _read_groups(file)
            _check_pages(file, groups)
        # Texts stay in their dictionaries, and a column is not read as a whole.
        metadata = pq.read_metadata(path)
        columns = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        with pq.ParquetFile(path, read_dictionary=texts, buffer_size=2**20, pre_buffer=False) as table:
            for index, group in enumerate(groups):
                for batch in table.iter_batches(batch_size=_batch_rows(group), row_groups=[index]):
                    for number, row in _batch_values(batch, number):  # noqa: B020 - evaluated once, before the loop
                        yield number, row
    except (pa.ArrowException, *_DAMAGE) as error:
        raise _damage_error(name or str(path), "Parquet", number, error) from error


def arrow_rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Yield the rows of an Arrow file (Feather) or stream with their number from 1. Errors are those of `parquet_rows`."""
    with needs_extra("parquet", "pyarrow", "Reading Arrow"):
        import pyarrow as pa
    number = 0
    try:
        with pa.OSFile(str(path)) as file:
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            reader = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
            batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
            for whole in batches:
                for start in range(0, whole.num_rows, _BATCH):
                    for number, row in _batch_values(whole.slice(start, _BATCH), number):  # noqa: B020 - evaluated once, before the loop
                        yield number, row
    except (pa.ArrowException, *_DAMAGE) as error:
        raise _damage_error(str(path), "Arrow", number, error) from error


def _batch_values(batch: Any, before: int) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Yield the rows of a batch that follows `before` rows."""
    batch.validate(full=True)  # damaged places in a dictionary would be read as memory
    refuse_repeated(batch.schema.names, "the file")
    sizes = _row_bytes(batch.to_struct_array())
    for i in range(batch.num_rows):
        if sizes[i] > MAX_ROW_BYTES:
            yield before + i + 1, DataError(f"row {before + i + 1} has more than {MAX_ROW_BYTES} bytes")
        else:
            yield before + i + 1, batch.slice(i, 1).to_pylist()[0]


def _damage_error(name: str, kind: str, number: int, error: BaseException) -> DataError:
    what = " ".join(str(error).split())[:200]
    return DataError(f"{name!r} cannot be read as {kind} from row {number + 1}: {what}")


class _Column(NamedTuple):
    """A column of a row group, as the end of the file describes it."""

    n_values: int
    start: int
    """Place of its first page in the file."""
    n_bytes: int
    """Size of all its pages in the file."""


class _Group(NamedTuple):
    """A row group."""

    columns: list[_Column]
    n_rows: int


def _batch_rows(group: _Group) -> int:
    """Return how many rows of a group are read at once. Raise DataError if one row can have too many values."""
    in_lists = [column.n_values for column in group.columns if column.n_values > group.n_rows]
    if sum(in_lists) > max(_REPEATED, 64 * group.n_rows):
        raise DataError(
            f"a row group has {sum(in_lists):,} values in lists, more than {_REPEATED:,}. Write the file with smaller row groups"
        )
    return max(1, min(_BATCH, MAX_ROW_VALUES // max(max(in_lists, default=0) // max(group.n_rows, 1), 1)))


def _row_bytes(array: Any) -> Any:
    """Return the memory of each row in bytes, without making its values."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = _row_bytes(array.dictionary)
        if not len(lengths):
            return np.full(len(array), _VALUE_BYTES, np.int64)
        return lengths[pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False)]
    if pa.types.is_struct(kind):
        return sum(map(_row_bytes, array.flatten()), start=np.full(len(array), _VALUE_BYTES, np.int64))
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        parts = (array.keys, array.items) if pa.types.is_map(kind) else (array.values,)
        inner = sum(map(_row_bytes, parts))
        # `keys`, `items` and `values` ignore the offset of a slice, as the offsets do.
        sums = np.concatenate([[0], np.cumsum(inner)])
        return _VALUE_BYTES + sums[offsets[1:]] - sums[offsets[:-1]]
    if pa.types.is_fixed_size_list(kind):
        inner = _row_bytes(array.flatten())
        width = kind.list_size
        return np.full(len(array), _VALUE_BYTES, np.int64) if not width else inner.reshape(-1, width).sum(axis=1)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if any(is_kind(kind) for is_kind in texts):
        lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
        return lengths.astype(np.int64) + _VALUE_BYTES
    return np.full(len(array), _VALUE_BYTES, np.int64)


def _check_pages(file: BinaryIO, groups: Sequence[_Group]) -> None:
    """Check the sizes that the headers of all pages name, which is what a reader allocates.

    Raise DataError if the pages are too large, or a header is damaged.
    """
    for number, group in enumerate(groups, start=1):
        total = 0
        for column in group.columns:
            place, largest = column.start, 0
            while place < column.start + column.n_bytes:
                size, packed, header = _page_sizes(file, place)
                largest = max(largest, size)
                if total + largest > _PAGES_BYTES:
                    raise DataError(
                        f"row group {number} has pages of more than {_PAGES_BYTES // 2**20} MiB. Write the file with smaller pages"
                    )
                place += header + packed
            total += largest


def _read_groups(file: BinaryIO) -> list[_Group]:
    """Read the row groups from the end of a file. If it is damaged, pyarrow may abort the process when it describes them.

    It is a struct of Thrift's compact protocol. Its field 4 lists the groups. Of a group, 1 lists the columns and 3 is
    the number of rows. Of a column, 3 is a struct: 5 the number of values, 7 the compressed size, 9 and 11 the first
    pages. Raise DataError if it is damaged.
    """
    file.seek(0, os.SEEK_END)
    end = file.tell()  # codespell:ignore
    file.seek(max(end - 8, 0))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length > min(end - 8, _FOOTER_BYTES):
        raise DataError("its end is damaged, or it is not a Parquet file")
    file.seek(end - 8 - length)
    reader = _Compact(file.read(length))
    groups: list[_Group] = []
    for field, kind in reader.fields():
        if (field, kind) != (4, _Compact.LIST):
            reader.skip(kind)
            continue
        for _ in reader.structs():
            columns: list[_Column] = []
            n_rows = 0
            for field_of_group, kind_of_field in reader.fields():
                if (field_of_group, kind_of_field) == (1, _Compact.LIST):
                    columns += [_read_column(reader) for _ in reader.structs()]
                elif (field_of_group, kind_of_field) == (3, _Compact.I64):
                    n_rows = reader.number()
                else:
                    reader.skip(kind_of_field)
            groups.append(_Group(columns, n_rows))
    return groups


def _read_column(reader: _Compact) -> _Column:
    numbers: dict[int, int] = {}
    for field, kind in reader.fields():
        if (field, kind) != (3, _Compact.STRUCT):
            reader.skip(kind)
            continue
        for inner, inner_kind in reader.fields():
            if inner_kind == _Compact.I64:
                numbers[inner] = reader.number()
            else:
                reader.skip(inner_kind)
    pages = [numbers[field] for field in (9, 11) if numbers.get(field, 0) > 0]
    if not pages or min(numbers.get(field, -1) for field in (5, 7)) < 0:
        raise DataError("its end is damaged")
    return _Column(numbers[5], min(pages), numbers[7])


_FOOTER_BYTES: Final = 64 * 2**20
_HEADER_BYTES: Final = 64 * 2**10


def _page_sizes(file: BinaryIO, place: int) -> tuple[int, int, int]:
    """Return the size of a page, its compressed size, and the size of its header, in bytes.

    The header is a struct of Thrift's compact protocol: 1 is the type, 2 the size, 3 the compressed size.
    """
    file.seek(place)
    reader = _Compact(file.read(_HEADER_BYTES))
    sizes = {2: -1, 3: -1}
    for field, kind in reader.fields():
        if field in sizes and kind == _Compact.I32:
            sizes[field] = reader.number()
        else:
            reader.skip(kind)
    if sizes[2] < 0 or sizes[3] < 0:
        raise DataError(f"the header of the page at byte {place} is damaged")
    return sizes[2], sizes[3], reader.place


class _Compact:
    """Reader of the parts of Thrift's compact protocol that the header of a page has."""

    I32: Final = 5
    I64: Final = 6
    LIST: Final = 9
    STRUCT: Final = 12
    _NUMBERS: Final = (4, 5, 6)
    _SIZES: Final = {1: 0, 2: 0, 3: 1, 7: 8}
    """Bytes of the values of a kind with a fixed size: true, false, a byte, and a floating-point number."""
    _MAX_DEPTH: Final = 8

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0
        self._depth = 0

    def _byte(self) -> int:
        if self.place >= len(self._data):
            raise DataError("the header of a page is damaged")
        self.place += 1
        return self._data[self.place - 1]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 63:
                raise DataError("the header of a page is damaged")

    def number(self) -> int:
        """Return a signed integer."""
        raw = self._varint()
        return (raw >> 1) ^ -(raw & 1)

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and kind of each field of a struct. The caller reads or skips the value of each."""
        field = 0
        while head := self._byte():
            step = head >> 4
            field = field + step if step else self.number()
            yield field, head & 0x0F

    def structs(self) -> Iterator[None]:
        """Yield once for each struct of a list. The caller reads all its fields."""
        head = self._byte()
        n = head >> 4 if head >> 4 != 15 else self._varint()
        if n and head & 0x0F != self.STRUCT:
            raise DataError("its end is damaged")
        for _ in range(n):
            yield

    def skip(self, kind: int) -> None:
        """Skip a value."""
        if kind in self._SIZES:
            self.place += self._SIZES[kind]
        elif kind in self._NUMBERS:
            self._varint()
        elif kind == 8:
            n_bytes = self._varint()
            self.place += n_bytes
        elif kind in (9, 10):
            head = self._byte()
            n = head >> 4 if head >> 4 != 15 else self._varint()
            for _ in range(min(n, len(self._data))):
                self.skip(3 if head & 0x0F in (1, 2) else head & 0x0F)
        elif kind == 12:
            self._depth += 1
            if self._depth > self._MAX_DEPTH:
                raise DataError("the header of a page is damaged")
            for _, inner in self.fields():
                self.skip(inner)
            self._depth -= 1
        else:
            raise DataError("the header of a page is damaged")
