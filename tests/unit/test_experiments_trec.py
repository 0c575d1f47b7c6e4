"""Runs and qrels of TREC and BEIR: read with every rule said, written as other tools rank them, joined to samples."""

from __future__ import annotations

import json

import pytest

import ragstone
from command_line import run_command
from ragstone.errors import ConfigurationError, DataError
from ragstone.reading import (
    read_beir,
    read_qrels,
    read_samples,
    read_trec_run,
)
from ragstone.schema import NotApplicable

RUN = """\
q1 Q0 d3 1 9.5 bm25
q1 Q0 d1 2 7.25 bm25
q2 Q0 d1 1 3 bm25
q1 Q0 d2 3 7 bm25
"""
QRELS = "q1 0 d1 2\nq1 0 d9 1\nq2 0 d1 0\nq3 0 d4 1\n"


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "bm25.run"
    path.write_text(RUN)
    return path


@pytest.fixture
def qrels_file(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text(QRELS)
    return path


def written(tmp_path, text, name="file.run"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run_is_read_in_the_order_of_its_scores(run_file):
    """Queries may be interleaved; each one's passages come best first."""
    run = read_trec_run(run_file)
    assert {"q1": {"d3": 9.5, "d1": 7.25, "d2": 7.0}, "q2": {"d1": 3.0}} == run
    assert ["d3", "d1", "d2"] == list(run["q1"])


def test_scores_decide_then_ranks_then_lines(tmp_path):
    """The rank column breaks ties, and the file's order those of equal ranks; ids never do."""
    lines = [
        "q Q0 z 3 1.0 t",
        "q Q0 b 1 1.0 t",
        "q Q0 y 2 1.0 t",
        "q Q0 x 2 1.0 t",
        "q Q0 last 0 0.5 t",
        "q Q0 top 9 2 t",
        f"q Q0 far {10**30} 1.0 t",
    ]
    assert ["top", "b", "y", "x", "z", "far", "last"] == list(read_trec_run(written(tmp_path, "\n".join(lines)))["q"])


def test_tabs_blank_lines_a_byte_order_mark_and_no_tag(tmp_path):
    """What files in circulation have."""
    text = "\ufeffq1\tQ0\td1\t1\t-2.5e1\n\n  q1 Q0 dü 2 -30 my-run  \n"
    assert {"q1": {"d1": -25.0, "dü": -30.0}} == read_trec_run(written(tmp_path, text))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("q1 d1 7", "line 2 has 3 columns. Expected: query Q0 passage rank score tag"),
        ("q1 Q0 d1 1 nan bm25", "line 2 has the score 'nan', which is not a finite number"),
        ("q1 Q0 d1 1 inf bm25", "line 2 has the score 'inf'"),
        ("q1 Q0 d1 1 high bm25", "line 2 has the score 'high'"),
        ("q1 Q0 d1 first 1 bm25", "line 2 has the rank 'first', which is not an integer"),
        ("q0 Q0 d0 7 1.0 bm25", "line 2 has 'd0' for query 'q0' again, after line 1"),
    ],
)
def test_bad_lines_of_a_run(tmp_path, line, words):
    """The message has the line's number, what is there, and the rule."""
    path = written(tmp_path, f"q0 Q0 d0 1 1.0 bm25\n{line}\n")
    with pytest.raises(DataError) as caught:
        read_trec_run(path)
    assert words in str(caught.value)
    assert "1 lines of" in str(caught.value)


def test_only_the_first_bad_lines_are_shown(tmp_path):
    """A file of the wrong kind must not fill the screen."""
    with pytest.raises(DataError, match="and 95 more"):
        read_trec_run(written(tmp_path, "nonsense\n" * 100))


