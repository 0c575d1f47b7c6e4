"""The report in a terminal: lines of styled text that fit its width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ragstone._util.quantities import count
from ragstone._util.table import text_table
from ragstone.views._canvas import Canvas, pad, wrap_cells
from ragstone.views._model import MetricRow, ReportView, Stage, TrendView
from ragstone.views._terminal_answers import write_response
from ragstone.views._terminal_changes import write_changes
from ragstone.views._words import (
    ANSWERS_FIRST_BELOW,
    bar,
    describe_rules,
    describe_spent,
    describe_subject,
    describe_table_without_wrong,
    divide_rows,
    format_interval,
    format_mean,
    format_share,
    levels,
    run_table,
    short_titles,
    sparkline,
    trend_note,
)

if TYPE_CHECKING:
    from rich.text import Text

_STAGES: Final[dict[Stage, str]] = {"answer": "The answer", "support": "Its support", "passages": "The passages"}
_MIN_AXIS: Final = 9
_MAX_AXIS: Final = 25
_HISTOGRAM: Final = 10
_MAX_LABEL: Final = 26
_GAP: Final = 2
_KINDS: Final = {"significant": "bold", "not_significant": "", "count": "bold", "action": "", "warning": "yellow"}


class ReportText:
    """The report as lines of styled text."""

    def __init__(self, view: ReportView, *, width: int = 80, ascii_only: bool = False) -> None:
        self._view = view
        self._canvas = Canvas(width, ascii_only=ascii_only)

    def lines(self, *, next_steps: Sequence[tuple[str, str]] = ()) -> list[Text]:
        """Return the lines, with commands at the end and what each shows."""
        view, canvas = self._view, self._canvas
        canvas.wrap(view.title, "bold")
        canvas.wrap(describe_subject(view), "dim")
        canvas.add()
        for n, statement in enumerate(view.verdict):
            canvas.wrap(statement.text, _KINDS[statement.kind] if n == 0 else "")
        if view.next is not None:
            canvas.wrap(f"Next: {view.next.text}", "cyan")
        if view.notices:
            canvas.add()
        for notice in view.notices:
            canvas.wrap(notice.text, "yellow")
        # The answers of a first try say more than their means.
        is_small = view.n_samples < ANSWERS_FIRST_BELOW
        if is_small:
            self._worst()
        canvas.add()
        self._metrics()
        self._causes()
        self._slices()
        if not is_small:
            self._worst()
        if view.changes is not None:
            write_changes(canvas, view.changes)
        if view.trend is not None:
            self._trend(view.trend)
        if view.runs:
            canvas.heading("Runs")
            for line in text_table(run_table(view.runs), indent=2, width=canvas.width).splitlines():
                canvas.add(line)
        if view.trial is not None:
            canvas.heading("What corrects wrong answers")
            canvas.wrap(view.trial.statement.text, _KINDS[view.trial.statement.kind], indent=2)
            canvas.wrap(view.trial.about, "dim", indent=2)
            shown = text_table(view.trial.table, align="llrr", indent=2, width=canvas.width) if view.trial.table else ""
            for line in shown.splitlines():
                canvas.add(line)
        if view.spent:
            canvas.add()
            canvas.add(("The application", "bold"), (", median per answer", "dim"))
            for row in view.spent:
                canvas.wrap(describe_spent(row), indent=2)
        self._provenance()
        if next_steps:
            canvas.add()
            width = max(len(what) for what, _ in next_steps)
            longest = max(len(command) for _, command in next_steps)
            # Commands are not wrapped, so that they can be copied.
            is_below = longest + 2 <= canvas.width < longest + 2 + width
            for what, command in next_steps:
                if is_below:
                    canvas.add((what, "dim"))
                    canvas.add("  ", command)
                else:
                    canvas.add((f"{what:<{width}}  ", "dim"), command)
        return canvas.lines

    def _metrics(self) -> None:
        canvas = self._canvas
        rows, others = divide_rows(self._view.metrics)
        titles = short_titles({row.name: row.title for row in self._view.metrics})
        layout = _Layout(rows, titles, canvas.width)
        canvas.add((layout.header(ascii_only=canvas.ascii_only), "dim"))
        stage: Stage | None = None
        for row in rows:
            if row.stage != stage:
                stage = row.stage
                canvas.add((_STAGES[stage], "bold"))
            self._metric(row, titles[row.name], layout)
        for row in rows if layout.axis else ():
            if row.axis != (0.0, 1.0):
                neutral = f", {row.neutral:g} means without effect" if row.neutral is not None else ""
                ends = f"{row.axis[0]:.2f} to {row.axis[1]:.2f}"
                canvas.wrap(f"{titles[row.name]}: the axis is {ends}{neutral}", "dim")
        absent = [f"{titles[row.name]} to {row.n_not_applicable:,}" for row in rows if row.n_not_applicable]
        if absent:
            canvas.wrap(f"not applicable: {', '.join(absent)}", "dim")
        for line in describe_rules(rows):
            canvas.wrap(line, "dim")
        if others:
            names = ", ".join(titles[row.name] for row in others)
            canvas.wrap(f"not applicable to any sample: {names}", "dim")
        lower = [titles[row.name] for row in rows if row.lower_is_better]
        if lower:
            canvas.wrap(f"lower is better: {', '.join(lower)}", "dim")

    def _metric(self, row: MetricRow, title: str, layout: _Layout) -> None:
        canvas = self._canvas
        names = wrap_cells(title, layout.label)
        estimate = row.estimate
        mean = "no score" if estimate is None else f"{format_mean(estimate)} "
        interval = "" if estimate is None else format_interval(estimate)
        parts: list[str | tuple[str, str]] = [(f"  {pad(names[0], layout.label)}", "")]
        if layout.axis:
            parts += ["  ", *_axis_line(row, layout.axis, ascii_only=canvas.ascii_only)]
        parts += ["  ", (mean, "bold"), (f"{interval:<{layout.mean - len(mean)}}", "")]
        if layout.histogram:
            drawn = sparkline(row.histogram, _HISTOGRAM, ascii_only=canvas.ascii_only)
            parts += ["  ", (f"{drawn:<{_HISTOGRAM}}", "bright_blue")]
        parts += ["  ", f"{row.n_scored:>{layout.scored},}"]
        if layout.failed:
            parts += ["  ", (f"{row.n_failed:>{layout.failed},}", "yellow" if row.n_failed else "dim")]
        canvas.add(*parts)
        for name in names[1:]:
            canvas.add(f"    {name}")

    def _causes(self) -> None:
        rows, canvas = self._view.causes, self._canvas
        if not rows:
            return
        canvas.heading("Where it fails")
        most = max(row.n for row in rows)
        digits = len(f"{most:,}")
        width = 12 if canvas.width < 70 else 16
        for row in rows:
            drawn = bar(row.n, most, width, ascii_only=canvas.ascii_only)
            share = f"  {format_share(row.share)}" if row.share is not None else ""
            if row.n_before is not None:
                share += f", {row.n_before:,} before"
            left = [(f"  {row.n:>{digits},} ", ""), (f"{drawn:<{width}} ", "red" if row.is_wrong else "dim")]
            room = canvas.width - digits - width - 4
            if len(row.title) + len(share) <= room:
                canvas.add(*left, row.title, (share, "dim"))
                continue
            titles = wrap_cells(row.title, room)
            canvas.add(*left, titles[0])
            for line in [*titles[1:], share.strip()]:
                canvas.add(" " * (digits + width + 4), line)
        if self._view.signals:
            canvas.wrap(f"known from {'; '.join(self._view.signals)}", "dim")

    def _slices(self) -> None:
        canvas = self._canvas
        for table in self._view.slices:
            if sentence := describe_table_without_wrong(table, self._view.wrong):
                canvas.add()
                canvas.wrap(sentence, "dim")
                continue
            canvas.heading(f"By {table.key}", f", {self._view.wrong} (intervals hold together)")
            values = [wrap_cells(" ".join(row.value.split()) or "(empty)", _MAX_LABEL)[0] for row in table.rows]
            label = max(map(len, values), default=0)
            digits = max((len(f"{row.n:,}") for row in table.rows), default=1)
            for row, value in zip(table.rows, values, strict=True):
                numbers = f"{row.n_wrong:>{digits},} of {row.n:>{digits},}"
                canvas.add(f"  {pad(value, label)}  ", numbers, "  ", (format_share(row.share), "dim"))
            if table.n_without:
                canvas.wrap(f"{count(table.n_without, 'other answer')} without one of these values", "dim", indent=2)

    def _worst(self) -> None:
        answers, canvas = self._view.worst, self._canvas
        if not answers:
            return
        canvas.heading("Worst answer of each cause" if all(answer.cause for answer in answers) else "Worst answers")
        for answer in answers:
            canvas.wrap(f"▸ {answer.name}", "bold", indent=2, hanging=2, max_lines=2)
            write_response(canvas, answer.response, indent=4, max_lines=2)
            if answer.why:
                canvas.wrap(answer.why, "red" if answer.cause else "dim", indent=4)
            canvas.add("    ", (answer.id, "dim"))

    def _trend(self, trend: TrendView) -> None:
        canvas = self._canvas
        canvas.heading("Over time")
        titles = short_titles({row.metric: row.title for row in trend.rows})
        label = min(max(map(len, titles.values())), _MAX_LABEL)
        width = max(len(row.points) for row in trend.rows)
        for row in trend.rows:
            drawn = levels([point.estimate.value for point in row.points], row.axis, ascii_only=canvas.ascii_only)
            name, *others = wrap_cells(titles[row.metric], label)
            first, last = (
                f"{format_mean(point.estimate)} {format_interval(point.estimate)}"
                for point in (row.points[0], row.points[-1])
            )
            line = f"  {pad(name, label)}  {drawn:<{width}}  {first} to {last}"
            if len(line) <= canvas.width:
                canvas.add(f"  {pad(name, label)}  ", (f"{drawn:<{width}}", "bright_blue"), f"  {first} to {last}")
            else:
                canvas.add(f"  {pad(name, label)}  ", (drawn, "bright_blue"))
                canvas.wrap(f"{first} to {last}", indent=4)
            for each in others:
                canvas.add(f"    {each}")
        canvas.wrap(trend_note(trend), "dim")

    def _provenance(self) -> None:
        made, canvas = self._view.provenance, self._canvas
        canvas.add()
        parts = [f"{100 * made.confidence_level:g}% intervals"]
        if made.is_weighted:
            parts.append("weighted by 1 / sampling probability")
        if made.usage.calls:
            parts.append(f"judge: {made.usage}")
        parts.append(f"ragstone {made.version}")
        canvas.wrap(". ".join(parts), "dim")


class _Layout:
    """Widths of the columns of the table of metrics. The histogram is left out first, then the axis."""

    def __init__(self, rows: Sequence[MetricRow], titles: dict[str, str], width: int) -> None:
        from rich.cells import cell_len

        longest = max(cell_len(titles[row.name]) for row in rows)
        self.label = min(max(longest, 6), _MAX_LABEL)
        estimates = [row.estimate for row in rows if row.estimate is not None]
        self.mean = max([9, *(len(f"{format_mean(e)} {format_interval(e)}") for e in estimates)])
        self.scored = max(6, *(len(f"{row.n_scored:,}") for row in rows))
        self.failed = 6 if any(row.n_failed for row in rows) else 0
        fixed = 2 + self.label + _GAP + self.mean + _GAP + self.scored + (_GAP + self.failed if self.failed else 0)
        has_histogram = any(row.histogram for row in rows)
        self.histogram = has_histogram and width - fixed >= _HISTOGRAM + _MIN_AXIS + 2 * _GAP
        rest = width - fixed - (_HISTOGRAM + _GAP if self.histogram else 0) - _GAP
        self.axis = min(rest, _MAX_AXIS) if rest >= _MIN_AXIS else 0
        if fixed > width:
            self.label = max(12, self.label - (fixed - width))

    def header(self, *, ascii_only: bool) -> str:
        """Return the names of the columns."""
        line = "-" if ascii_only else "─"
        parts = [f"  {'metric':<{self.label}}"]
        if self.axis:
            text = " range " if self.axis >= 13 else ""
            side = self.axis - len(text) - 4
            parts.append(f"0 {line * (side // 2)}{text}{line * (side - side // 2)} 1")
        parts.append(f"{'mean [CI]':<{self.mean}}")
        if self.histogram:
            parts.append(f"{'answers':<{_HISTOGRAM}}")
        parts.append(f"{'scored':>{self.scored}}")
        if self.failed:
            parts.append(f"{'failed':>{self.failed}}")
        return "  ".join(parts)


def _axis_line(row: MetricRow, width: int, *, ascii_only: bool) -> Iterator[tuple[str, str]]:
    """Draw mean and interval on the metric's axis."""
    left, line, right, thick, dot, neutral = "|-|=o:" if ascii_only else "├─┤━●┊"
    low, high = row.axis
    inner = width - 2

    def column(value: float) -> int:
        return min(max(round((value - low) / (high - low) * (inner - 1)), 0), inner - 1)

    cells = [(line, "dim")] * inner
    if row.neutral is not None:
        cells[column(row.neutral)] = (neutral, "")
    if row.estimate is not None:
        for n in range(column(max(row.estimate.low, low)), column(min(row.estimate.high, high)) + 1):
            cells[n] = (thick, "bright_blue")
        cells[column(row.estimate.value)] = (dot, "bold bright_blue")
    yield (left, "dim")
    yield from cells
    yield (right, "dim")
