"""Data sets into samples: files, lists and data frames."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragstone.data._trec.samples import RUN_SUFFIXES, QrelsSource, qrels_from, run_rows, with_qrels
from ragstone.errors import ConfigurationError, DataError, MissingExtraError
from ragstone.schema import FIELD_ALIASES, Sample, sample_from_row

__all__ = ["RejectedRow", "SampleSource", "build_rows_error", "iter_rows", "read_samples"]

SampleSource = str | os.PathLike[str] | Iterable[Sample | Mapping[str, Any]]
"""A path of a JSONL, JSON, CSV or Parquet file or of a TREC run, or samples or rows, or a pandas data frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that could not be read, and why."""

    position: int
    """1-based."""
    reason: str


def read_samples(
    data: SampleSource,
    *,
    fields: Mapping[str, str] | None = None,
    references: Mapping[str, Sequence[str]] | None = None,
    qrels: QrelsSource | None = None,
    on_bad_row: Literal["raise", "skip"] = "raise",
) -> tuple[list[Sample], list[RejectedRow]]:
    """Read every sample of a data set before anything is spent on judging.

    Args:
        data: A path (`.jsonl`, `.ndjson`, `.json`, `.csv`, `.parquet`; `.run` or `.trec` for a TREC run), rows, samples or
            a data frame.
        fields: Our field name to the data's, where the known aliases do not fit.
        references: Sample id to correct answers, added to samples that have none.
        qrels: Relevance by sample id: a path of TREC or BEIR qrels, or a mapping; added to samples that have none. With a
            TREC run each query of the qrels becomes a sample: one that the run lacks has no passages.
        on_bad_row: "raise" names the first bad rows; "skip" returns them beside the samples.

    Raises:
        ConfigurationError: `on_bad_row` is neither, or the file does not exist or has a suffix that is not known; `fields` names no field of ours.
        DataError: A row cannot be read (and `on_bad_row` is "raise"), an id occurs twice, or no sample has the id of
            any of `references` or `qrels`.
        MissingExtraError: Parquet without pyarrow.
    """
    for ours in fields or ():
        if ours not in FIELD_ALIASES:
            raise ConfigurationError(
                f"{ours!r} is no field of a sample, known are {', '.join(FIELD_ALIASES)}; ours comes first (query=Frage)"
            )
    if on_bad_row not in ("raise", "skip"):
        raise ConfigurationError(f"on_bad_row must be 'raise' or 'skip', got {on_bad_row!r}")
    judged = None if qrels is None else qrels_from(qrels)
    samples: list[Sample] = []
    rejections: list[RejectedRow] = []
    seen: dict[str, int] = {}
    for position, row in enumerate(iter_rows(data), start=1):
        try:
            sample = _sample(row, position, fields, seen)
        except DataError as error:
            rejections.append(RejectedRow(position=position, reason=str(error)))
            continue
        seen[sample.id] = position
        if references and not sample.reference and sample.id in references:
            sample = sample.model_copy(update={"reference": tuple(references[sample.id])})
        samples.append(sample)
    if rejections and on_bad_row == "raise":
        way_out = "Mend them, or leave them out (and have them counted) with on_bad_row='skip' (--on-bad-row skip)"
        raise build_rows_error(rejections, len(samples), way_out)
    if references and samples and references.keys().isdisjoint(seen):
        raise DataError(
            f"no sample has the id of a correct answer: samples have {next(iter(seen))!r}, ..., correct answers "
            f"{next(iter(references))!r}, ...; both need ids that match"
        )
    if judged is not None:
        whole_run = isinstance(data, str | os.PathLike) and Path(data).suffix.lower() in RUN_SUFFIXES
        samples = with_qrels(samples, judged, whole_run=whole_run)
    return samples, rejections


def build_rows_error(rejections: Sequence[RejectedRow], n_samples: int, way_out: str) -> DataError:
    """The error that names the first rows that could not be read."""
    shown = "\n  ".join(r.reason for r in rejections[:5])
    more = f"\n  and {len(rejections) - 5} more" if len(rejections) > 5 else ""
    return DataError(
        f"{len(rejections)} of {len(rejections) + n_samples} rows cannot be read:\n  {shown}{more}\n{way_out}"
    )


def _sample(row: object, position: int, fields: Mapping[str, str] | None, seen: Mapping[str, int]) -> Sample:
    if isinstance(row, DataError):
        raise row
    sample = row if isinstance(row, Sample) else sample_from_row(row, position=position, fields=fields)
    if sample.id in seen:
        raise DataError(f"row {position} has the id {sample.id!r} of row {seen[sample.id]}; ids must be unique")
    return sample


def iter_rows(data: SampleSource) -> Iterator[Any]:
    """Yield rows; a line that is no JSON comes out as the `DataError` it is, so that the rest can go on."""
    if isinstance(data, str | os.PathLike):
        yield from _file_rows(Path(data))
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):
        yield from data.to_dict(orient="records")
    else:
        yield from data


def _file_rows(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise ConfigurationError(f"there is no file {str(path)!r}; give a JSONL, JSON, CSV or Parquet file")
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        yield from _jsonl_rows(path)
    elif suffix == ".json":
        yield from _json_rows(path)
    elif suffix == ".csv":
        yield from _csv_rows(path)
    elif suffix == ".parquet":
        yield from _parquet_rows(path)
    elif suffix in RUN_SUFFIXES:
        yield from run_rows(path)
    else:
        raise ConfigurationError(
            f"cannot tell the format of {str(path)!r}: the suffix must be .jsonl, .ndjson, .json, .csv or .parquet, or "
            ".run or .trec for a TREC run"
        )


def _jsonl_rows(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                yield DataError(f"line {number} is no JSON: {error}")


def _csv_rows(path: Path) -> Iterator[Any]:
    # One cell may hold all passages of a sample; the csv module's own limit is 128 KiB.
    csv.field_size_limit(64 * 1024 * 1024)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            for row in reader:
                unnamed: Any = row.pop(None, ())  # a list, of all that are too many
                if any(unnamed):
                    # Half an answer would be scored as if it were all of it.
                    yield DataError(f"the row that ends in line {reader.line_num} has more cells than the first line")
                else:
                    # An empty cell is an empty text: a system that answered nothing scores as such, it is not left out.
                    yield row
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{str(path)!r} is no CSV in UTF-8: {error}") from error


def _json_rows(path: Path) -> Iterator[Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{str(path)!r} is no JSON: {error}") from error
    if isinstance(value, Mapping):
        # {"results": [...]} of RAGChecker and its like: the one list inside is the data.
        lists = [v for v in value.values() if isinstance(v, list)]
        if len(lists) != 1:
            raise DataError(
                f"{str(path)!r} must hold a list of rows, or an object with one list in it; it has {len(lists)}"
            )
        value = lists[0]
    if not isinstance(value, list):
        raise DataError(f"{str(path)!r} must hold a list of rows, got {type(value).__name__}")
    yield from value


def _parquet_rows(path: Path) -> Iterator[Any]:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError(feature="Reading Parquet", package="pyarrow", extra="ragstone[parquet]") from error
    from pyarrow import ArrowInvalid

    try:
        for batch in pq.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except ArrowInvalid as error:
        raise DataError(f"{str(path)!r} is no Parquet file: {error}") from error
