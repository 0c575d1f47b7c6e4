"""A judge that reasons before it answers, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fake_servers import FakeModelServer
from ragstone.cli import main
from ragstone.testing import ScriptedModel


def evaluated(tmp_path: Path, *options: str) -> int:
    """The exit code of `ragstone evaluate` with such a judge."""
    file = tmp_path / "samples.jsonl"
    file.write_text(json.dumps({"id": "a", "query": "Where?", "contexts": ["In Oslo."], "response": "Oslo"}))
    with FakeModelServer(ScriptedModel({"85": 1.0}), "openai-reasoning") as server, pytest.raises(SystemExit) as ended:
        main(["evaluate", str(file), "--metrics", "ccrs.qr", "--judge", server.url, *options])
    return int(ended.value.code or 0)


def test_without_room_the_way_out_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason of a failure stands beside the table, with the option that repairs it."""
    assert 3 == evaluated(tmp_path)
    said = capsys.readouterr()
    assert "1 truncated" in said.out
    assert "truncated, for example ccrs.qr of sample a: the reply was cut at 64 tokens" in said.err
    assert "--judge-max-tokens 4096" in said.err


def test_with_room_it_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is said of failures."""
    assert 0 == evaluated(tmp_path, "--judge-max-tokens", "4096")
    said = capsys.readouterr()
    assert "0.850" in said.out
    assert "for example" not in said.err
