"""Each file has one format: no two readers claim the same, and the reason is said."""

from __future__ import annotations

import gzip
import json
import pickle
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from ragstone.errors import DataError
from ragstone.reading import InputFile, detect
from ragstone.reading._fields import first_names
from ragstone.reading._formats import all_formats

DATA = Path(__file__).parent / "data"
RECORDED = {
    "genai.otlp.jsonl": "otlp",
    "langfuse.otlp.pb": "otlp",
    "openinference_langchain.otlp.jsonl": "otlp",
    "openinference_llama_index.otlp.json": "otlp",
    "traceloop_langchain.otlp.jsonl": "otlp",
    "traceloop_llama_index.otlp.jsonl": "otlp",
    "crewai.otlp.jsonl": "otlp",
    "dspy.otlp.jsonl": "otlp",
    "haystack.otlp.jsonl": "otlp",
    "langchain4j.otlp.jsonl": "otlp",
    "langchain4j_openinference.otlp.jsonl": "otlp",
    "llama_index.otlp.jsonl": "otlp",
    "openai_agents.otlp.jsonl": "otlp",
    "pydantic_ai.otlp.jsonl": "otlp",
    "pydantic_ai_openinference.otlp.jsonl": "otlp",
    "smolagents.otlp.jsonl": "otlp",
    "spring_ai.otlp.jsonl": "otlp",
    "vercel_ai.otlp.jsonl": "otlp",
    "phoenix_spans.json": "phoenix",
    "phoenix_spans.parquet": "phoenix",
    "langchain_objects.jsonl": "objects",
    "llama_index_response.json": "objects",
    "langchain_tracer_runs.json": "langsmith",
    "langsmith_export.parquet": "langsmith",
    "langsmith_runs.jsonl": "langsmith",
    "langfuse_api.json": "langfuse",
    "langfuse_observations_v2.jsonl": "langfuse",
    "langfuse_legacy/traces/1.jsonl": "langfuse",
    "langfuse_legacy/observations/1.jsonl": "langfuse",
    "mlflow_table.parquet": "mlflow",
    "mlflow_traces.jsonl": "mlflow",
    "llama_index_evaluation.jsonl": "rows",
    "rows_deepeval.csv": "rows",
    "rows_ragas.jsonl": "rows",
    "rows_ragchecker.json": "rows",
    "shelf.run": "rows",
    "ragstone_traces.jsonl": "ragstone",
}
WRITTEN = {
    "ragas": ("rows", b'{"user_input": "Why?", "retrieved_contexts": ["So."], "response": "So."}\n'),
    "deepeval": ("rows", b'[{"input": "Why?", "actualOutput": "So.", "retrievalContext": ["So."]}]'),
    "openevals": ("rows", b'{"inputs": {"question": "Why?"}, "outputs": "So.", "reference_outputs": "So."}\n'),
    "ragchecker": ("rows", b'{"input_data": [{"query_id": "1", "query": "Why?", "response": "So."}]}'),
    "ragas, conversations": ("rows", b'{"user_input": [{"type": "human", "content": "Why?"}], "reference": "So."}\n'),
    "conversations": ("rows", b'{"messages": [{"role": "user", "content": "Why?"}]}\n'),
    "conversations with ids": ("rows", b'[{"id": "c-1", "messages": [{"role": "user", "content": "Why?"}]}]'),
    "table": ("rows", b"question,answer\nWhy?,So.\n"),
    "run": ("rows", b"q1 Q0 d1 1 0.5 bm25\n"),
    "ours": ("ragstone", b'{"schema_version":1,"trace_id":"t","query":"Why?","started_at":1.0}\n'),
    "a page of runs": ("langsmith", b'{"runs": [{"id": "r", "run_type": "chain", "parent_run_id": null}]}'),
}  # fmt: skip


@pytest.mark.parametrize(
    ("head", "names"),
    [
        (b'{"a": 1, "b": {"c": 2}}\n{"d": 3}', {"a", "b"}),
        (b'\xef\xbb\xbf[\n {"a": 1}, {"d": 3}]', {"a"}),
        (b'{"a": {"b": 1}, "c": "cut', {"a", "b", "c"}),
        (b'"text"\n{"a": 1}', set()),
        (b'7\n{"a": 1}', set()),
    ],
)
def test_the_names_of_the_first_record(head, names):
    """Those of later records do not count. A record that is cut has those at any depth."""
    assert names == first_names(head)


@pytest.mark.parametrize("name", ["run_type", "trace_id"])
def test_objects_in_runs_are_left_to_their_reader(name):
    """Traces have objects of LangChain in their inputs and outputs."""
    value = {"lc": 1, "kwargs": {"question": "Why?"}}

    assert all_formats()["objects"].detect(json.dumps(value).encode())
    assert all_formats()["objects"].detect(json.dumps(value | {name: "x"}).encode()) is None
    assert all_formats()["objects"].detect(b"PAR1" + json.dumps(value).encode()) is None


