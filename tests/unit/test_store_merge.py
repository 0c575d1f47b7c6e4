"""`merge_outcomes`: each outcome once, nothing if there is a conflict, and counters that are right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import run_command
from ragstone.errors import DataError, StoreOwnedError
from ragstone.replay import merge_outcomes, replay_traces
from ragstone.schema import Captured, Failure, NotApplicable, Score, Trace
from ragstone.sinks import record_row
from ragstone.store import PlannedMetric, Store, open_store

METRICS = ["ccrs.qr", "token_f1", "rouge_l"]


def write_rows(path: Path, n: int, *, first: int = 0) -> str:
    """Rows of n requests, of which every second one has a reference."""
    rows = [
        {
            "id": f"t{i}",
            "query": f"How far is station {i}?",
            "response": f"It is {i} km away.",
            "contexts": [f"{i} km."],
        }
        | ({"reference": f"{i} km"} if i % 2 else {})
        for i in range(first, first + n)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 450 scored requests."""
    folder = tmp_path_factory.mktemp("scored")
    store = folder / "s.db"
    replay_traces([write_rows(folder / "rows.jsonl", 450)], METRICS, store=store, judge="lexical")
    return store


def export(store: Path, output: Path) -> str:
    """Write all records of a store, each request with the first of its outcomes, as a batch job does."""
    rows, last = [], None
    with open_store(store, mode="read") as opened:
        for row in opened.exported(include_text=True):
            rows.append(record_row(row.delivery.outcome, None if row.delivery.trace_id == last else row.trace))
            last = row.delivery.trace_id
    if output.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), output)
        return str(output)
    return write(output, rows)


def contents(store: Store) -> tuple[object, ...]:
    """Everything that a merge transfers."""
    return (
        {trace.trace_id: trace for trace in store.traces()},
        {outcome.id: outcome for outcome in store.outcomes()},
        store.ledger().total,
        store.ledger().metrics,
        {metric.name: metric for metric in store.planned_metrics()},
    )


def check(path: Path) -> None:
    """The counters and all checksums of a store are right."""
    with open_store(path, mode="read") as store:
        assert store.recount(correct=False) == []
        assert store.verify().ok


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_an_export_and_a_merge_are_a_round_trip(scored, tmp_path, suffix):
    """Requests, outcomes of all kinds, plan and counters are equal, and a second merge adds nothing."""
    file = export(scored, tmp_path / f"records.{suffix}")
    new = tmp_path / "new.db"
    report = merge_outcomes(new, [file])

    assert (report.n_rows, report.n_traces, report.n_outcomes, report.n_pending) == (1350, 450, 1350, 0)
    with open_store(scored, mode="read") as before, open_store(new, mode="read") as after:
        assert contents(before) == contents(after)
        assert {type(outcome) for outcome in after.outcomes()} == {Score, NotApplicable}
    check(new)
    again = merge_outcomes(new, [file])
    assert (again.n_traces, again.n_outcomes, again.n_known) == (0, 0, 1350)
    check(new)


def test_shards_are_merged_into_one_store(scored, tmp_path):
    """Stores of several parts, in any order, with one of them twice."""
    rows = write_rows(tmp_path / "rows.jsonl", 450)
    files = []
    for number in (1, 2, 3):
        part = tmp_path / f"{number}.db"
        replay_traces([rows], METRICS, store=part, judge="lexical", shard=f"{number}/3")
        files.append(export(part, tmp_path / f"{number}.jsonl"))
    report = merge_outcomes(tmp_path / "all.db", [files[2], files[0], files[1], files[0]])

    assert (report.n_traces, report.n_outcomes) == (450, 1350)
    with open_store(scored, mode="read") as whole, open_store(tmp_path / "all.db", mode="read") as merged:
        assert whole.ledger().total == merged.ledger().total
        assert {o.id: o.outcome for o in whole.outcomes()} == {o.id: o.outcome for o in merged.outcomes()}
    check(tmp_path / "all.db")


