"""The report in a terminal: lines of styled text that fit its width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, overload

from typing_extensions import override

from ragstone.views._model import AnswerView, MetricRow, PassageView, ReportView, ScoreView, Span, Stage
from ragstone.views._notebook import notebook_answers
from ragstone.views._words import bar, count, format_interval, format_mean, format_share, short_titles, sparkline

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["AnswerText", "Answers", "AnswersText", "ReportText"]

_STAGES: Final[dict[Stage, str]] = {"answer": "The answer", "support": "Its support", "passages": "The passages"}
_MAX_WIDTH: Final = 100
_MIN_AXIS: Final = 9
_MAX_AXIS: Final = 25
_HISTOGRAM: Final = 10
_MAX_LABEL: Final = 26
_GAP: Final = 2
_PASSAGE_CHARS: Final = 600
_EQUAL: Final = 0.005
"""Intervals narrower than this are not written."""
_KINDS: Final = {"significant": "bold", "not_significant": "", "count": "bold", "action": "", "warning": "yellow"}


class _Canvas:
    """Lines of styled text of a limited width."""

    def __init__(self, width: int, *, ascii_only: bool) -> None:
        self.width = min(width, _MAX_WIDTH)
        self.ascii_only = ascii_only
        self.lines: list[Text] = []

    def add(self, *parts: str | tuple[str, str]) -> None:
        """Add a line of texts and (text, style) pairs."""
        from rich.text import Text

        clean = [
            (self._clean(part), "") if isinstance(part, str) else (self._clean(part[0]), part[1]) for part in parts
        ]
        line = Text.assemble(*clean)
        line.rstrip()
        self.lines.append(line)

    def wrap(
        self, text: str, style: str = "", *, indent: int = 0, hanging: int = 0, max_lines: int | None = None
    ) -> None:
        """Add a paragraph, broken between words, and in words that are longer than a line."""
        width = max(self.width - indent - hanging, 20)
        cells = _wrap_cells(" ".join(self._clean(text).split()), width)
        if max_lines is not None and len(cells) > max_lines:
            cells = [*cells[: max_lines - 1], _cut(cells[max_lines - 1] + self.more, width, self.more)]
        for n, line in enumerate(cells or [""]):
            self.add(" " * (indent + (hanging if n else 0)), (line, style))

    @property
    def more(self) -> str:
        """The mark of a text that was cut."""
        return "..." if self.ascii_only else "…"

    def _clean(self, text: str) -> str:
        """Remove control characters, and in ASCII mode everything else that is not ASCII."""
        shown = "".join(c if c.isprintable() else " " for c in text)
        if not self.ascii_only:
            return shown
        for mark, replacement in _ASCII.items():
            shown = shown.replace(mark, replacement)
        return shown.encode("ascii", errors="replace").decode()


_ASCII: Final = {
    "\u2026": "...",
    "\u2013": "-",
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u00b7": "-",
    "\u25b8": ">",
    "\u221e": "inf",
    "\u00b1": "+-",
}


def _wrap_cells(text: str, width: int) -> list[str]:
    """Wrap a text by terminal columns, of which some characters take two."""
    if text.isascii():
        return textwrap.wrap(text, width)
    from rich.cells import cell_len

    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
            continue
        rest = word
        while cell_len(rest) > width:
            end = len(rest)
            while cell_len(rest[:end]) > width:
                end -= 1
            lines.append(rest[:end])
            rest = rest[end:]
        lines.append(rest)
    return lines


def _cut(text: str, width: int, more: str) -> str:
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return text
    text = text.removesuffix(more)
    while text and cell_len(text + more) > width:
        text = text[:-1]
    return text + more


class ReportText:
    """The report as lines of styled text.

    Args:
        view: The report.
        width: Columns of the terminal. At most 100 are used.
        ascii_only: Use ASCII characters only.
    """

    def __init__(self, view: ReportView, *, width: int = 80, ascii_only: bool = False) -> None:
        self._view = view
        self._canvas = _Canvas(width, ascii_only=ascii_only)

    def lines(self, *, next_steps: Sequence[tuple[str, str]] = ()) -> list[Text]:
        """Return the lines.

        Args:
            next_steps: Commands to print at the end, with what each shows.
        """
        view, canvas = self._view, self._canvas
        self._heading()
        for n, statement in enumerate(view.verdict):
            canvas.wrap(statement.text, _KINDS[statement.kind] if n == 0 else "")
        if view.next is not None:
            canvas.wrap(f"Next: {view.next.text}", "cyan")
        if view.notices:
            canvas.add()
        for notice in view.notices:
            canvas.wrap(notice.text, "yellow")
        canvas.add()
        self._metrics()
        self._causes()
        self._slices()
        self._worst()
        self._provenance()
        if next_steps:
            canvas.add()
            width = max(len(what) for what, _ in next_steps)
            for what, command in next_steps:
                # Not wrapped, so that the command can be copied.
                canvas.add((f"{what:<{width}}  ", "dim"), command)
        return canvas.lines

    def _heading(self) -> None:
        view, canvas = self._view, self._canvas
        about = [count(view.n_samples, "sample")]
        if period := _period(view.provenance.since, view.provenance.until):
            about.append(period)
        if view.provenance.judges:
            about.append("judge " + ", ".join(view.provenance.judges))
        canvas.wrap(view.title, "bold")
        canvas.wrap(", ".join(about), "dim")
        canvas.add()

    def _metrics(self) -> None:
        rows, canvas = self._view.metrics, self._canvas
        titles = short_titles({row.name: row.title for row in rows})
        layout = _Layout(rows, titles, canvas.width)
        canvas.add((layout.header(ascii_only=canvas.ascii_only), "dim"))
        stage: Stage | None = None
        for row in rows:
            if row.stage != stage:
                stage = row.stage
                canvas.add((_STAGES[stage], "bold"))
            self._metric(row, titles[row.name], layout)
        own = [row for row in rows if row.axis != (0.0, 1.0)]
        for row in own:
            if layout.axis:
                neutral = f", {row.neutral:g} means without effect" if row.neutral is not None else ""
                ends = f"{row.axis[0]:.2f} to {row.axis[1]:.2f}"
                canvas.wrap(f"{titles[row.name]}: the axis is {ends}{neutral}", "dim")
        absent = [f"{titles[row.name]} to {row.n_not_applicable:,}" for row in rows if row.n_not_applicable]
        if absent:
            canvas.wrap(f"not applicable: {', '.join(absent)}", "dim")
        lower = [titles[row.name] for row in rows if row.lower_is_better]
        if lower:
            canvas.wrap(f"lower is better: {', '.join(lower)}", "dim")

    def _metric(self, row: MetricRow, title: str, layout: _Layout) -> None:
        canvas = self._canvas
        names = _wrap_cells(title, layout.label)
        estimate = row.estimate
        mean = "no score" if estimate is None else f"{format_mean(estimate)} "
        interval = "" if estimate is None else format_interval(estimate)
        parts: list[str | tuple[str, str]] = [(f"  {_pad(names[0], layout.label)}", "")]
        if layout.axis:
            parts += ["  ", *_axis_line(row, layout.axis, ascii_only=canvas.ascii_only)]
        parts += ["  ", (mean, "bold"), (f"{interval:<{layout.mean - len(mean)}}", "")]
        if layout.histogram:
            drawn = sparkline(row.histogram, _HISTOGRAM, ascii_only=canvas.ascii_only)
            parts += ["  ", (f"{drawn:<{_HISTOGRAM}}", "blue")]
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
        canvas.add()
        canvas.add(("Where it fails", "bold"))
        most = max(row.n for row in rows)
        digits = len(f"{most:,}")
        width = 12 if canvas.width < 70 else 16
        for row in rows:
            drawn = bar(row.n, most, width, ascii_only=canvas.ascii_only)
            share = f"  {format_share(row.share)}" if row.share is not None else ""
            left = [(f"  {row.n:>{digits},} ", ""), (f"{drawn:<{width}} ", "red" if row.is_wrong else "dim")]
            room = canvas.width - digits - width - 4
            if len(row.title) + len(share) <= room:
                canvas.add(*left, row.title, (share, "dim"))
                continue
            titles = _wrap_cells(row.title, room)
            canvas.add(*left, titles[0])
            for line in [*titles[1:], share.strip()]:
                canvas.add(" " * (digits + width + 4), line)
        if self._view.signals:
            canvas.wrap(f"known from {'; '.join(self._view.signals)}", "dim")

    def _slices(self) -> None:
        canvas = self._canvas
        for table in self._view.slices:
            canvas.add()
            canvas.add((f"By {table.key}", "bold"), (", wrong answers (intervals hold together)", "dim"))
            values = [_wrap_cells(" ".join(row.value.split()) or "(empty)", _MAX_LABEL)[0] for row in table.rows]
            label = max(map(len, values), default=0)
            digits = max((len(f"{row.n:,}") for row in table.rows), default=1)
            for row, value in zip(table.rows, values, strict=True):
                numbers = f"{row.n_wrong:>{digits},} of {row.n:>{digits},}"
                canvas.add(f"  {_pad(value, label)}  ", numbers, "  ", (format_share(row.share), "dim"))
            if table.n_without:
                canvas.wrap(f"{count(table.n_without, 'other answer')} without one of these values", "dim", indent=2)

    def _worst(self) -> None:
        answers, canvas = self._view.worst, self._canvas
        if not answers:
            return
        canvas.add()
        canvas.add(("Worst answer of each cause" if self._view.causes else "Worst answers", "bold"))
        for answer in answers:
            canvas.wrap(f"▸ {answer.query or '(no question)'}", "bold", indent=2, hanging=2, max_lines=2)
            _response(canvas, answer.response, indent=4, max_lines=2)
            if answer.why:
                canvas.wrap(answer.why, "red" if answer.cause else "dim", indent=4)
            canvas.add("    ", (answer.id, "dim"))

    def _provenance(self) -> None:
        made, canvas = self._view.provenance, self._canvas
        canvas.add()
        parts = [f"{100 * made.confidence_level:g}% intervals"]
        if made.is_weighted:
            parts.append("weighted by 1 / sampling probability")
        if made.n_calls:
            cost = "" if made.cost_usd is None else f", {made.cost_usd:.2f} USD"
            parts.append(
                f"{count(made.n_calls, 'judge call')}, {made.input_tokens + made.output_tokens:,} tokens{cost}"
            )
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
            cells[n] = (thick, "blue")
        cells[column(row.estimate.value)] = (dot, "bold blue")
    yield (left, "dim")
    yield from cells
    yield (right, "dim")


class AnswerText:
    """One answer with its evidence as lines of styled text.

    Args:
        view: The answer.
        width: Columns of the terminal. At most 100 are used.
        ascii_only: Use ASCII characters only.
    """

    def __init__(self, view: AnswerView, *, width: int = 80, ascii_only: bool = False) -> None:
        self._view = view
        self._canvas = _Canvas(width, ascii_only=ascii_only)

    def lines(self) -> list[Text]:
        """Return the lines."""
        view, canvas = self._view, self._canvas
        canvas.wrap(view.query or "(no question)", "bold")
        about = view.id if view.time is None else f"{view.id}, {_minute(view.time)}"
        canvas.add((about, "dim"))
        if view.why:
            canvas.wrap(view.why, "red" if view.cause else "green")
        canvas.add()
        canvas.add(("The answer", "bold"))
        _response(canvas, view.response, indent=2)
        for claim in view.unsupported:
            canvas.wrap(f"unsupported claim: {claim}", "red", indent=2, hanging=2)
        for reference in view.reference:
            canvas.add(("The reference", "bold"))
            canvas.wrap(reference, indent=2)
        self._scores()
        self._passages()
        if view.metadata:
            canvas.add()
            canvas.add(("Metadata", "bold"))
            for key, value in view.metadata.items():
                canvas.wrap(f"{key}: {_short(value)}", "dim", indent=2, hanging=2)
        return canvas.lines

    def _scores(self) -> None:
        scores, canvas = self._view.scores, self._canvas
        canvas.add()
        canvas.add(("The scores, and why", "bold"))
        if not scores:
            canvas.add("  no outcomes")
            return
        titles = short_titles({score.metric: score.title for score in scores})
        label = min(max(len(title) for title in titles.values()), _MAX_LABEL)
        for score in scores:
            self._score(score, titles[score.metric], label)

    def _score(self, score: ScoreView, title: str, label: int) -> None:
        canvas = self._canvas
        names = _wrap_cells(title, label)
        value = {"failure": "failed", "not_applicable": "n.a."}.get(score.outcome) or f"{score.value:.2f}"
        if score.low is not None and score.high is not None and score.high - score.low > _EQUAL:
            value += f" [{score.low:.2f}, {score.high:.2f}]"
        style = "yellow" if score.outcome == "failure" else "red" if score.is_low else ""
        indent = 2 + label + 2 + 19 + 1
        reasons = _wrap_cells(" ".join((score.reason or "").split()), max(canvas.width - indent, 24))
        if len(value) > 19 or canvas.width - indent < 24:
            canvas.add(f"  {_pad(names[0], label)}  ", (value, style))
            for name in names[1:]:
                canvas.add(f"    {name}")
            canvas.wrap(score.reason or "", "dim", indent=4)
            return
        for n in range(max(len(names), len(reasons), 1)):
            name = names[n] if n < len(names) else ""
            reason = reasons[n] if n < len(reasons) else ""
            canvas.add(f"  {_pad(name, label)}  ", (f"{value if n == 0 else '':<19} ", style), (reason, "dim"))

    def _passages(self) -> None:
        passages, canvas = self._view.passages, self._canvas
        canvas.add()
        if passages is None:
            canvas.add(("The passages are not known", "bold"))
            return
        if not passages:
            canvas.add(("No passages were retrieved", "bold"))
            return
        canvas.add(("The passages, in the order of the prompt", "bold"))
        for passage in passages:
            self._passage(passage)
        if any(passage.p_answer is not None for passage in passages):
            canvas.wrap("p(answer): probability that the reader answers from this passage alone", "dim")

    def _passage(self, passage: PassageView) -> None:
        canvas = self._canvas
        parts: list[str | tuple[str, str]] = [(f"  {passage.position:>2}  ", "dim")]
        parts += [
            (f"{mark} ", {"relevant": "green", "used": "cyan", "distracting": "red"}[mark]) for mark in passage.marks
        ]
        if passage.label_source is not None and "relevant" not in passage.marks:
            parts.append(("not relevant ", "dim"))
        facts = [passage.id] if passage.id else []
        if passage.p_answer is not None:
            interval = ""
            if passage.p_answer_interval is not None:
                low, high = passage.p_answer_interval
                interval = f" [{low:.2f}, {high:.2f}]" if high - low > _EQUAL else ""
            facts.append(f"p(answer) {passage.p_answer:.2f}{interval}")
        parts.append((", ".join(facts), "dim"))
        canvas.add(*parts)
        text = passage.text if len(passage.text) <= _PASSAGE_CHARS else f"{passage.text[:_PASSAGE_CHARS]}…"
        canvas.wrap(text, indent=6)


class AnswersText:
    """A list of answers as lines of styled text.

    Args:
        views: The answers.
        metric: The metric that orders them. None for the mean of all scores.
        width: Columns of the terminal. At most 100 are used.
        ascii_only: Use ASCII characters only.
    """

    def __init__(
        self, views: Sequence[AnswerView], *, metric: str | None = None, width: int = 80, ascii_only: bool = False
    ) -> None:
        self._views = views
        self._metric = metric
        self._canvas = _Canvas(width, ascii_only=ascii_only)

    def lines(self) -> list[Text]:
        """Return the lines: for each answer its rating or score, the question, the cause and the id."""
        canvas = self._canvas
        for view in self._views:
            rating = self._rating(view)
            number = " n.a." if rating is None else f"{rating:5.2f}"
            cells = _wrap_cells(" ".join((view.query or "(no question)").split()), canvas.width - 7)
            canvas.add((f"{number}  ", "bold"), cells[0] + (canvas.more if len(cells) > 1 else ""))
            if view.cause_title is not None:
                canvas.wrap(view.cause_title, "red", indent=7)
            canvas.add(" " * 7, (view.id, "dim"))
        canvas.add()
        what = f"the score of {self._metric}" if self._metric else "the mean of the scores, 0 is worst and 1 is best"
        canvas.wrap(f"{count(len(self._views), 'answer')}. The number is {what}.", "dim")
        return canvas.lines

    def _rating(self, view: AnswerView) -> float | None:
        if self._metric is None:
            return view.rating
        return next((score.value for score in view.scores if score.metric == self._metric), None)


class Answers(Sequence[AnswerView]):
    """Answers in order. Printing them shows each with its evidence.

    Args:
        views: The answers.
    """

    def __init__(self, views: Sequence[AnswerView]) -> None:
        self._views = tuple(views)

    @overload
    def __getitem__(self, index: int) -> AnswerView: ...

    @overload
    def __getitem__(self, index: slice) -> Answers: ...

    @override
    def __getitem__(self, index: int | slice) -> AnswerView | Answers:
        if isinstance(index, slice):
            return Answers(self._views[index])
        return self._views[index]

    @override
    def __len__(self) -> int:
        return len(self._views)

    def __str__(self) -> str:
        line = "-" * 80
        texts = ("\n".join(line.plain for line in AnswerText(view).lines()) for view in self._views)
        return f"\n{line}\n".join(texts) or "no answers"

    def _repr_html_(self) -> str:
        return notebook_answers(self._views)

    def __repr__(self) -> str:
        return f"<{count(len(self), 'answer')}. print() shows them with their evidence>"


def _response(canvas: _Canvas, response: Sequence[Span] | None, *, indent: int, max_lines: int | None = None) -> None:
    if response is None:
        canvas.add(" " * indent, ("(the answer is not known)", "dim"))
        return
    text = " ".join(
        f"{span.text.strip()} [unsupported]" if span.unsupported else span.text.strip() for span in response
    )
    canvas.wrap(text or "(empty answer)", "" if text else "dim", indent=indent, max_lines=max_lines)


def _pad(text: str, width: int) -> str:
    from rich.cells import cell_len

    return text + " " * (width - cell_len(text))


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _period(since: float | None, until: float | None) -> str:
    if since is None or until is None:
        return ""
    first, last = (datetime.fromtimestamp(time, tz=UTC) for time in (since, until))
    if first.date() == last.date():
        return f"{first:%d %b %Y}"
    return f"{first:%d %b} to {last:%d %b %Y}" if first.year == last.year else f"{first:%d %b %Y} to {last:%d %b %Y}"


def _minute(time: float) -> str:
    return f"{datetime.fromtimestamp(time, tz=UTC):%Y-%m-%d %H:%M} UTC"
