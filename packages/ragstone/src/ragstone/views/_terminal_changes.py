"""What changed against a baseline, in a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from ragstone.views._canvas import Canvas, pad, wrap_cells
from ragstone.views._model import ChangedAnswer, ChangesView, Difference
from ragstone.views._words import FINDING_MARKS, difference_span, format_score, own_span

_ASCII_MARKS: Final = {"better": "+", "worse": "!", "not significant": "o"}
_STYLES: Final = {"better": "green", "worse": "red", "not significant": "dim"}
_MAX_LABEL: Final = 26
_MIN_AXIS: Final = 15
_MAX_AXIS: Final = 27
_SHOWN: Final = 3
"""Lost and gained questions that are shown."""
_FLOWS: Final = 6


def write_changes(canvas: Canvas, changes: ChangesView) -> None:
    """Write what changed: differences with intervals, lost and gained questions, and causes before and now."""
    canvas.heading(f"What changed against {changes.baseline}", ", intervals hold together")
    for system in changes.systems[:-1]:
        rows = [row for row in changes.differences if row.system == system]
        if len(changes.systems) > 2:
            canvas.add((f"{system} - {changes.baseline}", "bold"))
        _forest(canvas, rows)
    marks = _ASCII_MARKS if canvas.ascii_only else FINDING_MARKS
    canvas.add((f"{marks['better']} better, {marks['worse']} worse, {marks['not significant']} not significant", "dim"))
    for statement in changes.statements:
        canvas.wrap(statement.text)
    for name, answers, total in changes.lists:
        _answers(canvas, name, answers, total)
    _flow(canvas, changes)


def _forest(canvas: Canvas, rows: list[Difference]) -> None:
    titles = [wrap_cells(row.title, _MAX_LABEL) for row in rows]
    label = max(len(line) for lines in titles for line in lines)
    size = max(len(row.size) for row in rows)
    axis = min(canvas.width - label - size - 8, _MAX_AXIS)
    axis = 0 if axis < _MIN_AXIS else axis - (axis + 1) % 2
    span = difference_span(rows)
    marks = _ASCII_MARKS if canvas.ascii_only else FINDING_MARKS
    for row, lines in zip(rows, titles, strict=True):
        style = _STYLES[row.finding]
        drawn = _line(row, span if math.isfinite(row.width) else own_span(row), axis, ascii_only=canvas.ascii_only)
        parts = [*drawn, ("  ", "")] if axis else []
        exploratory = " (exploratory)" if row.is_exploratory else ""
        mark = (f"{marks[row.finding]} ", style)
        room = canvas.width - label - 4 - (axis + 2 if axis else 0)
        if len(row.size) + 2 <= room:
            canvas.add(f"  {pad(lines[0], label)}  ", *parts, mark, (row.size, style), (exploratory, "dim"))
        else:
            canvas.add(f"  {lines[0]}")
            canvas.add("    ", mark, (row.size, style), (exploratory, "dim"))
        for line in lines[1:]:
            canvas.add(f"    {line}")
        if row.doubt:
            canvas.wrap(row.doubt, "yellow", indent=4)


def _line(row: Difference, span: float, width: int, *, ascii_only: bool) -> Iterator[tuple[str, str]]:
    """Draw a difference with its interval, 0 in the middle."""
    if not width:
        return
    line, thick, dot, zero = "-=o|" if ascii_only else "─━●┊"
    unit = row.width if math.isfinite(row.width) else 1.0

    def column(value: float) -> int:
        share = min(max(value / unit / span, -1.0), 1.0)
        return round((share + 1) / 2 * (width - 1))

    cells = [(line, "dim")] * width
    cells[width // 2] = (zero, "")
    if row.difference is not None:
        if row.low is not None and row.high is not None:
            for n in range(column(row.low), column(row.high) + 1):
                cells[n] = (thick, "bright_blue")
        cells[column(row.difference)] = (dot, f"bold {_STYLES[row.finding]}")
    yield from cells


def _answers(canvas: Canvas, name: str, answers: tuple[ChangedAnswer, ...], total: int) -> None:
    if not answers:
        return
    shown = answers[:_SHOWN]
    of = f"the largest {len(shown)} of {total:,}" if total > len(shown) else f"{total:,}"
    canvas.add((name, "bold"), (f", {of}", "dim"))
    arrow = "->" if canvas.ascii_only else "→"
    for answer in shown:
        scores = f"{format_score(answer.before)} {arrow} {format_score(answer.after)}"
        text = answer.query or answer.id
        first, *others = wrap_cells(" ".join(text.split()), max(canvas.width - len(scores) - 4, 20))
        canvas.add(f"  {scores}  {first}{canvas.more if others else ''}")
        if cause := answer.reason(name):
            canvas.wrap(cause if name == "Lost" else f"before: {cause}", "dim", indent=4 + len(scores))
        if answer.query:
            canvas.add(" " * (4 + len(scores)), (answer.id, "dim"))


def _flow(canvas: Canvas, changes: ChangesView) -> None:
    if not changes.flow:
        return
    arrow = "->" if canvas.ascii_only else "→"
    canvas.add(("What was wrong, before and now", "bold"))
    digits = max(len(f"{row.n:,}") for row in changes.flow)
    for row in changes.flow[:_FLOWS]:
        first, *others = wrap_cells(f"{row.title_before} {arrow} {row.title_after}", max(canvas.width - digits - 4, 20))
        canvas.add(f"  {row.n:>{digits},}  {first}")
        for line in others:
            canvas.add(" " * (digits + 6), line)
    rest = sum(row.n for row in changes.flow[_FLOWS:])
    if rest:
        canvas.add("  ", (f"{rest:,} other changes", "dim"))
