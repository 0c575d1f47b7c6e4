"""The table of all questions: search, filter, order and pages, as the page of a file does them in the browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ragstone.views import QuestionRow, ReportView, question_rows

_MAX_ROWS: Final = 1000
"""Most rows of one response."""
_WRONG: Final = "wrong"


class FoundQuestions(NamedTuple):
    """A page of questions."""

    n: int
    """Number of questions that were found, on all pages."""
    rows: str
    """HTML of the rows of this page."""


def find_questions(view: ReportView, query: Mapping[str, str]) -> FoundQuestions:
    """Find questions by the parameters of a request, of which invalid values are ignored.

    They are `search` (words), `cause` ("wrong": all wrong answers), `label` ("key=value"), `order` (number of a metric,
    empty: the mean of all scores), `offset` and `n` (number of rows).
    """
    metric = _number(query.get("order", ""), len(view.metrics) - 1)
    words = query.get("search", "").casefold().split()
    cause, label = query.get("cause", ""), query.get("label", "")
    wrong = {row.cause for row in view.causes if row.is_wrong}
    found = [
        row
        for row in view.questions
        if (not cause or (row.cause in wrong if cause == _WRONG else row.cause == cause))
        and (not label or label in row.labels)
        and (not words or _contains(row, words))
    ]
    descending = metric is not None and view.metrics[metric].lower_is_better

    def key(row: QuestionRow) -> tuple[bool, float]:
        value = row.rating if metric is None else row.values[metric]
        return (value is None, 0.0 if value is None else -value if descending else value)

    found.sort(key=key)
    offset = _number(query.get("offset", ""), len(found)) or 0
    n = _number(query.get("n", ""), _MAX_ROWS) or _MAX_ROWS
    titles = {row.cause: row.title for row in view.causes}
    rows = question_rows(found[offset : offset + n], titles, metric=metric, metrics=view.metrics)
    return FoundQuestions(len(found), rows)


def _contains(row: QuestionRow, words: list[str]) -> bool:
    text = f"{row.id} {row.query or ''}".casefold()
    return all(word in text for word in words)


def _number(text: str, largest: int) -> int | None:
    """Return a number from 0 to `largest`, or None."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
    return number if 0 <= number <= largest else None
