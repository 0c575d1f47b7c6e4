"""The report of a reader: which format, columns and values it read, and which it did not use."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from textwrap import TextWrapper
from typing import Any, Final, Literal

from ragstone._util.quantities import count

ValueKind = Literal[
    "blank", "empty", "reasoning", "placeholder", "placeholder_text", "bracket", "json", "id", "assertion", "unused",
    "error",
]  # fmt: skip
"""Kinds of values that a report counts by field."""

_ALWAYS: Final = ("query", "contexts", "response", "reference")
"""Fields that the report names even if no column was read."""
_MESSAGE_KEYS: Final = ("role", "content", "type", "text")
"""Keys of messages and content blocks, which are read with the column that has them."""
_MAX_LINES: Final = 12
_OPTION: Final = re.compile(r"(?<=\s)--[\w-]+ (?:'[^'\n]{0,200}')?")
_WRAPPER: Final = TextWrapper(80, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)
_NO_REASONS: Final = ("", "messages", "JSON texts")
"""What the values of a column are, in place of why it may be meant."""
_MAX_GUESSES: Final = 5
"""Columns for one field that a report names."""
_MAX_KINDS: Final = 100
"""Different reasons, notes and columns that a report keeps. Others are counted only."""
_NUMBERED: Final = re.compile(r"^(row|line|(?:the )?row that ends in line) (\d[\d,]*):? ?")
_SENTENCES: Final[Mapping[ValueKind, tuple[str, str]]] = {
    "blank": ("empty cell", " read as missing"),
    "empty": ("empty text", ""),
    "reasoning": ("text", " with the reasoning of a model (<think>, Thought:), read as text"),
    "placeholder": ("placeholder", " (nan, None, NA, #REF!) read as missing"),
    "placeholder_text": ("text", " with only a placeholder (None, nan), read as text"),
    "bracket": ("text", " with a bracket at the beginning, read as text"),
    "json": ("JSON text", " read as it is"),
    "unused": ("passage", " marked as not in the prompt, read as the others"),
    "error": ("text", " that begins like an error (ERROR: ...), read as text"),
    "id": ("passage", " with only an id, a number or a URL, read as text"),
    "assertion": ("assertion", " of a test (contains:, llm-rubric:), read as text"),
}
"""Noun and description of the values that are counted."""


@dataclass(slots=True)
class _FieldUse:
    """What was read for one field."""

    columns: Counter[str] = field(default_factory=Counter)
    """Rows by column."""
    n_lists: int = 0
    n_items: int = 0
    fewest: int = 0
    most: int = 0


@dataclass(slots=True, kw_only=True)
class ReadingReport:
    """The result of reading a dataset: its format, the column of each field, and what was not used or not read.

    It keeps counters and no rows, so that its size does not depend on the number of rows.
    """

    source: str = ""
    """Name of the file or type of the object."""
    format: str = ""
    """Format, with what was detected in it, such as "CSV, separator ;"."""
    encoding: str = ""
    """Encoding, if it is not UTF-8."""
    where: str = ""
    """Path of the list of rows in the document, such as "results.results"."""
    has_text_cells: bool = False
    """Whether all values are cells of a text table, in which `nan` and `None` are missing values."""
    separator: str = ""
    """Separator of the cells of a text table."""
    n_rows: int = 0
    """Number of rows, the rejected included."""
    n_rejected: int = 0
    """Number of rows that could not be read."""
    n_other_columns: int = 0
    """Number of rows whose columns differ from those of the first row."""
    notes: Counter[str] = field(default_factory=Counter)
    """Decisions and warnings of the reader, each with the number of rows it applies to."""
    reasons: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Reasons of rejected rows without the row's number: the first full reason, and the number of rows."""
    decisions: dict[str, str] = field(default_factory=dict)
    """Why a column was taken for a field, and the option that takes it for another one, by field."""
    fields: defaultdict[str, _FieldUse] = field(default_factory=lambda: defaultdict(_FieldUse))
    """Columns and sizes by field."""
    values: defaultdict[ValueKind, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Counted values by kind and field."""
    guesses: dict[str, dict[str, str]] = field(default_factory=dict)
    """Columns of the data that may be meant, by field, with what their values are. A guess is not applied."""
    unused: dict[str, None] = field(default_factory=dict)
    """Columns that are not read as a field. They are metadata of the samples."""

    def note(self, text: str, n: int = 1) -> None:
        """Add a decision or a warning. The same text is counted, not repeated."""
        if text in self.notes or len(self.notes) < _MAX_KINDS:
            self.notes[text] += n

    def warn(self, text: str) -> None:
        """Add a warning before all notes."""
        self.notes = Counter({text: 1, **self.notes})

    def reject(self, reason: str) -> None:
        """Count a row that could not be read. Reasons that differ in the row's number are one reason."""
        self.n_rejected += 1
        key = _NUMBERED.sub("", reason, count=1)
        if key in self.reasons or len(self.reasons) < _MAX_KINDS:
            first, n = self.reasons.get(key, (reason, 0))
            self.reasons[key] = (first, n + 1)

    def decide(self, name: str, why: str) -> None:
        """Add the reason of a choice that the names of the columns leave open, and how to choose otherwise."""
        self.decisions.setdefault(name, why)

    def use(self, columns: Mapping[str, str]) -> None:
        """Count a row whose fields were read from columns."""
        for name, column in columns.items():
            self.fields[name].columns[column] += 1

    def count_items(self, name: str, n: int) -> None:
        """Count a row whose field has `n` items."""
        found = self.fields[name]
        if n < found.fewest or not found.n_lists:
            found.fewest = n
        found.most = max(found.most, n)
        found.n_lists += 1
        found.n_items += n

    def count_value(self, kind: ValueKind, name: str, n: int = 1) -> None:
        """Count values of a kind in a field."""
        self.values[kind][name] += n

    def leave(self, columns: Iterable[str]) -> None:
        """Add columns that are not read as a field."""
        for column in columns:
            if len(self.unused) < _MAX_KINDS:
                self.unused[column] = None

    def guess(self, name: str, column: str, what: str = "") -> None:
        """Add a column that may be meant for a field, because it has another or no column, and what its values are."""
        if len(found := self.guesses.setdefault(name, {})) < _MAX_GUESSES:
            found.setdefault(column, what)

    def remedies(self, names: Iterable[str], row: Container[str] = ()) -> list[str]:
        """Return the options that apply the first guesses for some fields ("--field reference=expected_answer").

        A column that is read as another field is not among them. A field that was read has an option only for `row`.
        """
        read = {column for use in self.fields.values() for column in use.columns}
        options = []
        for name in names:
            for column, what in self.guesses.get(name, {}).items():
                if (name not in self.fields or column in row) and read.isdisjoint(column.split("+")):
                    options.append(field_option(name, column) + (f" ({what})" if what not in _NO_REASONS else ""))
                    break
        return options

    def lines(self) -> list[str]:
        """Return the report as text, in at most 12 lines."""
        format_ = "" if self.format == "rows" else self.format
        facts = [fact for fact in (format_, self.encoding, self.where and f"rows in {self.where}") if fact]
        head = f"read {', '.join([self.source or 'rows', *facts])}: {count(self.n_rows, 'row')}"
        if self.n_rejected:
            head += f", {self.n_rejected:,} of them skipped"
        if self.n_other_columns:
            head += f", {self.n_other_columns:,} with other columns than the first"
        lines = [head, *(self._field_line(name) for name in dict.fromkeys((*_ALWAYS, *self.fields, *self.guesses)))]
        used = {column for columns in self.guesses.values() for column in columns}
        used |= {f"{column}[].{key}" for use in self.fields.values() for column in use.columns for key in _MESSAGE_KEYS}
        if others := [column for column in self.unused if column.strip() and column not in used]:
            more = f" and {len(others) - 5} more" if len(others) > 5 else ""
            lines.append(f"  not used: {', '.join(others[:5])}{more}")
        lines += [
            f"  {count(names.total(), _SENTENCES[kind][0])}{_SENTENCES[kind][1]}: "
            + ", ".join(f"{name} {n:,}" if len(names) > 1 else name for name, n in names.items())
            for kind, names in self.values.items()
        ]
        lines += [f"  {text}" + (f" ({count(n, 'row')})" if n > 1 else "") for text, n in self.notes.items()]
        lines += [f"  skipped {count(n, 'row')}: {first}" for first, n in self.reasons.values()]
        if len(lines) > _MAX_LINES:
            lines[_MAX_LINES - 1 :] = [f"  and {len(lines) - _MAX_LINES + 1} more lines (--json shows all)"]
        return lines

    def __str__(self) -> str:
        """Return the lines, broken between words after at most 80 characters. An option stays with its value, and a command whole."""
        joined = (_OPTION.sub(lambda option: option[0].replace(" ", "\0"), line) for line in self.lines())
        parts = (part for line in joined for part in ([line] if " -c " in line else _WRAPPER.wrap(line)))
        return "\n".join(parts).replace("\0", " ")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "source": self.source, "format": self.format, "encoding": self.encoding or "utf-8", "where": self.where,
            "n_rows": self.n_rows, "n_rejected": self.n_rejected, "n_other_columns": self.n_other_columns,
            "fields": {
                name: {"columns": dict(use.columns)}
                | ({"n_items": use.n_items, "fewest": use.fewest, "most": use.most} if use.n_lists else {})
                for name, use in self.fields.items()
            },
            "decisions": dict(self.decisions),
            "guesses": {name: list(columns) for name, columns in self.guesses.items()},
            "unused": list(self.unused),
            "values": {kind: dict(names) for kind, names in self.values.items()},
            "notes": dict(self.notes),
            "rejected": [{"first": first, "n": n} for first, n in self.reasons.values()],
        }  # fmt: skip

    def _field_line(self, name: str) -> str:
        found = self.fields.get(name)
        why = f" ({self.decisions[name]})" if name in self.decisions else ""
        options = ""
        if guesses := self.guesses.get(name):
            column, *others = guesses
            what = guesses[column] and f" ({guesses[column]})"
            options = f"{column}{what}: {field_option(name, column)}" + (f" (or {', '.join(others)})" if others else "")
        if found is None or not found.columns:
            return f"  {name:<9} ← \N{EN DASH}{why}" + (f"; perhaps {options}" if options else "")
        text = f"  {name:<9} ← {', '.join(found.columns)}"
        if found.n_lists and (name == "contexts" or {found.fewest, found.most} != {1}):
            mean = f"{found.n_items / found.n_lists:.1f}".removesuffix(".0")
            text += f" (list, {mean} a row, {found.fewest} to {found.most})"
        return f"{text}{why}" + (f"; it may also be {options}" if options else "")


def field_option(name: str, *columns: str) -> str:
    """Return the option that reads columns as a field, quoted for a shell."""
    return f"--field {shlex.quote(name + '=' + '+'.join(columns))}"


def group_reasons(reasons: Iterable[str]) -> list[str]:
    """Return each different reason once, with the number of rows if it is more than one.

    Examples:
        >>> group_reasons(["row 1: no query", "row 2: no query"])
        ['row 1: no query (and 1 more row)']
    """
    report = ReadingReport()
    for reason in reasons:
        report.reject(reason)
    return [first + (f" (and {count(n - 1, 'more row')})" if n > 1 else "") for first, n in report.reasons.values()]
