"""Answers with their evidence in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, overload

from typing_extensions import override

from ragstone._util.quantities import count
from ragstone.views._canvas import Canvas, pad, wrap_cells
from ragstone.views._model import AnswerView, PassageView, ScoreView, Span
from ragstone.views._notebook import notebook_answers
from ragstone.views._words import passages_title, plain_response, score_text, short_titles

if TYPE_CHECKING:
    from rich.text import Text

_MAX_LABEL: Final = 26
_MAX_VALUE: Final = 19
"""Widest value with its interval that gets a column."""
_PASSAGE_CHARS: Final = 600
_EQUAL: Final = 0.005
"""Intervals narrower than this are not written."""


class AnswerText:
    """One answer with its evidence as lines of styled text."""

    def __init__(self, view: AnswerView, *, width: int = 80, ascii_only: bool = False) -> None:
        self._view = view
        self._canvas = Canvas(width, ascii_only=ascii_only)

    def lines(self) -> list[Text]:
        """Return the lines."""
        view, canvas = self._view, self._canvas
        canvas.wrap(view.name, "bold")
        time = "" if view.time is None else f", {datetime.fromtimestamp(view.time, tz=UTC):%Y-%m-%d %H:%M} UTC"
        canvas.add((f"{view.id}{time}", "dim"))
        if view.why:
            canvas.wrap(view.why, "red" if view.cause else "green")
        if view.history:
            canvas.heading("Earlier in the conversation")
            for line in view.history:
                canvas.wrap(_short(line), "dim", indent=2, hanging=2)
        canvas.heading("The answer")
        write_response(canvas, view.response, indent=2)
        for claim in view.unsupported:
            canvas.wrap(f"unsupported claim: {claim}", "red", indent=2, hanging=2)
        for reference in view.reference:
            canvas.add(("The reference", "bold"))
            canvas.wrap(reference, indent=2)
        self._scores()
        self._passages()
        if view.metadata:
            canvas.heading("Metadata")
            for key, value in view.metadata.items():
                canvas.wrap(f"{key}: {_short(value)}", "dim", indent=2, hanging=2)
        return canvas.lines

    def _scores(self) -> None:
        scores, canvas = self._view.scores, self._canvas
        canvas.heading("The scores, and why")
        if not scores:
            canvas.add("  no outcomes")
            return
        titles = short_titles({score.metric: score.title for score in scores})
        label = min(max(len(title) for title in titles.values()), _MAX_LABEL)
        values = [_value_text(score) for score in scores]
        column = max((len(value) for value in values if len(value) <= _MAX_VALUE), default=0)
        for score, value in zip(scores, values, strict=True):
            self._score(score, value, titles[score.metric], label, column)

    def _score(self, score: ScoreView, value: str, title: str, label: int, column: int) -> None:
        canvas = self._canvas
        names = wrap_cells(title, label)
        style = "yellow" if score.outcome == "failure" else "red" if score.is_low else ""
        indent = 2 + label + 2 + column + 2
        reasons = wrap_cells(" ".join((score.reason or "").split()), max(canvas.width - indent, 24))
        if len(value) > column or canvas.width - indent < 24:
            canvas.add(f"  {pad(names[0], label)}  ", (value, style))
            for name in names[1:]:
                canvas.add(f"    {name}")
            canvas.wrap(score.reason or "", "dim", indent=4)
            return
        for n in range(max(len(names), len(reasons), 1)):
            name = names[n] if n < len(names) else ""
            reason = reasons[n] if n < len(reasons) else ""
            canvas.add(f"  {pad(name, label)}  ", (f"{value if n == 0 else '':<{column}}  ", style), (reason, "dim"))

    def _passages(self) -> None:
        passages, canvas = self._view.passages, self._canvas
        canvas.heading(passages_title(passages))
        for passage in passages or ():
            self._passage(passage)
        if any(passage.p_answer is not None for passage in passages or ()):
            canvas.wrap("p(answer): probability that the reader answers from this passage alone", "dim")

    def _passage(self, passage: PassageView) -> None:
        canvas = self._canvas
        styles = {"relevant": "green", "used": "cyan", "distracting": "red"}
        parts = [(f"  {passage.position:>2}  ", "dim"), *((f"{mark} ", styles[mark]) for mark in passage.marks)]
        if passage.label_source is not None and not {"relevant", "distracting"} & set(passage.marks):
            parts.append(("not relevant ", "dim"))
        facts = [passage.id] if passage.id else []
        if passage.p_answer is not None:
            interval = ""
            if passage.p_answer_interval is not None:
                low, high = passage.p_answer_interval
                interval = f" [{low:.2f}, {high:.2f}]" if high - low > _EQUAL else ""
            facts.append(f"p(answer) {passage.p_answer:.2f}{interval}")
        about = ", ".join(facts)
        if sum(len(part) for part, _ in parts) + len(about) <= canvas.width:
            canvas.add(*parts, (about, "dim"))
        else:
            canvas.add(*parts)
            canvas.wrap(about, "dim", indent=6)
        text = passage.text if len(passage.text) <= _PASSAGE_CHARS else f"{passage.text[:_PASSAGE_CHARS]}…"
        canvas.wrap(text, indent=6)


def list_answers(views: Sequence[AnswerView], *, metric: str | None, width: int, ascii_only: bool) -> list[Text]:
    """Return answers, ordered by `metric` (None: the mean of all scores), as lines of styled text of at most 100 columns.

    Each has its rating or score, the question, the cause and the id.
    """
    canvas = Canvas(width, ascii_only=ascii_only)
    for view in views:
        rating = next((s.value for s in view.scores if s.metric == metric), None) if metric else view.rating
        number = " n.a." if rating is None else f"{rating:5.2f}"
        canvas.add((f"{number}  ", "bold"), canvas.cut(view.name, canvas.width - 7))
        if view.cause_title is not None:
            canvas.wrap(view.cause_title, "red", indent=7)
        canvas.add(" " * 7, (view.id, "dim"))
    canvas.add()
    what = f"the score of {metric}" if metric else "the mean of the scores, 0 is worst and 1 is best"
    canvas.wrap(f"{count(len(views), 'answer')}. The number is {what}.", "dim")
    return canvas.lines


class Answers(Sequence[AnswerView]):
    """Answers in order. Printing them shows each with its evidence.

    Args:
        views: The answers.
    """

    def __init__(self, views: Sequence[AnswerView]) -> None:
        self._views = tuple(views)

    @overload
    def __getitem__(self, index: int) -> AnswerView: ...

    @overload
    def __getitem__(self, index: slice) -> Answers: ...

    @override
    def __getitem__(self, index: int | slice) -> AnswerView | Answers:
        if isinstance(index, slice):
            return Answers(self._views[index])
        return self._views[index]

    @override
    def __len__(self) -> int:
        return len(self._views)

    def __str__(self) -> str:
        line = "-" * 80
        texts = ("\n".join(line.plain for line in AnswerText(view).lines()) for view in self._views)
        return f"\n{line}\n".join(texts) or "no answers"

    def _repr_html_(self) -> str:
        return notebook_answers(self._views)

    def __repr__(self) -> str:
        return f"<{count(len(self), 'answer')}. print() shows them with their evidence>"


def write_response(
    canvas: Canvas, response: Sequence[Span] | None, *, indent: int, max_lines: int | None = None
) -> None:
    """Write an answer with its unsupported parts marked."""
    if response is None:
        canvas.add(" " * indent, ("(the answer is not known)", "dim"))
        return
    text = plain_response(response)
    canvas.wrap(text or "(empty answer)", "" if text else "dim", indent=indent, max_lines=max_lines)


def _value_text(score: ScoreView) -> str:
    """Return the value of a score with its interval, if that is wider than the printed digits."""
    text = score_text(score)
    if score.low is not None and score.high is not None and score.high - score.low > _EQUAL:
        text += f" [{score.low:.2f}, {score.high:.2f}]"
    return text


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
