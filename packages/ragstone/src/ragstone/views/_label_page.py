"""The page on which people label answers. Scores, marks and the model are hidden until a label is saved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from ragstone.views._html_answer import answer_markup, cut
from ragstone.views._live import LiveDocument
from ragstone.views._markup import Markup, join, tag
from ragstone.views._model import AnswerView

_CHOICES: Final = (("1", "Correct", "1"), ("2", "Partly", "0.5"), ("3", "Wrong", "0"))
"""Key, name and value of each label."""
_DRAWN: Final = (
    "A draw chooses scored requests at random, half of them where the metrics disagree. The store keeps the probability of "
    "each request, so that labels of drawn requests represent all."
)


def label_document(title: str, *, author: str) -> LiveDocument:
    """Return the page."""
    name = tag("label", "Your name ", tag("input", id="author", value=author, maxlength=100, autocomplete="off"))
    choices = (
        tag("button", tag("kbd", key), f" {text}", type="button", class_="choice", data_value=value)
        for key, text, value in _CHOICES
    )
    steps = (
        tag("button", tag("kbd", key), f" {text}", type="button", id=id_)
        for key, text, id_ in (("K", "Previous", "previous"), ("J", "Next", "next"), ("U", "Undo", "undo"))
    )
    number = tag("input", id="n", type="number", value="100", min="1", max="10000")
    body = join(
        tag(
            "header",
            tag("span", tag("b", "Ragstone"), " ", title, class_="about"),
            tag("nav", tag("a", "Report", href="./")),
        ),
        tag(
            "main",
            tag("h1", "Is the answer correct?"),
            tag("p", "Scores are hidden until your label is saved.", class_="lead"),
            tag("p", name),
            tag("p", "This page needs JavaScript.", id="progress", class_="soft", role="status"),
            tag("h2", "The answer to label", class_="unseen"),
            tag("div", id="item"),
            tag("p", "No requests are drawn to be labeled.", id="none", hidden=True),
            tag(
                "div",
                tag("div", *choices, role="group", aria_label="Your label"),
                tag("div", *steps, role="group", aria_label="Other answers"),
                id="choices",
                class_="choices",
                hidden=True,
            ),
            tag("p", _DRAWN, class_="soft small"),
            tag("p", tag("label", "Number ", number), " ", tag("button", "Draw requests", id="draw", type="button")),
        ),
    )
    return LiveDocument.of(f"{title}, labels", body, script="label.js")


def label_item(
    answer: AnswerView, value: float | None, correction: str | None = None, relevant: Collection[int] | None = None
) -> Markup:
    """Return an answer to be labeled, with its scores only if it has a label."""
    about = _corrections(answer, correction, relevant)
    if value is not None:
        names: Mapping[float, str] = {float(number): name for _, name, number in _CHOICES}
        said = tag("p", "Your label: ", tag("b", names.get(value, f"{value:.2f}")), id="saved")
        return tag("article", said, answer_markup(answer, heading_id="question"), about, class_="answer")
    text = "".join(span.text for span in answer.response or ())
    return tag(
        "article",
        tag("h3", cut(answer.name), id="question"),
        tag("h4", "The answer"),
        tag("p", cut(text) if answer.response is not None else "(the answer is not known)", class_="text"),
        *(join(tag("h4", "The reference"), tag("p", cut(each), class_="text")) for each in answer.reference),
        about,
        class_="answer",
    )


def _corrections(answer: AnswerView, correction: str | None, relevant: Collection[int] | None) -> Markup:
    """Return the passages with a box for each, and the field for the correct answer. A label saves both."""
    boxes = [
        tag(
            "li",
            _box(str(each.position), is_checked=each.position in (relevant or ())),
            tag("span", cut(each.text), class_="text"),
        )
        for each in answer.passages or ()
    ]
    none = tag("p", _box("none", is_checked=relevant is not None and not relevant), "None of them helps to answer")
    title = tag("summary", f"The passages ({len(boxes)}): mark those that help to answer")
    field = tag("textarea", correction, id="correction", rows=3, maxlength=20_000)
    return join(
        tag("details", title, tag("ol", *boxes, class_="passages"), none) if boxes else None,
        tag("p", tag("label", "Correct answer, saved with your label ", field)),
    )


def _box(value: str, *, is_checked: bool) -> Markup:
    return tag("input", type="checkbox", class_="mark", value=value, checked=is_checked, aria_label="helps to answer")
