"""`ragstone store erase`: all that identifies a user is gone, and the books still add up."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from command_line import run_command
from completions import complete
from live_store import METRICS, make_trace
from ragstone import Monitor
from ragstone._util.files import create_partial
from ragstone.judges import ReplyCache
from ragstone.requests import TraceDraft
from ragstone.schema import Captured, Feedback, Score
from ragstone.spool import SpoolWriter
from ragstone.store import DrawnRequest, PlannedMetric, SqliteStore, StoredLabel
from ragstone.worker import id_hasher, spool_directory

TEXT = "words-that-only-ada-wrote"
OTEL_ID = "0af7651916cd43dd8448eb211c80319c"


def request(k: int, user: str, **fields):
    text = f"{TEXT} {k}" if user == "ada-l" else "nothing special"
    return make_trace(k).model_copy(
        update={"user_id": user, "session_id": f"session-of-{user}", "query": text, "response": text} | fields
    )


def scores(trace) -> list[Score]:
    return [
        Score(
            sample_id=trace.trace_id, metric=metric, metric_version="1", value=0.5, method="exact", judge_hash="h",
            explanation=trace.query,
        )
        for metric in METRICS
    ]  # fmt: skip


def write_store(path: Path) -> Path:
    """Six requests of two users, with all that a store can have about them."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name=name, version="1", judge_hash="h") for name in METRICS], ["jsonl", "otlp"])
        traces = [request(k, "ada-l" if k % 2 else "bob") for k in range(6)]
        for k, trace in enumerate(traces):
            store.traces.ingest("test", k + 1, [Captured(trace=trace)])
            if k < 4:
                complete(store, trace.trace_id, scores(trace))
        waiting = request(7, "ada-l", inclusion_probability=0.1)
        said = [
            Feedback(request_id=id_, value=0.0, comment=comment, given_at=1.0)
            for id_, comment in (("t1", TEXT), ("never-came", "?"))
        ]
        store.traces.ingest("test", 10, [Captured(trace=waiting), *said])
        store.labels.save([StoredLabel("t1", "ann", 1.0, 7.0), StoredLabel("t2", "ann", 1.0, 7.0)])
        store.labels.save([DrawnRequest("t1", 0.5, 0), DrawnRequest("t2", 0.5, 1)])
        store.deliveries.mark("jsonl", [item.outcome.id for item in store.deliveries.due("jsonl", limit=11)], "sent")
        store.deliveries.mark(
            "otlp", [item.outcome.id for item in store.deliveries.due("otlp", limit=4)], "failed", error="refused"
        )
        store.checkpoint()
    return path


def erase(path: Path, *arguments: object) -> dict:
    done = run_command("store", "erase", path, *arguments, "--json")
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


def everything_in(path: Path) -> bytes:
    """All bytes of a store and of what lies beside it, with its bodies decompressed."""
    with SqliteStore.open(path, mode="own") as store:
        store.checkpoint()
        texts = "".join(repr(record) for record in [*store.traces.read(), *store.outcomes.read(), *store.labels.read()])
    db = sqlite3.connect(path)
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = "".join(repr(db.execute(f"SELECT * FROM {table}").fetchall()) for table in tables)  # noqa: S608
    db.close()
    files = b"".join(each.read_bytes() for each in path.parent.rglob("*") if each.is_file())
    return texts.encode() + rows.encode() + files


