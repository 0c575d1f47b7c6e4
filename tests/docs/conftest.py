"""What the documentation takes for granted: a judge, and a file of samples."""

from __future__ import annotations

import json

import pytest

from fake_servers import FakeJudgeServer


@pytest.fixture(scope="session")
def judge_url():
    """The address of a judge for the documentation."""
    with FakeJudgeServer() as server:
        yield server.url


@pytest.fixture
def reader_s_desk(tmp_path, monkeypatch, judge_url):
    """An empty folder with `samples.jsonl`, and the environment of someone who follows the documentation."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "query": "Which rock shows gold by its streak?",
            "contexts": ["A touchstone is a dark stone on which gold leaves a visible streak."],
            "response": "A touchstone.",
            "reference": "A touchstone",
        },
        {
            "query": "What does the streak tell?",
            "contexts": ["The colour of the streak tells the purity of the gold."],
            "response": "Its age.",
            "reference": "The purity of the gold",
        },
    ]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path
