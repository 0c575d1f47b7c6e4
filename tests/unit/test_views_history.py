"""Earlier messages of the conversation in the views of an answer, and in `ragstone traces`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import app
from ragstone.experiments._views.answers import build_answer
from ragstone.schema import Captured, Sample, Trace, Turn
from ragstone.scoring import Signals
from ragstone.store import SqliteStore
from ragstone.views import AnswerText
from ragstone.views._html_answer import answer_data, answer_markup

TURNS = (Turn(role="user", text="Which <pump>?"), Turn(role="assistant", text="The Alpha pump."))
LINES = ("User: Which <pump>?", "Assistant: The Alpha pump.")


@pytest.mark.parametrize("history", [TURNS, ()])
def test_an_answer_shows_the_conversation(history: tuple[Turn, ...]) -> None:
    """In the terminal, in HTML and in the data of the page. An answer without one does not mention it."""
    sample = Sample(id="s", query="How wide is it?", history=history, response="Wide.")
    view = build_answer("s", sample, [], Signals(), {}, time=None)
    assert LINES[: len(history)] == view.history

    text = "\n".join(line.plain for line in AnswerText(view).lines())
    html = str(answer_markup(view))
    rows = answer_data(view, {})[-1]

    assert bool(history) == ("Earlier in the conversation" in text) == ("Earlier in the conversation" in html)
    assert bool(history) == ("  User: Which <pump>?\n  Assistant: The Alpha pump." in text)
    assert bool(history) == ("User: Which &lt;pump&gt;?" in html)
    assert [["earlier in the conversation", line] for line in view.history] == rows


def test_traces_shows_the_conversation(tmp_path: Path) -> None:
    """`ragstone traces STORE ID`."""
    path = tmp_path / "ragstone.db"
    trace = Trace(trace_id="t-1", started_at=1.0, query="How wide is it?", history=TURNS, response="Wide.")
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest("a", 1, [Captured(trace=trace)])

    result = CliRunner().invoke(app, ["traces", str(path), "t-1"])

    assert 0 == result.exit_code
    assert "Earlier in the conversation" in result.output
    assert "Assistant: The Alpha pump." in result.output
