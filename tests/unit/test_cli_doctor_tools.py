"""`ragstone doctor --store`: tools to declare as retrievers."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import app
from ragstone.schema import Captured, Evidence, Trace
from ragstone.store import SqliteStore


def test_doctor_names_undeclared_text_tools_with_what_to_add(tmp_path: Path) -> None:
    """Each tool is named with the number of its requests and the option."""
    path = tmp_path / "ragstone.db"
    with SqliteStore.open(path, mode="own") as store:
        doubtful = Evidence(doubts=("text_tool:search_shelf", "text_tool:calculator"))
        traces = [Trace(trace_id=str(n), started_at=1.0, query="Why?", evidence=doubtful) for n in range(2)]
        store.traces.ingest("a", 1, [Captured(trace=trace) for trace in traces])

    result = CliRunner().invoke(app, ["doctor", "--judge", "lexical", "--store", str(path)])

    assert 0 == result.exit_code
    assert "tool search_shelf: 2 requests." in result.output
    assert "--retriever-tool search_shelf" in result.output
    assert "tool calculator: 2 requests." in result.output


@pytest.mark.parametrize("command", [["doctor", "--judge", "lexical", "--store"], ["status"]])
def test_tools_that_do_not_retrieve_are_left_out(command: list[str], tmp_path: Path) -> None:
    """Other tools are still named."""
    path = tmp_path / "ragstone.db"
    doubtful = Evidence(doubts=("text_tool:search_shelf", "text_tool:calculator"))
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest(
            "a", 1, [Captured(trace=Trace(trace_id="1", started_at=1.0, query="Why?", evidence=doubtful))]
        )
    result = CliRunner().invoke(app, [*command, str(path), "--no-retriever-tool", "calculator"])
    assert 0 == result.exit_code
    assert "search_shelf" in result.output
    assert "calculator" not in result.output


@pytest.mark.parametrize("command", [["doctor", "--judge", "lexical", "--store"], ["status"]])
def test_a_declared_tool_that_was_never_called_is_counted(command: list[str], tmp_path: Path) -> None:
    """It is named with the number of requests. A tool that some request called is not."""
    path = tmp_path / "ragstone.db"
    used = [{"search_polcy": False, "search_shelf": called} for called in (False, True, False)]
    with SqliteStore.open(path, mode="own") as store:
        traces = [
            Trace(trace_id=str(n), started_at=1.0, query="Why?", evidence=Evidence(declared_tools=tools))
            for n, tools in enumerate(used)
        ]
        store.traces.ingest("a", 1, [Captured(trace=trace) for trace in traces])
        assert {"search_polcy": (3, 0), "search_shelf": (3, 1)} == {
            name: (tool.captured, tool.called) for name, tool in store.ledger().declared_tools.items()
        }

    result = CliRunner().invoke(app, [*command, str(path)])

    assert 0 == result.exit_code
    assert "declared tool search_polcy: not called by any of 3 requests" in result.output
    assert "search_shelf" not in result.output
