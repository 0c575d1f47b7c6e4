"""Recordings of LangSmith, Langfuse, MLflow and the frameworks' serializers, read back to what was asked, found and answered."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ragstone.reading import InputFile, detect
from ragstone.reading._formats import all_formats
from ragstone.schema import Passage, Trace, Usage

DATA = Path(__file__).parent / "data"

Q, NOTHING, FAILS = "How high is the north tower?", "Who painted the cellar?", "When does the model fail?"
ANSWER = "The north tower is 41 metres high."
TOWER = "The north tower of the lighthouse is 41 metres high."
STAIRS = "Its stairs have 196 steps, the lift stops at the gallery."
ABOUT_TOWER = {"source": "tower.md", "page": 3, "score": 0.875}
ABOUT_STAIRS = {"source": "stairs.md", "page": 1, "score": 0.5}
DOCUMENTS = [("doc-3", TOWER, 0.875, ABOUT_TOWER), ("doc-9", STAIRS, 0.5, ABOUT_STAIRS)]
NODES = [("node-3", TOWER, 0.5, {"source": "node-3.md"}), ("node-9", STAIRS, 0.25, {"source": "node-9.md"})]
TOKENS = Usage(input_tokens=40, output_tokens=9)

LANGCHAIN = {
    ("plain", Q, str(DOCUMENTS), ANSWER, "ok", None, TOKENS, "keeper-1"),
    ("stated", Q, str(DOCUMENTS), ANSWER, "ok", None, TOKENS, "keeper-1"),
    ("nested", Q, str(DOCUMENTS[:1]), ANSWER, "ok", None, TOKENS, "keeper-1"),
    ("two_searches", Q, str(DOCUMENTS), ANSWER, "ok", None, TOKENS, "keeper-1"),
    ("plain", NOTHING, "[]", ANSWER, "ok", None, TOKENS, "keeper-1"),
    ("plain", FAILS, str(DOCUMENTS), None, "error", "the lamp is out", None, "keeper-1"),
}
RUNS = ("s-1", "u-1", ("lighthouse",), {"release": "2.0", "langsmith_project": "lighthouse"})
OBSERVATIONS = ("s-1", "u-1", ("lighthouse",), {"release": "2.0"})
MLFLOW = ("s-1", "u-1", (), {"release": "2.0"})
OBJECT = (None, Q, str(DOCUMENTS), ANSWER, "ok", None, None, None)
EXPECTED = {
    "langsmith_runs.jsonl": ("langsmith", LANGCHAIN, RUNS),
    "langsmith_export.parquet": ("langsmith", LANGCHAIN, RUNS),
    "langchain_tracer_runs.json": ("langsmith", LANGCHAIN, (*RUNS[:3], RUNS[3] | {"langsmith_project": "default"})),
    "langfuse_observations_v2.jsonl": ("langfuse", LANGCHAIN, OBSERVATIONS),
    "langfuse_legacy": ("langfuse", LANGCHAIN, OBSERVATIONS),
    "langfuse_api.json": ("langfuse", {("plain", Q, str(DOCUMENTS), ANSWER, "ok", None, TOKENS, "keeper-1")}, OBSERVATIONS),
    "mlflow_traces.jsonl": ("mlflow", LANGCHAIN, MLFLOW),
    "mlflow_table.parquet": ("mlflow", LANGCHAIN, MLFLOW),
    "llama_index_response.json": (
        "objects",
        {(None, Q, str(NODES), ANSWER, "ok", None, None, None)},
        (None, None, (), {node: about for node, _, _, about in NODES}),
    ),
    "llama_index_evaluation.jsonl": (
        "rows",
        {(None, Q, str([(None, text, None, {}) for text in (TOWER, STAIRS)]), ANSWER, "ok", None, None, None)},
        (None, None, (), {"passing": True, "score": 1.0, "invalid_result": False}),
    ),
}  # fmt: skip


def summary(trace: Trace):
    """What the expectations say of a trace."""

    def shown(passage: Passage):
        return passage.id, passage.text, passage.score, passage.metadata

    contexts = trace.prompt_contexts
    passages = None if contexts is None else str([shown(passage) for passage in contexts])
    # LangSmith keeps the exception as Python shows it, the others its message.
    error = trace.error and trace.error.removeprefix("RuntimeError('").removesuffix("')")
    return trace.name, trace.query, passages, trace.response, trace.status, error, trace.usage, trace.model


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_says_what_the_application_did(read, name):
    """Question, passages with ids and scores, answer, tokens, model and who asked are those of the recorded application."""
    format_name, requests, about = EXPECTED[name]
    found = detect(InputFile(DATA / name, name))
    traces, rejected = read(found.format, DATA / name)

    assert [] == rejected
    assert format_name == found.format.name
    assert {format_name} == {trace.source for trace in traces}
    assert requests == {summary(trace) for trace in traces}
    assert len(requests) == len(traces)
    assert [about] * len(traces) == [(t.session_id, t.user_id, t.tags, t.metadata) for t in traces]


@pytest.mark.parametrize("name", EXPECTED)
def test_reading_twice_gives_the_same(read, name):
    """Order and ids are the same each time, or a replay could not continue where it stopped."""
    found = detect(InputFile(DATA / name, name)).format

    assert read(found, DATA / name) == read(found, DATA / name)


def test_a_run_is_known_to_langsmith_by_its_id(read):
    """Feedback goes to the root's run, whose id is that of the trace, and which began when it says."""
    traces, _ = read(all_formats()["langsmith"], DATA / "langsmith_runs.jsonl")

    assert [trace.trace_id for trace in traces] == [trace.run_id for trace in traces]
    assert all(trace.otel_trace_id is None and 1_700_000_000 < trace.started_at < trace.ended_at for trace in traces)


