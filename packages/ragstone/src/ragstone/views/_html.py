"""The report as one HTML file: no requests, a strict content security policy, complete without JavaScript but for the table."""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final

from ragstone.views._markup import Markup, join, tag
from ragstone.views._model import (
    AnswerView,
    CauseRow,
    MetricRow,
    PassageView,
    QuestionRow,
    ReportView,
    ScoreView,
    SliceTable,
    Span,
    Stage,
)
from ragstone.views._svg import axis_chart, bar_chart, histogram_chart, share_chart
from ragstone.views._words import count, format_interval, format_mean, format_share

__all__ = ["HtmlReport", "answer_markup"]

_STAGES: Final[dict[Stage, str]] = {
    "answer": "The answer, against the reference",
    "support": "The answer, against passages and question",
    "passages": "The passages",
}
_TEXT_CHARS: Final = 6000
"""Texts are cut after this number of characters."""
_QUERY_CHARS: Final = 200
_CHUNK: Final = 50
"""Answers that are added before the size is measured for the first time."""


class HtmlReport:
    """The report as one HTML file.

    Args:
        view: The report, with its questions.
        answers: Answers for the details of the table, the most important first. Those that fit the size are included.
        max_bytes: Size limit of the file.
        has_texts: Whether texts are included. Otherwise only ids and scores are.
        command: The command that made the report.
    """

    def __init__(
        self,
        view: ReportView,
        answers: Iterable[AnswerView] = (),
        *,
        max_bytes: int = 1_500_000,
        has_texts: bool = True,
        command: str | None = None,
    ) -> None:
        self._view = view
        self._answers = answers
        self._max_bytes = max_bytes
        self._has_texts = has_texts
        self._command = command

    def text(self) -> str:
        """Return the document."""
        style, script = (
            files("ragstone.views").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
        )
        policy = (
            f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'; "
            "form-action 'none'"
        )
        sections = join(
            self._header(),
            tag(
                "main",
                self._verdict(),
                self._metrics(),
                self._causes(),
                *map(self._slice, self._view.slices),
                self._worst(),
                self._all(),
                self._provenance(),
            ),
        )
        page = len(style) + len(script) + len(sections.encode())
        packed, n_answers = self._pack(self._max_bytes - page - 2000)
        note = (
            tag("p", f"Full text of {n_answers:,} of {self._view.n_samples:,} answers.", class_="soft")
            if packed
            else None
        )
        body = join(
            sections,
            tag("footer", note),
            tag("script", Markup(packed), id="data", type="application/octet-stream") if packed else None,
            tag("script", Markup(script)),
        )
        head = join(
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="referrer", content="no-referrer"),
            tag("title", f"{self._view.title} - Ragstone"),
            tag("style", Markup(style)),
        )
        return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"

    def _header(self) -> Markup:
        view = self._view
        links = [
            ("Scores", "scores"),
            ("Where it fails", "causes"),
            ("Worst answers", "worst"),
            ("All questions", "all"),
        ]
        shown = [
            tag("a", name, href=f"#{target}")
            for name, target in links
            if (target != "causes" or view.causes) and (target != "worst" or self._shows_worst)
        ]
        return tag("header", tag("span", tag("b", "Ragstone"), " ", view.title, class_="about"), tag("nav", *shown))

    @property
    def _shows_worst(self) -> bool:
        return self._has_texts and bool(self._view.worst)

    def _verdict(self) -> Markup:
        view = self._view
        first, *others = view.verdict
        about = [count(view.n_samples, "sample")]
        if view.provenance.since is not None and view.provenance.until is not None:
            about.append(" to ".join(dict.fromkeys(_day(t) for t in (view.provenance.since, view.provenance.until))))
        if view.provenance.judges:
            about.append("judge " + ", ".join(view.provenance.judges))
        headline, _, rest = first.text.partition(". ")
        return tag(
            "section",
            tag("h1", headline if headline.endswith(".") else f"{headline}."),
            tag("p", rest) if rest else None,
            *(tag("p", statement.text) for statement in others),
            tag("p", tag("b", "Next: "), view.next.text, class_="next") if view.next else None,
            *(tag("div", notice.text, class_="notice") for notice in view.notices),
            tag("p", ", ".join(about), class_="soft"),
            class_="verdict",
        )

    def _metrics(self) -> Markup:
        has_histogram = any(row.histogram for row in self._view.metrics)
        names = [
            "What it asks",
            "Mean and interval on the range",
            "Scores" if has_histogram else None,
            "Mean and interval",
        ]
        head = tag("tr", *(tag("th", name, scope="col") for name in names if name))
        bodies: list[Markup] = []
        for stage, title in _STAGES.items():
            rows = [row for row in self._view.metrics if row.stage == stage]
            if rows:
                heading = tag("tr", tag("th", title, scope="rowgroup", colspan=3 + has_histogram))
                bodies.append(tag("tbody", heading, *(_metric(row, has_histogram=has_histogram) for row in rows)))
        return tag(
            "section",
            tag("h2", "The scores"),
            tag("p", "Each metric on its own range. The dot is the mean, the bar its interval.", class_="lead"),
            tag("table", tag("thead", head), *bodies, class_="metrics"),
            id="scores",
        )

    def _causes(self) -> Markup | None:
        rows = self._view.causes
        if not rows:
            return None
        most = max(row.n for row in rows)
        signals = f"Known from {'; '.join(self._view.signals)}." if self._view.signals else None
        return tag(
            "section",
            tag("h2", "Where it fails"),
            tag("p", "Each wrong answer is counted once, at the first step that failed.", class_="lead"),
            tag("table", tag("tbody", *(_cause(row, most) for row in rows)), class_="causes"),
            tag("p", signals, class_="soft") if signals else None,
            id="causes",
        )

    def _slice(self, table: SliceTable) -> Markup:
        overall = next((statement.numbers.get("share") for statement in self._view.verdict), None)
        rows = [
            tag(
                "tr",
                tag("td", tag("b", _cut(row.value) or "(empty)")),
                tag("td", share_chart(row.share, all_share=overall), class_="place"),
                tag("td", f"{row.n_wrong:,} of {row.n:,}", tag("small", format_share(row.share)), class_="number"),
            )
            for row in table.rows
        ]
        without = f" {count(table.n_without, 'other answer')} without one of these values." if table.n_without else ""
        return tag(
            "section",
            tag("h2", f"By {table.key}"),
            tag(
                "p",
                f"Wrong answers. The intervals hold together. The dashed line is all answers.{without}",
                class_="lead",
            ),
            tag("table", tag("tbody", *rows), class_="slices"),
        )

    def _worst(self) -> Markup | None:
        if not self._shows_worst:
            return None
        lead = (
            "The lowest of each cause in turn, the most frequent cause first."
            if self._view.causes
            else "The answers with the lowest mean of all scores."
        )
        answers = (tag("article", answer_markup(answer), class_="answer") for answer in self._view.worst)
        return tag("section", tag("h2", "The worst answers"), tag("p", lead, class_="lead"), *answers, id="worst")

    def _all(self) -> Markup | None:
        if not self._view.questions:
            return None
        causes = tag(
            "select",
            tag("option", "all causes", value=""),
            tag("option", "all wrong answers", value="wrong"),
            id="cause",
            aria_label="Cause",
        )
        order = tag("select", tag("option", "lowest mean of all scores", value=""), id="order", aria_label="Order")
        search = tag("input", type="search", id="search", placeholder="Search ( / )", aria_label="Search")
        head = tag("tr", *(tag("th", name, scope="col") for name in ("Score", "Question", "Id")))
        return tag(
            "section",
            tag("h2", "All questions"),
            tag("div", search, causes, order, class_="controls"),
            tag("p", id="found", class_="soft", role="status"),
            tag("table", tag("thead", head), tag("tbody", id="rows")),
            tag("p", tag("button", "Show 200 more", id="more", type="button", hidden=True)),
            tag(
                "dialog",
                tag("button", "Close", id="close", class_="close", type="button"),
                tag("div", id="content"),
                id="details",
                aria_labelledby="heading",
            ),
            id="all",
            hidden=True,
        )

    def _provenance(self) -> Markup:
        made = self._view.provenance
        facts: list[tuple[str, str]] = [("source", made.source)]
        facts += [("judge", judge) for judge in made.judges]
        level = f"{100 * made.confidence_level:g}%"
        facts.append(("intervals", f"{level}, weighted by 1 / sampling probability" if made.is_weighted else level))
        facts += [(f"version of {metric}", ", ".join(found)) for metric, found in made.metric_versions.items()]
        cost = "" if made.cost_usd is None else f", {made.cost_usd:.4f} USD"
        facts.append(
            (
                "judge calls",
                f"{made.n_calls:,}, {made.input_tokens:,} + {made.output_tokens:,} tokens (input + output){cost}",
            )
        )
        unscored = f", {self._view.n_unscored:,} of them without a score" if self._view.n_unscored else ""
        facts.append(("samples", f"{self._view.n_samples:,}{unscored}"))
        if self._command:
            facts.append(("command", self._command))
        facts.append(("ragstone", made.version))
        texts = (
            "This file contains the texts of questions, answers and passages."
            if self._has_texts
            else "This file contains ids and scores, and no texts of questions, answers or passages."
        )
        return tag(
            "section",
            tag("h2", "How these numbers were made"),
            tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in facts)),
            tag("p", texts, class_="soft"),
            id="made",
        )

    def _pack(self, room: int) -> tuple[str, int]:
        """Return the data of the table, compressed, with as many answers as fit, and their number."""
        view = self._view
        if not view.questions:
            return "", 0
        passages: dict[str, int] = {}
        answers: dict[str, Any] = {}
        causes = {row.cause: row for row in view.causes}
        data = {
            "metrics": [[row.name, row.title, row.lower_is_better] for row in view.metrics],
            "causes": [[row.cause, row.title] for row in view.causes],
            "wrong": [name for name, row in causes.items() if row.is_wrong],
            "questions": [self._question(row) for row in view.questions],
            "answers": answers,
            "passages": [],
        }
        packed = _compress(data)
        if not self._has_texts:
            return packed, 0
        n_answers = 0
        for chunk in _chunks(itertools.chain(view.worst, self._answers)):
            for each in chunk:
                answers[each.id] = _answer_data(each, passages)
            data["passages"] = list(passages)
            larger = _compress(data)
            if len(larger) > room:
                break
            packed, n_answers = larger, len(answers)
        return packed, n_answers

    def _question(self, row: QuestionRow) -> list[Any]:
        query = (row.query or "")[:_QUERY_CHARS] if self._has_texts else ""
        return [row.id, query, row.cause, _rounded(row.rating), [_rounded(value) for value in row.values]]


