"""One answer with its evidence as HTML, and as the data that the script of the page reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ragstone.views._markup import Markup, join, tag
from ragstone.views._model import AnswerView, PassageView, ScoreView, Span
from ragstone.views._words import passages_title, score_text

_TEXT_CHARS: Final = 6000
"""Texts are cut after this number of characters."""
_FOLDED_FROM: Final = 600
"""Longer passages are folded."""
_START_CHARS: Final = 300
"""Characters of a folded passage that are shown."""


def answer_markup(view: AnswerView, *, heading_id: str | None = None) -> Markup:
    """Return one answer with its evidence. The heading has `heading_id`, if another element refers to it."""
    left = join(
        tag("h4", "Earlier in the conversation") if view.history else None,
        *(tag("p", cut(line), class_="text soft") for line in view.history),
        tag("h4", "The answer"),
        tag("p", answer_text(view), class_="text"),
        *(join(tag("h4", "Unsupported claim"), tag("p", cut(claim), class_="text")) for claim in view.unsupported),
        *(join(tag("h4", "The reference"), tag("p", cut(text), class_="text")) for text in view.reference),
        *_scores(view.scores),
    )
    right = join(
        tag("h4", passages_title(view.passages)),
        tag("ol", *map(_passage, view.passages), class_="passages") if view.passages else None,
    )
    return join(
        tag("h3", cut(view.name), id=heading_id),
        tag("p", view.why, class_=_why_class(view)) if view.why else None,
        tag("div", tag("div", left), tag("div", right), class_="columns"),
        tag("p", view.id, class_="id"),
    )


def answer_text(view: AnswerView) -> Markup:
    """Return the text of an answer, with its unsupported parts marked."""
    if view.response is None:
        return Markup("(the answer is not known)")
    return join(*map(_span, view.response)) or Markup("(empty answer)")


def _why_class(view: AnswerView) -> str:
    if view.cause:
        return "why"
    return "soft" if any(score.is_low for score in view.scores) else "why fine"


def _span(span: Span) -> Markup:
    if not span.unsupported:
        return join(cut(span.text))
    return join(tag("mark", cut(span.text.rstrip())), " ", tag("span", "unsupported", class_="chip unsupported"), " ")


def _scores(scores: Sequence[ScoreView]) -> tuple[Markup | None, ...]:
    """Return the scores that are low, missing or have a reason as rows, and the others on one line."""
    listed = [score for score in scores if _has_row(score)]
    others = ", ".join(f"{score.title} {score_text(score)}" for score in scores if not _has_row(score))
    return (
        tag("h4", "The scores, and why") if scores else None,
        tag("table", tag("tbody", *map(_score_row, listed)), class_="scores") if listed else None,
        tag("p", f"{'Other scores: ' if listed else ''}{others}", class_="soft others") if others else None,
    )


def _has_row(score: ScoreView) -> bool:
    return score.is_low or score.value is None or bool(score.reason)


def _score_row(score: ScoreView) -> Markup:
    return tag(
        "tr",
        tag("td", score.title),
        tag("td", score_text(score), class_="number bad" if score.is_low else "number"),
        tag("td", cut(score.reason or ""), class_="reason soft"),
    )


def _passage(view: PassageView) -> Markup:
    return tag(
        "li",
        tag("span", f"{view.position}. ", class_="soft"),
        *(tag("span", mark, class_=f"chip {mark}") for mark in view.marks),
        _passage_text(cut(view.text)),
        tag("small", ", ".join(filter(None, _passage_facts(view)))),
    )


def _passage_text(text: str) -> Markup:
    """Return the text of a passage. A long one shows its start until a person opens it, so that five answers stay readable."""
    if len(text) <= _FOLDED_FROM:
        return tag("span", text, class_="text")
    start, *_ = text[:_START_CHARS].rsplit(maxsplit=1) or [""]
    shown = tag("summary", tag("span", f"{start}…", class_="text"), " ", tag("span", "whole passage", class_="more"))
    return tag("details", shown, tag("span", text, class_="text"))


def _passage_facts(view: PassageView) -> list[str]:
    p_answer = "" if view.p_answer is None else f"alone it draws an answer with probability {view.p_answer:.2f}"
    return [view.id or "", p_answer]


def answer_data(view: AnswerView, passages: dict[str, int]) -> list[Any]:
    """Return an answer as the script of the page reads it."""
    listed = [
        [p.position, p.marks, passages.setdefault(cut(p.text), len(passages)), *_passage_facts(p)]
        for p in view.passages or ()
    ]
    return [
        view.name,
        view.why,
        _why_class(view),
        None if view.response is None else [[cut(span.text), span.unsupported] for span in view.response],
        [cut(claim) for claim in view.unsupported],
        [cut(text) for text in view.reference],
        [
            [score.title, score_text(score), cut(score.reason or ""), score.is_low, _has_row(score)]
            for score in view.scores
        ],
        None if view.passages is None else listed,
        [
            *(["earlier in the conversation", cut(line)] for line in view.history),
            *([key, cut(value if isinstance(value, str) else repr(value))] for key, value in view.metadata.items()),
        ],
    ]


def cut(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS else f"{text[:_TEXT_CHARS]}… (cut, {len(text):,} characters)"
