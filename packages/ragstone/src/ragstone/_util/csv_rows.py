"""Rows of CSV files by the names of their header."""

from __future__ import annotations

import csv
from itertools import chain

from ragstone._util.row_limits import CsvLines

__all__ = ["csv_rows", "csv_separator"]


def csv_rows(lines: CsvLines) -> csv.DictReader[str]:
    """Return the reader of a file's rows.

    Args:
        lines: The lines, from the header on.
    """
    header = next(lines, "")
    return csv.DictReader(chain([header], lines), delimiter=csv_separator(header))


def csv_separator(header: str) -> str:
    """Return the separator of a header: a comma, or if it has none, a semicolon or a tab, as spreadsheets write."""
    return "," if "," in header else max(",;\t", key=header.count)