def claims(source: InputFile):
    """The formats, but for the most general one, that take a file for theirs; it gets what is left."""
    head = source.head()
    found = [name for name, reader in all_formats().items() if name != "rows" and reader.detect(head) is not None]
    return found or [detect(source).format.name]


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_has_one_format(name):
    """Only one reader claims it, which is the right one, and says how it knew."""
    source = InputFile(DATA / name, name)

    assert [RECORDED[name]] == claims(source)
    assert detect(source).detected_by


def test_every_recording_is_in_the_table():
    """A recording that is added must say here what it is."""
    files = {path.relative_to(DATA).as_posix() for path in DATA.rglob("*") if path.is_file()}

    assert set(RECORDED) == files


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_of_rows_or_of_ours_has_one_format(tmp_path, name):
    """Files as people write them are recognized by what is in them, not by a suffix."""
    expected, content = WRITTEN[name]
    path = tmp_path / "file"
    path.write_bytes(content)

    assert [expected] == claims(InputFile(path, name))
    assert expected == detect(InputFile(path, name)).format.name


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"Dear reader,\n", b"{}", b"[1, 2]", b'{"a": 1}', b"\xff" * 100])
def test_what_is_nothing_known_is_refused(tmp_path, content):
    """The message has the file's name and the way out."""
    path = tmp_path / "file"
    path.write_bytes(content)

    message = r"'odd' begins with .*--format" if content else r"'odd' is empty, .*name another file"
    with pytest.raises(DataError, match=message):
        detect(InputFile(path, "odd"))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_is_refused_and_never_loaded(tmp_path, protocol):
    """The message says why, and how to write JSON instead."""
    path = tmp_path / "runs.pkl"
    path.write_bytes(pickle.dumps([{"run_type": "chain", "parent_run_id": None}], protocol=protocol))

    with pytest.raises(DataError, match=r"'runs\.pkl' is a Python pickle, which may run any code .* JSON"):
        detect(InputFile(path, "runs.pkl"))


def test_a_folder_has_the_format_of_its_files(tmp_path):
    """Files that are alike are one export; hidden ones and notes of the exporter are skipped."""
    for name in ("2.jsonl", "sub/1.jsonl", ".hidden", "_SUCCESS", "_notes/readme"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(WRITTEN["ragas"][1] if name.endswith(".jsonl") else b"Dear reader,\n")

    assert "rows" == detect(InputFile(tmp_path, "export")).format.name
    assert ["2.jsonl", "sub/1.jsonl"] == [part.name for part in InputFile(tmp_path, "export").parts()]


def test_a_folder_of_several_formats_is_refused(tmp_path):
    """Which format counts is for people to say."""
    (tmp_path / "a.jsonl").write_bytes(WRITTEN["ragas"][1])
    (tmp_path / "b.jsonl").write_bytes(WRITTEN["ours"][1])

    with pytest.raises(DataError, match="several formats, rows and ragstone"):
        detect(InputFile(tmp_path, "mixed"))


@pytest.mark.parametrize("name", ["langsmith", "langfuse", "mlflow", "objects", "ragstone", "rows"])
def test_a_file_that_is_gone_is_a_data_error(tmp_path, name):
    """Between being named and being read it may have been moved."""
    with pytest.raises(DataError, match="'runs' cannot be read"):
        list(all_formats()[name].read(InputFile(tmp_path / "gone", "runs")))


def test_an_entry_point_that_cannot_be_loaded_is_skipped(monkeypatch, caplog):
    """A broken format of another package does not disable the others."""
    broken = EntryPoint("broken", "no_such_module:Format", "ragstone.formats")
    rows = EntryPoint("rows", "ragstone.reading._row_traces:RowsFormat", "ragstone.formats")
    monkeypatch.setattr("ragstone.reading._formats.entry_points", lambda group: [broken, rows])
    assert ["rows"] == list(all_formats())
    assert "no_such_module:Format" in caplog.text


def test_a_folder_of_beir_has_questions_and_labels(tmp_path):
    """A folder with only one of them is something else."""
    source = InputFile(tmp_path, "folder")
    (tmp_path / "queries.jsonl").write_text("")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "notes.txt").write_text("")
    assert all_formats()["rows"].detect_file(source) is None
    (tmp_path / "qrels" / "test.tsv").write_text("")
    assert "BEIR's `queries.jsonl` and `qrels`" == all_formats()["rows"].detect_file(source)


def test_a_file_that_is_damaged_in_its_first_rows_cannot_be_read(tmp_path):
    """The error is that of its compression, not of an unknown format."""
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"query": "Why?", "response": "So."}\n' * 3)[:-10])
    with pytest.raises(DataError, match=r"'rows' cannot be read: Compressed file ended before"):
        detect(InputFile(path, "rows"))
