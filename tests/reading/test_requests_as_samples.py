"""Traces, stores and other files of Ragstone, given to the reader of samples."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ragstone
from ragstone.cli._app import app
from ragstone.errors import ConfigurationError, DataError
from ragstone.reading import ReadingReport, iter_samples, read_samples
from ragstone.replay import plan_replay
from ragstone.schema import Captured, Evidence, Passage, Trace, Turn
from ragstone.store import open_store

NOW = time.time()


def command(*words: object) -> str:
    """What a command that succeeds prints."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert (0, None) == (done.exit_code, done.exception), done.output
    return done.stdout


def trace(number: int, **fields) -> Trace:
    """A captured request about the lighthouse."""
    given = {
        "trace_id": f"t{number}",
        "source": "request",
        "started_at": NOW,
        "query": f"How high is tower {number}?",
        "contexts": (Passage(text=f"Tower {number} is 41 metres high.", id=f"d{number}", rank=0),),
        "response": "41 metres.",
        "session_id": "s-1",
    }
    return Trace(**given | fields)


@pytest.fixture
def store(tmp_path):
    """A store with three requests, two of them sampled, of which each has two scores."""
    path = tmp_path / "app.db"
    traces = [trace(1), trace(2, inclusion_probability=0.5), trace(3, inclusion_probability=0.5)]
    with open_store(path, mode="own") as opened:
        opened.traces.ingest("segment", 1, [Captured(trace=one) for one in traces])
    command("worker", path, "--metrics", "ccrs.cc,ccrs.ac,ccrs.qr", "--judge", "lexical", "--until-idle")
    return path


def read(data, **options):
    """The samples of a dataset, and the report of their reader."""
    report = ReadingReport()
    return list(iter_samples(data, [], report=report, **options)), report


def test_a_store_is_evaluated_by_its_requests(store):
    """The ids are trace ids, and the probability of a sampled request weights its scores."""
    samples, report = read(str(store))

    assert [("t1", 1.0), ("t2", 0.5), ("t3", 0.5)] == [(s.id, s.metadata["inclusion_probability"]) for s in samples]
    assert ("How high is tower 1?", "41 metres.", "s-1") == (
        samples[0].query,
        samples[0].response,
        samples[0].metadata["session_id"],
    )
    assert "a store: one sample for each captured request" == report.format
    assert 3 == ragstone.evaluate(store, ["ccrs.cc"], judge="lexical").summary()[0].n_scored


def test_requests_without_texts_are_counted(store):
    """A request whose text was removed from the store is not scored as an empty one."""
    with open_store(store, mode="own") as opened:
        opened.upkeep.remove_texts(before=time.time() + 1, limit=10)
    samples, report = read(str(store))

    assert ([], 3) == (samples, report.notes["left out, because their texts were removed from the store: requests"])


def test_each_request_of_an_export_with_texts_is_one_sample(store, tmp_path):
    """An export has a row for each outcome, and several outcomes are of one request."""
    export = tmp_path / "export.jsonl"
    command("store", "export", store, export, "--texts")
    samples, report = read(export)

    assert ["t1", "t2", "t3"] == [sample.id for sample in samples]
    assert ["Tower 1 is 41 metres high."] == [passage.text for passage in samples[0].contexts]
    assert 0.5 == samples[1].metadata["inclusion_probability"]
    assert report.format.startswith("traces of ragstone (outcomes with the texts of their requests")
    assert 3 == plan_replay([str(export)], "text").n_traces


def test_an_export_keeps_doubts_history_and_references(store, tmp_path):
    """Contexts in doubt are not scored from the file either."""
    known = {
        "evidence": Evidence(contexts="found", doubts=("not_in_prompt",)),
        "history": (Turn(role="user", text="Hello."),),
        "reference": ("41 m",),
        "tags": ("topic:towers",),
        "metadata": {"k": 1},
        "ended_at": NOW + 1,
        "model": "m",
    }
    with open_store(store, mode="own") as opened:
        opened.traces.ingest("segment", 2, [Captured(trace=trace(4, **known))])
    command("worker", store, "--metrics", "ccrs.cc,ccrs.ac,ccrs.qr", "--judge", "lexical", "--until-idle")
    command("store", "export", store, tmp_path / "export.jsonl", "--texts")
    (found,) = [one for one in ragstone.read_traces(tmp_path / "export.jsonl") if one.trace_id == "t4"]

    assert known == {name: getattr(found, name) for name in known}
    for data in (store, tmp_path / "export.jsonl"):
        (summary,) = ragstone.evaluate(data, ["ccrs.cc"], judge="lexical").summary()
        assert (3, 1) == (summary.n_scored, summary.n_not_applicable)