def test_a_user_is_erased(tmp_path):
    """Requests, outcomes, labels, feedback and deliveries are gone, the other user is untouched, and the ledger adds up."""
    path = write_store(tmp_path / "a.db")
    with SqliteStore.open(path, mode="read") as opened:
        before = opened.ledger()
        bob = [trace for trace in opened.traces.read() if trace.user_id == "bob"]
    planned = erase(path, "--user", "ada-l", "--dry-run")
    assert (False, 4, 6, 1, 1) == (
        planned["erased"], *(planned["stored"][name] for name in ("requests", "outcomes", "labels", "feedback")),
    )  # fmt: skip
    assert {"jsonl": 5, "otlp": 0} == {"otlp": 0} | planned["stored"]["sent"]
    assert TEXT.encode() in everything_in(path)
    assert planned["stored"] == erase(path, "--user", "ada-l")["stored"]
    left = everything_in(path)
    for word in (b"ada-l", b"session-of-ada-l", b"'t1'", b"'t3'", b"'t7'"):
        assert word not in left, word
    assert b"session-of-bob" in left
    with SqliteStore.open(path, mode="read") as opened:
        after = opened.ledger()
        assert bob == list(opened.traces.read())
        assert opened.upkeep.verify().ok
        assert (before.total.captured, True) == (after.total.captured, after.total.balanced)
        assert {"erased": 4} == after.dropped_by_reason
        assert {"scored": 2, "pending": 2} == after.erased
        assert all(row.balanced and row.dropped == 4 for row in after.metrics.values())
        assert ["t2"] == [label.trace_id for label in opened.labels.read()]
        # A counter of deliveries that a monitoring system reads must not fall.
        states = [("jsonl", "sent"), ("otlp", "failed")]
        assert [5, 1] == [after.erased_deliveries[sink][state] for sink, state in states]
        for sink, state in states:
            stored, left = (getattr(ledger.outbox[sink], state) for ledger in (before, after))
            assert stored == left + after.erased_deliveries[sink][state]
    assert 0 == erase(path, "--user", "ada-l")["stored"]["requests"]


def test_by_session_and_by_request(tmp_path):
    """Also feedback about a request that never came."""
    path = write_store(tmp_path / "a.db")
    assert 1 == erase(path, "--trace", "t1", "--trace", "never-came")["stored"]["requests"]
    with SqliteStore.open(path, mode="read") as opened:
        assert (0, None) == (
            opened.ledger().feedback.waiting + opened.ledger().feedback.unknown,
            opened.traces.explain("t1"),
        )
    assert 3 == erase(path, "--session", "session-of-ada-l")["stored"]["requests"]
    assert TEXT.encode() not in everything_in(path)


def test_hashed_ids_are_found_by_the_id_itself(tmp_path):
    """With the key beside the store, and nothing creates a key."""
    path = tmp_path / "a.db"
    with Monitor(judge="lexical", metrics=["ccrs.qr"], store=path, ids="hash") as monitor:
        monitor.record(TraceDraft(query="Who?", response="Me.", user_id="ada-l", session_id="s1"))
        monitor.record(TraceDraft(query="Who?", response="Me.", user_id="bob", session_id="s2"))
    hashed = id_hasher(path, "hash")("user", "ada-l")
    found = erase(path, "--user", "ada-l", "--dry-run")
    assert 1 == found["waiting"] + found["stored"]["requests"]
    assert 1 == erase(path, "--user", "ada-l")["stored"]["requests"]
    assert hashed.encode() not in everything_in(path)
    plain = write_store(tmp_path / "b.db")
    erase(plain, "--user", "ada-l")
    assert not (tmp_path / "b.db.key").exists()


def test_the_spool_is_searched(tmp_path):
    """What waits is stored first. A file that a process still writes to is named."""
    path = write_store(tmp_path / "a.db")
    writer = SpoolWriter(spool_directory(path))
    with closing(writer):
        entries = [Captured(trace=request(20, "ada-l")), Captured(trace=request(21, "bob", otel_trace_id=OTEL_ID))]
        writer.append([entry.model_dump_json().encode() for entry in entries])
        assert 1 == erase(path, "--user", "ada-l", "--dry-run")["waiting"]
        assert 1 == erase(path, "--trace", OTEL_ID, "--dry-run")["waiting"]
        found = erase(path, "--user", "ada-l")
        assert (5, 1) == (found["stored"]["requests"], found["live_segments"])
    assert 0 == erase(path, "--user", "ada-l")["live_segments"]
    assert TEXT.encode() not in everything_in(path)


def test_newer_replies_leave_the_cache(tmp_path):
    """All since the first of the requests arrived, because a cache does not know users."""
    path = write_store(tmp_path / "a.db")
    for key, at in (("old", 1.0), ("new", 4e9)):
        ReplyCache(tmp_path / "cache", clock=lambda at=at: at).write([(key, "m", {"text": f"{key} {TEXT}"})])
    assert 1 == erase(path, "--user", "ada-l", "--cache", tmp_path / "cache")["replies"]
    cache = ReplyCache(tmp_path / "cache")
    assert (None, True) == (cache.read("new"), cache.read("old") is not None)
    assert f"new {TEXT}".encode() not in cache.path.read_bytes()


