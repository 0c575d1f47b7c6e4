"""Rows that repeat a question or an id: copies of a sample, a row for each passage, or the answers of several systems."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from ragstone._util.quantities import count
from ragstone.errors import DataError
from ragstone.reading._cells import begins_like_list
from ragstone.reading._columns import FIELD_ALIASES, name_key
from ragstone.reading._evidence import paths_in
from ragstone.reading._report import ReadingReport, field_option
from ragstone.reading._row_values import new_file, to_plain, walk
from ragstone.reading._rows import RowReader, flatten
from ragstone.schema import Sample, fingerprint, has_derived_id

MAX_ROWS: Final = 10_000
"""Rows that show whether a file repeats its questions."""
_MAX_SYSTEMS: Final = 20
_MAX_ADDED: Final = 3
"""Most columns that a proposed id adds to the id."""
_MAX_COLUMNS: Final = 20
_MAX_CHARS: Final = 200
"""Longest value of a column that can be a part of an id."""
_MEASURES: Final = re.compile(r"(?:^|[_\W])(?:labels?|scores?|ratings?|grades?|values?)$", re.IGNORECASE)
"""Names of columns that say how good an answer is, not which answer it is."""
_CONTENT: Final = {name_key(name) for field, names in FIELD_ALIASES.items() if field != "id" for name in names}
_SYSTEMS: Final = re.compile(
    r"(?:system|model|run|pipeline|variant|config|retriever|experiment|version|provider|release|branch)(?:name|id)?"
)
"""Names of columns that say which application answered, even if all answers are the same."""
_FEW_WORDS: Final = 3
_SHELL: Final = re.compile(r'["$`\\!]')
"""Characters of names that a shell would read in double quotes."""
_MANY: Final = 1.5
"""Rows for each sample or question from which on the repetition is the layout of the file, and no accident."""


@dataclass(frozen=True, slots=True)
class _Row:
    """What a row repeats."""

    id: str
    has_id: bool
    question: Hashable
    answer: Hashable
    """The response and the references."""
    passages: tuple[str, ...] | None
    columns: Mapping[str, str]
    """Values of the columns that can be a part of an id, by path."""
    texts: Mapping[str, str]
    """Texts of columns that may be passages, by column."""


class Repeats:
    """What the first rows repeat, found by reading them again with `options` of `RowReader`.

    Rows come with their positions, and `fields` are the columns that the user named, by field. The report is not
    printed.
    """

    def __init__(
        self,
        rows: Iterator[tuple[int, Any]],
        report: ReadingReport,
        fields: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        reader, fields = RowReader(fields, report=report, **options), fields or {}
        guessed: list[str] = []
        self._first: Mapping[str, Any] = {}
        self._rows: list[_Row] = []
        for position, row in islice(reader.look(rows), MAX_ROWS):
            try:
                if isinstance(row, Mapping):
                    self._first = self._first or row
                    sample = reader.read(row, position)
                    guessed = guessed or [*report.guesses.get("contexts", ())]
                    self._rows.append(
                        _row_of(sample, flatten(row), {*fields.values()} - {fields.get("id", "")}, guessed)
                    )
            except DataError:
                continue
        self._fields, self._report = fields, report
        self._names = {name: next(iter(use.columns)) for name, use in report.fields.items() if use.columns}

    def check(self, report: ReadingReport) -> None:
        """Report what the rows repeat.

        Raise DataError if most rows repeat a sample, or have one passage of it each, an option or a command makes
        samples of them, and the user did not name an id.
        """
        if not self._rows:
            report.warn("several rows have the same question, and each is a sample")
            return
        first = {row.id if row.has_id else n: row for n, row in enumerate(self._rows)}
        rows = [row for row in first.values() if row.question is not None]
        n_questions, n_answers = len({row.question for row in rows}), len({(row.question, row.answer) for row in rows})
        samples = list({(row.question, row.answer, row.passages): row for row in rows}.values())
        is_layout = len(rows) >= max(_MANY * n_answers, 4) and n_questions > 1
        column = self._system_column(rows, n_questions)
        is_repeated = len(samples) < len(rows) or (is_layout and self._passages_column(rows) is not None)
        if is_repeated and not (column and (n_answers > n_questions or _is_system(column))):
            problem, has_remedy = self._copies(rows, [row.question for row in rows], self._names.get("query"))
            if is_layout and has_remedy and "id" not in self._fields:
                raise DataError(problem)
            report.warn(problem)
            rows, column = samples, self._system_column(samples, n_questions)
        if len(rows) >= max(_MANY * n_questions, 4) and (column or n_answers >= _MANY * n_questions):
            report.warn(self._systems(rows, n_questions, column))

    def check_ids(self) -> None:
        """Check that rows with the same id are copies. Raise DataError if their values differ."""
        ids = Counter(row.id for row in self._rows if row.has_id)
        repeated = [id_ for id_, n in ids.items() if n > 1]
        first: dict[str, _Row] = {}
        rows = [row for row in self._rows if row.id in repeated]
        if any(row != first.setdefault(row.id, row) for row in rows):
            raise DataError(
                f"{count(len(rows), 'row')} share {count(len({row.id for row in rows}), 'id')} and have different "
                f"contents. {self.id_remedy(repeated)}"
            )

    def id_remedy(self, repeated: Iterable[str]) -> str:
        """Return how rows with the same id become samples, or are read once."""
        ids = {*repeated}
        rows = [row for row in self._rows if row.id in ids]
        name = self._fields.get("id") or self._names.get("id")
        contents = {(row.id, row.question, row.answer, row.passages) for row in rows}
        added = smallest_set(rows, [row.id for row in rows], range(len(rows)))
        is_copied = len(contents) == len({row.id for row in rows}) and not any(map(_is_system, added or ()))
        if rows and (is_copied or self._passages_column(rows)):
            return self._copies(rows, [row.id for row in rows], name)[0]
        several = "Several rows share an id, such as several answers to one question."
        if name and added:
            together = "+".join((name, *added))
            return f"{several} These columns are unique together: --field id={together} (fields={{'id': {together!r}}})"
        return (
            f"{several} Name the columns that are unique together: --field id=COLUMN+COLUMN "
            "(fields={'id': 'COLUMN+COLUMN'}). If there are none, add a column that is"
        )

    def _copies(self, rows: Sequence[_Row], keys: Sequence[Hashable], name: str | None) -> tuple[str, bool]:
        """Return what rows with the same answer differ in, how to read each sample once, and whether an option does it."""
        own = smallest_set(rows, keys, range(len(rows)))
        alone = f", or read each row as a sample: {field_option('id', name, *own)}" if name and own else ""
        if (column := self._passages_column(rows)) is not None:
            problem = (
                f"{count(len(rows), 'row')} have {count(len({*keys}), 'question')}: each row has one passage ({column}) of a "
                f"question. Join the passages of a question: {self._join(column, rows)}{alone}"
            )
            return problem, True
        contents = [(row.answer, row.passages) for row in rows]
        n = len({*zip(keys, contents, strict=True)})
        varied = [c for c in _shared(rows) if len({(k, r.columns[c]) for k, r in zip(keys, rows, strict=True)}) > n]
        differ = f", and differ in {', '.join(varied[:3])}" if varied else ""
        added = smallest_set(rows, keys, contents)
        once = "Keep one row of each"
        if name and added is not None:
            is_id = not added and name == self._names.get("id")
            once = f"Read each once: {'' if is_id else field_option('id', name, *added) + ' '}--on-bad-row skip"
        problem = (
            f"{count(len(rows), 'row')} have {count(n, 'different sample')}: the others repeat question, answer and "
            f"passages of an earlier row{differ}. {once}{alone}"
        )
        return problem, bool(name) and added is not None

    def _join(self, column: str, rows: Sequence[_Row]) -> str:
        """Return the command that writes a row for each question, with its passages as a list."""
        file, new, first = shlex.quote(self._report.source or "FILE"), new_file(self._report.source), self._first
        fields = ("id",) * (len({row.id for row in rows}) < len(rows)) + ("query", "response", "reference")
        names = [self._names[field] for field in fields if field in self._names]
        kept = [part for name in names for part in ([name] if name in first else name.split("+"))]
        value, is_lines = first.get(column), self._report.format == "JSON lines"
        is_readable = is_lines or (self._report.separator and not _SHELL.search(f"{column}{kept}"))
        is_list = isinstance(value, str) and begins_like_list(value)
        if not kept or not first.keys() >= {column, *kept} or is_list or not is_readable:
            return "write one row for each, with a list"
        if is_lines:
            key = ", ".join(f".[{_quoted(name)}]" for name in kept)
            program = f"group_by([{key}])[] | .[0] + {{contexts: (map(.[{_quoted(column)}]) | flatten(1))}}"
            program += "" if column == "contexts" else f" | del(.[{_quoted(column)}])"
            return f"jq -s -c {shlex.quote(program)} {file} > {new}"
        return (
            f'python -c "import pandas, sys; rows = pandas.read_csv(sys.argv[1], sep={self._report.separator!r}, dtype=str); '
            f"rows.groupby({kept!r}, sort=False, dropna=False)[{column!r}].agg(list).reset_index(name='contexts')"
            f".to_json('{new}', orient='records', lines=True)\" {file}"
        )

    def _system_column(self, rows: Sequence[_Row], n_questions: int) -> str | None:
        """Return the column that has another value for each row of a question, and few values."""
        for column in _shared(rows):
            n = len({row.columns[column] for row in rows})
            is_split = len({(row.question, row.columns[column]) for row in rows}) == len(rows)
            if is_split and 1 < n <= min(_MAX_SYSTEMS, n_questions + 1):
                return column
        return None

    def _systems(self, rows: Sequence[_Row], n_questions: int, column: str | None) -> str:
        """Return which column separates the answers to one question, and how to separate them."""
        if column is None:
            return (
                f"{count(len(rows), 'row')} have {count(n_questions, 'question')}, with several answers each, scored together "
                "as one system. No column separates the answers. If they are of several systems, write a file for each"
            )
        values = sorted({row.columns[column] for row in rows})
        option, query = "", self._names.get("query")
        if query and "id" not in self._names:
            option = f" An id for each answer: {field_option('id', query, column)}."
        label, file = column.removeprefix("metadata."), shlex.quote(self._report.source or "FILE")
        by = "" if "." in label else f" The mean of each: ragstone report OUTCOMES --data {file} --by {label}."
        alone = "evaluate the rows of each value alone"
        if self._report.format == "JSON lines":
            keys = ".".join(map(_quoted, column.split(".")))
            alone += f" (jq -c 'select((.{keys} | tostring) == {_quoted(values[0])})' {file} > ONE.jsonl)"
        return (
            f"{column}: {len(values)} values ({', '.join(values)}) with the same questions, scored together as one "
            f"system.{option}{by} To compare them, {alone}, then ragstone compare"
        )

    def _passages_column(self, rows: Sequence[_Row]) -> str | None:
        """Return the column with one passage of a question in each row, or None."""
        answers = {(row.question, row.answer) for row in rows}
        if len(answers) > len({row.question for row in rows}):
            return None
        if all(row.passages is not None and len(row.passages) == 1 for row in rows):
            n = len({(row.question, row.passages) for row in rows})
            return self._names.get("contexts") if n > len(answers) else None
        if any(row.passages is not None for row in rows):
            return None
        for column in dict.fromkeys(name for row in rows for name in row.texts):
            if len({(row.question, row.texts.get(column)) for row in rows}) > len(answers):
                return column
        return None


def _is_system(column: str) -> bool:
    return any(_SYSTEMS.fullmatch(name_key(part)) for part in column.split("."))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '\\"') + '"'


def _row_of(sample: Sample, flat: Mapping[str, Any], named: set[str], guessed: Sequence[str]) -> _Row:
    columns = {
        path: value if isinstance(value, str) else json.dumps(value)
        for path, value in _cells(flat)
        if path not in named
        and name_key(path) not in _CONTENT
        and not _MEASURES.search(path)
        and isinstance(value, str | int | float)
        and 0 < len(str(value)) <= _MAX_CHARS
    }
    return _Row(
        id=sample.id,
        has_id=not has_derived_id(sample),
        question=None if sample.query is None else fingerprint(sample.query, sample.history),
        answer=hash((sample.response, sample.reference)),
        passages=None if sample.contexts is None else tuple(passage.text for passage in sample.contexts),
        columns=columns,
        texts={
            name: text
            for name, text in flat.items()
            if isinstance(text, str)
            and (name in guessed or (sample.response is None and len(text.split()) > _FEW_WORDS))
        },
    )


def _cells(flat: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in flat.items():
        if isinstance(value, Mapping):
            yield from ((path, walk(flat, path)) for path in paths_in(value, name))
        else:
            yield name, to_plain(value)


def _shared(rows: Sequence[_Row]) -> list[str]:
    """Return the columns that all rows have, those with the fewest values first."""
    names = [name for row in rows[:1] for name in row.columns if all(name in row.columns for row in rows)]
    return sorted(names, key=lambda name: len({row.columns[name] for row in rows}))


def smallest_set(
    rows: Sequence[_Row], keys: Sequence[Hashable], contents: Sequence[Hashable]
) -> tuple[str, ...] | None:
    """Return the smallest set of columns that, with the keys, separates different contents, and no equal ones."""
    if not rows:
        return None
    n = len({*zip(keys, contents, strict=True)})
    varied = [
        c for c in _shared(rows) if len({(k, r.columns[c]) for k, r in zip(keys, rows, strict=True)}) > len({*keys})
    ]
    sizes = range(_MAX_ADDED + 1)
    sets = itertools.chain.from_iterable(itertools.combinations(varied[:_MAX_COLUMNS], size) for size in sizes)
    for names in sets:
        made = [(key, *map(row.columns.get, names)) for key, row in zip(keys, rows, strict=True)]
        if len({*made}) == n == len({*zip(made, contents, strict=True)}):
            return names
    return None
