"""Rows of a Parquet or Arrow file. No row is made whose values would take too much memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ragstone._util.lazy import needs_extra
from ragstone._util.row_limits import MAX_ROW_BYTES, refuse_repeated
from ragstone.errors import DataError

_BATCH: Final = 64
"""Rows that are read at once."""
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
        # Texts stay in their dictionaries, and a column is not read as a whole.
        metadata = pq.read_metadata(path)
        columns = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        with pq.ParquetFile(path, read_dictionary=texts, buffer_size=2**20, pre_buffer=False) as table:
            # One by one, because pyarrow does not read dictionaries within lists over several row groups. They are not
            # described before: it ends the process if the description of one is damaged.
            for group in range(metadata.num_row_groups):
                for batch in table.iter_batches(batch_size=_BATCH, row_groups=[group]):
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
