"""The table of all questions: search, filters, order and pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ragstone._util.clock import parse_time
from ragstone._util.csv_table import csv_table
from ragstone.errors import ConfigurationError
from ragstone.experiments import select_questions
from ragstone.views import Markup, QuestionRow, ReportView, question_rows

_MAX_ROWS: Final = 1000
"""Most rows of one response."""
_WRONG: Final = "wrong"


@dataclass(frozen=True, slots=True)
class FoundQuestions:
    """The questions that a request finds, in its order."""

    view: ReportView
    rows: Sequence[QuestionRow]
    metric: int | None
    """Number of the metric that they are sorted by."""
    selected: Sequence[int] | None
    """Numbers of the questions that conditions and times select, before search and cause. None without any."""

    def page(self, query: Mapping[str, str]) -> Markup:
        """Return the rows of a page as HTML, from `offset` on, at most `n`."""
        offset = parse_number(query.get("offset", ""), len(self.rows)) or 0
        n = parse_number(query.get("n", ""), _MAX_ROWS) or _MAX_ROWS
        titles = {row.cause: row.title for row in self.view.causes}
        return question_rows(self.rows[offset : offset + n], titles, metric=self.metric, metrics=self.view.metrics)

    def csv(self) -> str:
        """Return all rows as CSV."""
        metrics = [row.name for row in self.view.metrics]
        lines = (
            (row.id, "" if row.time is None else _iso(row.time), row.query, row.cause, row.rating, *row.values)
            for row in self.rows
        )
        return csv_table([("id", "time", "query", "cause", "mean_score", *metrics), *lines])


def find_questions(view: ReportView, query: Mapping[str, str]) -> FoundQuestions:
    """Find questions by the parameters of a request.

    They are `search` (words), `cause` ("wrong": all wrong answers), `where` (conditions), `since` and `until` (times in
    UTC), and `sort`: "score" (the mean of all scores), "time" or a metric, with "-" before it for the largest first. Raise
    ConfigurationError if one of the last four is invalid.
    """
    where, since, until = query.get("where", ""), query.get("since", ""), query.get("until", "")
    times = [parse_time(text) if text else None for text in (since, until)]
    selected = None
    if where.strip() or since or until:
        selected = select_questions(view, where, since=times[0], until=times[1])
    words = query.get("search", "").casefold().split()
    cause = query.get("cause", "")
    wrong = {row.cause for row in view.causes if row.is_wrong}
    found = [
        row
        for row in (view.questions if selected is None else map(view.questions.__getitem__, selected))
        if (not cause or (row.cause in wrong if cause == _WRONG else row.cause == cause))
        and (not words or _contains(row, words))
    ]
    sort = query.get("sort") or "score"
    column = sort.removeprefix("-")
    metrics = {row.name: n for n, row in enumerate(view.metrics)}
    if column not in {"score", "time", *metrics}:
        raise ConfigurationError(f"cannot sort by {column!r}. Columns: score, time, {', '.join(metrics)}")
    metric = metrics.get(column)
    sign = -1 if sort.startswith("-") else 1

    def key(row: QuestionRow) -> float:
        value = row.rating if column == "score" else row.time if metric is None else row.values[metric]
        return math.inf if value is None else sign * value  # without a value last, in both orders

    return FoundQuestions(view, sorted(found, key=key), metric, selected)


def _iso(time: float) -> str:
    return datetime.fromtimestamp(time, tz=UTC).isoformat(timespec="seconds")


def _contains(row: QuestionRow, words: list[str]) -> bool:
    text = f"{row.id} {row.query or ''}".casefold()
    return all(word in text for word in words)


def parse_number(text: str, largest: int = 10**9) -> int | None:
    """Return a number from 0 to `largest`, or None."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
    return number if 0 <= number <= largest else None
