"""`ragstone evaluate --metrics udcg` with the application's own prompt."""

from __future__ import annotations

import json

import pytest

from command_line import run_command
from fake_servers import FakeModelServer
from scripted_model import ScriptedModel

ROW = {
    "id": "a",
    "query": "Where is the stone?",
    "contexts": ["At the river.", "In Oslo."],
    "response": "At the river.",
    "reference": "At the river.",
}


def replies(messages):
    """Abstains more often without the river; the prompt has to be the application's own."""
    content = messages[-1]["content"]
    if not content.startswith("From: "):
        return {"Oslo": 1.0}
    p = 0.25 if "river" in content.split("\n")[0] else 0.75
    return {"NOT FOUND": p, "At the river": 1 - p}


def test_the_applications_prompt_and_phrase(tmp_path):
    """Both reach the reader, and p(abstain) of each passage is in the outcome."""
    samples, prompt, output = tmp_path / "samples.jsonl", tmp_path / "prompt.txt", tmp_path / "o.jsonl"
    samples.write_text(json.dumps(ROW) + "\n", encoding="utf-8")
    prompt.write_text("From: {context}\nAnswer or say NOT FOUND: {question}", encoding="utf-8")
    with FakeModelServer(ScriptedModel(replies)) as server:
        done = run_command(
            "evaluate", samples, "--metrics", "udcg", "--judge", "lexical", "--reader", server.url,
            "--set", f"reader.prompt={prompt}", "--set", "reader.abstention=NOT FOUND", "--set", "reader.estimator=exact", "--set", "reader.max_draws=9", "--json",
            "-o", output, XDG_CACHE_HOME=str(tmp_path / "cache"),
        )  # fmt: skip

    assert 0 == done.returncode, done.stderr
    (outcome,) = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    found = [passage["p_abstain"] for passage in outcome["details"]["passages"]]
    assert [0.25, 0.75] == pytest.approx(found)