@pytest.mark.parametrize("read", [read_trec_run, read_qrels])
def test_files_that_are_not_there_or_no_text(tmp_path, read):
    """The path is named."""
    with pytest.raises(ConfigurationError, match="file not found"):
        read(tmp_path / "nowhere.txt")
    (tmp_path / "binary.txt").write_bytes(b"1 Q0 \xe4 1 1.0 t")
    with pytest.raises(DataError, match=r"line 1 of .* is not UTF-8: byte 0xe4"):
        read(tmp_path / "binary.txt")


def test_qrels_of_trec(qrels_file):
    """Query to passage to grade."""
    assert {"q1": {"d1": 2.0, "d9": 1.0}, "q2": {"d1": 0.0}, "q3": {"d4": 1.0}} == read_qrels(qrels_file)


@pytest.mark.parametrize("header", ["query-id\tcorpus-id\tscore\n", ""])
def test_qrels_of_beir(tmp_path, header):
    """With the line of names or without; ids may hold spaces."""
    path = written(tmp_path, f"{header}q 1\tdoc one\t1\nq 1\tdoc two\t0.5\n", "test.tsv")
    assert {"q 1": {"doc one": 1.0, "doc two": 0.5}} == read_qrels(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("q1 d1", "line 2 has 2 columns"),
        ("q1 0 d1 relevant", "line 2 has the grade 'relevant'"),
        ("q1 0 d1 score", "line 2 has the grade 'score'"),
        ("q1 0 d1 nan", "line 2 has the grade 'nan'"),
        ("q0 1 d0 1", "line 2 grades 'd0' for query 'q0' again, after line 1"),
        ("q1\t\t1", "line 2 has 3 columns"),
    ],
)
def test_bad_lines_of_qrels(tmp_path, line, words):
    """Sub-topics in the second column come out as repetitions, and the message says so."""
    with pytest.raises(DataError) as caught:
        read_qrels(written(tmp_path, f"q0 0 d0 1\n{line}\n"))
    assert words in str(caught.value)


def test_a_run_file_is_a_data_set(run_file):
    """A sample for each query; its passages have ids, scores and ranks, and no text."""
    samples, rejected = read_samples(run_file)
    assert ["q1", "q2"] == [sample.id for sample in samples]
    assert [] == rejected
    first = samples[0].contexts[0]
    assert ("d3", "", 9.5, 0) == (first.id, first.text, first.score, first.rank)
    assert samples[0].qrels is None


def test_bad_lines_of_a_run_can_be_left_out_and_are_counted(tmp_path):
    """As with every data set."""
    path = written(tmp_path, "q1 Q0 d1 1 1.0 t\nnonsense\n")
    with pytest.raises(DataError, match="line 2 has 1 columns"):
        read_samples(path)
    samples, rejected = read_samples(path, on_bad_row="skip")
    assert (1, 1) == (len(samples), len(rejected))


def test_qrels_are_joined_by_sample_id(run_file, qrels_file):
    """A judged query that the run lacks was asked and found nothing: it counts."""
    samples, _ = read_samples(run_file, qrels=qrels_file)
    assert ["q1", "q2", "q3"] == [sample.id for sample in samples]
    assert {"d1": 2.0, "d9": 1.0} == samples[0].qrels
    assert () == samples[2].contexts
    result = ragstone.evaluate(run_file, ["recall@5", "reciprocal_rank"], qrels=qrels_file, judge="lexical")
    recall = {o.sample_id: o for o in result.outcomes if o.metric == "recall@5"}
    assert (0.5, 0.0) == (recall["q1"].value, recall["q3"].value)
    assert isinstance(recall["q2"], NotApplicable)
    assert "baseline" not in str(result)


def test_qrels_join_rows_too(qrels_file):
    """What a row brings itself stays; a query that is not judged has none; nothing is made up for the others."""
    rows = [
        {"id": "q1", "query": "?", "contexts": [{"id": "d1", "text": "one"}]},
        {"id": "q2", "query": "?", "contexts": [], "qrels": {"d7": 1}},
        {"id": "q8", "query": "?", "contexts": []},
    ]
    samples, _ = read_samples(rows, qrels=str(qrels_file))
    assert [{"d1": 2.0, "d9": 1.0}, {"d7": 1.0}, None] == [sample.qrels for sample in samples]
    same, _ = read_samples(rows, qrels=read_qrels(qrels_file))
    assert same == samples