def _chunks(answers: Iterable[AnswerView]) -> Iterator[list[AnswerView]]:
    """Group answers: few at first and then more, because the size is measured after each group."""
    each = iter(answers)
    size = _CHUNK
    while chunk := list(itertools.islice(each, size)):
        yield chunk
        size *= 2


def _compress(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _metric(row: MetricRow, *, has_histogram: bool) -> Markup:
    estimate = row.estimate
    counts = [f"{row.n_scored:,} scored"]
    if row.n_not_applicable:
        counts.append(f"{row.n_not_applicable:,} n.a.")
    failed = tag("span", f", {row.n_failed:,} failed", class_="failed") if row.n_failed else None
    if estimate is None:
        numbers = join(tag("strong", "no score"), tag("small", ", ".join(counts), failed))
    else:
        numbers = join(
            tag("strong", format_mean(estimate)),
            tag("small", format_interval(estimate)),
            tag("small", ", ".join(counts), failed),
        )
    hint = row.advice or None
    return tag(
        "tr",
        tag(
            "td",
            tag("b", row.title, title=hint),
            tag("span", row.question, class_="question"),
            tag("span", row.name, class_="id"),
        ),
        tag("td", axis_chart(row), class_="place"),
        tag("td", histogram_chart(row), class_="distribution") if has_histogram else None,
        tag("td", numbers),
    )


def _cause(row: CauseRow, most: int) -> Markup:
    share = tag("small", format_share(row.share)) if row.share else None
    return tag(
        "tr",
        tag("td", f"{row.n:,}"),
        tag("td", tag("b", row.title), share),
        tag("td", bar_chart(row.n, most, is_wrong=row.is_wrong), class_="place"),
        tag("td", row.next, class_="advice soft"),
    )


def answer_markup(view: AnswerView) -> Markup:
    """Return one answer with its evidence."""
    response = view.response
    left = join(
        tag("h4", "The answer"),
        tag("p", join(*map(_span, response)) if response is not None else "(the answer is not known)", class_="text"),
        *(join(tag("h4", "Unsupported claim"), tag("p", _cut(claim), class_="text")) for claim in view.unsupported),
        *(join(tag("h4", "The reference"), tag("p", _cut(text), class_="text")) for text in view.reference),
        tag("h4", "The scores, and why"),
        tag("table", tag("tbody", *map(_score_row, view.scores)), class_="scores"),
    )
    if view.passages is None:
        title = "The passages are not known"
    else:
        title = "The passages, in the order of the prompt" if view.passages else "No passages were retrieved"
    right = join(
        tag("h4", title), tag("ol", *map(_passage, view.passages or ()), class_="passages") if view.passages else None
    )
    return join(
        tag("h3", _cut(view.query or "(no question)")),
        tag("p", view.why, class_="why" if view.cause else "why fine") if view.why else None,
        tag("div", tag("div", left), tag("div", right), class_="columns"),
        tag("p", view.id, class_="id"),
    )


def _span(span: Span) -> Markup:
    if not span.unsupported:
        return join(_cut(span.text))
    return join(tag("mark", _cut(span.text.rstrip())), " ", tag("span", "unsupported", class_="chip unsupported"), " ")


def _score_text(score: ScoreView) -> str:
    if score.value is None:
        return "failed" if score.outcome == "failure" else "n.a."
    return f"{score.value:.2f}"


def _score_row(score: ScoreView) -> Markup:
    return tag(
        "tr",
        tag("td", score.title),
        tag("td", _score_text(score), class_="number bad" if score.is_low else "number"),
        tag("td", _cut(score.reason or ""), class_="reason soft"),
    )


def _passage(view: PassageView) -> Markup:
    return tag(
        "li",
        tag("span", f"{view.position}. ", class_="soft"),
        *(tag("span", mark, class_=f"chip {mark}") for mark in view.marks),
        tag("span", _cut(view.text), class_="text"),
        tag("small", ", ".join(filter(None, _passage_facts(view)))),
    )


def _passage_facts(view: PassageView) -> list[str]:
    p_answer = "" if view.p_answer is None else f"alone it draws an answer with probability {view.p_answer:.2f}"
    return [view.id or "", p_answer]


def _answer_data(view: AnswerView, passages: dict[str, int]) -> list[Any]:
    """Return an answer as the script of the page reads it."""
    listed = None
    if view.passages is not None:
        listed = [
            [p.position, p.marks, passages.setdefault(_cut(p.text), len(passages)), *_passage_facts(p)]
            for p in view.passages
        ]
    return [
        view.query,
        view.why,
        view.cause is not None,
        None if view.response is None else [[_cut(span.text), span.unsupported] for span in view.response],
        [_cut(claim) for claim in view.unsupported],
        [_cut(text) for text in view.reference],
        [[score.title, _score_text(score), _cut(score.reason or ""), score.is_low] for score in view.scores],
        listed,
        [[key, _cut(value if isinstance(value, str) else repr(value))] for key, value in view.metadata.items()],
    ]


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS else f"{text[:_TEXT_CHARS]}… (cut, {len(text):,} characters)"


def _day(time: float) -> str:
    return f"{datetime.fromtimestamp(time, tz=UTC):%d %b %Y}"