def rows_of(path: str) -> list[dict[str, object]]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def write(path: Path, rows: list[dict[str, object]]) -> str:
    """Write rows as JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def score(
    value: float = 0.5, *, trace_id: str = "t1", metric: str = "m", judge_hash: str = "j", at: float = 1.0
) -> Score:
    return Score(sample_id=trace_id, metric=metric, metric_version="1", judge_hash=judge_hash, value=value, method="exact",
                 created_at=at)  # fmt: skip


def trace(trace_id: str = "t1", response: str = "r") -> Trace:
    return Trace(trace_id=trace_id, started_at=1.0, query="q", response=response)


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (record_row(score(0.6), trace()), "is 0.6, and 0.5 in the store"),
        (record_row(score(0.5), trace(response="another")), "with another query or response"),
        (
            record_row(Failure(sample_id="t1", metric="m", metric_version="1", judge_hash="j", kind="timeout", reason="x"),
                       trace()),
            "is failure, and 0.5 in the store",
        ),
    ],
    ids=["value", "request", "kind"],
)  # fmt: skip
def test_a_conflict_is_refused_before_anything_is_stored(tmp_path, other, problem):
    """With what differs and the way out, and with it the store keeps what it has."""
    store = tmp_path / "s.db"
    merge_outcomes(store, [write(tmp_path / "a.jsonl", [record_row(score(), trace())])])
    file = write(tmp_path / "b.jsonl", [record_row(score(trace_id="t2"), trace("t2")), other])
    with open_store(store, mode="read") as opened:
        before = contents(opened)
    with pytest.raises(DataError, match="1 conflicts, so nothing was merged") as refused:
        merge_outcomes(store, [file])

    assert problem in str(refused.value)
    assert "keep_stored=True" in str(refused.value)
    with open_store(store, mode="read") as opened:
        assert contents(opened) == before
    report = merge_outcomes(store, [file], keep_stored=True)
    assert (report.n_traces, report.n_outcomes, report.n_conflicts) == (1, 1, 1)
    with open_store(store, mode="read") as opened:
        assert opened.answers(["t1"])["t1"].outcomes[0].value == 0.5
        assert opened.trace("t1").response == "r"
    check(store)


def test_a_conflict_between_two_files_is_refused(tmp_path):
    """Also without a store, which is then not created."""
    files = [
        write(tmp_path / f"{value}.jsonl", [record_row(score(value), trace())]) for value in (0.5, 0.6)
    ]  # fmt: skip
    with pytest.raises(DataError, match="another result in these files"):
        merge_outcomes(tmp_path / "s.db", files)

    assert not (tmp_path / "s.db").exists()
    assert merge_outcomes(tmp_path / "s.db", files, keep_stored=True).n_outcomes == 1
    with open_store(tmp_path / "s.db", mode="read") as opened:
        assert [outcome.value for outcome in opened.outcomes()] == [0.5]


def test_a_request_may_come_after_its_outcome(tmp_path):
    """The order of files and rows does not matter."""
    rows = [
        record_row(score(trace_id=f"t{i}", metric=m), trace(f"t{i}") if m == "b" else None)
        for i in range(500)
        for m in "ab"
    ]
    last = [row for row in rows if row["trace_json"] is None] + [row for row in rows if row["trace_json"] is not None]
    report = merge_outcomes(tmp_path / "s.db", [write(tmp_path / "a.jsonl", last)])

    assert (report.n_traces, report.n_outcomes, report.n_pending) == (500, 1000, 0)
    check(tmp_path / "s.db")


def test_a_request_that_is_nowhere_is_refused(tmp_path):
    """An outcome needs its request, in these files or in the store."""
    file = write(tmp_path / "a.jsonl", [record_row(score(), None)])
    with pytest.raises(DataError, match="neither the files nor the store have the request 't1'"):
        merge_outcomes(tmp_path / "s.db", [file])
    assert not (tmp_path / "s.db").exists()
    with open_store(tmp_path / "s.db", mode="own") as store:
        store.set_plan([PlannedMetric(name="m", version="1", judge_hash="j")], [])
        store.ingest("a", 1, [Captured(trace=trace())])

    assert merge_outcomes(tmp_path / "s.db", [file]).n_outcomes == 1
    with open_store(tmp_path / "s.db", mode="read") as store:
        assert store.ledger().total.scored == 1
    check(tmp_path / "s.db")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda row: row | {"outcome_json": "{}"}, "line 2 is damaged: its record is wrong at"),
        (lambda row: row | {"outcome_json": 5}, "line 2 is damaged"),
        (lambda row: row | {"trace_json": '{"trace_id":'}, "line 2 is damaged: its record is wrong at"),
        (lambda row: row | {"trace_json": trace("other").model_dump_json()}, "the trace is 'other'"),
        (lambda row: row | {"outcome_id": "x"}, "outcome_id is not the id of its outcome"),
        (lambda row: {"query": "q", "value": 1}, "does not have the columns outcome_json and trace_json"),
        (lambda row: [1], "does not have the columns|line 2"),
    ],
)
def test_a_damaged_row_is_refused_before_anything_is_stored(tmp_path, change, problem):
    """With its place."""
    rows = [record_row(score(trace_id=f"t{i}"), trace(f"t{i}")) for i in range(3)]
    rows[1] = change(rows[1])
    with pytest.raises(DataError, match=problem):
        merge_outcomes(tmp_path / "s.db", [write(tmp_path / "a.jsonl", rows)])

    assert not (tmp_path / "s.db").exists()


def test_a_file_that_was_cut_is_refused(scored, tmp_path):
    """In both formats."""
    for suffix in ("jsonl", "parquet"):
        file = Path(export(scored, tmp_path / f"records.{suffix}"))
        file.write_bytes(file.read_bytes()[:-100])
        with pytest.raises(DataError):
            merge_outcomes(tmp_path / "s.db", [str(file)])
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DataError, match="do not contain an outcome"):
        merge_outcomes(tmp_path / "s.db", [str(tmp_path / "empty.jsonl")])
    assert not (tmp_path / "s.db").exists()


def test_a_store_in_use_is_refused(scored, tmp_path):
    """Its worker writes it."""
    file = export(scored, tmp_path / "records.jsonl")
    with open_store(tmp_path / "s.db", mode="own"), pytest.raises(StoreOwnedError):
        merge_outcomes(tmp_path / "s.db", [file])


def test_a_killed_merge_is_resumed(scored, tmp_path):
    """After `kill -9` at several places, the same command adds the rest, each outcome once."""
    file = export(scored, tmp_path / "records.jsonl")
    store = tmp_path / "s.db"
    code = f"""