def test_requests_that_failed_are_left_out_as_in_a_store(store, tmp_path):
    """A partial answer is not scored, of a store, of its export and of traces. An application answers its question."""
    error = "ValueError: no model"
    failed = [trace(4, status="error", error=error), trace(5, inner_errors=(error,)), trace(6, status="truncated")]
    with open_store(store, mode="own") as opened:
        opened.traces.ingest("segment", 2, [Captured(trace=one) for one in failed])
    command("worker", store, "--metrics", "ccrs.cc,ccrs.ac,ccrs.qr", "--judge", "lexical", "--until-idle")
    command("store", "export", store, tmp_path / "export.jsonl", "--texts")
    traces = list(ragstone.read_traces(tmp_path / "export.jsonl"))
    (tmp_path / "traces.jsonl").write_text("".join(f"{one.model_dump_json()}\n" for one in traces))

    assert [(one.status, one.error, one.inner_errors) for one in failed] == [
        (one.status, one.error, one.inner_errors) for one in traces[3:]
    ]
    assert (6, 3) == ((plan := plan_replay([str(tmp_path / "export.jsonl")], "ccrs.cc")).n_traces, plan.n_scorable)
    for data in (str(store), tmp_path / "export.jsonl", tmp_path / "traces.jsonl", traces):
        samples, report = read(data)
        assert (["t1", "t2", "t3"], 3) == ([sample.id for sample in samples], report.n_rows)
        assert {"something failed inside the request": 1, "the request ended as 'error'": 1} == {
            text.rpartition(": ")[2]: n
            for text, n in report.notes.items()
            if "not scored" in text and "trunc" not in text
        }
        assert 6 == len(read(data, with_app=True)[0])


def test_an_export_without_a_status(store, tmp_path):
    """An earlier version wrote it. Its requests are read."""
    file = tmp_path / "export.jsonl"
    command("store", "export", store, file, "--texts")
    rows = map(json.loads, file.read_text().splitlines())
    kept = [{k: v for k, v in row.items() if k not in ("status", "error", "inner_errors")} for row in rows]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in kept))
    assert ["t1", "t2", "t3"] == [sample.id for sample in read(file)[0]]


@pytest.mark.parametrize(
    "door", [read_samples, lambda path: list(ragstone.read_traces(str(path)))], ids=["samples", "traces"]
)
@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (
            ["store", "export", "STORE", "FILE"],
            "an export of outcomes without the texts of its requests.* ragstone report",
        ),
        (
            ["evaluate", "STORE", "--metrics", "ccrs.cc", "--judge", "lexical", "-o", "FILE"],
            "a file of outcomes.*ragstone compare",
        ),
    ],
    ids=["export", "outcomes"],
)
def test_files_without_samples_are_refused_with_the_command_that_reads_them(store, tmp_path, words, kind, door):
    """Their rows are outcomes, which no door takes for questions and answers."""
    file = tmp_path / "file.jsonl"
    command(*({"STORE": store, "FILE": file}.get(word, word) for word in words))

    with pytest.raises(DataError, match=kind):
        door(file)


@pytest.mark.parametrize("words", [["evaluate", "--metrics", "ccrs.cc", "--judge", "lexical"], ["compare"]])
def test_results_as_json_are_refused(store, tmp_path, words):
    """The output of `--json` holds neither samples nor outcomes."""
    outcomes = tmp_path / "outcomes.jsonl"
    command("evaluate", store, "--metrics", "ccrs.cc", "--judge", "lexical", "-o", outcomes)
    sources = [outcomes, outcomes] if words[0] == "compare" else [store]
    file = tmp_path / "result.json"
    file.write_text(command(words[0], *sources, *words[1:], "--json"))

    with pytest.raises(DataError, match=rf"{words[0]} --json.*holds neither samples nor outcomes"):
        read_samples(file)


def test_printed_answers_are_refused_and_a_printed_request_is_a_sample(store, tmp_path):
    """`traces --json` prints the worst answers, without their weights and doubts, and `traces STORE ID --json` a trace."""
    file = tmp_path / "answers.json"
    file.write_text(command("traces", store, "--json", "--full"))
    for door in (read_samples, lambda path: list(ragstone.read_traces(str(path)))):
        with pytest.raises(DataError, match=r"the worst answers.* ragstone store export --texts STORE FILE"):
            door(file)
    file.write_text(command("traces", store, "t2", "--json", "--full"))
    (sample,) = read(file)[0]

    assert ("t2", "How high is tower 2?", "41 metres.", 1) == (
        sample.id, sample.query, sample.response, len(sample.contexts),
    )  # fmt: skip


def test_exported_requests_without_texts_are_no_traces(tmp_path):
    """The store has removed their texts, and each is reported."""
    source = Path(__file__).parent / "files" / "ragstone-export-texts.jsonl"
    row = json.loads(source.read_text().splitlines()[0])
    file = tmp_path / "export.jsonl"
    file.write_text(json.dumps(row | {"query": None, "response": None, "contexts": None}))
    rejected = []
    assert [] == [*ragstone.read_traces(file, on_rejected=rejected.append)]
    assert ["the texts of the request were removed from the store"] == [record.reason for record in rejected]


