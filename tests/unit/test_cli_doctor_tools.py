"""`ragstone doctor --store`: tools to declare as retrievers."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from command_line import app
from ragstone.schema import Captured, Evidence, Trace
from ragstone.store import SqliteStore


def test_doctor_names_undeclared_text_tools_with_what_to_add(tmp_path: Path) -> None:
    """Each tool is named with the number of its requests and the option."""
    path = tmp_path / "ragstone.db"
    with SqliteStore.open(path, mode="own") as store:
        doubtful = Evidence(doubts=("text_tool:search_shelf",))
        traces = [Trace(trace_id=str(n), started_at=1.0, query="Why?", evidence=doubtful) for n in range(2)]
        store.ingest("a", 1, [Captured(trace=trace) for trace in traces])

    result = CliRunner().invoke(app, ["doctor", "--judge", "lexical", "--store", str(path)])

    assert 0 == result.exit_code
    assert "tool search_shelf: 2 requests." in result.output
    assert "--retriever-tool search_shelf" in result.output
