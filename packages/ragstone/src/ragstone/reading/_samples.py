"""Reader of datasets: files, lists and data frames to samples."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ragstone._util.id_table import IdTable
from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError, DataError
from ragstone.reading._columns import FIELD_ALIASES, guess_field, name_key
from ragstone.reading._layouts import Layout, find_layout, rows_of
from ragstone.reading._report import ReadingReport, group_reasons
from ragstone.reading._row_lists import KNOWN_NAMES, RUN, Choice, Table, object_rows
from ragstone.reading._row_values import is_missing
from ragstone.reading._rows import RowReader
from ragstone.schema import Sample, Trace, fingerprint, get_skip_reason, has_derived_id, sample_from_trace

if TYPE_CHECKING:
    from ragstone.reading._repeats import Repeats
    from ragstone.reading._source import InputFile
    from ragstone.reading._trec import QrelsSource

_TOTALS: Final = (
    "mean", "average", "avg", "total", "sum", "median", "std", "min", "max", "count", "mittelwert", "durchschnitt",
    "gesamt", "anzahl", "gemiddelde", "totaal", "summe", "moyenne", "somme", "promedio", "media", "suma", "overall", "ø",
    "accuracy", "precision", "recall", "f1", "pass rate", "hit rate", "success rate", "error rate", "win rate",
    "genauigkeit", "trefferquote", "exactitude", "precisi\u00f3n", "exactitud", "somma", "média", "soma", "średnia", "среднее", "итого", "平均", "平均値", "平均值", "合計", "合计", "総計", "总计", "小計", "小计",
)  # fmt: skip
"""First texts of rows that summarize a table."""
_TOTAL: Final = re.compile(rf"(?:{'|'.join(_TOTALS)})(?=[\s(:]|\Z)")
_SHARE: Final = re.compile(r"[-+]?\d[\d.,]*+(?:e[-+]?\d++)?+ ?(?:%|[/\u00b1] ?[\d.]++)?")
_TYPE: Final = re.compile(
    r"(?:string|str|text|(?:var)?char(?:\(\d++\))?|int(?:eger)?\d*+|bigint|float\d*+|double|number|numeric|decimal|bool(?:ean)?"
    r"|object|json|array|list(?:\[\w++\])?|date(?:time)?|timestamp|category)",
    re.IGNORECASE,
)
_TOTAL_CHARS: Final = 40
"""Longest first value of a row that is a header or a total."""
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
            if not sample.query and not sample.response and _is_empty(sample):
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


def _is_empty(sample: Sample) -> bool:
    return sample.contexts is None and not (sample.reference or sample.history or sample.qrels or sample.ratings)


def _with_reference(sample: Sample, given: Sequence[str] | Sample, position: int) -> Sample:
    """Return the sample with references, if it does not have any."""
    if isinstance(given, Sample):
        if None not in (given.query, sample.query) and fingerprint(given.query) != fingerprint(sample.query):
            raise DataError(
                f"row {position} has the id {sample.id!r}, and another question than the references of this id"
            )
        given = given.reference
    return sample if sample.reference else sample.model_copy(update={"reference": tuple(given)})


def laid_out(rows: Iterable[Any], fields: Mapping[str, str], report: ReadingReport) -> Iterator[tuple[int, Any]]:
    """Yield the rows with their 1-based positions, those of a known layout under our field names."""
    layout: Layout | None = None
    answers: set[str] = set()
    is_first = True
    for position, row in enumerate(rows, start=1):
        report.n_rows += 1
        if type(row) is not dict and not isinstance(row, Mapping):
            yield position, row
            continue
        for name, value in row.items():  # noqa: B007 - the first value and its column
            if not _is_blank(value):
                break
        else:
            report.note("rows without a value, left out")
            continue
        is_short = type(value) is str and len(value) <= _TOTAL_CHARS
        if is_short and report.has_text_cells and (problem := _other_row(row, name, value, position)):
            if isinstance(problem, str):
                report.note(problem)
            else:
                yield position, problem
            continue
        if is_first and (layout := find_layout(row)) is not None:
            report.note(layout.describe(row))
        is_first = False
        if layout is None or not layout.keys <= row.keys():
            yield position, row
            continue
        parts = rows_of(row, layout, fields)
        report.n_rows += len(parts) - 1
        for each in parts:
            if layout.answers:  # several people compare the same answers
                if (key := repr((each.get("id"), each.get("response")))) in answers:
                    report.note("answers of earlier rows, read once")
                    continue
                answers.add(key)
            yield position, each


def _is_blank(value: Any) -> bool:
    return not value.strip() if type(value) is str else is_missing(value)


def _other_row(row: Mapping[str, Any], name: str, value: str, position: int) -> str | DataError | None:
    """Return a note or an error about a row that is a header or a total, otherwise None. `name` has the first value.

    Raise DataError if it is the header of other columns, so that the rows after it would be read wrongly.
    """
    word = value.strip().casefold()
    if _TOTAL.match(word) is not None and not word.endswith("?"):
        others = [str(other).strip() for column, other in row.items() if column != name and not _is_blank(other)]
        if others and all(map(_SHARE.fullmatch, others)):
            return DataError(f"row {position} is a total ({value.strip()[:40]!r} and numbers), not a sample")
        if not others and len(row) > 1 and word[-1].isdigit():
            return f"a total below the table, left out: {value.strip()!r}"
    if not value[:1].isalnum() and not any(map(str.isalnum, "".join(map(str, row.values())))):
        return "rows without a letter or a digit, left out"
    if name_key(word) in KNOWN_NAMES or word == name.strip().casefold():
        names = [str(cell).strip() for cell in row.values()]
        if [*map(name_key, names)] == [*map(name_key, row)]:
            return "rows that repeat the header, left out"
        if len(names) > 1 and all(cell in row or name_key(cell) in KNOWN_NAMES for cell in names):
            shown = "the columns in another order" if set(names) == set(row) else "other columns"
            raise DataError(f"row {position} is a header with {shown}. Split the file at this row, and read both parts")
    if position == 1 and all(_TYPE.fullmatch(str(cell).strip()) for cell in row.values() if not _is_blank(cell)):
        return "a row of types below the header, left out"
    if position == 1 and all(len(str(cell)) > 2 and len(str(cell).split()) == 1 for cell in row.values()):
        fields = [[guess_field(name, is_nested=True) for name in (column, str(cell))] for column, cell in row.items()]
        if (
            all(cell == column for column, cell in fields if column)
            and len({column for column, _ in fields} - {None}) > 1
        ):
            return f"a second header, left out: {', '.join(map(str, row.values()))}"
    return None


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


def is_left_out(trace: Trace, choice: Choice, report: ReadingReport) -> bool:
    """Return whether a request is not scored, as in a store, and count it. An application answers its query again."""
    if choice.with_app or (reason := get_skip_reason(trace)) is None:
        return False
    report.note(f"left out, because such requests are not scored: {reason.partition(':')[0]}")
    return True


def describe_table(table: Table, report: ReadingReport) -> None:
    """Report the format of a table, the list that is read, and what is not read."""
    report.format, report.where, report.separator = table.format, table.chosen, table.separator
    report.has_text_cells = table.has_text_cells
    if table.note:
        report.note(table.note)
    if table.others:
        report.note(f"lists that are not read: {', '.join(table.others)}")


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
