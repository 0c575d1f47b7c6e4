"""The report as Markdown, for summaries of CI jobs and pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from ragstone._util.ascii import without_controls
from ragstone.stats import Estimate
from ragstone.views._model import AnswerView, ChangesView, Difference, ReportView, TrendPoint
from ragstone.views._words import (
    FINDING_MARKS,
    describe_rules,
    describe_spent,
    describe_table_without_wrong,
    divide_rows,
    format_day,
    format_interval,
    format_mean,
    format_score,
    format_share,
    plain_response,
    run_table,
)

_ANSWERS: Final = 3
_CHANGED: Final = 3
_TRENDS: Final = 4
_SLICES: Final = 1
_SLICE_ROWS: Final = 6
_TEXT_CHARS: Final = 500
_MAX_METRICS: Final = 30
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~!&$@]|:(?=//)|(?<=[wW]{3})\.)")
"""Characters that Markdown gives a meaning, also within an address, of which it makes a link."""


def markdown_report(view: ReportView) -> str:
    """Return the report as Markdown: the verdict, the metrics, the causes, and three of the worst answers, folded.

    Captured text is in code blocks whose fences are longer than any in the text, or escaped.
    """
    first, *others = view.verdict
    lines = [f"### {escape_markdown(first.text)}", ""]
    lines += [f"{escape_markdown(statement.text)}\n" for statement in others]
    if view.next is not None:
        lines += [f"**Next:** {escape_markdown(view.next.text)}", ""]
    lines += [f"> {escape_markdown(notice.text)}\n>" for notice in view.notices]
    compared = view.changes is not None
    against = [] if view.changes is None else [f"against {_shorten(view.changes.baseline)}"]
    shown, absent = divide_rows(view.metrics)
    rows: list[list[str]] = []
    for row in shown[:_MAX_METRICS]:
        mean = "no score" if row.estimate is None else format_mean(row.estimate)
        interval = "" if row.estimate is None else format_interval(row.estimate)
        title = "" if row.title == row.name else f"{escape_markdown(row.title)} "
        name = Escaped(f"{title}{code_in_markdown(row.name)}")
        change = [_change(row.change)] if compared else []
        rows.append([name, mean, interval, f"{row.n_scored:,}", f"{row.n_failed:,}", *change])
    lines += ["", *table_in_markdown(["metric", "mean", "interval", "scored", "failed", *against], rows, "lrlrrl")]
    if len(shown) > _MAX_METRICS:
        lines.append(f"\n{len(shown) - _MAX_METRICS} more metrics are not listed.")
    lines += [f"\n{escape_markdown(line)}" for line in describe_rules(shown[:_MAX_METRICS])]
    if absent:
        lines.append(f"\nNot applicable to any sample: {', '.join(code_in_markdown(row.name) for row in absent)}")
    if view.causes:
        before = ["before"] if compared else []
        found = [
            [f"{cause.n:,}", *([f"{cause.n_before or 0:,}"] if compared else []), cause.title, _share(cause.share)]
            for cause in view.causes
        ]
        names = ["n", *before, "where it fails", "share"]
        lines += ["", *table_in_markdown(names, found, "rrll" if compared else "rll")]
    if view.changes is not None:
        lines += _changes(view.changes)
    if view.runs:
        head, *runs = run_table(view.runs)
        filled = [[*row, *[""] * (len(head) - len(row))] for row in runs]
        lines += ["", *table_in_markdown(head, filled)]
    if view.trial is not None:
        lines += [f"\n{escape_markdown(text)}" for text in (view.trial.statement.text, view.trial.about)]
        lines += ["", *table_in_markdown(view.trial.table[0], view.trial.table[1:], "llrr")] if view.trial.table else []
    if view.trend is not None:
        ends = [[trend.title, *map(_point, (trend.points[0], trend.points[-1]))] for trend in view.trend.rows[:_TRENDS]]
        lines += ["", *table_in_markdown(["over time", "first", "last"], ends)]
    for table in view.slices[:_SLICES]:
        if sentence := describe_table_without_wrong(table, view.wrong):
            lines += ["", escape_markdown(sentence)]
            continue
        values = [
            [_shorten(value.value), f"{value.n_wrong:,} of {value.n:,}", _share(value.share)]
            for value in table.rows[:_SLICE_ROWS]
        ]
        lines += ["", *table_in_markdown([table.key, view.wrong, "share"], values)]
    if view.spent:
        spent = escape_markdown(", ".join(map(describe_spent, view.spent)))
        lines += ["", f"The application, median per answer: {spent}"]
    # The lost questions are the answers to look at first.
    for answer in view.worst[: 0 if view.changes is not None and view.changes.lost else _ANSWERS]:
        lines += ["", *_answer(answer)]
    made = view.provenance
    judges = f", judge {', '.join(map(code_in_markdown, made.judges))}" if made.judges else ""
    lines += ["", f"{view.n_samples:,} samples of {code_in_markdown(made.source)}{judges}, ragstone {made.version}"]
    return "\n".join(lines) + "\n"


class Escaped(str):
    """Text that is Markdown already."""

    __slots__ = ()


def table_in_markdown(head: Sequence[str], rows: Iterable[Sequence[str]], sides: str = "") -> list[str]:
    """Return the lines of a table, whose texts are escaped. `sides` has l or r for each column. Default: all l."""
    rules = ["---:" if side == "r" else "---" for side in sides[: len(head)] or "l" * len(head)]
    cells = ([cell if isinstance(cell, Escaped) else escape_markdown(cell) for cell in row] for row in (head, *rows))
    first, *others = (f"| {' | '.join(row)} |" for row in cells)
    return [first, f"|{'|'.join(rules)}|", *others]


def _share(share: Estimate | None) -> str:
    return "" if share is None else format_share(share)


def _point(point: TrendPoint) -> str:
    return f"{format_mean(point.estimate)} {format_interval(point.estimate)}, {format_day(point.until)}"


def _change(row: Difference | None) -> str:
    if row is None or row.difference is None:
        return ""
    return f"{FINDING_MARKS[row.finding]} {row.size}, {row.finding}{', exploratory' if row.is_exploratory else ''}"


def _changes(changes: ChangesView) -> list[str]:
    lines = [line for statement in changes.statements for line in ("", escape_markdown(statement.text))]
    for name, rows, total in changes.lists:
        texts = [
            f"{format_score(row.before)} -> {format_score(row.after)}  {row.id}  {answer_line(row.query or '')}"
            f"  ({row.reason(name)})"
            for row in rows[:_CHANGED]
        ]
        if texts:
            lines += ["", *fold_in_markdown(f"{name}: {total:,}", texts)]
    return lines


def _answer(answer: AnswerView) -> list[str]:
    query = " ".join(answer.name.split())
    summary = query if len(query) <= 120 else f"{query[:119]}…"
    parts = [f"answer:    {answer_line(answer)}"]
    parts += [f"reference: {_shorten(text)}" for text in answer.reference[:1]]
    parts += [f"passage {p.position}: {_shorten(p.text)}" for p in (answer.passages or ())[:3]]
    return fold_in_markdown(f"{summary}: {answer.why}", parts)


def fold_in_markdown(summary: str, lines: Sequence[str]) -> list[str]:
    """Return captured lines as a folded code block, with an empty line after it."""
    block = fence_in_markdown("\n".join(lines))
    return [f"<details><summary>{_escape_html(summary)}</summary>", "", *block, "", "</details>", ""]


def answer_line(text: str | AnswerView | None) -> str:
    """Return a text, or the text of an answer with its unsupported parts marked, on one line of limited length."""
    if isinstance(text, AnswerView):
        text = None if text.response is None else plain_response(text.response)
    return "(not known)" if text is None else _shorten(text)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_CHARS else f"{line[: _TEXT_CHARS - 1]}…"


def fence_in_markdown(text: str) -> list[str]:
    """Return captured text as a code block."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    clean = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    return [f"{fence}text", clean, fence]


def code_in_markdown(text: str) -> str:
    """Format captured text as code on one line of a table."""
    clean = without_controls(text).replace("|", "/")
    longest = max((len(run) for run in re.findall("`+", clean)), default=0)
    fence = "`" * (longest + 1)
    space = " " if clean.startswith("`") or clean.endswith("`") else ""
    return f"{fence}{space}{clean}{space}{fence}"


def escape_markdown(text: str) -> str:
    """Escape captured text, so that it is shown as it is."""
    return _SPECIAL.sub(r"\\\1", without_controls(text))


def _escape_html(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"&#{ord(match[1])};", without_controls(text))