def test_the_folder_of_a_legacy_export_of_langfuse(tmp_path):
    """It has traces and observations in two files, which are read together."""
    observations = Path(__file__).parent / "files" / "langfuse-observations.jsonl"
    (tmp_path / "observations.jsonl").write_bytes(observations.read_bytes())
    about = {
        "id": "t-1",
        "timestamp": "2026-03-02T08:00:00Z",
        "input": "The bakery?",
        "output": None,
        "bookmarked": False,
    }
    (tmp_path / "traces.jsonl").write_text(json.dumps(about | {"userId": "ann"}))
    traces = {trace.trace_id: trace for trace in ragstone.read_traces(tmp_path)}

    assert (3, "The bakery?", "ann") == (len(traces), traces["t-1"].query, traces["t-1"].user_id)


def test_traces_as_objects_are_samples():
    """A list of traces, and the iterator of `read_traces`."""
    samples, _ = read(iter([trace(1), trace(2)]))

    assert [("t1", "How high is tower 1?"), ("t2", "How high is tower 2?")] == [(s.id, s.query) for s in samples]


def test_a_request_that_a_file_holds_twice_is_one_sample(tmp_path):
    """Pages of an API overlap. Another request under the same id is an error."""
    file = tmp_path / "traces.jsonl"
    lines = [trace(1), trace(2), trace(1)]
    file.write_text("\n".join(one.model_dump_json() for one in lines))
    samples, report = read(file)

    assert (["t1", "t2"], 1) == (
        [s.id for s in samples],
        report.notes["a request that the file holds several times, read once"],
    )
    with file.open("a") as more:
        more.write("\n" + trace(2, response="42 metres.").model_dump_json())
    with pytest.raises(DataError, match=r"'t2'.*Ids must be unique"):
        read(file)


def test_records_of_a_trace_file_that_are_no_requests_are_counted_and_bad_ones_are_errors(tmp_path):
    """A bare embedding is left out with its reason. A line that cannot be read stops the run, or is skipped."""
    chain = {"openinference.span.kind": "CHAIN", "input.value": "How high?", "output.value": "41 metres."}
    spans = [
        {
            "traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "s",
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }
        for number, attributes in enumerate([chain, {"openinference.span.kind": "EMBEDDING"}], start=1)
    ]  # fmt: skip
    file = tmp_path / "spans.jsonl"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}) + "\nnot JSON\n")
    samples, report = read(file, on_bad_row="skip")

    assert [("How high?", "41 metres.")] == [(s.query, s.response) for s in samples]
    assert (1, 1) == (report.notes["left out: not a request: only embeddings"], report.n_rejected)
    with pytest.raises(DataError, match=r"1 of 2 rows cannot be read:\s+line 2: not valid JSON"):
        read_samples(file)


def test_rows_with_names_of_traces_stay_rows(tmp_path):
    """A row that has a trace id as one of its columns is not a trace."""
    rows = [{"trace_id": "a", "question": "How high?", "answer": "41 metres.", "contexts": ["Tower."], "tags": ["x"]}]
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(rows))
    samples, report = read(file)

    assert ("How high?", "a") == (samples[0].query, samples[0].metadata["trace_id"])
    assert "traces" not in report.format


def test_an_exported_request_keeps_its_weight(tmp_path):
    """A request of a sample stands for several."""
    source = Path(__file__).parent / "files" / "ragstone-export-texts.jsonl"
    row = json.loads(source.read_text().splitlines()[0])
    file = tmp_path / "export.jsonl"
    file.write_text(json.dumps(row | {"inclusion_probability": 0.25, "session_id": "s"}))
    (sample,) = read(file)[0]

    assert (0.25, "s") == (sample.metadata["inclusion_probability"], sample.metadata["session_id"])
    (trace_of_row,) = ragstone.read_traces(file)
    assert (row["requested_at"], row["operation"]) == (trace_of_row.started_at, trace_of_row.name)


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ({"fields": {"response": "mine"}}, "--field"),
        ({"separator": "|"}, "--separator"),
        ({"encoding": "cp1252"}, "--encoding"),
    ],
)
def test_options_of_a_file_of_rows_are_refused_for_folders_and_traces(store, tmp_path, option, name):
    """They would be ignored, and another column would be the response."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.jsonl").write_text(json.dumps({"question": "Why?", "mine": "No.", "answer": "So."}) + "\n")
    for data in (folder, store):
        with pytest.raises(
            ConfigurationError, match=f"{name}: only a file of rows.* Evaluate each file of rows by itself"
        ):
            read_samples(data, **option)


def test_rows_of_a_folder_are_checked_for_repeats(tmp_path):
    """A file with one passage in each row is refused with the command that joins them, as it is by itself."""
    rows = [{"query": f"Why {n // 2}?", "context": f"Part {n}.", "answer": "So."} for n in range(8)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for data in (tmp_path, tmp_path / "a.jsonl"):
        with pytest.raises(DataError, match="each row has one passage"):
            read_samples(data)
