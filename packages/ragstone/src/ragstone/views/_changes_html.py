"""What changed against a baseline, as HTML: differences with intervals, lost and gained questions, causes before and now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from ragstone._util.quantities import count
from ragstone.views._html_answer import cut
from ragstone.views._markup import Markup, join, section, table, tag
from ragstone.views._model import ChangedAnswer, ChangesView, Difference, MetricRow
from ragstone.views._svg import difference_axis, difference_chart, system_axis, system_chart
from ragstone.views._words import FINDING_MARKS, difference_span, format_mean, format_score

_CLASSES: Final = {"better": "up", "worse": "down", "not significant": "soft"}


def change_cell(change: Difference | None) -> Markup:
    """Return the cell of the table of metrics with the change against the baseline."""
    if change is None or change.difference is None:
        return tag("td", tag("small", "not compared"), class_="change")
    return tag("td", *_finding(change), class_="change")


def _finding(row: Difference) -> tuple[Markup, Markup]:
    mark, style = FINDING_MARKS[row.finding], _CLASSES[row.finding]
    exploratory = ", exploratory" if row.is_exploratory else ""
    size, _, interval = row.size.partition(" [")
    return (
        tag("span", f"{mark} {size}", class_=f"finding {style}"),
        tag("small", f"[{interval}, " if interval else None, f"{row.finding}{exploratory}"),
    )


def means_panel(changes: ChangesView, row: MetricRow) -> Markup:
    """Return the mean of each system on the most important metric."""
    lines = (
        tag(
            "div",
            tag("p", tag("b", mean.system), " ", tag("span", format_mean(mean.estimate), class_="number")),
            system_chart(mean.estimate, row.axis),
        )
        for mean in changes.means
        if mean.estimate is not None
    )
    n = f", {count(changes.n_common, 'question')}" if changes.n_common else ""
    about = tag("p", tag("b", row.title), f", mean and interval{n}", class_="soft")
    return tag("aside", about, *lines, system_axis(row.axis), class_="panel")


def changes_section(changes: ChangesView, *, has_texts: bool = True) -> Markup:
    """Return what changed against the baseline. `has_texts`: whether questions are included."""
    intervals = "The intervals of all differences hold together: a filled dot is a significant difference."
    return section(
        f"What changed against {changes.baseline}",
        differences_table(changes.differences),
        *(tag("p", statement.text) for statement in changes.statements),
        *(_answers(changes, name, rows, total, has_texts=has_texts) for name, rows, total in changes.lists),
        _flow(changes),
        tag("p", changes.method, class_="soft small"),
        lead=f"{intervals} The dashed line is at 0.",
        id="changes",
    )


def differences_table(differences: Sequence[Difference]) -> Markup:
    """Return differences with their intervals on a common axis, by pair of systems."""
    span = difference_span(differences)
    by_pair: dict[tuple[str, str], list[Markup]] = {}
    for row in differences:
        by_pair.setdefault((row.system, row.other), []).append(_difference(row, span))
    bodies = (
        tag("tbody", tag("tr", tag("th", f"{system} - {other}", scope="rowgroup", colspan=4)), *rows)
        for (system, other), rows in by_pair.items()
    )
    axis = tag("tr", tag("td"), tag("td", difference_axis(span), class_="place"), tag("td"), tag("td"))
    return tag("table", *bodies, tag("tfoot", axis), class_="forest")


def _difference(row: Difference, span: float) -> Markup:
    is_paired = row.n_up or row.n_down
    counts = f"{row.n_up:,} questions up, {row.n_down:,} down" if is_paired else f"{row.n:,} scores"
    return tag(
        "tr",
        tag("td", tag("b", row.title), tag("span", row.metric, class_="id")),
        tag("td", difference_chart(row, span), tag("small", row.doubt) if row.doubt else None, class_="place"),
        tag("td", *_finding(row), class_="change"),
        tag("td", tag("small", f"{row.p}, {counts}"), class_="counts"),
    )


def _answers(
    changes: ChangesView, name: str, rows: tuple[ChangedAnswer, ...], total: int, *, has_texts: bool
) -> Markup | None:
    if not rows:
        return None
    is_lost = name == "Lost"
    title = f"{name}: the largest {len(rows)} of {total:,}" if total > len(rows) else f"{name}: {total:,}"
    head = (title, changes.baseline, changes.system, f"what {'is wrong now' if is_lost else 'was wrong before'}")
    lines = (
        tag(
            "tr",
            tag("td", _question(row, has_texts=has_texts)),
            tag("td", format_score(row.before), class_="number"),
            tag("td", format_score(row.after), class_="number bad" if is_lost else "number"),
            tag("td", row.reason(name), class_="soft"),
        )
        for row in rows
    )
    return table(head, lines, class_="changed")


def _question(row: ChangedAnswer, *, has_texts: bool) -> Markup:
    text = cut(row.query) if has_texts and row.query else row.id
    return tag("a", text, href=f"#q={quote(row.id, safe='')}")


def _flow(changes: ChangesView) -> Markup | None:
    if not changes.flow:
        return None
    lines = (
        tag("tr", tag("td", f"{row.n:,}", class_="number"), tag("td", row.title_before), tag("td", row.title_after))
        for row in changes.flow
    )
    shown = table(("questions", changes.baseline, changes.system), lines, class_="flow")
    return join(tag("h3", "What was wrong, before and now"), shown)
