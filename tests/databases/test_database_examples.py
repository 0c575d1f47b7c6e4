"""Each file of `examples/databases` runs with its real database, and its requests are what the model saw."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ragstone.store import SqliteStore

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "databases").glob("*.py"))
FOUND = {
    "When was the lighthouse lit?": ["lit for the first time in 1874", "is a museum today"],
    "When does the ferry leave?": ["leaves at nine and at three"],
}
ANSWERS = {
    "When was the lighthouse lit?": "It was lit for the first time in 1874.",
    "When does the ferry leave?": "The ferry leaves at nine and at three.",
}


def test_there_are_examples():
    """Without files the test below would pass."""
    assert {"chroma", "faiss_index", "qdrant"} == {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_captures_what_the_model_saw(path, model_server, tmp_path, monkeypatch, capsys):
    """Question, passages in the prompt with their ids, answer, model and tokens come from the database and the client."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert "captured 2, scored 2, failed 0, pending 0" in capsys.readouterr().out
    with SqliteStore.open(tmp_path / "ragstone.db", mode="read") as store:
        traces = {trace.query: trace for trace in store.traces.read()}
    assert set(FOUND) == set(traces)
    for question, trace in traces.items():
        assert ("ok", ANSWERS[question], "tiny-1") == (trace.status, (trace.response or "").strip(), trace.model)
        (retrieval,) = trace.retrievals
        assert 2 == len(retrieval.passages)
        assert all(passage.id is not None for passage in retrieval.passages)
        texts = [passage.text for passage in trace.prompt_contexts]
        assert all(any(part in text for text in texts) for part in FOUND[question])
        assert ("in_prompt", ()) == (trace.evidence.contexts, trace.evidence.doubts)
        # The prompt that the server got holds each context.
        sent = [request.content.decode() for request in model_server.requests if question in request.content.decode()]
        assert all(text in sent[0] for text in texts)
