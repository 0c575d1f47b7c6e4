"""`BlockScorer`: scores blocks of rows, and writes each block as one Parquet file. It does not need Ray."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ragstone._util.lazy import needs_extra
from ragstone.capture import Redactor, redact_trace
from ragstone.errors import DataError, JudgeUnavailableError
from ragstone.reading import Record, RejectedRecord, trace_of_row
from ragstone.schema import Failure, NotApplicable, Sample, Score, Trace, sample_from_trace
from ragstone.sinks import RECORD_COLUMNS, record_row
from ragstone.worker import ScorerSpec, get_skip_reason

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

AnyOutcome = Score | NotApplicable | Failure
Digests = npt.NDArray[np.bytes_]

_SOURCE: Final = "ray"
_AWAY: Final = ("unavailable", "rate_limit")
"""Kinds of failures that a later attempt can avoid."""


class BlockScorer:
    """Scores blocks of rows with one scorer, and writes the outcomes of each block to a file of its own.

    A file appears complete or not at all, under a name that depends on the ids of its requests only. So a block that is
    repeated, because its actor was killed, replaces its file or finds it, and its outcomes exist once. `done` are the
    digests of the requests that the output has, from `read_done`. `redact` is applied to all texts.
    """

    def __init__(self, spec: ScorerSpec, output: str, done: Digests, redact: Redactor | None) -> None:
        self._setup = spec.open()
        self._files, self._folder = open_output(output)
        self._done = done
        self._redact = redact
        self._runner = asyncio.Runner()
        try:
            # A wrong address is an error before the first block.
            self._runner.run(self._setup.scorer.prepare())
        except BaseException:
            self.close()
            raise

    def __call__(self, block: pa.Table) -> pa.Table:
        """Score a block, and return its counts as one row: `n_scored`, `n_known` and `n_rejected`, in requests."""
        import pyarrow as pa

        traces, n_rejected = _traces(block.to_pylist(), self._redact)
        digests = _digests(traces)
        new = [
            trace for trace, digest in zip(traces.values(), digests, strict=True) if not _contains(self._done, digest)
        ]
        path = f"{self._folder}/part-{hashlib.sha256(b''.join(digests)).hexdigest()[:32]}.parquet"
        if new and not self._exists(path):
            self._write(path, self._runner.run(self._score(new)))
        counts = {"n_scored": len(new), "n_known": len(traces) - len(new), "n_rejected": n_rejected}
        return pa.table({name: [n] for name, n in counts.items()})

    def close(self) -> None:
        """Close the models' connections."""
        self._runner.run(self._setup.aclose())
        self._runner.close()

    async def _score(self, traces: Sequence[Trace]) -> list[dict[str, Any]]:
        scorer = self._setup.scorer
        rows: list[dict[str, Any]] = []
        samples: list[Sample] = []
        of_id = {trace.trace_id: trace for trace in traces}
        for trace in traces:
            reason = get_skip_reason(trace)
            if reason is None:
                samples.append(sample_from_trace(trace))
            else:
                rows += _rows(trace, scorer.not_applicable(trace, reason))
        async for sample, outcomes in scorer.score_many(samples):
            _check_answered(outcomes)
            rows += _rows(of_id[sample.id], outcomes)
        return rows

    def _exists(self, path: str) -> bool:
        from pyarrow.fs import FileType

        return bool(self._files.get_file_info(path).type == FileType.File)

    def _write(self, path: str, rows: Sequence[dict[str, Any]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow.fs import LocalFileSystem

        schema = pa.schema([pa.field(name, getattr(pa, kind)()) for name, kind in RECORD_COLUMNS.items()])
        table = pa.Table.from_pylist(list(rows), schema=schema)
        # An object store shows an object when it is complete. On a file system it gets its name then.
        is_local = isinstance(self._files, LocalFileSystem)
        folder, _, name = path.rpartition("/")
        draft = f"{folder}/.{name}.{uuid.uuid4().hex[:8]}.tmp" if is_local else path
        pq.write_table(table, draft, compression="zstd", filesystem=self._files)
        if is_local:
            self._files.move(draft, path)


def open_output(output: str) -> tuple[FileSystem, str]:
    """Return the file system of a directory or URI and the path in it. The directory is created.

    Raise DataError if the directory cannot be created. Raise MissingExtraError if pyarrow is not installed.
    """
    with needs_extra("ray", "pyarrow", "Parquet output"):
        from pyarrow.fs import FileSystem
    from pathlib import Path

    try:
        files, folder = FileSystem.from_uri(output if "://" in output else Path(output).absolute().as_uri())
        files.create_dir(folder, recursive=True)
    except (OSError, ValueError) as error:
        raise DataError(f"the output {output!r} cannot be written: {error}. Give a directory or a URI.") from error
    return files, folder


def read_done(output: str) -> Digests:
    """Return the sorted digests of the requests that an output has, in 16 bytes each.

    Raise DataError if a file of the output cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow.fs import FileSelector

    files, folder = open_output(output)
    found: list[bytes] = []
    for info in files.get_file_info(FileSelector(folder)):
        if not info.base_name.startswith(".") and info.base_name.endswith(".parquet"):
            try:
                ids = pq.read_table(info.path, columns=["trace_id"], filesystem=files)["trace_id"]
            except (pa.ArrowException, OSError, KeyError) as error:
                raise DataError(
                    f"{info.base_name!r} in the output {output!r} cannot be read: {str(error)[:200]}. Move it away to score "
                    "its requests again, or give another output."
                ) from error
            found += {_digest(id_) for id_ in ids.to_pylist()}
    return np.unique(np.array(found, dtype="S16"))


def _traces(rows: Iterable[dict[str, Any]], redact: Redactor | None) -> tuple[dict[str, Trace], int]:
    """Return the requests of rows by id, each once, and the number of rows that are not requests."""
    found: dict[str, Trace] = {}
    n_rejected = 0
    for row in rows:
        trace = _trace(row)
        if trace is not None and redact is not None:
            try:
                trace = redact_trace(trace, redact)
            except Exception:  # noqa: BLE001 - what cannot be redacted must not be written, whatever is the matter
                trace = None
        if trace is None:
            n_rejected += 1
        else:
            found.setdefault(trace.trace_id, trace)
    return found, n_rejected


def _trace(row: dict[str, Any]) -> Trace | None:
    """Return the request of a row: a whole record in `trace_json`, or the fields of a row of a data set."""
    record = row.get("trace_json")
    if record is not None:
        try:
            return Trace.model_validate_json(record)
        except (ValueError, TypeError):
            return None
    found = trace_of_row(Record("row", row), _SOURCE, 0.0)
    return None if isinstance(found, RejectedRecord) else found


def _rows(trace: Trace, outcomes: Iterable[AnyOutcome]) -> list[dict[str, Any]]:
    """Return the rows of a request. The first one has the request."""
    return [record_row(outcome, trace if n == 0 else None) for n, outcome in enumerate(outcomes)]


def _check_answered(outcomes: Iterable[AnyOutcome]) -> None:
    """Raise an error if the judge was away, so that the block is not written, and a later run scores it.

    Raise JudgeUnavailableError if it was.
    """
    for outcome in outcomes:
        if isinstance(outcome, Failure) and outcome.kind in _AWAY:
            raise JudgeUnavailableError(
                f"the judge does not answer ({outcome.reason}). Finished blocks are written, and the same call scores the rest."
            )


def _digest(id_: str) -> bytes:
    """Return 16 bytes that stand for an id. The last one is not zero, which NumPy would remove."""
    return hashlib.blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=15).digest() + b"\x01"


def _digests(ids: Iterable[str]) -> list[bytes]:
    return [_digest(id_) for id_ in ids]


def _contains(done: Digests, digest: bytes) -> bool:
    place = int(np.searchsorted(done, np.bytes_(digest)))
    return place < len(done) and done[place] == digest
