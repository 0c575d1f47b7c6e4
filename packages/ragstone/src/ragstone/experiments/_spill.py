"""Samples and outcomes of large runs: in a temporary file, with only their positions in memory."""

from __future__ import annotations

import pickle
import tempfile
import threading
import weakref
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, overload

from typing_extensions import override

from ragstone._util.id_table import IdTable
from ragstone.errors import StoreError
from ragstone.experiments._clusters import SampleFields, cluster_keys, collect_fields
from ragstone.experiments._table import TableReader
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, Outcome, Sample, Score

T = TypeVar("T")

MAX_ROWS_IN_MEMORY: Final = 10_000
"""Number of rows from which samples and outcomes are in a file."""
_MAX_BYTES_IN_MEMORY: Final = 64 * 2**20
"""Size of the samples from which they are in a file, as estimated by `_size`."""
_BYTES_OF_PASSAGE: Final = 700
"""Memory of a passage besides its text."""
_BUFFER: Final = 2**20
_LENGTH: Final = 4
"""Bytes of the length before each item."""
_FIRST_READ: Final = 4096


class _ItemFile:
    """Pickled items in a file without a name, which no other user can open and which ends with the process.

    It is created and read by this process only, so it is safe to unpickle.
    """

    def __init__(self) -> None:
        try:
            # The file is without a name, or its name is removed at once, and its mode is 0600.
            self._file = tempfile.TemporaryFile(prefix="ragstone-", buffering=0)  # noqa: SIM115 - closed below
        except OSError as error:
            raise _disk_error(error) from error
        self._waiting = bytearray()
        """What is not yet in the file."""
        self._end = 0
        """Size of the file with what waits."""
        self._lock = threading.Lock()
        self.close = weakref.finalize(self, self._file.close)

    def add(self, item: object) -> int:
        """Write an item, and return its place."""
        data = pickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL)
        with self._lock:
            place = self._end
            self._waiting += len(data).to_bytes(_LENGTH, "little") + data
            self._end += _LENGTH + len(data)
            if len(self._waiting) >= _BUFFER:
                self._write()
        return place

    def read(self, place: int) -> Any:
        """Return the item at a place."""
        if self._file.closed:
            raise StoreError("this experiment is closed, so its samples and outcomes cannot be read. Read them before")
        with self._lock:
            self._write()
            self._file.seek(place)
            start = self._file.read(_FIRST_READ)
            length = int.from_bytes(start[:_LENGTH], "little")
            data = start[_LENGTH : _LENGTH + length]
            while len(data) < length:
                data += self._file.read(length - len(data))
        return pickle.loads(data)  # noqa: S301 - written by this process into a file without a name

    def _write(self) -> None:
        try:
            self._file.seek(self._end - len(self._waiting))
            while self._waiting:
                n_written = self._file.write(self._waiting)
                del self._waiting[:n_written]
        except OSError as error:
            raise _disk_error(error) from error


def _disk_error(error: OSError) -> StoreError:
    return StoreError(
        f"samples and outcomes of a large run cannot be kept in {tempfile.gettempdir()!r}: {error}. Free space there, "
        "or set TMPDIR to a directory with more space"
    )


class _OnDisk(Sequence[T]):
    """A sequence whose items are in a file. It equals a tuple of the same items, and is pickled as one."""

    _what = "items"
    _file: _ItemFile

    def _at(self, index: int) -> T:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    @override
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._at(at) for at in range(*index.indices(len(self))))
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"index {index} is outside of {len(self)} {self._what}")
        return self._at(at)

    @override
    def __iter__(self) -> Iterator[T]:
        return map(self._at, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | _OnDisk):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} {self._what} in a temporary file>"

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)

    def close(self) -> None:
        """Remove the file. The items can no longer be read."""
        self._file.close()


class SamplesOnDisk(_OnDisk[Sample]):
    """Samples in a file."""

    _what = "samples"

    def __init__(self, file: _ItemFile, places: array[int]) -> None:
        self._file = file
        self._places = places
        self._ids: IdTable | None = None
        self._fields: dict[tuple[str, ...], SampleFields] = {}

    def __len__(self) -> int:
        return len(self._places)

    @override
    def _at(self, index: int) -> Sample:
        sample: Sample = self._file.read(self._places[index])
        return sample

    def find(self, sample_id: str) -> Sample | None:
        """Return the sample with this id, or None."""
        if self._ids is None:
            self._ids = IdTable()
            for sample in self:
                self._ids.add(sample.id)
        index = self._ids.find(sample_id)
        return None if index is None else self._at(index)

    def fields(self, keys: tuple[str, ...]) -> SampleFields:
        """Return the labels and sampling probabilities of the samples. They are read once."""
        if keys not in self._fields:
            self._fields[keys] = collect_fields(self, keys, sample_ids=_Ids(self))
        return self._fields[keys]


class _Ids(Collection[str]):
    """Ids of samples in a file."""

    def __init__(self, samples: SamplesOnDisk) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[str]:
        return (sample.id for sample in self._samples)

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, str) and self._samples.find(id_) is not None


class OutcomesOnDisk(_OnDisk[Outcome]):
    """Outcomes in a file: the same number for each sample, ordered by sample, then by metric."""

    _what = "outcomes"

    def __init__(self, file: _ItemFile, places: array[int], scores: TableReader) -> None:
        self._file = file
        self._places = places
        self.scores = scores
        """Scores by the number of the sample."""
        self._n_metrics = len(scores.columns)
        self._last: tuple[int, tuple[Outcome, ...]] = (-1, ())

    def __len__(self) -> int:
        return len(self._places) * self._n_metrics

    @override
    def _at(self, index: int) -> Outcome:
        row, metric = divmod(index, self._n_metrics)
        last = self._last
        if last[0] != row:
            self._last = last = (row, self._file.read(self._places[row]))
        return last[1][metric]

    def replace(self, index: int, outcome: Outcome) -> None:
        """Put another outcome with the same value at an index."""
        row, metric = divmod(index, self._n_metrics)
        outcomes = list(self._file.read(self._places[row]))
        outcomes[metric] = outcome
        self._places[row] = self._file.add(tuple(outcomes))
        self._last = (-1, ())


class SampleRows:
    """Samples that are added one by one, in memory until they are many or large."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []
        self._size = 0
        self._file: _ItemFile | None = None
        self._places = array("Q")

    def add(self, sample: Sample) -> None:
        """Add a sample. Raise StoreError if the temporary file cannot be written."""
        if self._file is not None:
            self._places.append(self._file.add(sample))
            return
        self._samples.append(sample)
        self._size += _size(sample)
        if len(self._samples) >= MAX_ROWS_IN_MEMORY or self._size > _MAX_BYTES_IN_MEMORY:
            self._file = _ItemFile()
            self._places.extend(map(self._file.add, self._samples))
            self._samples.clear()

    def finish(self) -> tuple[Sample, ...] | SamplesOnDisk:
        """Return the samples."""
        return tuple(self._samples) if self._file is None else SamplesOnDisk(self._file, self._places)


class OutcomeRows:
    """Outcomes of `n_rows` samples that finish in any order. The cards are in the order of the outcomes of a sample."""

    def __init__(self, cards: Sequence[MetricCard], n_rows: int, *, on_disk: bool) -> None:
        self._rows: list[tuple[Outcome, ...]] = [()] * (0 if on_disk else n_rows)
        self._file = _ItemFile() if on_disk else None
        self._places = array("Q", bytes(8 * n_rows if on_disk else 0))
        self._scores = TableReader()
        self._scores.expect(cards)

    def put(self, row: int, outcomes: tuple[Outcome, ...]) -> None:
        """Keep the outcomes of the sample with this number, from 0. StoreError if the file cannot be written."""
        if self._file is None:
            self._rows[row] = outcomes
            return
        self._places[row] = self._file.add(outcomes)
        for outcome in outcomes:
            self._scores.column(outcome).put(row, outcome)

    def finish(self) -> tuple[Outcome, ...] | OutcomesOnDisk:
        """Return the outcomes of all samples, ordered by sample, then by metric."""
        if self._file is None:
            return tuple(outcome for outcomes in self._rows for outcome in outcomes)
        return OutcomesOnDisk(self._file, self._places, self._scores)


def count_failures(outcomes: Sequence[Outcome]) -> Counter[str]:
    """Return the number of failures by kind."""
    if isinstance(outcomes, OutcomesOnDisk):
        return outcomes.scores.count_failures()
    return Counter(outcome.kind for outcome in outcomes if isinstance(outcome, Failure))


def replace_outcomes(outcomes: Sequence[Outcome], changes: Mapping[int, Score]) -> Sequence[Outcome]:
    """Return outcomes with others of the same value at some indexes. Those in a file are changed there."""
    if isinstance(outcomes, OutcomesOnDisk):
        for index, outcome in changes.items():
            outcomes.replace(index, outcome)
        return outcomes
    return tuple(changes.get(index, outcome) for index, outcome in enumerate(outcomes))


def read_fields(samples: Iterable[Sample], cluster: str | None) -> SampleFields:
    """Read the sampling probabilities of samples, and their labels for a choice of clusters."""
    keys = cluster_keys(cluster)
    return samples.fields(keys) if isinstance(samples, SamplesOnDisk) else collect_fields(samples, keys)


def _size(sample: Sample) -> int:
    """Estimate the memory of a sample in bytes, from its long texts."""
    texts = (sample.query or "", sample.response or "", *sample.reference)
    return sum(map(len, texts)) + sum(_BYTES_OF_PASSAGE + len(passage.text) for passage in sample.contexts or ())
