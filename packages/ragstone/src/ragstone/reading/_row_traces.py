"""Rows of datasets, with one query each and common field names, and the files of retrieval research."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.reading._fields import unix_time
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._json import clean
from ragstone.reading._records import Record
from ragstone.reading._repeats import MAX_ROWS, Repeats
from ragstone.reading._report import ReadingReport
from ragstone.reading._row_lists import describe_table, laid_out
from ragstone.reading._rows import RowReader
from ragstone.reading._source import InputFile
from ragstone.reading._tables import open_table
from ragstone.reading._trec import RUN_SUFFIXES, read_beir, read_trec_run
from ragstone.schema import RowProbabilities, Sample, Trace, has_derived_id, trace_from_sample

_TIMES: Final = ("started_at", "start_time", "timestamp", "created_at", "time", "date")
_TEXT_NAMES: Final = ("query", "response", "contexts")
_DETECTED_ROWS: Final = 100
_SPLITS: Final = ("test", "dev", "train")
_MAX_REASON: Final = 500


class RowsFormat:
    """Rows of ragas, deepeval, openevals, Phoenix, MLflow, Langfuse, RAGChecker, autoevals and the like.

    JSON lines, JSON, a table of text, Excel, Parquet or Arrow; a TREC run; a folder with a BEIR data set.
    """

    name = "rows"

    def detect(self, head: bytes) -> str | None:  # noqa: ARG002
        """Return None: rows have any names, and `detect_file` reads some."""
        return None

    def detect_file(self, source: InputFile) -> str | None:
        """Detect rows with a query, a response or passages by reading the first ones, or the file names of BEIR."""
        if source.path.is_dir():
            return "BEIR's `queries.jsonl` and `qrels`" if _is_beir(source) else None
        with suppress(DataError, OSError):
            rows, report = _rows(source)
            reader = RowReader(report=report)
            for position, row in islice(reader.look(rows), _DETECTED_ROWS):
                with suppress(DataError):
                    sample = row if isinstance(row, Sample) else reader.read(row, position)
                    if names := [f"`{name}`" for name in _TEXT_NAMES if getattr(sample, name)]:
                        return f"{report.format} with {' and '.join(names)}"
        return None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read rows as traces. A row without an id gets one of its contents and place, without a time its file's."""
        is_beir, probabilities = _is_beir(source), RowProbabilities()
        for sample in _folder(source) if is_beir else ():
            yield trace_from_sample(sample, source=self.name, started_at=source.modified_at())
        for part in () if is_beir else source.parts():
            started_at = part.modified_at()
            of_part = "" if part is source else f" of {part.name}"
            rows, report = _rows(part)
            reader = RowReader(report=report)
            for position, row in reader.look(rows):
                place = f"row {position}{of_part}"
                trace = trace_of_row(Record(place, row), self.name, started_at, reader)
                yield _weighted(trace, probabilities, place) if isinstance(trace, Trace) else trace
            source.notes.extend(report.lines())


def _is_beir(source: InputFile) -> bool:
    return (source.path / "queries.jsonl").is_file() and any((source.path / "qrels").glob("*.tsv"))


def _rows(source: InputFile) -> tuple[Iterator[tuple[int, Any]], ReadingReport]:
    """Return the rows of a file with their positions, and the report of their reader."""
    table, report = open_table(source), ReadingReport(source=source.name)
    describe_table(table, report)
    return laid_out(table.rows, {}, report), report


def check_repeats(source: InputFile) -> None:
    """Check what the first rows of each file repeat, before one is stored. Warnings become notes of the source."""
    for part in () if _is_beir(source) else source.parts():
        if _are_distinct(_rows(part)[0]):
            continue
        (rows, report), warnings = _rows(part), ReadingReport()
        repeats = Repeats(_until_damage(rows), report)
        try:
            repeats.check_ids()
            repeats.check(warnings)
        except DataError as error:
            raise DataError(
                f"{part.name!r}: {error}. Options are those of `ragstone evaluate`, which reads the same file"
            ) from None
        source.notes.extend(f"{part.name}: {text}" for text in warnings.notes)


def _are_distinct(rows: Iterator[tuple[int, Any]]) -> bool:
    """Return whether each of the first rows has its own question and id, or no id, if two of its cells show it."""
    reader, ids, queries = RowReader(), set[str](), set[str]()
    with suppress(DataError):
        for position, row in islice(reader.look(_until_damage(rows)), MAX_ROWS):
            id_, query = reader.identity(row, position)
            if id_ is None or not query or id_ in ids or query in queries:
                return False
            ids |= {id_} if id_ else set()
            queries.add(query)
        return True
    return False


def _until_damage(rows: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    with suppress(DataError, OSError):
        yield from rows


def trace_of_row(
    record: Record, source: str, started_at: float, reader: RowReader | None = None
) -> Trace | RejectedRecord:
    """Return the trace of one row, or the reason why it cannot be read."""
    row = record.value
    if isinstance(row, Sample):
        return trace_from_sample(row, source=source, started_at=started_at)
    try:
        if isinstance(row, DataError):
            raise row
        row = clean(row)
        sample = (reader or RowReader()).read(row, 1)
    except DataError as error:
        reason = str(error).removeprefix("row 1 ").removeprefix("row 1: ")
        reason = reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}…"
        return RejectedRecord(place=record.place, reason=reason)
    id_ = sample.id
    if has_derived_id(sample):
        body = json.dumps([record.place, _filled(row)], sort_keys=True, ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )
        id_ = f"row-{hashlib.sha256(body).hexdigest()[:24]}"
    sample = sample.model_copy(update={"id": id_, "metadata": _filled(sample.metadata)})
    times = (unix_time(row[name]) for name in _TIMES if name in row)
    return trace_from_sample(sample, source=source, started_at=next((t for t in times if t is not None), started_at))


def _weighted(trace: Trace, probabilities: RowProbabilities, place: str) -> Trace | RejectedRecord:
    try:
        return trace.model_copy(update={"inclusion_probability": probabilities.add(trace.metadata, place)})
    except DataError as error:
        return RejectedRecord(place=place, reason=str(error).removeprefix(f"{place}: "))


def _filled(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _folder(source: InputFile) -> list[Sample]:
    try:
        split = next((name for name in _SPLITS if (source.path / "qrels" / f"{name}.tsv").is_file()), _SPLITS[0])
        runs = sorted(path for path in source.path.iterdir() if path.suffix.lower() in RUN_SUFFIXES)
        return read_beir(source.path, split=split, run=read_trec_run(runs[0]) if runs else None)
    except (OSError, ConfigurationError) as error:
        raise DataError(f"{source.name!r} cannot be read: {error}") from error
