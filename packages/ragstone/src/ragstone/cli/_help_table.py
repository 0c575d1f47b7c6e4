"""The layout of `--help`: names of options are never cut, also in a terminal of 80 columns."""

from __future__ import annotations

from typing import Any, Final

from rich.table import Table
from rich.text import Text

_NAMES: Final = 4
"""Cells of a row of options that contain names: long, short, and both for the opposite of a flag."""
_MAX_NAME: Final = 27
"""Cells that a name and its type may take on one line."""


class HelpTable(Table):
    """A table of options with two columns: names with their type, and the help.

    Typer gives each kind of name and the type a column of its own, and shortens the names if the columns do not fit.
    """

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add an option. A table whose columns were named before, such as that of the commands, is unchanged."""
        if len(cells) < _NAMES + 2:
            super().add_row(*cells, **options)
            return
        # The help says which options are required, so the mark before them is left out.
        long, short, no_long, no_short, kind, text = cells[-(_NAMES + 2) :]
        if not self.columns:
            self.add_column(no_wrap=True)
            self.add_column(ratio=1)
        names = Text(", ").join(name for name in (short, long) if name.plain)
        for line in (no_long, no_short, kind):
            if line.plain and line.plain != "<bool>":
                fits = line is kind and len(names.plain) + len(line.plain) < _MAX_NAME
                names = Text(" " if fits else "\n  ").join([names, line])
        super().add_row(names, text, **options)
