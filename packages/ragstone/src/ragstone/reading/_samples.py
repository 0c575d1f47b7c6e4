"""Reader of datasets: files, lists and data frames to samples."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ragstone._util.id_table import IdTable
from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError, DataError
from ragstone.reading._columns import FIELD_ALIASES
from ragstone.reading._report import ReadingReport, group_reasons
from ragstone.reading._row_lists import RUN, Choice, describe_table, is_left_out, laid_out, object_rows
from ragstone.reading._rows import RowReader
from ragstone.schema import Sample, Trace, fingerprint, has_derived_id, sample_from_trace

if TYPE_CHECKING:
    from ragstone.reading._repeats import Repeats
    from ragstone.reading._source import InputFile
    from ragstone.reading._trec import QrelsSource

_MAX_ASKED: Final = 10_000
"""Rows whose questions are compared."""
_MAX_REJECTED: Final = 100_000
"""Invalid rows after which a file is not read on."""

SampleSource = str | os.PathLike[str] | Iterable[Sample | Mapping[str, Any]]
"""Path or URL of a file, "-" for standard input, an iterable of samples or rows, or a table of pandas, Polars, Arrow or
Hugging Face."""


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
    references: Mapping[str, Sequence[str] | Sample] | None = None,
    qrels: QrelsSource | None = None,
    on_bad_row: Literal["raise", "skip"] = "raise",
    rows: str | None = None,
    limit: int | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    report: ReadingReport | None = None,
) -> tuple[list[Sample], list[RejectedRow]]:
    """Read all samples of a dataset.

    Args:
        data: A path or URL of a file, "-" for standard input, rows, samples, or a table of pandas, Polars, Arrow or
            Hugging Face. Files are JSON lines, JSON, CSV and other tables of text, Excel, Parquet, Arrow or TREC runs,
            plain, .gz or .zst. Their format and the layouts of known tools are detected by the content.
        fields: Maps field names of `Sample` to field names of the data, if the known aliases do not match.
        references: Correct answers by sample id, added to samples without any. Instead of the answers, a sample that
            has them, whose question must be the same.
        qrels: Relevance labels by sample id: a path of TREC or BEIR qrels, or a mapping. They are added to samples
            without any. With a TREC run, each query of the qrels becomes a sample, without passages if the run does not
            contain the query.
        on_bad_row: "raise" raises an error with the first invalid rows. "skip" returns them with the samples.
        rows: Dotted path of the list in a JSON document with several lists ("results.results"), or the name of a sheet.
        limit: Number of rows that are read. They are the first rows, and not a random sample.
        separator: Separator of the passages or references in a cell, such as "|" or a line break, or one for each field
            ("contexts=|,reference=;").
        encoding: Encoding of a text file, such as "cp1252". UTF-8 and UTF-16 are detected.
        report: Receives what was read: format, columns, empty and missing values, and columns that were not used.

    Raises:
        ConfigurationError: If `on_bad_row` has another value, the file does not exist, or `fields` contains a name that
            is not a field of `Sample`.
        DataError: If the format of the file is unknown, several of its lists could contain the rows, a row is invalid
            (and `on_bad_row` is "raise"), an id occurs twice, or no sample has an id of `references` or of `qrels`.
        MissingExtraError: If the format needs a package that is not installed.
    """
    rejected: list[RejectedRow] = []
    samples = list(
        iter_samples(
            data,
            rejected,
            fields=fields,
            references=references,
            qrels=qrels,
            on_bad_row=on_bad_row,
            choice=Choice(rows=rows, limit=limit, separator=separator, encoding=encoding),
            report=report,
        )
    )
    return samples, rejected


def iter_samples(
    data: SampleSource,
    rejected: list[RejectedRow],
    *,
    fields: Mapping[str, str] | None = None,
    references: Mapping[str, Sequence[str] | Sample] | None = None,
    qrels: QrelsSource | None = None,
    on_bad_row: Literal["raise", "skip"] = "raise",
    choice: Choice | None = None,
    report: ReadingReport | None = None,
    with_app: bool = False,
) -> Iterator[Sample]:
    """Yield the samples of a dataset one by one. Arguments and errors are those of `read_samples`.

    `rejected` receives the invalid rows. With `on_bad_row="raise"`, the error follows after the last row.
    `with_app` says that an application answers the queries, so that a column `answer` is the reference.
    """
    report = ReadingReport() if report is None else report
    choice = replace(choice or Choice(), with_app=with_app, field=fields)
    separator = choice.separator
    reader = RowReader(fields, report=report, with_app=with_app, separator=separator)
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
        from ragstone.reading._trec import qrels_from, with_qrels, without_passages

        grades = qrels_from(qrels)

    def read_again() -> Repeats:
        from ragstone.reading._repeats import Repeats  # few files need it

        is_kept = isinstance(data, Sequence) or hasattr(data, "columns")
        if isinstance(data, str | os.PathLike):
            is_kept = not str(data).startswith(("-", "http://", "https://"))
        again = ReadingReport()
        rows = laid_out(iter_rows(data, choice, again) if is_kept else (), fields or {}, again)
        return Repeats(rows, again, fields, with_app=with_app, separator=separator)

    ids, first = RowIds(), ""
    has_reference = is_judged = False
    for position, row in reader.look(laid_out(iter_rows(data, choice, report), fields or {}, report)):
        try:
            if isinstance(row, DataError):
                raise row
            is_row = type(row) is dict or not isinstance(row, Sample)  # a test of a model is slow
            sample = reader.read(row, position) if is_row else row
            if not sample.query and sample.response is None and _is_empty(sample, references or (), grades or ()):
                report.note("rows without a value in any field, left out")
                continue
            sample = ids.add(sample, position, is_row=is_row)
            if references and (given := references.get(sample.id)) is not None:
                has_reference, sample = True, _with_reference(sample, given, position)
        except DataError as error:
            rejected.append(RejectedRow(position=position, reason=str(error)))
            report.reject(str(error))
            if len(rejected) >= _MAX_REJECTED:
                remedy = "Is this a file of samples? It was not read on"
                remedy = read_again().id_remedy(ids.repeated) if ids.repeated else remedy
                raise build_rows_error(rejected, len(ids.seen), remedy) from None
            continue
        first = first or sample.id
        if grades is not None and sample.id in grades:
            is_judged = True
            sample = with_qrels(sample, grades)
        yield sample
    if not rejected or on_bad_row == "skip":
        reader.finish()
        if ids.have_one_question():
            read_again().check(report)
    if rejected and on_bad_row == "raise":
        remedy = "Fix these rows, or skip them with on_bad_row='skip' (--on-bad-row skip)"
        if ids.repeated:
            # Skipping would drop answers.
            remedy = read_again().id_remedy(ids.repeated)
        raise build_rows_error(rejected, len(ids.seen), remedy)
    if references and first and not has_reference:
        raise _no_match("a reference id", "references", first, references)
    if grades is not None:
        if first and not is_judged:
            raise _no_match("a query id of the qrels", "qrels", first, grades)
        if report.format == RUN:
            yield from without_passages(grades, ids.seen)


def _no_match(what: str, name: str, first: str, ids: Iterable[str]) -> DataError:
    return DataError(
        f"no sample id matches {what} (samples: {first!r}, ...; {name}: {next(iter(ids))!r}, ...). Use the same ids in both files"
    )


def _is_empty(sample: Sample, *joined: Container[str]) -> bool:
    """Return whether a row has nothing but an id, for which no file has a value."""
    is_empty = not (sample.reference or sample.history or sample.qrels or sample.ratings)
    return is_empty and sample.contexts is None and not any(sample.id in ids for ids in joined)


def _with_reference(sample: Sample, given: Sequence[str] | Sample, position: int) -> Sample:
    """Return the sample with references, if it does not have any."""
    if isinstance(given, Sample):
        if None not in (given.query, sample.query) and fingerprint(given.query) != fingerprint(sample.query):
            raise DataError(
                f"row {position} has the id {sample.id!r}, and another question than the references of this id"
            )
        given = given.reference
    return sample if sample.reference else sample.model_copy(update={"reference": tuple(given)})


def build_rows_error(rejections: Sequence[RejectedRow], n_samples: int, remedy: str) -> DataError:
    """Build the error that lists the first invalid rows."""
    reasons = group_reasons(rejection.reason for rejection in rejections)
    shown = "\n  ".join(reasons[:5])
    more = f"\n  and {len(reasons) - 5} more" if len(reasons) > 5 else ""
    return DataError(
        f"{len(rejections)} of {count(len(rejections) + n_samples, 'row')} cannot be read:\n  {shown}{more}\n{remedy}"
    )


def iter_rows(data: SampleSource, choice: Choice | None = None, report: ReadingReport | None = None) -> Iterator[Any]:
    """Yield the rows of a file or an object, and requests as samples. A row that cannot be read is a `DataError`."""
    choice, report = choice or Choice(), ReadingReport() if report is None else report
    if choice.limit is not None and choice.limit < 1:
        raise ConfigurationError(f"limit must be at least 1, got {choice.limit}")
    with ExitStack() as stack:
        rows = _open_rows(data, choice, report, stack)
        yield from islice(rows, choice.limit)
        # No row after the limit is converted, so the note does not say how many there are.
        if choice.limit is not None and next(rows, None) is not None:
            report.note(f"only the first {count(choice.limit, 'row')}, which are not a random sample")


def _open_rows(data: SampleSource, choice: Choice, report: ReadingReport, stack: ExitStack) -> Iterator[Any]:
    if not isinstance(data, str | os.PathLike):
        table = object_rows(data, choice.rows)
        kept = (row for row in table.rows if not (isinstance(row, Trace) and is_left_out(row, choice, report)))
        rows: Iterator[Any] = (sample_from_trace(row) if isinstance(row, Trace) else row for row in kept)
    else:
        from ragstone.reading._traces import trace_samples  # rows in memory need neither the store nor trace formats

        source = _input_file(os.fspath(data), choice, stack)
        requests = None if choice.rows else trace_samples(source.path if source else data, report, choice)
        if requests is not None:
            if given := [f"--{name}" for name in ("field", "separator", "encoding") if getattr(choice, name)]:
                raise ConfigurationError(
                    f"{', '.join(given)}: only a file of rows is read with this, and {os.fspath(data)!r} is a folder or has "
                    "traces. Evaluate each file of rows by itself, or write one file. Traces are read without it"
                )
            return requests
        if source is None:
            raise ConfigurationError(
                f"file not found: {os.fspath(data)!r}. Give the path of a JSON, JSON lines, CSV, Excel, Parquet or Arrow file"
            )
        from ragstone.reading._tables import open_table

        table = open_table(source, choice.rows)
        rows = table.rows
        report.source, encoding = source.name, source.text_encoding()
        report.encoding = "" if encoding == "utf-8" else encoding
    describe_table(table, report)
    return rows


def _input_file(name: str, choice: Choice, stack: ExitStack) -> InputFile | None:
    """Return the file, or None if it is not one: a directory, a store, or missing."""
    from ragstone.reading._source import InputFile, open_inputs

    if name == "-" or name.startswith(("http://", "https://")):
        (source,) = stack.enter_context(open_inputs(name))
        return replace(source, encoding=choice.encoding)
    path = Path(name)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ConfigurationError(f"{name!r} is not a regular file and cannot be read twice. Pipe it, and name it -")
    return InputFile(path, name, encoding=choice.encoding) if path.is_file() else None


class RowIds:
    """The ids and questions of the rows that were read."""

    def __init__(self) -> None:
        self.seen = IdTable()
        """Ids with the positions of their rows."""
        self.repeated: dict[str, None] = {}
        """Given ids that occur more than once."""
        self._derived: Counter[str] = Counter()
        self._questions: set[int] = set()
        self._n_asked = 0

    def add(self, sample: Sample, position: int, *, is_row: bool) -> Sample:
        """Return the sample with an id that no earlier row has. A derived id of a row that occurs again gets a number.

        Raise DataError if an earlier row has the same given id.
        """
        id_, earlier = sample.id, self.seen.add(sample.id, position)
        if earlier is None:
            self._ask(sample.query if is_row else None)
            return sample
        if not is_row or not has_derived_id(sample):
            self.repeated[id_] = None
            raise DataError(f"row {position} has the id {id_!r} of row {earlier}. Ids must be unique")
        while self.seen.add(sample.id, position) is not None:
            self._derived[id_] += 1
            sample = sample.model_copy(update={"id": f"{id_}-{self._derived[id_] + 1}"})
        self._ask(sample.query)
        return sample

    def _ask(self, query: str | None) -> None:
        if query and self._n_asked < _MAX_ASKED:
            self._n_asked += 1
            self._questions.add(hash(query))

    def have_one_question(self) -> bool:
        """Return whether two of the first rows have one question."""
        return len(self._questions) < self._n_asked
