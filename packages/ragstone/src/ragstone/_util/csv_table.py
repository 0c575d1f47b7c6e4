"""CSV files of which spreadsheets run nothing."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable
from typing import Final

_FORMULA: Final = re.compile(r"\s*+[=+\-@\uff0b\uff0d\uff1d\uff20]|[\t\r']")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def csv_table(rows: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV, with texts as `guarded` returns them. Numbers that are not finite are empty cells."""
    file = io.StringIO(newline="")
    csv.writer(file).writerows(map(_cell, row) for row in rows)
    return file.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str):
        return guarded(value)
    return "" if isinstance(value, float) and not math.isfinite(value) else value


def guarded(text: str) -> str:
    """Return a text as a cell: with spaces instead of control characters, and after a quote if it begins like a formula."""
    text = _CONTROLS.sub(" ", text)
    return f"'{text}" if _FORMULA.match(text) else text


def unguarded(cell: str) -> str:
    """Return the text of a cell that `guarded` returned."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell
