"""What another tool exported of a request, replayed, is what our own capture saw of the same request.

Each pair in a process of its own: an instrumentation changes its framework for the whole process.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from ragstone.reading.otlp import OtlpFormat
from ragstone.schema import Trace, sample_from_trace

# Importing both frameworks takes a while on a busy machine.
pytestmark = pytest.mark.timeout(300)

PROCESS = Path(__file__).parent / "replay_apps" / "beside.py"
MODULES = {
    ("langchain", "openinference"): "openinference.instrumentation.langchain",
    ("langchain", "traceloop"): "opentelemetry.instrumentation.langchain",
    ("llama_index", "openinference"): "openinference.instrumentation.llama_index",
    ("llama_index", "traceloop"): "opentelemetry.instrumentation.llamaindex",
}


def is_installed(name: str) -> bool:
    """Whether a module is there; not imported, as that would change its framework for other tests."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture
def both(request, read, tmp_path):
    """The traces that were captured and those that were replayed, in the order of the requests."""
    framework, tool = request.param
    if not is_installed(MODULES[framework, tool]):
        pytest.skip(f"{MODULES[framework, tool]} is installed by `nox -s replay`")
    subprocess.run([sys.executable, str(PROCESS), framework, tool, str(tmp_path)], check=True, timeout=280)
    captured = [Trace.model_validate_json(line) for line in (tmp_path / "captured").read_text("utf-8").splitlines()]
    replayed, rejected = read(OtlpFormat(), tmp_path / "export")
    assert [] == rejected
    return captured, sorted(replayed, key=lambda trace: trace.started_at)


def seen(trace: Trace, *, ids: bool = True):
    """What metrics see of a request, and who asked.

    Without ranks: two tools can see retrievals that run at the same time in another order, and then one of them lists the
    contexts itself.
    """
    sample = sample_from_trace(trace)
    contexts = sample.contexts and [(p.text, p.id if ids else None, p.score, p.metadata) for p in sample.contexts]
    tokens = trace.usage and (trace.usage.input_tokens, trace.usage.output_tokens)
    return (
        sample.query, contexts, sample.response, sample.metadata, tokens, trace.session_id, trace.user_id,
        [len(search.passages) for search in trace.retrievals],
    )  # fmt: skip


@pytest.mark.parametrize("both", [("langchain", "openinference")], indirect=True, ids=["openinference"])
def test_openinference_of_langchain_replays_to_what_was_captured(both):
    """Six kinds of requests: the same samples, with ids and scores, the same status, and the same span to score."""
    captured, replayed = both

    assert 6 == len(replayed)
    assert [seen(trace) for trace in captured] == [seen(trace) for trace in replayed]
    assert [(t.name, t.status, t.otel_trace_id, t.otel_span_id, t.model) for t in captured] == [
        (t.name, t.status, t.otel_trace_id, t.otel_span_id, t.model) for t in replayed
    ]


@pytest.mark.parametrize("both", [("langchain", "traceloop")], indirect=True, ids=["traceloop"])
def test_traceloop_of_langchain_replays_to_what_was_captured(both):
    """But for the ids of documents, which Traceloop leaves out."""
    captured, replayed = both

    assert 6 == len(replayed)
    assert [seen(trace, ids=False) for trace in captured] == [seen(trace, ids=False) for trace in replayed]
    assert [(t.name, t.status) for t in captured] == [(t.name, t.status) for t in replayed]


@pytest.mark.parametrize("both", [("llama_index", "openinference")], indirect=True, ids=["openinference"])
def test_openinference_of_llama_index_replays_to_what_was_captured(both):
    """Plain, re-ranked, finding nothing and failing: the same samples and the same status."""
    captured, replayed = both

    assert 4 == len(replayed)
    assert [seen(trace) for trace in captured] == [seen(trace) for trace in replayed]
    assert [t.status for t in captured] == [t.status for t in replayed]


@pytest.mark.parametrize("both", [("llama_index", "traceloop")], indirect=True, ids=["traceloop"])
def test_traceloop_of_llama_index_replays_to_what_was_captured(both):
    """The same samples; that a request failed is not in an export that leaves out what failed."""
    captured, replayed = both

    assert 4 == len(replayed)
    assert [seen(trace) for trace in captured] == [seen(trace) for trace in replayed]
