"""Rows of data sets, objects of the frameworks and our own traces become traces that keep their ids."""

from __future__ import annotations

import json
import os

import pytest

from ragstone.errors import DataError
from ragstone.reading import InputFile, ReadingReport, check_repeats, detect, read_samples
from ragstone.reading._formats import all_formats
from ragstone.schema import SCHEMA_VERSION, Passage, Retrieval, Sample, Trace

FORMATS = all_formats()
Q, C, A, R = "Why?", "Because it is.", "It is.", "It just is."
ROW = {"query": Q, "contexts": [C], "response": A, "reference": R}


def lines(*values: object) -> bytes:
    """JSON lines."""
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def content(trace: Trace | Sample):
    """What metrics see."""
    return trace.query, [p.text for p in trace.contexts or ()], trace.response, trace.reference


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(lines(ROW), id="lines"),
        pytest.param(json.dumps([ROW], indent=1).encode(), id="list"),
        pytest.param(json.dumps({"results": [ROW], "metrics": {}}).encode(), id="ragchecker results"),
        pytest.param(
            lines({"input": Q, "retrievalContext": [C], "actualOutput": A, "expectedOutput": R}),
            id="deepeval, camel case",
        ),
        pytest.param(
            lines(
                {
                    "inputs": {"question": Q},
                    "outputs": {"answer": A},
                    "context": [C],
                    "reference_outputs": {"answer": R},
                }
            ),
            id="openevals",
        ),
        pytest.param(lines({"input": Q, "output": A, "context": C, "expected": R}), id="phoenix, autoevals"),
        pytest.param(lines({"question": Q, "contexts": [C], "answer": A, "ground_truth": R}), id="ragas, old names"),
        pytest.param(f'question,contexts,answer,ground_truth\n{Q},"[""{C}""]",{A},{R}\n'.encode(), id="table"),
        pytest.param(
            f"\ufeffquestion,contexts,answer,ground_truth\r\n{Q},{C},{A},{R}\r\n".encode(), id="table of Excel"
        ),
    ],
)
def test_rows_are_read_whatever_they_are_called_and_kept_in(read, file):
    """The names in circulation, in any of the files that hold them."""
    (trace,), rejected = read(FORMATS["rows"], file)

    assert [] == rejected
    assert (Q, [C], A, (R,)) == content(trace)


@pytest.mark.parametrize("is_parquet", [False, True])
def test_rows_of_a_layout_without_common_names_are_detected_and_read(read, tmp_path, is_parquet):
    """ShareGPT's rows have neither a question nor an answer of their own, only a list of messages."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    talk = [{"from": "human", "value": Q}, {"from": "gpt", "value": A}]
    row = {"id": "g0", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho."}, *talk]}
    path = tmp_path / "talks"
    if is_parquet:
        pq.write_table(pa.Table.from_pylist([row]), path)
    else:
        path.write_text(json.dumps([row], indent=1))
    found = detect(InputFile(path, "talks"))
    ((trace,), rejected) = read(found.format, path)

    assert (True, []) == (found.detected_by.endswith("with `query` and `response`"), rejected)
    assert ("g0", Q, A, ["Hi", "Ho."]) == (
        trace.trace_id, trace.query, trace.response, [turn.text for turn in trace.history]
    )  # fmt: skip


def test_rows_in_parquet_are_read(read, tmp_path):
    """A Hugging Face data set is a table of rows; its columns are found at the end of the file."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [{"user_input": f"{Q}{n}" + "x" * 300, "retrieved_contexts": [C], "response": A} for n in range(3000)]
    path = tmp_path / "data.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, compression="none", use_dictionary=False)
    found = detect(InputFile(path, "data"))
    traces, rejected = read(found.format, path)

    assert path.stat().st_size > 2**19
    assert "rows" == found.format.name
    assert [row["user_input"] for row in rows] == [trace.query for trace in traces]
    assert [] == rejected