def test_qrels_that_fit_nothing_are_an_error(run_file, tmp_path):
    """Another data set's, or none at all."""
    with pytest.raises(DataError, match=r"no sample id matches a query id of the qrels.*'q1'.*'x1'"):
        read_samples(run_file, qrels={"x1": {"d": 1}})
    with pytest.raises(DataError, match="qrels are empty"):
        read_samples(run_file, qrels=written(tmp_path, "\n", "qrels.txt"))


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "scifact"
    (folder / "qrels").mkdir(parents=True)
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "Why?"}\n{"_id": "q9", "text": "Who?"}\n')
    corpus = [{"_id": "d1", "title": "One", "text": "First."}, {"_id": 2, "title": "", "text": "Second."}]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    return folder


def test_a_beir_data_set_is_read(beir):
    """The queries of the split; with a run, its passages with title and text, best first."""
    (bare,) = read_beir(beir)
    assert ("q1", "Why?", {"d1": 1.0}, None) == (bare.id, bare.query, bare.qrels, bare.contexts)
    (full,) = read_beir(beir, run={"q1": {"d1": 1.0, "2": 2.0}})
    assert [("2", "Second.", 2.0), ("d1", "One\nFirst.", 1.0)] == [(p.id, p.text, p.score) for p in full.contexts]
    (listed,) = read_beir(beir, run={"q1": ["d1"], "q9": ["nowhere"]})
    assert ["d1"] == [p.id for p in listed.contexts]
    (empty,) = read_beir(beir, run={})
    assert () == empty.contexts


def test_what_a_beir_data_set_lacks_is_named(beir):
    """A split, a query, a passage."""
    with pytest.raises(ConfigurationError, match=r"dev\.tsv"):
        read_beir(beir, split="dev")
    with pytest.raises(DataError, match="does not contain 1 of the 1 passages of the run, the first is 'd7'"):
        read_beir(beir, run={"q1": ["d7"]})
    (beir / "qrels/train.tsv").write_text("q7\td1\t1\n")
    with pytest.raises(DataError, match="does not contain 1 of the 1 queries of the qrels, the first is 'q7'"):
        read_beir(beir, split="train")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 3 of .* is not valid JSON"),
        ("[]", "line 3 of .* must be an object with an '_id'"),
        ('{"_id": "q1", "text": "again"}', "line 3 of .* repeats the id 'q1'"),
        ('{"_id": "q2"}', None),
    ],
)
def test_bad_lines_of_queries(beir, line, words):
    """The file and the line are named; what the split does not ask for need not be complete."""
    with (beir / "queries.jsonl").open("a") as file:
        file.write(line + "\n")
    if words is None:
        assert 1 == len(read_beir(beir))
    else:
        with pytest.raises(DataError, match=words):
            read_beir(beir)


def test_the_command_line_takes_qrels(run_file, qrels_file):
    """`ragstone evaluate FILE --qrels QRELS`."""
    result = run_command("evaluate", run_file, "--qrels", qrels_file, "--metrics", "recall@5,ndcg@3", "--json")
    assert 0 == result.returncode, result.stderr
    metrics = {line["metric"]: line for line in json.loads(result.stdout)["metrics"]}
    assert (0.25, 2, 1) == tuple(metrics["recall@5"][name] for name in ("mean", "n_scored", "n_not_applicable"))


def test_ranks_of_any_size_break_ties(tmp_path):
    """The number of a rank is not limited, and only its order counts."""
    path = tmp_path / "a.run"
    path.write_text(f"q Q0 last {10**30} 1 t\nq Q0 first -{10**30} 1 t\n")
    assert ["first", "last"] == list(read_trec_run(path)["q"])
