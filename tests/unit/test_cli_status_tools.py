"""`ragstone status`: tools to declare as retrievers."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from command_line import app
from ragstone.schema import Captured, Evidence, Trace
from ragstone.store import SqliteStore


def test_status_names_undeclared_text_tools_with_what_to_add(tmp_path: Path) -> None:
    """Each tool is named with the number of its requests and the option."""
    path = tmp_path / "ragstone.db"
    with SqliteStore.open(path, mode="own") as store:
        doubtful = Evidence(doubts=("text_tool:search_shelf", "text_tool:calculator"))
        traces = [Trace(trace_id=str(n), started_at=1.0, query="Why?", evidence=doubtful) for n in range(2)]
        store.traces.ingest("a", 1, [Captured(trace=trace) for trace in traces])

    result = CliRunner().invoke(app, ["status", str(path)])

    assert 0 == result.exit_code
    assert "in doubt, text_tool:search_shelf: 2." in result.output
    assert "--retriever-tool search_shelf" in result.output
    assert "in doubt, text_tool:calculator: 2." in result.output


def test_a_declared_tool_that_was_never_called_is_counted(tmp_path: Path) -> None:
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

    result = CliRunner().invoke(app, ["status", str(path)])

    assert 0 == result.exit_code
    assert "declared tool search_polcy: not called by any of 3 requests" in result.output
    assert "search_shelf" not in result.output
