"""Text tables: the renderer of all output in columns."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Final

_GAP: Final = 2
_WORD: Final = re.compile(r"(?:\[[^\[\]]*\]|\S)++(?: / (?:\[[^\[\]]*\]|\S)++)*+")
"""A unit that stays on one line of a cell: a word, an interval in brackets, or counts such as "12 / 0 / 3"."""


def text_table(
    rows: Sequence[Sequence[str]],
    *,
    align: str = "",
    n_keys: int = 1,
    n_optional: int = 0,
    header: bool = True,
    indent: int = 0,
    width: int | None = None,
    titles: Mapping[str, str] | None = None,
) -> str:
    """Align rows in columns that fit the terminal, without losing or breaking a word.

    Cells that are too wide continue on further lines. If that does not suffice, the columns are printed in several
    blocks, each with the key columns. A row of one cell is the title of the rows below it. The first `n_keys` columns
    identify a row, and are repeated in each block. The last `n_optional` columns are left out if the table does not fit
    otherwise. `width` None is that of the terminal (`COLUMNS`), or 80 without one. `titles` are display names by
    content of the first column. They are printed in front of it if the table has the same columns in the same blocks
    with them, and at most a quarter more lines.
    """
    available = (width or shutil.get_terminal_size(fallback=(80, 24)).columns) - indent
    lines, columns = _render(rows, n_keys, n_optional, available, align, header=header)
    if titles:
        named = [(f"{titles[row[0]]} ({row[0]})", *row[1:]) if row[0] in titles else row for row in rows]
        longer, same_columns = _render(named, n_keys, n_optional, available, align, header=header)
        if same_columns == columns and len(longer) <= len(lines) + len(rows) / 4:
            lines = longer
    return "\n".join(" " * indent + line if line else line for line in lines)


def _render(
    rows: Sequence[Sequence[str]], n_keys: int, n_optional: int, available: int, align: str, *, header: bool
) -> tuple[list[str], list[list[int]]]:
    """Return the lines, and the columns of each block."""
    full = [row for row in rows if len(row) > 1]
    least = [
        max(_len(word) for n, row in enumerate(full) for word in ["", *_words(row[i], head=header and n == 0)])
        for i in range(len(rows[0]))
    ]
    for _ in range(n_optional):
        if _total(least) > available:
            least.pop()
    natural = [max(_len(row[i]) for row in full) for i in range(len(least))]
    split = _split(natural, least, n_keys, available)
    lines: list[str] = []
    for n, columns in enumerate(split):
        widths = _shrink([natural[i] for i in columns], [least[i] for i in columns], available)
        lines += [*([""] if n else []), *_block(rows, columns, widths, align, header=header)]
    return lines, split


def _split(natural: Sequence[int], least: Sequence[int], n_keys: int, available: int) -> list[list[int]]:
    """Return the columns of each block: all of them if they fit when folded, else as many as fit unfolded."""
    everything = list(range(len(natural)))
    if _total(least) <= available:
        return [everything]
    keys, blocks = everything[:n_keys], [everything[:n_keys]]
    for column in everything[n_keys:]:
        wider = [*blocks[-1], column]
        if len(blocks[-1]) > n_keys and _total([natural[i] for i in wider]) > available:
            wider = [*keys, column]
            blocks.append(wider)
        blocks[-1] = wider
    return blocks


def _shrink(natural: Sequence[int], least: Sequence[int], available: int) -> list[int]:
    """Return the width of each column. The widest column that can be folded is narrowed first."""
    widths = list(natural)
    while _total(widths) > available:
        foldable = [i for i, width in enumerate(widths) if width > least[i]]
        if not foldable:
            break
        widths[max(foldable, key=lambda i: widths[i])] -= 1
    return widths


def _block(
    rows: Sequence[Sequence[str]], columns: Sequence[int], widths: Sequence[int], align: str, *, header: bool
) -> list[str]:
    lines: list[str] = []
    folded = [
        [_fold(row[i], width, head=header and n == 0) for i, width in zip(columns, widths, strict=True)]
        if len(row) > 1
        else None
        for n, row in enumerate(rows)
    ]
    # Folding may make columns narrower than their maximum width.
    widths = [max(_len(line) for cells in folded if cells for line in cells[i]) for i in range(len(columns))]
    for n, (row, cells) in enumerate(zip(rows, folded, strict=True)):
        if cells is None:
            lines += [row[0]] if n == 1 else ["", row[0]]
            continue
        for k in range(max(map(len, cells))):
            parts = [
                _pad(cell[k] if k < len(cell) else "", width, align[i : i + 1])
                for i, cell, width in zip(columns, cells, widths, strict=True)
            ]
            lines.append((" " * _GAP).join(parts).rstrip())
        if header and n == 0:
            lines.append((" " * _GAP).join("-" * width for width in widths))
    return lines


def _fold(text: str, width: int, *, head: bool) -> list[str]:
    """Return the lines of a cell, broken between words if it is wider than its column."""
    if _len(text) <= width:
        return [text]
    lines: list[list[str]] = []
    used = width
    for word in _words(text, head=head):
        if used + 1 + _len(word) <= width:
            lines[-1].append(word)
            used += 1 + _len(word)
        else:
            lines.append([word])
            used = _len(word)
    return [" ".join(line) for line in lines] or [""]


def _words(text: str, *, head: bool) -> list[str]:
    # A heading such as "n scored / failed / n.a." may be broken, counts may not.
    return text.split() if head else _WORD.findall(text)


def _pad(text: str, width: int, side: str) -> str:
    space = " " * (width - _len(text))
    return space + text if side == "r" else text + space


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _len(text: str) -> int:
    """Return the number of terminal columns of a text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
