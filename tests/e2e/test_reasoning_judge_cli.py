"""A judge that reasons before it answers, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fake_servers import FakeDialectServer
from ragstone.cli import main

N = 60
REASONING = ("vllm-qwen3", "vllm-r1", "openai-reasoning", "gemini", "deepseek", "openrouter", "groq")


def evaluated(tmp_path: Path, server: FakeDialectServer, *options: str, n: int = N) -> int:
    """The exit code of `ragstone evaluate` with such a judge."""
    file = tmp_path / "samples.jsonl"
    rows = (
        {"id": f"s{i}", "query": f"Where is stone {i}?", "contexts": ["In Oslo."], "response": f"Oslo, at {i}"}
        for i in range(n)
    )
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(file), "--metrics", "ccrs.qr", "--judge", server.url, *options])
    return int(ended.value.code or 0)


@pytest.mark.parametrize("dialect", REASONING)
def test_reasoning_judges_work_by_default(tmp_path: Path, capsys: pytest.CaptureFixture[str], dialect: str) -> None:
    """All samples are scored, for about one call each, with the values of a judge that does not reason."""
    values = {}
    for style in (None, FakeDialectServer(dialect).dialect.reasoning):
        output = tmp_path / f"{style}.jsonl"
        with FakeDialectServer(dialect, changes={"reasoning": style}) as server:
            assert 0 == evaluated(tmp_path, server, "-o", str(output))
            assert server.n_accepted <= N + 3
            assert server.n_refused <= 12
        written = [json.loads(line) for line in output.read_text().splitlines()]
        values[style] = {outcome["sample_id"]: outcome["value"] for outcome in written}
        assert N == len(values[style])
    first, second = values.values()
    assert first == second
    assert f"{N} / 0 / 0" in capsys.readouterr().out


def test_a_short_context_gets_less_room(tmp_path: Path) -> None:
    """If the server's context is too short for 4,096 tokens of reasoning, the requests allow fewer."""
    with FakeDialectServer("vllm-qwen3", context_length=2048) as server:
        assert 0 == evaluated(tmp_path, server)
        assert server.n_refused <= 3


def test_reasoning_that_does_not_end_says_the_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason of a failure is next to the table, with the option that helps."""
    with FakeDialectServer("vllm-qwen3", n_thoughts=20_000) as server:
        assert 3 == evaluated(tmp_path, server, n=2)
    said = capsys.readouterr()
    assert "2 truncated" in said.out
    assert "reply was cut at 4160 tokens" in said.err
    assert "--set judge.max_tokens=8192" in said.err