@pytest.mark.parametrize("name", ["mlflow_traces.jsonl", "mlflow_table.parquet"])
def test_mlflow_is_addressed_by_the_ids_of_its_spans(read, name):
    """Trace and span ids are OpenTelemetry's, in hex digits, whatever MLflow encodes them with."""
    traces, _ = read(all_formats()["mlflow"], DATA / name)

    assert [f"tr-{trace.otel_trace_id}" for trace in traces] == [trace.run_id for trace in traces]
    assert {(32, 16)} == {(len(trace.otel_trace_id), len(trace.otel_span_id)) for trace in traces}


@pytest.mark.parametrize("name", ["langfuse_observations_v2.jsonl", "langfuse_legacy"])
def test_langfuse_times_are_in_utc_and_latency_is_not_looked_at(read, name):
    """A time without a zone is UTC; what the recording says of latency is in milliseconds and off by a thousand."""
    pb, _ = read(all_formats()["otlp"], DATA / "langfuse.otlp.pb")
    traces, _ = read(all_formats()["langfuse"], DATA / name)

    exact = {trace.trace_id: (trace.started_at, trace.ended_at, trace.otel_span_id) for trace in pb}
    for trace in traces:
        started_at, ended_at, span_id = exact[trace.trace_id]
        assert started_at == pytest.approx(trace.started_at, abs=2e-6)
        assert ended_at == pytest.approx(trace.ended_at, abs=2e-6)
        assert span_id == trace.otel_span_id


def test_an_expectation_becomes_the_reference(read):
    """What a person expected, as MLflow keeps it beside feedback, is the correct answer."""
    traces, _ = read(all_formats()["mlflow"], DATA / "mlflow_traces.jsonl")

    assert {("plain", Q): ("41 metres.",)} == {(t.name, t.query): t.reference for t in traces if t.reference}


def test_serialised_results_and_states_of_langchain_are_requests(read):
    """A chain's result and a graph's state are each one request; what else is in a state is kept."""
    traces, rejected = read(all_formats()["objects"], DATA / "langchain_objects.jsonl")

    assert [] == rejected
    assert [OBJECT, OBJECT] == [summary(trace) for trace in traces]
    assert [{}, {"attempt": 1}] == [trace.metadata for trace in traces]


@pytest.mark.parametrize("name", ["langsmith_runs.jsonl", "langsmith_export.parquet", "mlflow_traces.jsonl"])
def test_what_tools_record_of_a_machine_is_left_behind(read, name):
    """No endpoint, revision, platform, file or user of whoever ran the application comes along."""
    traces, _ = read(detect(InputFile(DATA / name, name)).format, DATA / name)

    text = "".join(trace.model_dump_json() for trace in traces)
    for leak in ("langsmith.invalid", "LANGSMITH_", "revision", "Invented", "/home/keeper", "Traceback", "invented"):
        assert leak not in text, leak


def test_what_the_writer_of_rows_said_is_what_comes_out(read):
    """Ids of passages, relevant ones, references, times and missing answers, of files that people write."""
    names = ("rows_ragas.jsonl", "rows_deepeval.csv", "rows_ragchecker.json", "shelf.run")
    found = [read(all_formats()["rows"], DATA / name) for name in names]
    ragas, deepeval, ragchecker, run = (traces for traces, _ in found)

    assert [[]] * 4 == [rejected for _, rejected in found]
    assert [(Q, ["doc-3", "doc-9"], {"doc-3": 1.0}, ("41 metres.",)), (NOTHING, [], None, ("Nobody knows.",))] == [
        (t.query, [p.id for p in t.contexts], t.qrels, t.reference) for t in ragas
    ]
    assert [("1", 1, ANSWER, 1767323045.0), ("2", 0, None, 1767323046.0)] == [
        (t.trace_id, len(t.contexts), t.response, t.started_at) for t in deepeval
    ]
    assert [("q1", Q, ["doc-3", "doc-9"], ANSWER)] == [
        (t.trace_id, t.query, [p.id for p in t.contexts], t.response) for t in ragchecker
    ]
    assert [("q1", [0.875, 0.5]), ("q2", [0.25])] == [(t.trace_id, [p.score for p in t.contexts]) for t in run]


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.endswith((".jsonl", ".json"))])
def test_compressed_recordings_read_as_plain_ones(read, tmp_path, name):
    """What a file is packed with does not matter."""
    found = detect(InputFile(DATA / name, name)).format
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress((DATA / name).read_bytes()))

    assert found.name == detect(InputFile(packed, name)).format.name
    plain, _ = read(found, DATA / name)
    assert [summary(trace) for trace in plain] == [summary(trace) for trace in read(found, packed)[0]]