def test_units_and_alarms_forget(tmp_path):
    """The value of a closed session stays in its stream, without the session and the request."""
    path = write_store(tmp_path / "a.db")
    db = sqlite3.connect(path)
    db.execute(
        "INSERT INTO streams (id, app, metric, metric_version, judge_hash, kind) VALUES (1, '', 'm', '1', '', 'score')"
    )
    unit = (
        "INSERT INTO watch_units (stream, session, closed_at, value, weight, failed_weight, p_min, worst_trace) VALUES"
    )
    for user, trace in (("ada-l", "t1"), ("bob", "t2")):
        db.execute(f"{unit} (1, 'session-of-{user}', 1, 0.25, 1, 0, 1, '{trace}')")
    db.execute("INSERT INTO alarms VALUES (1, 'open', ?)", (json.dumps({"traces": ["t1", "t2"], "number": 1}),))
    lines = [f'0badc0de ["label", "{trace}", "ann", 1.0, 7.0]' for trace in ("t1", "t2")]
    db.executemany("INSERT INTO damaged_labels (found_at, line) VALUES (1, ?)", [(line,) for line in lines])
    db.commit()
    db.close()
    erase(path, "--user", "ada-l")
    db = sqlite3.connect(path)
    (ada, bob) = db.execute("SELECT session, worst_trace, value FROM watch_units ORDER BY seq").fetchall()
    assert ("erased-", "", 0.25) == (ada[0][:7], *ada[1:])
    assert ("session-of-bob", "t2", 0.25) == bob
    assert {"traces": ["t2"], "number": 1} == json.loads(db.execute("SELECT body FROM alarms").fetchone()[0])
    assert [(lines[1],)] == db.execute("SELECT line FROM damaged_labels").fetchall()
    db.close()


@pytest.mark.parametrize(
    "write",
    [
        (
            "from ragstone.store import backup_store, _backup\n"
            "_backup.closing = lambda db: die()\nbackup_store(sys.argv[2], sys.argv[1])"
        ),
        "from ragstone.sinks import write_export\nwrite_export(pathlib.Path(sys.argv[1] + '.jsonl'), ({'a': die()} for _ in 'a'))",
        "from ragstone._util.files import open_output\nwith open_output(sys.argv[1]) as file:\n    file.write('text')\n    file.flush()\n    die()",
    ],
    ids=["backup", "export", "output"],
)
def test_files_of_killed_commands_are_removed(tmp_path, write):
    """A backup, an export and a table whose process was killed; a file that a process still writes stays."""
    path = write_store(tmp_path / "a.db")
    code = f"import os, pathlib, signal, sys\ndef die():\n    os.kill(os.getpid(), signal.SIGKILL)\n{write}"
    killed = subprocess.run([sys.executable, "-c", code, tmp_path / "out", path], check=False)
    assert -signal.SIGKILL == killed.returncode
    (left,) = tmp_path.glob(".*")
    written, descriptor = create_partial(tmp_path / "other")
    try:
        assert 1 == erase(path, "--user", "ada-l", "--dry-run")["partial_files"]
        assert left.exists()
        assert 1 == erase(path, "--user", "ada-l")["partial_files"]
        assert [written] == list(tmp_path.glob(".*"))
    finally:
        os.close(descriptor)


def test_refusals(tmp_path):
    """Nothing is erased without a name, in a store that does not exist, or beside its owner."""
    path = write_store(tmp_path / "a.db")
    done = run_command("store", "erase", path)
    assert (2, True) == (done.returncode, "--user, --session or --trace" in done.stderr)
    done = run_command("store", "erase", tmp_path / "none.db", "--user", "ada-l")
    assert (2, False) == (done.returncode, (tmp_path / "none.db").exists())
    with SqliteStore.open(path, mode="own"):
        done = run_command("store", "erase", path, "--user", "ada-l")
        assert (3, True) == (done.returncode, "is owned by this process" in " ".join(done.stderr.split()))
        assert 4 == erase(path, "--user", "ada-l", "--dry-run")["stored"]["requests"]


def test_what_is_said(tmp_path):
    """What sinks have, and where copies stay."""
    path = write_store(tmp_path / "a.db")
    said = run_command("store", "erase", path, "--user", "ada-l").stdout
    assert "4 requests (6 outcomes, 1 label, 1 feedback) erased." in said
    assert "jsonl: 5 outcomes" in said
    assert "Backups" in said
    assert os.environ.get("RAGSTONE_CACHE") is None
    assert "dropped, erased: 4" in run_command("status", path).stdout
