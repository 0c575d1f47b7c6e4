"""Rows of CSV files by the names of their header."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import chain

from ragstone._util.row_limits import CsvLines
from ragstone.errors import DataError


def csv_rows(lines: CsvLines, path: str) -> csv.DictReader[str]:
    """Return the reader of a file's rows.

    Args:
        lines: The lines, from the header on.
        path: The file, for the error.

    Raises:
        DataError: If two columns have the same name. Columns without a name are allowed.
    """
    header = next(lines, "")
    rows = csv.DictReader(chain([header], lines), delimiter=csv_separator(header))
    for name, n in Counter(rows.fieldnames or ()).items():
        if name and n > 1:
            raise DataError(f"{path!r} has {n} columns with the name {name!r}. Rename or remove all but one")
    return rows


def csv_separator(header: str) -> str:
    """Return the separator of a header: a comma, or if it has none, a semicolon or a tab, as spreadsheets write."""
    return "," if "," in header else max(",;\t", key=header.count)
