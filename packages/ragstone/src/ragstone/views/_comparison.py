"""The page of a comparison of systems: one HTML file without scripts and network requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ragstone._util.quantities import count
from ragstone.views._changes_html import differences_table
from ragstone.views._html import html_document, read_asset
from ragstone.views._html_answer import answer_text, cut
from ragstone.views._markup import Markup, join, section, table, tag
from ragstone.views._model import (
    AnswerView,
    CauseRow,
    ChangedAnswer,
    ChangesView,
    ComparedMetric,
    ComparisonView,
    SystemScores,
)
from ragstone.views._svg import system_axis, system_chart
from ragstone.views._words import (
    SPENT_TITLES,
    format_interval,
    format_mean,
    format_score,
    format_share,
    letter,
    spent_cells,
)

_MAX_METRICS: Final = 60
"""Most metrics with means, charts and differences."""
_MAX_DIFFERENCES: Final = 400


def comparison_page(view: ComparisonView) -> str:
    """Return the page as an HTML document."""
    sections = {
        "Means": _means(view),
        "Distributions": _distributions(view),
        "Differences": _differences(view),
        "Questions": join(*(_questions(view, changes) for changes in view.changes)),
        "Where they fail": _causes(view.causes),
        "Cost": _usage(view),
    }
    shown = {name: section for name, section in sections.items() if section}
    links = (tag("a", name, href=f"#{_anchor(name)}") for name in shown)
    body = join(
        tag("header", tag("span", tag("b", "Ragstone"), " comparison", class_="about"), tag("nav", *links)),
        tag("main", _verdict(view), *(tag("div", section, id=_anchor(name)) for name, section in shown.items())),
        tag(
            "footer",
            tag("h2", "How these numbers were made"),
            *(tag("p", text, class_="soft small") for text in (view.method, *view.notes, f"ragstone {view.version}")),
        ),
    )
    return html_document(" and ".join(view.systems[:3]), body, style=read_asset("page.css"))


def comparison_sections(view: ComparisonView) -> tuple[Markup, Markup, Markup]:
    """Return the verdict, the means and the differences."""
    return _verdict(view), _means(view), _differences(view)


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _verdict(view: ComparisonView) -> Markup:
    # Indented lines belong to the one before them.
    findings: list[list[str]] = []
    for line in filter(None, view.verdict):
        if line.startswith("  ") and findings:
            findings[-1].append(" ".join(line.split()))
        else:
            findings.append([line.rstrip(":")])
    (first, *parts), *others = findings
    n = ", ".join(f"{n:,} samples of {system}" for system, n in view.n_samples.items())
    n = count(view.n_common, "common sample") if view.n_common else n
    gate = view.gate[:1] and (tag("p", tag("b", "Gate: "), view.gate[0][0], class_="next"), _gate(view.gate[1:]))
    return tag(
        "section",
        tag("p", f"{count(len(view.systems), 'system')}, {n}", class_="subject"),
        tag("h1", first),
        tag("p", ", ".join(parts)) if parts else None,
        tag("ul", *(tag("li", _finding(*finding)) for finding in others), class_="verdicts") if others else None,
        *gate,
        class_="verdict",
    )


def _finding(head: str, *parts: str) -> Markup:
    if any(":" in part for part in parts):
        return join(tag("b", f"{head}:"), *(join(tag("br"), part) for part in parts))
    return join(tag("b", f"{head}: "), ", ".join(parts)) if parts else join(head)


def _gate(cases: Sequence[tuple[str, ...]]) -> Markup:
    rows = (
        tag("tr", *(tag("td", text, class_="bad" if text == "failed" else None) for text in case)) for case in cases
    )
    return tag("table", tag("tbody", *rows), class_="scores gate")


def _means(view: ComparisonView) -> Markup:
    """Return the matrix of means: one row for each metric, one column for each system."""
    names = [f"{letter(n)}  {system}" for n, system in enumerate(view.systems)]
    rows = (
        tag("tr", _name(metric), *(_mean(scores, names[n]) for n, scores in enumerate(metric.systems)))
        for metric in view.metrics[:_MAX_METRICS]
    )
    lead = "A letter after a mean names a system that it is significantly better than."
    matrix = tag("div", table(("Metric", *names), rows, class_="matrix"), class_="wide")
    rest = len(view.metrics) - _MAX_METRICS
    more = f" {count(rest, 'more metric is', 'more metrics are')} not shown." if rest > 0 else ""
    return section("Means by system", matrix, lead=f"{lead} Intervals are of each mean by itself.{more}")


def _name(metric: ComparedMetric) -> Markup:
    notes = ["lower is better"] * metric.lower_is_better + ["exploratory"] * metric.is_exploratory
    small = tag("small", ", ".join(notes)) if notes else None
    return tag("td", tag("b", metric.title), tag("span", metric.name, class_="id"), small)


def _mean(scores: SystemScores, name: str) -> Markup:
    kind = "up" if scores.beats and not scores.loses else "down" if scores.loses and not scores.beats else None
    counts = [f"{scores.n_scored:,} scored"]
    counts += [f"{n:,} {word}" for n, word in ((scores.n_failed, "failed"), (scores.n_not_applicable, "n.a.")) if n]
    if scores.estimate is None:
        return tag("td", tag("strong", "no score"), tag("small", ", ".join(counts[1:])), data_system=name)
    marks = tag("sup", "".join(map(letter, scores.beats))) if scores.beats else None
    mean = tag("strong", format_mean(scores.estimate), marks, class_=kind)
    interval = tag("small", format_interval(scores.estimate))
    return tag("td", mean, interval, tag("small", ", ".join(counts)), class_="number", data_system=name)


def _distributions(view: ComparisonView) -> Markup:
    bodies = map(_boxes, view.metrics[:_MAX_METRICS])
    lead = (
        "The box has half of the scores, the line in it is the median, and the thin line leads from the 5th to the "
        "95th percentile. The dot is the mean, the bar its interval."
    )
    return section("Distributions", tag("div", *bodies, class_="panels"), lead=lead)


def _boxes(metric: ComparedMetric) -> Markup:
    lines = (
        tag(
            "div",
            tag("p", tag("span", scores.system), tag("span", format_mean(scores.estimate), class_="number")),
            system_chart(scores.estimate, metric.axis, scores.quantiles),
        )
        for scores in metric.systems
        if scores.estimate is not None
    )
    return tag("div", tag("h3", metric.title), *lines, system_axis(metric.axis), class_="answer")


def _differences(view: ComparisonView) -> Markup:
    shown = view.differences[:_MAX_DIFFERENCES]
    rest = len(view.differences) - len(shown)
    more = f" {rest:,} more are not shown: see the .csv file." if rest else ""
    lead = "The intervals of all differences hold together: a filled dot is a significant difference."
    return section("Differences", differences_table(shown), lead=f"{lead} The dashed line is at 0.{more}")


def _questions(view: ComparisonView, changes: ChangesView) -> Markup:
    """Return the lost and the gained questions of one system, with both answers."""
    parts = []
    for name, rows, total in changes.lists:
        if rows:
            largest = f", the largest {len(rows)}" if total > len(rows) else ""
            parts += [tag("h3", f"{name}: {total:,}{largest}"), *(_question(view, changes, row) for row in rows)]
    title = f"Questions: {changes.system} against {changes.baseline}"
    return section(title, *(tag("p", statement.text) for statement in changes.statements), *parts)


def _question(view: ComparisonView, changes: ChangesView, row: ChangedAnswer) -> Markup:
    sides = [(name, view.answers.get(name, {}).get(row.id)) for name in (changes.baseline, changes.system)]
    answers = [answer for _, answer in sides if answer is not None]
    query = next((answer.query for answer in answers if answer.query), None)
    reference = next((answer.reference for answer in answers if answer.reference), ())
    scores = f"{changes.metric_title} {format_score(row.before)} \N{RIGHTWARDS ARROW} {format_score(row.after)}"
    return tag(
        "article",
        tag("h3", cut(query or row.id)),
        tag("p", tag("span", scores, class_="number"), " ", tag("span", row.id, class_="id"), class_="soft"),
        tag("div", *(_side(name, answer) for name, answer in sides), class_="columns"),
        *(join(tag("h4", "The reference"), tag("p", cut(text), class_="text")) for text in reference[:3]),
        class_="answer",
    )


def _side(system: str, answer: AnswerView | None) -> Markup:
    if answer is None:
        return tag("div", tag("h4", system), tag("p", "(no answer)", class_="soft"))
    low = ", ".join(f"{score.title} {format_score(score.value)}" for score in answer.scores if score.is_low)
    why = answer.why if answer.cause else f"Low: {low}." if low else answer.why
    return tag(
        "div",
        tag("h4", system),
        tag("p", answer_text(answer), class_="text"),
        tag("p", why, class_="why" if answer.cause else "soft") if why else None,
    )


def _causes(causes: Mapping[str, Sequence[CauseRow]]) -> Markup | None:
    titles = {row.cause: row.title for rows in causes.values() for row in rows}
    if not titles:
        return None
    found = {name: {row.cause: row for row in rows} for name, rows in causes.items()}
    rows = (
        tag("tr", tag("td", tag("b", title)), *(_share(by.get(cause), name) for name, by in found.items()))
        for cause, title in titles.items()
    )
    matrix = tag("div", table(("Cause", *causes), rows, class_="matrix"), class_="wide")
    return section("Where they fail", matrix, lead="Each wrong answer is counted once, at the first step that failed.")


def _share(row: CauseRow | None, name: str) -> Markup:
    share = tag("small", format_share(row.share)) if row is not None and row.share is not None else None
    return tag("td", tag("strong", f"{0 if row is None else row.n:,}"), share, class_="number", data_system=name)


def _usage(view: ComparisonView) -> Markup:
    own = [title.capitalize() for title in SPENT_TITLES.values()] if any(view.spent.values()) else []
    names = ("System", "Samples", *own, "Judge calls", "Judge tokens", "Cost of the judge")
    rows = []
    for system, usage in view.usage.items():
        cost = usage.cost_text or ("unknown" if usage.calls else "none")
        spent = [
            join(tag("strong", value), tag("small", interval), tag("small", known))
            for value, interval, known in map(spent_cells, view.spent[system])
        ]
        spent = spent or [Markup("unknown")] * len(own)
        numbers = (
            f"{view.n_samples[system]:,}",
            *spent,
            f"{usage.calls:,}",
            f"{'at least ' * (usage.counted_calls < usage.calls)}{usage.input_tokens + usage.output_tokens:,}",
            cost,
        )
        cells = (
            tag("td", text, class_="number", data_system=name) for name, text in zip(names[1:], numbers, strict=True)
        )
        rows.append(tag("tr", tag("td", tag("b", system)), *cells))
    lead = "Latency, tokens and cost of the application are medians per answer, each with its own interval."
    return section(
        "Cost",
        *(tag("p", f"{sentence[0].upper()}{sentence[1:]}.") for sentence in view.cheapest),
        tag("div", table(names, rows, class_="matrix"), class_="wide"),
        lead=lead if own else None,
    )
