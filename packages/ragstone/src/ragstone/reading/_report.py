"""The report of a reader: which format, columns and values it read, and which it did not use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ragstone._util.plural import count

_ALWAYS: Final = ("query", "contexts", "response", "reference")
"""Fields that the report names even if no column was read."""
_MAX_LINES: Final = 12
_MAX_KINDS: Final = 100
"""Different reasons, notes and columns that a report keeps. Others are counted only."""
_NUMBERED: Final = re.compile(r"^(row|line|(?:the )?row that ends in line) (\d[\d,]*):? ?")


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
    n_rows: int = 0
    """Number of rows, the rejected included."""
    n_rejected: int = 0
    """Number of rows that could not be read."""
    notes: Counter[str] = field(default_factory=Counter)
    """Decisions and warnings of the reader, each with the number of rows it applies to."""
    reasons: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Reasons of rejected rows without the row's number: the first full reason, and the number of rows."""
    fields: dict[str, _FieldUse] = field(default_factory=dict)
    """Columns and sizes by field."""

    def note(self, text: str, n: int = 1) -> None:
        """Add a decision or a warning. The same text is counted, not repeated."""
        if text in self.notes or len(self.notes) < _MAX_KINDS:
            self.notes[text] += n

    def reject(self, reason: str) -> None:
        """Count a row that could not be read. Reasons that differ in the row's number are one reason."""
        self.n_rejected += 1
        key = _NUMBERED.sub("", reason, count=1)
        if key in self.reasons or len(self.reasons) < _MAX_KINDS:
            first, n = self.reasons.get(key, (reason, 0))
            self.reasons[key] = (first, n + 1)

    def use(self, name: str, column: str) -> None:
        """Count a row whose field was read from a column."""
        self.fields.setdefault(name, _FieldUse()).columns[column] += 1

    def count_items(self, name: str, n: int) -> None:
        """Count a row whose field has `n` items."""
        found = self.fields.setdefault(name, _FieldUse())
        found.fewest = n if found.n_lists == 0 else min(found.fewest, n)
        found.most = max(found.most, n)
        found.n_lists += 1
        found.n_items += n

    def lines(self) -> list[str]:
        """Return the report as text, in at most 12 lines."""
        facts = [self.source or "rows", *([self.format] if self.format else [])]
        head = f"read {', '.join(facts)}: {count(self.n_rows, 'row')}"
        shown = [*_ALWAYS, *(name for name in self.fields if name not in _ALWAYS)]
        lines = [head, *(self._field_line(name) for name in shown)]
        lines += [f"  {text}" + (f" ({count(n, 'row')})" if n > 1 else "") for text, n in self.notes.items()]
        lines += [f"  skipped {count(n, 'row')}: {first}" for first, n in self.reasons.values()]
        if len(lines) > _MAX_LINES:
            lines[_MAX_LINES - 1 :] = [f"  and {len(lines) - _MAX_LINES + 1} more lines"]
        return lines

    def __str__(self) -> str:
        """Return the lines."""
        return "\n".join(self.lines())

    def _field_line(self, name: str) -> str:
        found = self.fields.get(name)
        if found is None or not found.columns:
            return f"  {name:<9} ← \N{EN DASH}"
        text = f"  {name:<9} ← {', '.join(found.columns)}"
        if found.n_lists:
            mean = f"{found.n_items / found.n_lists:.1f}".removesuffix(".0")
            text += f" (list, {mean} a row, {found.fewest} to {found.most})"
        return text


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