def test_an_id_is_kept_and_a_missing_one_is_made_of_place_and_contents(read):
    """The same row of the same file has the same id each time; rows of two data sets do not collide."""
    first, _ = read(FORMATS["rows"], lines({"id": 7} | ROW, ROW, ROW, {"question_id": "q"} | ROW))
    again, _ = read(FORMATS["rows"], lines({"id": 7} | ROW, ROW, ROW, {"question_id": "q"} | ROW))
    other, _ = read(FORMATS["rows"], lines(ROW, ROW | {"response": "No."}))
    ids = [trace.trace_id for trace in first]

    assert ids == [trace.trace_id for trace in again]
    assert ["7", "q"] == [ids[0], ids[3]]
    assert 4 == len(set(ids))
    assert not {trace.trace_id for trace in other} & set(ids)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([{"question": Q, "contexts": [C], "output": None, "answer": R}] * 2, id="no response"),
        pytest.param(
            [{"question": Q, "contexts": [C], "output": given, "answer": R} for given in (None, A)],
            id="no response in the first row",
        ),
        pytest.param([{"query": Q, "retrieved_contexts": None, "context": [C], "response": A}], id="ideal passages"),
        pytest.param(
            [
                {"query": Q, "contexts": [C], "response": given, "model_answer": "No.", "answer": R}
                for given in (A, None)
            ],
            id="another model",
        ),
    ],
)
def test_a_column_without_values_decides_what_others_mean_as_in_evaluate(read, tmp_path, rows):
    """The correct answer, ideal passages and the answer of another model do not replace what is missing."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(lines(*rows))
    traces, rejected = read(FORMATS["rows"], path)
    samples, _ = read_samples(path)

    assert [] == rejected
    assert [content(sample) for sample in samples] == [content(trace) for trace in traces]
    assert all(None not in trace.metadata.values() for trace in traces)


def test_the_sampling_probability_of_a_row_is_that_of_its_trace(read):
    """A row with one that `evaluate` refuses is rejected with the same sentence."""
    rows = [{"id": n, "inclusion_probability": p} | ROW for n, p in enumerate([0.1, "0.5", 1, 0, 2, True, "x", None])]
    traces, rejected = read(FORMATS["rows"], lines(*rows))
    without, others = read(FORMATS["rows"], lines(rows[7], rows[0]))

    assert [0.1, 0.5, 1.0] == [trace.inclusion_probability for trace in traces]
    assert [f"row {n}" for n in range(4, 9)] == [each.place for each in rejected]
    for shown, each in zip(["0", "2", "True", "'x'"], rejected, strict=False):
        assert each.reason.startswith(f"inclusion_probability is {shown}. It must be a number above 0 and at most 1")
    missing = "inclusion_probability is missing, although other rows have it"
    assert rejected[-1].reason.startswith(missing)
    assert [1.0] == [trace.inclusion_probability for trace in without]
    assert [("row 2", True)] == [(each.place, each.reason.startswith(f"row 1: {missing}")) for each in others]


def test_labels_and_sampling_probabilities_are_not_unused_columns():
    """Intervals and means use them."""
    report = ReadingReport()
    read_samples([{"session_id": "s", "inclusion_probability": 0.5, "other": 1} | ROW], report=report)

    assert ["other"] == [*report.unused]


def test_a_row_is_dated_by_itself_else_by_its_file(read, tmp_path):
    """A time in the row counts, in any unit. A row without one, or with a duration or a date as a number, has the time of its file."""
    path = tmp_path / "rows.jsonl"
    times = [
        "2026-01-02T03:04:05",
        "2026-01-02T04:04:05+01:00",
        1767323045,
        1767323045000,
        1767323045 * 10**9,
        None,
        "soon",
        1.5,
        0,
        20261105,
        202611051230,
        20261105123000,
        float("nan"),
    ]
    path.write_bytes(lines(*({"id": n, "created_at": time} | ROW for n, time in enumerate(times))))
    os.utime(path, (1000.0, 1000.0))
    traces, _ = read(FORMATS["rows"], path)

    assert [1767323045.0] * 5 + [1000.0] * 8 == [trace.started_at for trace in traces]


def test_a_bad_row_is_told_and_the_rest_goes_on(read):
    """No object, no known name, two names that disagree, a passage without text: one rejection each."""
    bad = [3, {"a": 1}, {"query": Q, "question": "How?"}, {"query": Q, "contexts": [{"title": "x"}]}]
    traces, rejected = read(FORMATS["rows"], lines(ROW, *bad, ROW))

    assert 2 == len(traces)
    assert [f"row {n}" for n in (2, 3, 4, 5)] == [r.place for r in rejected]
    for reason, said in zip(
        ["an object", "not have a field with a known name", "differ", "passage 1"], rejected, strict=True
    ):
        assert reason in said.reason


def test_a_row_of_a_table_with_too_many_cells_is_told(read):
    """Half an answer would be scored as if it were all of it."""
    traces, rejected = read(FORMATS["rows"], b"question,answer\nWhy?,So, then\nHow?,Thus\n")

    assert ["How?"] == [t.query for t in traces]
    assert [("row 1", "the row that ends in line 2 has more cells than the header")] == [
        (r.place, r.reason) for r in rejected
    ]


def test_two_columns_with_one_name_are_an_error(read):
    """Which one holds the answer is unknown."""
    with pytest.raises(DataError, match="'export' has 2 columns with the name 'answer'"):
        read(FORMATS["rows"], b"question,answer,answer\nHow?,Thus,So\n")


@pytest.mark.parametrize("separator", [b";", b"\t"])
def test_a_table_with_the_separator_of_a_spreadsheet_is_detected_and_read(read, tmp_path, separator):
    """Commas in its cells are text."""
    path = tmp_path / "t.csv"
    path.write_bytes(
        b"question,answer\nWhy, though?,So\n".replace(b",", separator).replace(b"Why" + separator, b"Why,")
    )
    assert "rows" == detect(InputFile(path, "data")).format.name
    traces, rejected = read(FORMATS["rows"], path)

    assert ([("Why, though?", "So")], []) == ([(t.query, t.response) for t in traces], rejected)


def test_a_run_is_read_line_by_line(read, tmp_path):
    """Best first by score, whatever the ranks say; a bad line is told; without a question and without texts."""
    traces, rejected = read(
        FORMATS["rows"], b"q1 Q0 d1 1 0.5 x\nq1 Q0 d2 2 0.75 x\nq2 Q0 d3 1 high x\nq2 Q0 d4 1 1 x\n"
    )

    assert [("q1", ["d2", "d1"]), ("q2", ["d4"])] == [(t.trace_id, [p.id for p in t.contexts]) for t in traces]
    assert ["line 3 has the score 'high', which is not a finite number"] == [r.reason for r in rejected]
    assert {None} == {t.query for t in traces}


@pytest.mark.parametrize("line", ["q1 0 d1 1\n", "q1\tQ0\td 1\t2\r\n".replace("d 1", "d1")])
def test_qrels_are_not_rows(tmp_path, line):
    """They are named, with the option that takes them next to a run, also if they are in the directory of a run."""
    (tmp_path / "bm25.run").write_text("q1 Q0 d1 1 0.5 x\n")
    (tmp_path / "qrels.txt").write_text(line)
    with pytest.raises(
        DataError, match=r"is qrels, which are relevance labels\. Give them next to a run or samples: --qrels"
    ):
        detect(InputFile(tmp_path, "folder"))


@pytest.mark.parametrize("has_run", [False, True])
def test_a_beir_folder_is_one_data_set(read, tmp_path, has_run):
    """Queries with their qrels, and passages where a run says which."""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    (tmp_path / "queries.jsonl").write_bytes(lines({"_id": "q1", "text": Q}))
    (tmp_path / "corpus.jsonl").write_bytes(lines({"_id": "d1", "title": "", "text": C}))
    if has_run:
        (tmp_path / "bm25.run").write_text("q1 Q0 d1 1 0.5 x\n")
    source = InputFile(tmp_path, "folder")
    found = detect(source)
    (trace,), _ = read(found.format, tmp_path)
    check_repeats(source)

    assert ("rows", []) == (found.format.name, source.notes)
    assert ("q1", Q, {"d1": 1.0}) == (trace.trace_id, trace.query, trace.qrels)
    assert ([C] if has_run else None) == (trace.contexts and [p.text for p in trace.contexts])


def test_our_own_traces_come_back_as_they_were(read):
    """Written by `model_dump_json`, also beside what became of them, and keeping their source."""
    trace = Trace(
        trace_id="t", source="langchain", query=Q, response=A, started_at=1.5, ended_at=2.5, tags=("x",), metadata={"a": 1},
        retrievals=(Retrieval(query=Q, passages=(Passage(text=C, id="d", score=0.5),)),),
    )  # fmt: skip
    beside = {"entry": "captured", "trace": trace.model_dump(mode="json")}
    traces, rejected = read(FORMATS["ragstone"], trace.model_dump_json().encode() + b"\n" + lines(beside))

    assert [trace, trace] == traces
    assert [] == rejected


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ([], "a trace must be an object"),
        ({"id": "t", "left_out": 3}, "its texts are cut. Print the trace with --full"),
        ({"trace_id": "t", "state": "scored"}, "the texts of the request 't' are not in the store"),
        ({"trace_id": "t", "started_at": "soon"}, "field started_at"),
        (
            {"trace_id": "t", "started_at": 1, "schema_version": SCHEMA_VERSION + 1},
            "the trace has format version 2, and this version of Ragstone reads version 1",
        ),
        ({"trace_id": "t", "started_at": 1, "schema_version": "x"}, "the trace has format version 'x'"),
    ],
)
def test_a_bad_trace_of_ours_is_told_and_the_rest_goes_on(read, bad, reason):
    """Also one that another version wrote."""
    traces, rejected = read(FORMATS["ragstone"], lines([bad], {"trace_id": "ok", "started_at": 1}))

    assert ["ok"] == [trace.trace_id for trace in traces]
    assert reason in rejected[0].reason


def test_an_object_that_is_no_request_is_told(read):
    """Documents alone, or a message alone, ask nothing."""
    document = {"lc": 1, "type": "constructor", "id": ["Document"], "kwargs": {"page_content": C}}
    traces, rejected = read(
        FORMATS["objects"], lines(document, 3, {"question": Q, "context": [document], "generation": A})
    )

    assert [(Q, [C], A, ())] == [content(trace) for trace in traces]
    assert ["line 1", "line 2"] == [r.place for r in rejected]
    assert "neither a question nor an answer with documents" in rejected[0].reason


def test_a_long_reason_is_cut(read):
    """It has a value of the file, which can have any length."""
    row = {"messages": [{"role": "x" * 9000, "content": "Why?"}]}
    _, (rejected,) = read(all_formats()["rows"], json.dumps(row).encode())

    assert "row 1" == rejected.place
    assert rejected.reason.startswith("message 1 of messages has the role 'xxx")
    assert (501, "x…") == (len(rejected.reason), rejected.reason[-2:])


def test_the_content_of_a_message_is_not_the_answer_of_its_request(read):
    """What a chain gave back may have it next to the question."""
    _, (rejected,) = read(FORMATS["objects"], lines({"lc": 1, "kwargs": {"content": "So.", "type": "ai"}}))
    (trace,), _ = read(FORMATS["objects"], lines({"source_nodes": [], "query": "Why?", "content": "So."}))

    assert "not a request: it has neither a question nor an answer with documents" == rejected.reason
    assert ("Why?", None) == (trace.query, trace.response)