import os, signal
from ragstone.replay import merge_outcomes
from ragstone.store._merge import SqlMerge
merge, left = SqlMerge.merge, int(os.environ["LEFT"])
def counted(self, requests):
    global left
    done = merge(self, requests)
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
SqlMerge.merge = counted
merge_outcomes({str(store)!r}, [{file!r}])
"""
    for left in (1, 2):  # the second run repeats the first batch
        done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"LEFT": str(left)}, check=False)
        assert done.returncode == -signal.SIGKILL
        check(store)
    report = merge_outcomes(store, [file])

    assert report.n_outcomes == 1350 - 2 * 500
    with open_store(scored, mode="read") as before, open_store(store, mode="read") as after:
        assert contents(before) == contents(after)
    check(store)


def test_merged_outcomes_are_no_evidence_for_an_alarm(tmp_path):
    """They are old, like backfilled ones."""
    merge_outcomes(tmp_path / "s.db", [write(tmp_path / "a.jsonl", [record_row(score(at=time.time()), trace())])])
    with open_store(tmp_path / "s.db", mode="read") as store:
        assert store.explain("t1").backfilled == ("m",)


def test_erased_requests_are_skipped_and_counted(scored, tmp_path):
    """A file still has them. An option adds them, once more with all of their outcomes."""
    file = export(scored, tmp_path / "records.jsonl")
    new = tmp_path / "new.db"
    merge_outcomes(new, [file])
    done = run_command("store", "erase", new, "--trace", "t1", "--trace", "t2")
    assert done.returncode == 0, done.stderr

    assert merge_outcomes(new, [file]).n_erased == 2
    with open_store(new, mode="read") as store:
        assert not {"t1", "t2"} & {trace.trace_id for trace in store.traces()}
    check(new)

    report = merge_outcomes(new, [file], restore_erased=True)
    assert (report.n_traces, report.n_outcomes, report.n_erased) == (2, 6, 0)
    with open_store(scored, mode="read") as before, open_store(new, mode="read") as after:
        assert contents(before)[:2] == contents(after)[:2]
    check(new)
    assert merge_outcomes(new, [file]).n_erased == 0
