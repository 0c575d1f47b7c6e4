"""Reader of datasets: files, lists and data frames to samples."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from ragstone._util.csv_rows import csv_rows
from ragstone._util.parquet_rows import parquet_rows
from ragstone._util.plural import count
from ragstone._util.row_limits import MAX_ROW_BYTES, BoundedStream, CsvLines, bounded_lines, check_json_row
from ragstone.errors import ConfigurationError, DataError, MissingExtraError
from ragstone.reading._report import ReadingReport, group_reasons
from ragstone.reading._row_ids import RowIds, id_remedy
from ragstone.reading._rows import FIELD_ALIASES, sample_from_row
from ragstone.schema import Sample, Trace, sample_from_trace

if TYPE_CHECKING:
    from ragstone.reading._trec.samples import QrelsSource

_CSV_COLUMNS: Final = 10_000
_SMALL_JSON: Final = 2**20
"""Bytes of a document that cannot have too many values."""
_MAX_REJECTED: Final = 100_000
"""Invalid rows after which a file is not read on."""
_FRAME_ROWS: Final = 1000
"""Rows of a data frame that are converted at once."""

SampleSource = str | os.PathLike[str] | Iterable[Sample | Mapping[str, Any]]
"""Path of a JSONL, JSON, CSV or Parquet file or a TREC run, an iterable of samples or rows, or a pandas data frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that could not be read, and the reason."""

    position: int
    """1-based position of the row."""
    reason: str


def read_samples(
    data: SampleSource,
    *,
    fields: Mapping[str, str] | None = None,
    references: Mapping[str, Sequence[str]] | None = None,
    qrels: QrelsSource | None = None,
    on_bad_row: Literal["raise", "skip"] = "raise",
) -> tuple[list[Sample], list[RejectedRow]]:
    """Read all samples of a dataset.

    Args:
        data: A path (`.jsonl`, `.ndjson`, `.json`, `.csv`, `.parquet`, or `.run` or `.trec` for a TREC run), rows,
            samples or a data frame.
        fields: Maps field names of `Sample` to field names of the data, if the known aliases do not match.
        references: Correct answers by sample id, added to samples without any.
        qrels: Relevance labels by sample id: a path of TREC or BEIR qrels, or a mapping. They are added to samples
            without any. With a TREC run, each query of the qrels becomes a sample, without passages if the run does not
            contain the query.
        on_bad_row: "raise" raises an error with the first invalid rows. "skip" returns them with the samples.

    Raises:
        ConfigurationError: If `on_bad_row` has another value, the file does not exist or has an unknown suffix, or
            `fields` contains a name that is not a field of `Sample`.
        DataError: If a row is invalid (and `on_bad_row` is "raise"), an id occurs twice, or no sample has an id of
            `references` or of `qrels`.
        MissingExtraError: If the file is Parquet and pyarrow is not installed.
    """
    rejected: list[RejectedRow] = []
    samples = list(
        iter_samples(data, rejected, fields=fields, references=references, qrels=qrels, on_bad_row=on_bad_row)
    )
    return samples, rejected


def iter_samples(
    data: SampleSource,
    rejected: list[RejectedRow],
    *,
    fields: Mapping[str, str] | None = None,
    references: Mapping[str, Sequence[str]] | None = None,
    qrels: QrelsSource | None = None,
    on_bad_row: Literal["raise", "skip"] = "raise",
    report: ReadingReport | None = None,
) -> Iterator[Sample]:
    """Yield the samples of a dataset one by one. Arguments and errors are those of `read_samples`.

    Args:
        data: The dataset.
        rejected: Receives the invalid rows.
        fields: Field names of the data.
        references: Correct answers by sample id.
        qrels: Relevance labels by sample id.
        on_bad_row: "raise" raises an error after the last row if a row was invalid.
        report: Receives what was read, and is complete after the last row.
    """
    report = ReadingReport() if report is None else report
    for field in fields or ():
        if field not in FIELD_ALIASES:
            raise ConfigurationError(
                f"{field!r} is not a field of a sample. The fields are {', '.join(FIELD_ALIASES)}. Write "
                "SAMPLE_FIELD=DATA_FIELD (query=Frage)"
            )
    if on_bad_row not in ("raise", "skip"):
        raise ConfigurationError(f"on_bad_row must be 'raise' or 'skip', got {on_bad_row!r}")
    grades = None
    if qrels is not None:
        from ragstone.reading._trec.samples import RUN_SUFFIXES, qrels_from, with_qrels, without_passages

        grades = qrels_from(qrels)
    ids, first = RowIds(), ""
    has_reference = is_judged = False
    for position, row in enumerate(iter_rows(data, report), start=1):
        report.n_rows = position
        try:
            if isinstance(row, DataError):
                raise row
            is_row = not isinstance(row, Sample)
            sample = sample_from_row(row, position=position, fields=fields) if is_row else row
            sample = ids.add(sample, position, is_row=is_row)
        except DataError as error:
            rejected.append(RejectedRow(position=position, reason=str(error)))
            report.reject(str(error))
            if len(rejected) >= _MAX_REJECTED:
                remedy = (
                    id_remedy(ids, data, lambda: iter_rows(data), fields)
                    if ids.repeated
                    else "Is this a file of samples? It was not read on"
                )
                raise build_rows_error(rejected, len(ids.seen), remedy) from None
            continue
        first = first or sample.id
        if references and sample.id in references:
            has_reference = True
            if not sample.reference:
                sample = sample.model_copy(update={"reference": tuple(references[sample.id])})
        if grades is not None and sample.id in grades:
            is_judged = True
            sample = with_qrels(sample, grades)
        yield sample
    if rejected and on_bad_row == "raise":
        remedy = "Fix these rows, or skip them with on_bad_row='skip' (--on-bad-row skip)"
        if ids.repeated:
            # Skipping would drop answers.
            remedy = id_remedy(ids, data, lambda: iter_rows(data), fields)
        raise build_rows_error(rejected, len(ids.seen), remedy)
    if references and first and not has_reference:
        raise DataError(
            f"no sample id matches a reference id (samples: {first!r}, ...; references: "
            f"{next(iter(references))!r}, ...). Use the same ids in both files"
        )
    if grades is not None:
        if first and not is_judged:
            raise DataError(
                f"no sample id matches a query id of the qrels (samples: {first!r}, ...; qrels: "
                f"{next(iter(grades))!r}, ...). Use the same ids in both files"
            )
        if isinstance(data, str | os.PathLike) and Path(data).suffix.lower() in RUN_SUFFIXES:
            yield from without_passages(grades, ids.seen)


def build_rows_error(rejections: Sequence[RejectedRow], n_samples: int, remedy: str) -> DataError:
    """Build the error that lists the first invalid rows."""
    reasons = group_reasons(rejection.reason for rejection in rejections)
    shown = "\n  ".join(reasons[:5])
    more = f"\n  and {len(reasons) - 5} more" if len(reasons) > 5 else ""
    return DataError(
        f"{len(rejections)} of {count(len(rejections) + n_samples, 'row')} cannot be read:\n  {shown}{more}\n{remedy}"
    )


def iter_rows(data: SampleSource, report: ReadingReport | None = None) -> Iterator[Any]:
    """Yield rows, and requests as samples. A line that is not valid JSON is yielded as a `DataError`.

    Args:
        data: The dataset, traces, or a store.
        report: Receives what was read of traces.
    """
    if isinstance(data, str | os.PathLike):
        # Rows in memory need neither the store nor the trace formats.
        from ragstone.reading._traces import trace_samples

        requests = trace_samples(data, ReadingReport() if report is None else report)
        yield from _file_rows(Path(data)) if requests is None else requests
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):
        # A part at a time, because the rows of a frame need many times its memory.
        frame: Any = data
        for start in range(0, len(frame), _FRAME_ROWS):
            yield from frame.iloc[start : start + _FRAME_ROWS].to_dict(orient="records")
    else:
        yield from (sample_from_trace(row) if isinstance(row, Trace) else row for row in data)


def _file_rows(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise ConfigurationError(f"file not found: {str(path)!r}. Give the path of a JSONL, JSON, CSV or Parquet file")
    from ragstone.reading._trec.samples import RUN_SUFFIXES, run_rows

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
            f"unknown format of {str(path)!r}: the suffix must be .jsonl, .ndjson, .json, .csv or .parquet, or "
            ".run or .trec for a TREC run"
        )


def _jsonl_rows(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        for number, line in enumerate(bounded_lines(file), start=1):
            if not line.strip():
                continue
            try:
                check_json_row(line)
                yield json.loads(line.decode("utf-8-sig"))
            except DataError as error:
                yield DataError(f"line {number}: {error}")
            except (ValueError, RecursionError) as error:
                yield DataError(f"line {number} is not valid JSON: {error}")


def _csv_rows(path: Path) -> Iterator[Any]:
    # One cell may contain all passages of a sample. The default limit of the csv module is 128 KiB.
    csv.field_size_limit(MAX_ROW_BYTES)
    try:
        with path.open("rb") as file:
            lines = CsvLines(file, str(path))
            reader = csv_rows(lines, str(path))
            for number, row in enumerate(reader, start=1):
                lines.next_row()
                unnamed: Any = row.pop(None, ())  # a list of the cells beyond the header
                if any(unnamed):
                    # Otherwise a part of a response would be scored as the whole response.
                    yield DataError(f"the row that ends in line {reader.line_num} has more cells than the header")
                elif len(row) > _CSV_COLUMNS:
                    raise DataError(
                        f"{str(path)!r} has {len(row):,} columns in row {number}, more than {_CSV_COLUMNS:,}"
                    )
                else:
                    # An empty cell is an empty text: an empty response is scored, not ignored.
                    yield row
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{str(path)!r} is not a valid CSV file in UTF-8: {error}") from error


def _json_rows(path: Path) -> Iterator[Any]:
    if path.stat().st_size > MAX_ROW_BYTES:
        yield from _large_json_rows(path)
        return
    text = path.read_bytes()
    try:
        # Many rows may have many values together, and a small file cannot.
        if len(text) > _SMALL_JSON:
            check_json_row(text)
        value = json.loads(text.decode("utf-8-sig"))
    except DataError:
        yield from _large_json_rows(path)
        return
    except (ValueError, RecursionError) as error:
        raise DataError(f"{str(path)!r} is not valid JSON: {error}") from error
    del text
    if isinstance(value, Mapping):
        # {"results": [...]}, as RAGChecker writes: the only list in the object holds the rows.
        lists = [v for v in value.values() if isinstance(v, list)]
        if len(lists) != 1:
            raise _not_one_list(path, len(lists))
        value = lists[0]
    if not isinstance(value, list):
        raise DataError(f"{str(path)!r} must contain a list of rows, got {type(value).__name__}")
    yield from value


def _large_json_rows(path: Path) -> Iterator[Any]:
    """Yield the rows of a document that is too large to be parsed as a whole."""
    try:
        import ijson
    except ImportError as error:
        feature = f"A JSON document of more than {MAX_ROW_BYTES} bytes"
        raise MissingExtraError(feature=feature, package="ijson", extra="ragstone[replay]") from error
    try:
        with path.open("rb") as file:
            # The events of the first pass are not kept, so that only texts must be bounded.
            prefix = _list_prefix(path, ijson.basic_parse(_after_mark(file, path, is_whole=True)))
            bounded = _after_mark(file, path)
            for row in ijson.items(bounded, prefix, use_float=True):
                bounded.next_item()
                yield row
    except DataError:
        raise
    except (ijson.JSONError, ValueError, RecursionError) as error:
        raise DataError(f"{str(path)!r} is not valid JSON: {error}") from error


def _list_prefix(path: Path, events: Iterator[tuple[str, Any]]) -> str:
    """Return where ijson finds the rows: in the document, or in the only list of its object."""
    start, _ = next(events, ("", None))
    if start == "start_array":
        return "item"
    if start != "start_map":
        raise DataError(f"{str(path)!r} must contain a list of rows")
    lists: list[str] = []
    depth, name = 1, ""
    for event, value in events:
        if depth == 1 and event == "map_key":
            name = value
        elif depth == 1 and event == "start_array":
            lists.append(name)
        depth += event.startswith("start_") - event.startswith("end_")
    if len(lists) != 1:
        raise _not_one_list(path, len(lists))
    return f"{lists[0]}.item"


def _after_mark(file: BinaryIO, path: Path, *, is_whole: bool = False) -> Any:
    file.seek(0)
    if file.read(3) != b"\xef\xbb\xbf":
        file.seek(0)
    return file if is_whole else BoundedStream(file, str(path))


def _not_one_list(path: Path, n: int) -> DataError:
    return DataError(f"{str(path)!r} must contain a list of rows, or an object with exactly one list, got {n} lists")


def _parquet_rows(path: Path) -> Iterator[Any]:
    for _, row in parquet_rows(path, extra="ragstone[parquet]"):
        yield row
