"""`ragstone demo --samples`: small files whose mistakes the other commands find."""

from __future__ import annotations

import json
import time

import pytest

from command_line import run_command
from ragstone import Score, evaluate, read_traces
from ragstone.demo import SAMPLE_FILES, sample_file
from ragstone.experiments import build_report
from ragstone.reading import read_samples


def rows(name):
    """The rows of a sample file in JSON lines."""
    return [json.loads(line) for line in sample_file(name).splitlines()]


@pytest.mark.parametrize("name", SAMPLE_FILES)
def test_prints_each_file(name):
    """With nothing else on standard output, so that it can be redirected."""
    done = run_command("demo", "--samples", name)
    assert (0, "") == (done.returncode, done.stderr)
    if name not in ("spans", "langfuse"):
        assert done.stdout == sample_file(name)


def test_an_unknown_file_is_named():
    """With those that exist."""
    done = run_command("demo", "--samples", "nope")
    assert done.returncode == 2
    assert "unknown sample file 'nope'" in done.stderr
    assert all(name in done.stderr for name in SAMPLE_FILES)


def test_files_have_the_same_questions():
    """So that they can be joined by id: both versions, questions and labels."""
    ids = [row["id"] for row in rows("answers")]
    assert len(set(ids)) == 29
    assert ids == [row["id"] for row in rows("old-answers")] == [row["id"] for row in rows("questions")]
    assert ids == [line.partition(",")[0] for line in sample_file("labels").splitlines()[1:]]


def test_the_answers_contain_the_mistakes_that_a_report_finds(tmp_path):
    """A missed passage, an answer that no passage supports, an abstention."""
    (tmp_path / "samples.jsonl").write_text(sample_file("answers"), encoding="utf-8")
    result = evaluate(tmp_path / "samples.jsonl", ["ccrs", "ranking"], judge="lexical")
    scores = {(o.sample_id, o.metric): o.value for o in result.outcomes if isinstance(o, Score)}
    causes = {found.cause: found.n for found in build_report(result).causes}
    assert {"missed_passage", "should_abstain", "wrong_passage"} <= causes.keys()
    assert scores["q06", "ccrs.cc"] < 0.8 < scores["q05", "ccrs.cc"]


def test_labels_can_be_read_beside_the_answers(tmp_path):
    """By the command that compares metrics with people."""
    for name, file in (("answers", "samples.jsonl"), ("labels", "labels.csv")):
        (tmp_path / file).write_text(sample_file(name), encoding="utf-8")
    samples, rejected = read_samples(tmp_path / "samples.jsonl")
    assert (29, 0) == (len(samples), len(rejected))
    outcomes = tmp_path / "outcomes.jsonl"
    scored = run_command(
        "evaluate", tmp_path / "samples.jsonl", "--metrics", "ccrs", "--judge", "lexical", "-o", outcomes
    )
    assert 0 == scored.returncode, scored.stderr
    done = run_command("lab", "validate-metrics", outcomes, "--labels", tmp_path / "labels.csv", "--json")
    assert {"ccrs.cc", "ccrs.qr"} == {agreement["metric"] for agreement in json.loads(done.stdout)["labels"]}


def test_an_export_of_langfuse_is_read_without_a_doubt(tmp_path):
    """One trace a request of the last week, with the answers and passages of `answers`, as the prompt had them."""
    path = tmp_path / "langfuse.jsonl"
    path.write_text(sample_file("langfuse"), encoding="utf-8")
    traces = list(read_traces(str(path)))
    expected = {row["query"]: row for row in rows("answers")}
    assert len(expected) == len(traces) == 29
    now = time.time()
    for trace in traces:
        row = expected[trace.query]
        assert row["response"] == trace.response
        assert [p["text"] for p in row["contexts"]] == [p.text for p in trace.prompt_contexts]
        assert [p["id"] for p in row["contexts"]] == [p.id for p in trace.prompt_contexts]
        assert trace.evidence is not None
        assert ("in_prompt", ()) == (trace.evidence.contexts, trace.evidence.doubts)
        assert 0 < (now - trace.started_at) / 86_400 < 7
        assert {"release": "2.0"} == trace.metadata


def test_spans_are_two_weeks_until_now(tmp_path):
    """One trace a request, 29 of each release, all within the last two weeks and none on the border of the weeks."""
    now = time.time()
    spans = [message["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for message in rows("spans")]
    ages = [(now - int(span["startTimeUnixNano"]) / 1e9) / 86_400 for span in spans]
    assert [29, 29] == [sum(7.1 < age < 13.9 for age in ages), sum(0.05 < age < 6.9 for age in ages)]
    assert len({span["traceId"] for span in spans}) == 58
    (tmp_path / "spans.jsonl").write_text(sample_file("spans"), encoding="utf-8")
    done = run_command(
        "replay", tmp_path / "spans.jsonl", "--metrics", "ccrs.cc", "--judge", "lexical", "--store", tmp_path / "s.db"
    )
    assert "58 new traces" in done.stderr
    assert "rejected" not in done.stderr
