"""The live page: the sections of the report, in a document whose script fetches those that change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote

from ragstone._util.quantities import count
from ragstone.schema import Ledger
from ragstone.stats import Estimate
from ragstone.views._html import content_policy, html_page, read_asset
from ragstone.views._html_answer import answer_markup, cut
from ragstone.views._markup import Markup, join, section, table, tag
from ragstone.views._model import AnswerView, MetricRow, QuestionRow, ReportView
from ragstone.views._sections import Labels, sections, table_columns
from ragstone.views._words import format_interval, format_mean

_PARTS: Final = (
    "problem", "alarms", "verdict", "counts", "scores", "labels", "causes", "slices", "trend", "runs", "trial", "latest", "worst",
    "all", "made",
)  # fmt: skip
"""The parts that the page shows, in its order. Those of the report have the names of its sections."""
_LINKS: Final = (
    ("Scores", "#scores"), ("Where it fails", "#causes"), ("Over time", "#trend"), ("Latest", "#latest"),
    ("All questions", "#all"), ("Label answers", "label"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LiveDocument:
    """An HTML document and its content security policy."""

    text: str
    policy: str

    @classmethod
    def of(cls, title: str, body: Markup, *, script: str, revision: str = "") -> LiveDocument:
        """Make a document with the styles of the report."""
        style, code = read_asset("page.css") + read_asset("live.css"), read_asset(script)
        shown = tag("body", body, tag("script", Markup(code)), data_revision=revision)
        return cls(html_page(title, shown, style=style), content_policy(style, code, connects=True))

    @classmethod
    def of_report(cls, title: str, parts: Mapping[str, str], *, revision: str) -> LiveDocument:
        """Make the live page."""
        links = (tag("a", name, href=target) for name, target in _LINKS)
        head = tag(
            "header",
            tag("span", tag("b", "Ragstone"), " ", title, class_="about"),
            tag("span", "not live: this page needs JavaScript to update itself", id="state", class_="soft"),
            tag("nav", *links),
        )
        body = join(head, tag("main", live_places(parts, _PARTS)))
        return cls.of(title, body, script="live.js", revision=revision)


class AlarmView(NamedTuple):
    """An alarm: its heading, what it says by name, the address of the requests since the change, and its number if open."""

    heading: str
    lines: tuple[tuple[str, str], ...]
    address: str
    number: int | None


def live_parts(
    view: ReportView | None,
    ledger: Ledger,
    *,
    alarms: Sequence[AlarmView] = (),
    latest: Sequence[AnswerView],
    command: str,
    labels: Labels | None = None,
    notes: Sequence[str] = (),
) -> dict[str, Markup]:
    """Return the parts of the page by name.

    Without a scored request, `view` is None, and the page shows `notes` instead. `latest` are wrong answers, the newest
    first, `command` serves the page, and `labels` are the keys of all labels, with their values if they are few.
    """
    if view is None:
        return {"verdict": _unscored(ledger, notes), "counts": _counts(ledger)}
    own = {"alarms": _alarms(alarms), "counts": _counts(ledger), "latest": _latest(latest, view.wrong)}
    parts = {**sections(view, command=command, labels=labels or {}), **own}
    return {name: part for name, part in parts.items() if part}


def live_places(parts: Mapping[str, str], names: Iterable[str]) -> Markup:
    """Return the elements that contain parts. Their ids are "part-" and the name, and names of no part are left out."""
    return join(*(tag("div", Markup(parts.get(name, "")), id=f"part-{name}") for name in names if name in _PARTS))


def problem_part(text: str) -> Markup:
    """Return a message about what prevents an update."""
    return tag("div", tag("b", "This page is not up to date. "), text, class_="notice", role="alert")


def _alarms(alarms: Sequence[AlarmView]) -> Markup:
    shown = []
    for alarm in sorted(alarms, key=lambda alarm: alarm.number is None):
        facts = (tag("div", tag("dt", name), tag("dd", text)) for name, text in alarm.lines)
        about = join(tag("dl", *facts), tag("p", tag("a", "The requests since the change", href=alarm.address)))
        heading = tag("h2", alarm.heading)
        if alarm.number is None:
            shown.append(tag("details", tag("summary", heading), about))
            continue
        buttons = (
            tag("button", text, class_="alarm", type="button", data_query=f"number={alarm.number}&action={action}")
            for action, text in (("accept", "Accept the change as normal"), ("mute", "Mute for 3 days"))
        )
        shown.append(tag("div", heading, about, tag("p", *buttons, class_="controls", role="status")))
    return tag("section", *shown, id="alarms", class_="alarms") if alarms else Markup("")


def _unscored(ledger: Ledger, notes: Sequence[str]) -> Markup:
    total = ledger.total
    if not total.captured:
        text = "The store does not contain requests yet. They appear here when the application has answered some."
        return tag("section", tag("h1", "No requests yet."), tag("p", text), class_="verdict")
    text = f"{count(total.captured, 'request is', 'requests are')} captured, and {total.pending:,} of them wait for a score."
    advice = (tag("p", note, class_="next") for note in notes)
    return tag("section", tag("h1", "No scores yet."), tag("p", text), *advice, class_="verdict")


def _counts(ledger: Ledger) -> Markup:
    total = ledger.total
    oldest = ledger.oldest_pending_s
    removed = "".join(f"{n:,} {reason}, " for reason, n in ledger.removed.items())
    left_out = f"{total.sampled_out:,} not sampled" if total.sampled_out else "all requests"
    tiles = [
        ("Captured", total.captured, left_out),
        ("Scored", total.scored, f"{total.not_applicable:,} not applicable" if total.not_applicable else ""),
        ("Waiting", total.pending, "" if oldest is None else f"oldest {_duration(oldest)}"),
        ("Failed", total.failed, "without all scores" if total.failed else ""),
        ("Lost", ledger.lost, f"{removed}the counts {'add' if total.balanced else 'do not add'} up"),
    ]
    shown = (tag("div", tag("dt", name), tag("dd", tag("b", f"{n:,}"), tag("small", note))) for name, n, note in tiles)
    return tag("section", tag("h2", "Requests", class_="unseen"), tag("dl", *shown, class_="tiles"), id="counts")


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _latest(answers: Sequence[AnswerView], wrong: str) -> Markup:
    if not answers:
        return tag("section", tag("p", f"No {wrong} are known.", class_="soft"), id="latest")
    names = ("Time (UTC)", "Question", "Why", "Lowest score")
    shown = table(names, map(_latest_row, answers), class_="latest")
    saved = tag("p", tag("a", "Download the 50 worst as test cases", href="cases?worst=50"))
    return section(f"Latest {wrong}", shown, saved, id="latest")


def _latest_row(answer: AnswerView) -> Markup:
    time = "" if answer.time is None else format_time(answer.time)
    low = [score for score in answer.scores if score.is_low and score.value is not None]
    lowest = min(low, key=lambda score: score.value or 0.0, default=None)
    shown = None if lowest is None else join(f"{lowest.value:.2f}", tag("small", lowest.title))
    return tag(
        "tr",
        tag("td", time, class_="number"),
        tag("td", _link(answer.id, answer.query)),
        tag("td", answer.why),
        tag("td", shown, class_="number"),
    )


def question_rows(
    rows: Sequence[QuestionRow], causes: Mapping[str, str], *, metric: int | None, metrics: Sequence[MetricRow]
) -> Markup:
    """Return rows of all questions. The value of number `metric` (None: the mean of all scores) comes first."""
    lines, n_columns = [], len(table_columns(metrics))
    for row in rows:
        value = row.rating if metric is None else row.values[metric]
        cause = tag("span", f"{causes.get(row.cause, '')} · ", class_="cause") if row.cause else None
        time = None if row.time is None else f"{format_time(row.time)} · "
        about = tag("small", cause, time, tag("span", row.id, class_="id"))
        first = tag("td", "" if value is None else f"{value:.2f}", class_="number")
        cells = (_value_cell(value, is_low=n in row.low) for n, value in enumerate(row.values[:n_columns]))
        lines.append(tag("tr", first, tag("td", _link(row.id, row.query), about), *cells))
    return join(*lines)


def found_part(rows: Markup, selection: Sequence[tuple[str, Estimate | None, Estimate | None]]) -> Markup:
    """Return rows of questions, and what a filter selects compared with all: the name of a number, and both estimates."""
    found = tag("table", tag("tbody", rows), class_="found")
    if not selection:
        return found
    names = ("", "With this filter", "All")
    compared = (tag("tr", tag("td", name), *map(_estimate_cell, estimates)) for name, *estimates in selection)
    numbers = tag("details", tag("summary", "Scores with this filter"), table(names, compared), open=True)
    return join(tag("div", numbers, class_="selection"), found)


def _estimate_cell(estimate: Estimate | None) -> Markup:
    if estimate is None:
        return tag("td", "unknown", class_="soft")
    numbers = tag("b", format_mean(estimate)), f" {format_interval(estimate)} ", tag("small", f"n = {estimate.n:,}")
    return tag("td", *numbers, class_="number")


def _value_cell(value: float | None, *, is_low: bool) -> Markup:
    text = None if value is None else f"{value:.2f}"
    return tag("td", text, class_="value number bad" if is_low else "value number")


def answer_part(answer: AnswerView) -> Markup:
    """Return one answer for the dialog, with the steps of its request and buttons to copy its id and link."""
    copies = (
        tag("button", "Copy id", type="button", class_="copy", data_text=answer.id),
        tag("button", "Copy link", type="button", class_="copy", data_link=_address(answer.id)),
    )
    fields = ((step.name, step.about, step.duration, step.tokens) for step in answer.steps)
    rows = (tag("tr", *(tag("td", cut(text)) for text in texts)) for texts in fields)
    names = ("Step", "What", "Time", "Tokens, in + out")
    started = "" if answer.time is None else f"Started {format_time(answer.time)} UTC."
    steps = (tag("h4", "The steps"), tag("p", started, class_="soft"), table(names, rows, class_="request"))
    return tag(
        "div",
        answer_markup(answer, heading_id="heading"),
        tag("p", *copies, class_="controls"),
        *(steps if answer.steps else ()),
        class_="answer",
    )


def format_time(time: float) -> str:
    """Write a time (Unix seconds) in UTC: "28 Nov 14:05:09"."""
    return f"{datetime.fromtimestamp(time, tz=UTC):%d %b %H:%M:%S}"


def _link(sample_id: str, query: str | None) -> Markup:
    return tag("a", cut(query or sample_id), href=_address(sample_id))


def _address(sample_id: str) -> str:
    return f"#q={quote(sample_id, safe='', errors='replace')}"
