"""What LangSmith's tracer sent of a request, replayed, is what our own capture saw of the same request."""

from __future__ import annotations

import json
from functools import partial

import pytest

from ragstone.capture import Capture
from ragstone.reading import all_formats
from ragstone.schema import Trace, sample_from_trace
from ragstone.spool import SpoolReader, SpoolWriter

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_ragstone")


def seen(trace: Trace):
    """What metrics see of a request, who asked, and what LangSmith and our sink know it by.

    Of a request that failed, LangSmith's runs show documents as inputs of a step that the handler does not see: the same
    passages by another rule.
    """
    sample = sample_from_trace(trace)
    tokens = trace.usage and (trace.usage.input_tokens, trace.usage.output_tokens)
    told = {name: value for name, value in sample.metadata.items() if name != "langsmith_project"}
    return (
        trace.name, trace.run_id, trace.status, sample.model_dump(exclude={"id", "metadata", "evidence"}), trace.evidence.doubts, told, tokens, trace.model,
        trace.session_id, trace.user_id, trace.tags,
    )  # fmt: skip


def test_langsmith_replays_to_what_was_captured(read, tmp_path, monkeypatch):
    """Six kinds of requests: the same samples, the same status, the same tokens, and the same run to score."""
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    pytest.importorskip("langchain_classic")
    from replay_apps import langchain_app
    from replay_apps.langsmith_capture import captured as langsmith

    from langchain_ragstone import RagstoneCallbackHandler

    with langsmith("lighthouse") as (tracer, runs), Capture(partial(SpoolWriter, tmp_path / "spool")) as capture:
        langchain_app.run_all([tracer, RagstoneCallbackHandler(capture)])
    reader = SpoolReader(tmp_path / "spool")
    entries = [e for segment in reader.segments() for e in reader.read(segment.name, max_entries=1000).entries]
    captured = [entry.trace for entry in entries]
    replayed, rejected = read(
        all_formats()["langsmith"], "".join(json.dumps(run) + "\n" for run in runs.values()).encode()
    )

    assert [] == rejected
    assert 6 == len(captured)
    assert [seen(t) for t in captured] == [seen(t) for t in sorted(replayed, key=lambda trace: trace.started_at)]
