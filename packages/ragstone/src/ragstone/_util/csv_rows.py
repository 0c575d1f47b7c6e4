"""Rows of CSV files by the names of their header."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import chain

from ragstone._util.row_limits import CsvLines
from ragstone.errors import DataError


def csv_rows(lines: CsvLines, path: str, *, separator: str | None = None) -> csv.DictReader[str]:
    """Return the reader of a file's rows.

    Args:
        lines: The lines, from the header on.
        path: The file, for the error.
        separator: Separator of the cells. None detects it in the header.

    Raises:
        DataError: If two columns have the same name. Columns without a name are allowed.
    """
    header = next(lines, "")
    rows = csv.DictReader(chain([header], lines), delimiter=separator or detect_separator(header))
    for name, n in Counter(rows.fieldnames or ()).items():
        if name and n > 1:
            raise DataError(f"{path!r} has {n} columns with the name {name!r}. Rename or remove all but one")
    return rows


def detect_separator(header: str, *, prefers_tab: bool = False) -> str:
    """Return the separator of a header: the most frequent of comma, tab, semicolon and bar outside quotes."""
    plain = "".join(header.split('"')[::2])
    return "\t" if prefers_tab and "\t" in plain else max(",\t;|", key=plain.count)
