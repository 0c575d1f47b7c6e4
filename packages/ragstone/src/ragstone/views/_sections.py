"""The sections of the page as HTML. Each can be rendered without the others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ragstone._util.quantities import count
from ragstone.views._changes_html import change_cell, changes_section, means_panel
from ragstone.views._html_answer import answer_markup, cut
from ragstone.views._markup import Markup, join, section, table, tag
from ragstone.views._model import (
    CauseRow,
    LabelsView,
    MetricRow,
    ReportView,
    RunRow,
    SliceTable,
    Stage,
    Statement,
    TrendView,
    TrialView,
)
from ragstone.views._svg import axis_chart, bar_chart, histogram_chart, share_axis, share_chart, trend_chart
from ragstone.views._words import (
    ANSWERS_FIRST_BELOW,
    SPENT_TITLES,
    describe_rules,
    describe_subject,
    describe_table_without_wrong,
    divide_rows,
    format_interval,
    format_mean,
    format_share,
    run_table,
    spent_cells,
    split_sentence,
    trend_note,
)

TABLE_COLUMNS: Final = 9
"""Most metrics with a column in the table of all questions."""

Labels = Mapping[str, Sequence[str]]
"""Keys of labels, each with its values if they are few."""

_STAGES: Final[dict[Stage, str]] = {
    "answer": "The answer, against the reference",
    "support": "The answer, against passages and question",
    "passages": "The passages",
}


def sections(
    view: ReportView, *, has_texts: bool = True, command: str | None = None, labels: Labels | None = None
) -> Mapping[str, Markup]:
    """Return the sections by name, in the order of the page. Those without content are left out.

    Without `has_texts`, they lack texts of questions, answers and passages. `command` made the report. On the live page,
    `labels` are the keys of all labels, with their values if they are few.
    """
    made = {
        "verdict": verdict_section(view),
        "scores": metrics_section(view),
        "causes": causes_section(view),
        "slices": join(*(slice_section(view, table) for table in view.slices)),
        "labels": None if view.labels is None else labels_section(view.labels),
        "worst": worst_section(view) if has_texts else None,
        "changes": None if view.changes is None else changes_section(view.changes, has_texts=has_texts),
        "trend": None if view.trend is None else trend_section(view.trend),
        "runs": runs_section(view.runs) if view.runs else None,
        "trial": None if view.trial is None else trial_section(view.trial),
        "all": questions_section(view, labels),
        "made": provenance_section(view, has_texts=has_texts, command=command),
    }
    if view.n_samples < ANSWERS_FIRST_BELOW:
        made = {"verdict": made["verdict"], "worst": made["worst"], **made}
    return {name: section for name, section in made.items() if section}


def header(view: ReportView, *, has_texts: bool = True) -> Markup:
    """Return the title and the links to the sections."""
    links: list[tuple[str, str, object]] = [
        ("Scores", "scores", True),
        ("Where it fails", "causes", view.causes),
        ("Worst answers", "worst", has_texts and view.worst),
        ("Changes", "changes", view.changes),
        ("Over time", "trend", view.trend),
        ("Runs", "runs", view.runs),
        ("Repairs", "trial", view.trial),
        ("All questions", "all", True),
    ]
    shown = [tag("a", name, href=f"#{target}") for name, target, content in links if content]
    return tag("header", tag("span", tag("b", "Ragstone"), " ", view.title, class_="about"), tag("nav", *shown))


def verdict_section(view: ReportView) -> Markup:
    """Return the verdict, what to work on next, and the notices."""
    first, *others = view.verdict
    headline, rest = split_sentence(first.text)
    key = None if view.changes is None else next((r for r in view.metrics if r.name == view.changes.metric), None)
    return tag(
        "section",
        means_panel(view.changes, key) if view.changes is not None and key is not None else None,
        tag("p", describe_subject(view), class_="subject"),
        tag("h1", headline),
        tag("p", rest) if rest else None,
        *(tag("p", *_emphasized(statement)) for statement in others),
        tag("p", tag("b", "Next: "), view.next.text, class_="next") if view.next else None,
        tag("ul", *(tag("li", notice.text) for notice in view.notices), class_="notice") if view.notices else None,
        class_="verdict",
    )


def _emphasized(statement: Statement) -> tuple[str, ...]:
    """Return a statement, of which the number of wrong answers stands out."""
    if "n_wrong" not in statement.numbers:
        return (statement.text,)
    first, rest = split_sentence(statement.text)
    return (tag("b", first), " ", rest)


def metrics_section(view: ReportView) -> Markup:
    """Return the table of metrics."""
    metrics, others = divide_rows(view.metrics)
    has_histogram = any(row.histogram for row in metrics)
    baseline = None if view.changes is None else view.changes.baseline
    names = [
        "What it asks",
        "Mean and interval on the range",
        "Scores" if has_histogram else None,
        "Mean and interval",
        baseline and f"Against {baseline}",
    ]
    hollow = " Hollow dots are the other systems." if baseline else ""
    head = tag("tr", *(tag("th", name, scope="col") for name in names if name))
    bodies: list[Markup] = []
    for stage, title in _STAGES.items():
        rows = [
            _metric(row, has_histogram=has_histogram, has_change=baseline is not None)
            for row in metrics
            if row.stage == stage
        ]
        if rows:
            heading = tag("tr", tag("th", title, scope="rowgroup", colspan=3 + has_histogram + (baseline is not None)))
            bodies.append(tag("tbody", heading, *rows))
    return section(
        "The scores",
        tag("table", tag("thead", head), *bodies, class_="metrics"),
        *(tag("p", line, class_="soft small") for line in describe_rules(metrics)),
        tag("p", f"Not applicable to any sample: {', '.join(row.title for row in others)}.", class_="soft small")
        if others
        else None,
        lead=f"Each metric on its own range. The dot is the mean, the bar its interval.{hollow}",
        id="scores",
    )


def causes_section(view: ReportView) -> Markup | None:
    """Return the causes of wrong answers with their counts."""
    rows = view.causes
    if not rows:
        return None
    baseline = None if view.changes is None else view.changes.baseline
    most = max(max(row.n, row.n_before or 0) for row in rows)
    outline = f" The outline is {baseline}." if baseline else ""
    signals = f"Known from {'; '.join(view.signals)}." if view.signals else None
    return section(
        "Where it fails",
        tag("table", tag("tbody", *(_cause(row, most, baseline) for row in rows)), class_="causes"),
        tag("p", signals, class_="soft") if signals else None,
        _case_commands(view) if view.provenance.store else None,
        lead=f"Each wrong answer is counted once, at the first step that failed.{outline}",
        id="causes",
    )


def _case_commands(view: ReportView) -> Markup:
    """Return the commands that write the answers with a cause as test cases, and try repairs of them."""
    wrong = [row.cause for row in view.causes if row.is_wrong and row.n]
    start = f"ragstone labels cases {view.provenance.store} --where cause="
    commands = [*(f"{start}{cause} -o cases.jsonl" for cause in wrong), "ragstone repair cases.jsonl --app MODULE:NAME"]
    shown = (tag("p", tag("code", command, class_="command")) for command in commands)
    title = tag("span", "Write test cases of a cause, and try repairs", class_="more")
    return tag("details", tag("summary", title), *shown)


def slice_section(view: ReportView, table: SliceTable) -> Markup:
    """Return the shares of wrong answers by the values of one label, or one sentence if no answer is wrong."""
    if sentence := describe_table_without_wrong(table, view.wrong):
        return tag("section", tag("p", sentence, class_="soft"))
    overall = next((s.numbers["share"] for s in view.verdict if {"n_wrong", "share"} <= s.numbers.keys()), None)
    rows = [
        tag(
            "tr",
            tag("td", tag("b", cut(row.value) or "(empty)")),
            tag("td", share_chart(row.share, all_share=overall), class_="place"),
            tag("td", f"{row.n_wrong:,} of {row.n:,}", tag("small", format_share(row.share)), class_="number"),
        )
        for row in table.rows
    ]
    without = f" {count(table.n_without, 'other answer')} without one of these values." if table.n_without else ""
    axis = tag("tfoot", tag("tr", tag("td"), tag("td", share_axis(overall), class_="place"), tag("td")))
    return section(
        f"By {table.key}",
        tag("table", tag("tbody", *rows), axis, class_="slices"),
        lead=f"Share of {view.wrong}. The intervals hold together. The dashed line is all answers.{without}",
    )


def worst_section(view: ReportView) -> Markup | None:
    """Return the worst answers with their evidence."""
    if not view.worst:
        return None
    answers = (tag("article", answer_markup(answer), class_="answer") for answer in view.worst)
    lead = f"{view.wrong.capitalize()} first, then those with the lowest mean of all scores."
    if all(answer.cause for answer in view.worst):
        lead = "The lowest of each cause in turn, the most frequent cause first."
    return section("The worst answers", *answers, lead=lead, id="worst")


def trend_section(trend: TrendView) -> Markup:
    """Return the means over time."""
    rows = []
    for row in trend.rows:
        last = row.points[-1].estimate
        numbers = (tag("strong", format_mean(last)), tag("small", f"{format_interval(last)} last"))
        rows.append(
            tag(
                "tr",
                tag("td", tag("b", row.title), tag("span", row.metric, class_="id")),
                tag("td", trend_chart(row, trend.releases), class_="place"),
                tag("td", *numbers, class_="number"),
            )
        )
    return section("Over time", tag("table", tag("tbody", *rows), class_="trends"), lead=trend_note(trend), id="trend")


def runs_section(runs: Sequence[RunRow]) -> Markup:
    """Return the runs of a store of runs."""
    head, *rows = run_table(runs)
    cells = (
        tag("tr", *(tag("td", text, colspan=len(head) if len(row) == 1 else None) for text in row)) for row in rows
    )
    return section("Runs", table(head, cells), id="runs", lead="The last run is the one that this page reports.")


def trial_section(trial: TrialView) -> Markup:
    """Return what corrects wrong answers."""
    rows = (tag("tr", *(tag("td", text) for text in row)) for row in trial.table[1:])
    shown = table(trial.table[0], rows) if trial.table else None
    about = tag("p", trial.about, class_="soft")
    return section("What corrects wrong answers", tag("p", tag("b", trial.statement.text)), about, shown, id="trial")


def labels_section(labels: LabelsView) -> Markup:
    """Return the mean label that each metric helps to estimate. The verdict contains the statements about labels."""
    names = ("Metric", "Mean score", "Mean label", "Worth")
    rows = [
        tag(
            "tr",
            tag("td", tag("b", row.title), tag("span", row.metric, class_="id"), tag("small", row.compared)),
            tag("td", format_mean(row.mean), tag("small", format_interval(row.mean)), class_="number"),
            tag("td", tag("strong", format_mean(row.label_mean)), tag("small", format_interval(row.label_mean))),
            tag("td", "" if row.labels_worth is None else f"{row.labels_worth:.0f} labels alone", class_="number soft"),
        )
        for row in labels.metrics
    ]
    who = f"{count(labels.n_labeled, 'request')} labeled by {count(len(labels.authors), 'person', 'people')}"
    rest = labels.n_drawn - labels.n_drawn_labeled
    drawn = f", {labels.n_drawn_labeled:,} of {labels.n_drawn:,} drawn ones" if rest or not labels.n_drawn else ""
    frame = f"those that could be drawn, without {n:,} others" if (n := labels.n_not_in_draw) else "all requests"
    lead = f"From 0 (wrong) to 1 (correct). Labels of drawn requests correct what the metrics say about {frame}."
    return section(
        "What people say",
        table(names, rows) if rows else None,
        tag("p", f"{who}{drawn}.", class_="soft"),
        lead=lead if rows else None,
        id="labels",
    )


def table_columns(rows: Sequence[MetricRow]) -> Sequence[MetricRow]:
    """Return the metrics with a column in the table of all questions: the first of those with a score or a failure."""
    return divide_rows(rows)[0][:TABLE_COLUMNS]


def questions_section(view: ReportView, known: Labels | None = None) -> Markup | None:
    """Return the controls and the empty table of all questions, which a script fills.

    On the live page, `known` are the keys of all labels, with their values if they are few.
    """
    if not view.questions:
        return None
    causes = tag(
        "select",
        tag("option", "all causes", value=""),
        tag("option", f"all {view.wrong}", value="wrong"),
        *(tag("option", row.title, value=row.cause) for row in view.causes),
        id="cause",
        aria_label="Cause",
    )
    search = tag("input", type="search", id="search", placeholder="Search ( / )", aria_label="Search")
    is_live = known is not None
    filters = (_slice_control(view),) if known is None else _filter_controls(known)
    second = join("Question · ", _sort_button("time", "-time")) if is_live else "Question"
    columns: list[tuple[str | None, str]] = [(None, _sort_button("Score", "score")), (None, second)]
    for row in table_columns(view.metrics):
        worst_first = f"-{row.name}" if row.lower_is_better else row.name
        columns.append((row.title, _sort_button(join(*_breakable(row.name)), worst_first)))
    head = tag("tr", *(tag("th", name, scope="col", title=title) for title, name in columns))
    return section(
        "All questions",
        tag("div", search, causes, *filters, _sort_control(view, has_times=is_live), class_="controls"),
        tag("p", id="found", class_="soft", role="status"),
        tag("div", id="selection") if is_live else None,
        tag("table", tag("thead", head), tag("tbody", id="rows")),
        _pages() if is_live else tag("p", tag("button", "Show 200 more", id="more", type="button", hidden=True)),
        tag(
            "dialog",
            tag("button", "Close", id="close", class_="close", type="button"),
            _steps("previous-answer", "next-answer", keys=("K", "J")) if is_live else None,
            tag("div", id="content"),
            id="details",
            aria_labelledby="heading",
        ),
        id="all",
        hidden=True,
    )


def _slice_control(view: ReportView) -> Markup | None:
    """Return the labels of the slices of the report of a file."""
    groups = (
        tag(
            "optgroup",
            *(tag("option", cut(row.value) or "(empty)", value=f"{table.key}={row.value}") for row in table.rows),
            label=f"by {table.key}",
        )
        for table in view.slices
    )
    if not view.slices:
        return None
    return tag("select", tag("option", "all labels", value=""), *groups, id="label", aria_label="Label")


def _sort_control(view: ReportView, *, has_times: bool) -> Markup:
    """Return all orders. Headings have most of them, but some metrics have no column."""
    orders = [("score", "lowest mean of all scores"), ("-score", "highest mean of all scores")]
    orders += [("-time", "newest first"), ("time", "oldest first")] if has_times else []
    for row in divide_rows(view.metrics)[0]:
        orders += [(row.name, f"lowest {row.title}"), (f"-{row.name}", f"highest {row.title}")]
    return tag("select", *(tag("option", text, value=sort) for sort, text in orders), id="sort", aria_label="Order")


def _sort_button(name: str, sort: str) -> Markup:
    return tag("button", name, class_="sort", type="button", data_sort=sort)


def _filter_controls(known: Mapping[str, Sequence[str]]) -> tuple[Markup, ...]:
    """Return the fields for conditions and times, and a list of labels that adds a condition."""
    example = "Filter: release=2.4 and ccrs.ac<0.5"
    where = tag("input", id="where", placeholder=example, aria_label="Filter", spellcheck="false")
    groups = []
    for key, values in known.items():
        name = key if re.fullmatch(r"[\w.@-]+", key) else f'"{key}"'
        # A value with both quotes cannot be written.
        texts = [value for value in values if '"' not in value]
        options = [tag("option", cut(value) or "(empty)", value=f'{name}="{value}"') for value in texts]
        if '"' not in key:
            groups.append(tag("optgroup", *options, tag("option", f"{key} contains ...", value=f"{name}~"), label=key))
    add = tag("select", tag("option", "add a filter", value=""), *groups, id="add", aria_label="Add a filter")
    names = {"since": "From", "until": "Before"}
    times = (tag("label", f"{name} ", tag("input", type="date", id=id_)) for id_, name in names.items())
    return where, add, *times


def _pages() -> Markup:
    links = tag("a", "Download these as CSV", id="csv", href="questions.csv", download="questions.csv")
    copy = tag("button", "Copy link to this view", class_="copy", type="button", data_link="#all")
    return tag("div", _steps("previous", "next"), tag("span", id="page", class_="soft"), links, copy, class_="controls")


def _steps(previous: str, following: str, keys: Sequence[str] = ("", "")) -> Markup:
    names = ((previous, "Previous", keys[0]), (following, "Next", keys[1]))
    buttons = (
        tag("button", tag("kbd", key) if key else None, f" {name}", type="button", id=id_) for id_, name, key in names
    )
    return tag("span", *buttons, class_="steps")


def provenance_section(view: ReportView, *, has_texts: bool = True, command: str | None = None) -> Markup:
    """Return judges, versions, calls and the command."""
    made = view.provenance
    weighted = ", weighted by 1 / sampling probability" if made.is_weighted else ""
    unscored = f", {view.n_unscored:,} of them without a score" if view.n_unscored else ""
    versions = (f"{metric} {' and '.join(found)}" for metric, found in made.metric_versions.items())
    facts = [
        ("source", made.source),
        *(("judge", judge) for judge in made.judges),
        ("intervals", f"{100 * made.confidence_level:g}%{weighted}"),
        ("metric versions", ", ".join(versions)),
        ("cost of the judge", str(made.usage)),
        ("samples", f"{view.n_samples:,}{unscored}"),
        *([("command", command)] if command else []),
        ("ragstone", made.version),
    ]
    texts = (
        "This page contains the texts of questions, answers and passages."
        if has_texts
        else "This page contains ids and scores, and no texts of questions, answers or passages."
    )
    facts += [
        (f"application, {SPENT_TITLES[row.name]}", "median {} {}, {}".format(*spent_cells(row))) for row in view.spent
    ]
    return section(
        "How these numbers were made",
        tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in facts)),
        tag("p", texts, class_="soft"),
        id="made",
    )


def _metric(row: MetricRow, *, has_histogram: bool, has_change: bool) -> Markup:
    estimate = row.estimate
    not_applicable = f", {row.n_not_applicable:,} n.a." if row.n_not_applicable else ""
    failed = tag("span", f", {row.n_failed:,} failed", class_="failed") if row.n_failed else None
    numbers = (
        tag("strong", "no score" if estimate is None else format_mean(estimate)),
        None if estimate is None else tag("small", format_interval(estimate)),
        tag("small", f"{row.n_scored:,} scored{not_applicable}", failed),
    )
    title, question = tag("b", row.title, title=row.advice or None), tag("span", row.question, class_="question")
    return tag(
        "tr",
        tag("td", title, question, tag("span", row.name, class_="id")),
        tag("td", axis_chart(row), class_="place"),
        tag("td", histogram_chart(row), class_="distribution") if has_histogram else None,
        tag("td", *numbers, class_="value"),
        change_cell(row.change) if has_change else None,
    )


def _breakable(name: str) -> list[Markup]:
    """Return a name that a browser may break after a dot or an underscore."""
    parts = re.split(r"(?<=[._])", name)
    return [join(tag("wbr") if n else None, part) for n, part in enumerate(parts)]


def _cause(row: CauseRow, most: int, baseline: str | None) -> Markup:
    share = tag("small", format_share(row.share)) if row.share else None
    before = None
    if row.n_before is not None:
        text = "" if row.share_before is None else f", {format_share(row.share_before)}"
        before = tag("small", f"{baseline}: {row.n_before:,}{text}")
    return tag(
        "tr",
        tag("td", f"{row.n:,}"),
        tag("td", tag("b", row.title), share, before),
        tag("td", bar_chart(row.n, most, is_wrong=row.is_wrong, before=row.n_before), class_="place"),
        tag("td", row.next, class_="advice soft"),
    )
