"""Recordings of small applications through the real instrumentations, read back to what was asked, found and answered."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ragstone.reading import InputFile, detect
from ragstone.reading._formats import all_formats
from ragstone.reading.otlp import OtlpFormat
from ragstone.schema import Passage, Trace, Usage

DATA = Path(__file__).parent / "data"
FORMATS = [OtlpFormat(), all_formats()["phoenix"]]

TOWER = "The north tower of the lighthouse is 41 metres high."
STAIRS = "Its stairs have 196 steps, the lift stops at the gallery."
Q, NOTHING, FAILS = "How high is the north tower?", "Who painted the cellar?", "When does the model fail?"
ANSWER = "The north tower is 41 metres high."
ABOUT_TOWER = {"source": "tower.md", "page": 3, "score": 0.875}
ABOUT_STAIRS = {"source": "stairs.md", "page": 1, "score": 0.5}
DOCUMENTS = [("doc-3", TOWER, 0.875, ABOUT_TOWER), ("doc-9", STAIRS, 0.5, ABOUT_STAIRS)]
WITHOUT_IDS = [(None, *document[1:]) for document in DOCUMENTS]
BARE = [(*document[:3], {}) for document in DOCUMENTS]
NODES = [("node-3", TOWER, 0.5, {"source": "node-3.md"}), ("node-9", STAIRS, 0.25, {"source": "node-9.md"})]
BEST = [("node-9", STAIRS, 0.75, {"source": "node-9.md"})]
TOKENS = Usage(input_tokens=40, output_tokens=9)


def langchain(documents=DOCUMENTS, *, stated=DOCUMENTS, shown=None):
    """What the application of LangChain did: name, question, passages, answer, status, tokens, model."""
    shown = documents if shown is None else shown
    return {
        ("plain", Q, tuple(map(str, documents)), ANSWER, "ok", TOKENS, "keeper-1"),
        ("stated", Q, tuple(map(str, stated)), ANSWER, "ok", TOKENS, "keeper-1"),
        ("nested", Q, tuple(map(str, documents[:1])), ANSWER, "ok", TOKENS, "keeper-1"),
        ("two_searches", Q, tuple(map(str, shown)), ANSWER, "ok", TOKENS, "keeper-1"),
        ("plain", NOTHING, (), ANSWER, "ok", TOKENS, "keeper-1"),
        ("plain", FAILS, tuple(map(str, shown)), None, "error", None, "keeper-1"),
    }


def llama_index(name, failing):
    """What the application of LlamaIndex did."""
    return {
        (name, Q, tuple(map(str, NODES)), ANSWER, "ok", TOKENS, "keeper-1"),
        (name, Q, tuple(map(str, BEST)), ANSWER, "ok", TOKENS, "keeper-1"),
        (name, NOTHING, (), "Empty Response", "ok", None, None),
        failing,
    }


FOUND = tuple(map(str, NODES))
EXPECTED = {
    "openinference_langchain.otlp.jsonl": (
        "otlp",
        "openinference",
        langchain(),
        ("s-1", "u-1", (), {"release": "2.0"}),
    ),
    "openinference_llama_index.otlp.json": (
        "otlp",
        "openinference",
        llama_index(
            "RetrieverQueryEngine.query",
            ("RetrieverQueryEngine.query", FAILS, FOUND, None, "error", None, "keeper-1"),
        ),
        (None, None, (), {}),
    ),
    # Its spans of retrievers have no ids. Outputs of chains do, if they hold the documents.
    "traceloop_langchain.otlp.jsonl": (
        "otlp",
        "traceloop",
        langchain(WITHOUT_IDS, shown=DOCUMENTS),
        ("s-1", "u-1", (), {"release": "2.0"}),
    ),
    # It does not export the spans that an error went through.
    "traceloop_llama_index.otlp.jsonl": (
        "otlp",
        "traceloop",
        llama_index("RetrieverQueryEngine.workflow", ("Shelf.task", FAILS, FOUND, None, "ok", None, None)),
        (None, None, (), {}),
    ),
    "langfuse.otlp.pb": ("otlp", "langfuse", langchain(), ("s-1", "u-1", ("lighthouse",), {"release": "2.0"})),
    "genai.otlp.jsonl": (
        "otlp",
        "genai",
        {("chat keeper-1", Q, tuple(map(str, BARE)), ANSWER, "ok", TOKENS, "keeper-1")},
        ("s-1", None, (), {}),
    ),
    "phoenix_spans.json": ("phoenix", "openinference", langchain(), ("s-1", "u-1", (), {"release": "2.0"})),
    "phoenix_spans.parquet": ("phoenix", "openinference", langchain(), ("s-1", "u-1", (), {"release": "2.0"})),
}


def summary(trace: Trace):
    """What the expectations say of a trace."""

    def shown(passage: Passage) -> str:
        return str((passage.id, passage.text, passage.score, passage.metadata))

    contexts = trace.prompt_contexts
    passages = None if contexts is None else tuple(shown(passage) for passage in contexts)
    return trace.name, trace.query, passages, trace.response, trace.status, trace.usage, trace.model


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_says_what_the_application_did(read, name):
    """Question, passages with ids and scores, answer, tokens, model and who asked are those of the recorded application."""
    format_name, source, requests, about = EXPECTED[name]
    found = detect(InputFile(DATA / name, name), formats=FORMATS)
    traces, rejected = read(found.format, DATA / name)

    assert format_name == found.format.name
    assert requests == {summary(trace) for trace in traces}
    assert len(requests) == len(traces)
    assert {source} == {trace.source for trace in traces}
    assert [about] * len(traces) == [(t.session_id, t.user_id, t.tags, t.metadata) for t in traces]
    expected = (None if format_name == "phoenix" or source == "langfuse" else "lighthouse", None, None)
    assert [expected] * len(traces) == [(t.app, t.release, t.environment) for t in traces]
    # A health check of the server.
    assert (1 if name.startswith("genai") else 0) == len(rejected)


@pytest.mark.parametrize("name", EXPECTED)
def test_scores_know_the_span_that_they_belong_to(read, name):
    """Each trace has the ids of an exported span, as hex digits, and is identified by its trace id."""
    traces, _ = read(detect(InputFile(DATA / name, name), formats=FORMATS).format, DATA / name)

    for trace in traces:
        assert trace.trace_id == trace.otel_trace_id
        assert (32, 16) == (len(trace.otel_trace_id), len(trace.otel_span_id))
        assert trace.otel_sampled
        assert 1_700_000_000 < trace.started_at <= trace.ended_at


@pytest.mark.parametrize("name", EXPECTED)
def test_reading_twice_gives_the_same(read, name):
    """Order and ids are the same each time, or a replay could not continue where it stopped."""
    found = detect(InputFile(DATA / name, name), formats=FORMATS).format

    assert read(found, DATA / name) == read(found, DATA / name)


@pytest.mark.parametrize("name", [name for name in EXPECTED if not name.endswith(".parquet")])
def test_compressed_recordings_read_as_plain_ones(read, name):
    """What a file is packed with does not matter."""
    found = detect(InputFile(DATA / name, name), formats=FORMATS).format
    plain = (DATA / name).read_bytes()

    assert read(found, DATA / name) == read(found, gzip.compress(plain))
    zstandard = pytest.importorskip("zstandard")
    assert read(found, DATA / name) == read(found, zstandard.ZstdCompressor().compress(plain))


def test_what_was_detected_is_said_in_words():
    """The reason names the container and the conventions found in it."""
    found = {name: detect(InputFile(DATA / name, name), formats=FORMATS).detected_by for name in EXPECTED}

    assert "OTLP messages in JSON, with spans of OpenInference" == found["openinference_llama_index.otlp.json"]
    assert (
        "OTLP trace requests in protobuf, each with its length before it, with spans of Langfuse's SDK"
        == found["langfuse.otlp.pb"]
    )
    assert "a Parquet file with Phoenix's columns" == found["phoenix_spans.parquet"]


def test_an_error_is_told_with_its_message(read):
    """The application's exception is the error of the request, once, and not among those it survived."""
    traces, _ = read(OtlpFormat(), DATA / "openinference_langchain.otlp.jsonl")
    failed = next(trace for trace in traces if trace.status == "error")

    assert "RuntimeError: the lamp is out" == failed.error.splitlines()[0][:29]
    assert () == failed.inner_errors


def test_nested_retrievers_are_one_search(read):
    """Of a retriever in a retriever the outer one counts; two beside each other are two searches."""
    traces, _ = read(OtlpFormat(), DATA / "openinference_langchain.otlp.jsonl")

    assert {"plain": [2], "stated": [2], "nested": [1], "two_searches": [1, 1]} == {
        trace.name: [len(search.passages) for search in trace.retrievals] for trace in traces if trace.query == Q
    }
