"""`ragstone store prune`, `[retention]`, and reports of a store whose old texts were removed."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sqlite3
import time

import pytest

from command_line import run_command
from live_store import METRICS, add_requests, make_store, make_trace
from ragstone import Monitor
from ragstone._util.quantities import parse_age
from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.experiments import build_report, draw_to_label
from ragstone.schema import Captured, SampledOut
from ragstone.settings import Retention
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.testing import FakeJudge
from ragstone.worker import ScoringSetup, Worker
from ragstone.worker._intake import StepErrors
from ragstone.worker._retention import RetentionStep

DAY_S = 86_400.0


def age(n: int) -> str:
    """The age from which exactly the first `n` requests of a store are old."""
    return f"{(time.time() - make_trace(n).started_at + 30) / 60:.3f}m"


@pytest.fixture
def store(tmp_path):
    """Twenty scored requests and a pending one."""
    path = make_store(tmp_path / "a.db", 20)
    with SqliteStore.open(path, mode="own") as opened:
        add_requests(opened, 20, 1, scored=False)
    return path


def prune(store, *arguments):
    return run_command("store", "prune", store, *arguments)


def test_prune(store):
    """Counted first, removed once, and what stays is told with its reason."""
    assert "12 texts would be removed" in prune(store, "--bodies-older-than", age(12), "--dry-run").stdout
    done = prune(store, "--bodies-older-than", age(12))
    assert (0, True) == (done.returncode, "12 texts removed" in done.stdout)
    assert "--shrink gives it back to the disk" in done.stdout
    again = json.loads(prune(store, "--bodies-older-than", age(21), "--json").stdout)
    assert {"removed": 8, "removable": 0, "pending": 1, "undelivered": 0, "labeled": 0} == again
    assert "1 kept: not scored yet" in prune(store, "--bodies-older-than", age(21)).stdout


def test_a_search_for_old_texts_reads_no_other_requests(store):
    """Requests without a text are nearly all of an old store, and are neither read nor sorted."""
    statements = []
    with SqliteStore.open(store, mode="own") as opened:
        connection = opened._database._connection
        connection.set_trace_callback(statements.append)
        opened.upkeep.count_texts(before=time.time())
        opened.upkeep.remove_texts(before=time.time())
        connection.set_trace_callback(None)
        searches = [text for text in statements if "t.text_removed_at IS NULL" in text]
        plans = [" ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")) for text in searches]
    assert 2 == len(plans)
    for plan in plans:
        assert "traces_with_text" in plan
        assert "TEMP B-TREE" not in plan


def test_removed_texts_are_not_in_the_file(store):
    """Not in free pages either; --shrink makes the file smaller."""
    before = store.stat().st_size
    with SqliteStore.open(store, mode="own") as opened:
        add_requests(opened, 21, 300)
        opened.checkpoint()
        grown = store.stat().st_size
    db = sqlite3.connect(store)
    (body,) = db.execute("SELECT body FROM trace_bodies WHERE seq = 8").fetchone()
    db.close()
    assert body[-100:] in store.read_bytes()
    prune(store, "--bodies-older-than", age(320))
    assert body[-100:] not in store.read_bytes()
    assert grown <= store.stat().st_size
    with SqliteStore.open(store, mode="own") as opened:
        add_requests(opened, 321, 1)
    assert "2 texts removed" in prune(store, "--bodies-older-than", age(322), "--shrink").stdout
    assert before < store.stat().st_size < 0.95 * grown


def test_refusals(store, tmp_path):
    """Each message names the value and the way out, and nothing is created or removed."""
    for text in ("30", "0d", "-1d", "soon", "1w"):
        refused = prune(store, "--bodies-older-than", text)
        assert (2, True) == (refused.returncode, "must be a positive age such as 30d" in refused.stderr)
    assert 2 == prune(store, "--bodies-older-than", "1d", "--dry-run", "--shrink").returncode
    assert "not found" in prune(tmp_path / "none.db", "--bodies-older-than", "1d").stderr
    assert not (tmp_path / "none.db").exists()
    with SqliteStore.open(store, mode="own") as owner:
        refused = prune(store, "--bodies-older-than", "1d")
        assert 3 == refused.returncode
        assert "set bodies_older_than or requests_older_than in the table [retention]" in " ".join(
            refused.stderr.split()
        )
        assert "20 texts would be removed" in prune(store, "--bodies-older-than", "1d", "--dry-run").stdout
        assert 21 == len(list(owner.traces.read()))


def test_an_error_in_the_middle_removes_nothing(store):
    """The bodies, the outcomes and the marks change together."""
    with SqliteStore.open(store, mode="own") as opened:
        before = list(opened.traces.read()), list(opened.outcomes.read())
    db = sqlite3.connect(store)
    db.execute(
        "CREATE TRIGGER t BEFORE UPDATE OF text_removed_at ON traces WHEN NEW.seq = 5 BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    db.close()
    with SqliteStore.open(store, mode="own") as opened:
        with pytest.raises(StoreError):
            opened.upkeep.remove_texts(before=time.time())
        assert before == (list(opened.traces.read()), list(opened.outcomes.read()))
        assert 20 == opened.upkeep.count_texts(before=time.time()).removable


def test_a_report_has_the_same_numbers(store):
    """Means, counts, the trend and the unsupported claims stay; the report says how many texts were removed."""
    before = build_report(store).to_dict()
    prune(store, "--bodies-older-than", age(12))
    after = build_report(store).to_dict()
    for key in ("metrics", "trend", "n_samples", "n_unscored"):
        assert before[key] == after[key]
    assert "texts of 12 requests were removed by retention" in str(after["notices"])
    shown = run_command("traces", store, "t0").stdout
    assert re.search(r"Its text was removed by retention on \d{4}-\d\d-\d\d\.", shown)
    assert (0, 0) == (run_command("traces", store).returncode, run_command("report", store).returncode)


def test_only_requests_with_a_text_are_drawn_for_labels(store):
    """A person cannot judge an answer that is gone; the text of a drawn request is kept."""
    prune(store, "--bodies-older-than", age(12))
    assert 8 == draw_to_label(store, 20, seed=1).n_scored
    assert "8 kept: labeled, drawn to be labeled, or a canary" in prune(store, "--bodies-older-than", age(20)).stdout
    prune(store, "--bodies-older-than", age(20))
    bare = make_store(store.with_name("b.db"), 4)
    prune(bare, "--bodies-older-than", "1d")
    with pytest.raises(DataError, match="does not contain"):
        draw_to_label(bare, 2)


def test_a_worker_removes_old_texts(tmp_path):
    """All of them before it is idle, also if there are more than it removes in one turn."""
    path = make_store(tmp_path / "a.db", 120)
    cutoff = make_trace(115).started_at - 30
    for retention, left in ((None, 120), ("1d", 5)):
        setup = ScoringSetup("ccrs.qr", judge=FakeJudge())
        worker = Worker(path, setup, retention=Retention(bodies_older_than=retention), clock=lambda: cutoff + DAY_S)
        asyncio.run(asyncio.wait_for(worker.run(until_idle=True), 60))
        with SqliteStore.open(path, mode="read") as opened:
            assert left == len(list(opened.traces.read()))


def test_a_worker_removes_old_requests(tmp_path):
    """All of them before it is idle, also if there are more than it removes in one turn, with their scores."""
    path = make_store(tmp_path / "a.db", 120)
    cutoff = make_trace(115).started_at - 30
    setup = ScoringSetup("ccrs.qr", judge=FakeJudge())
    worker = Worker(path, setup, retention=Retention(requests_older_than="1d"), clock=lambda: cutoff + DAY_S)
    asyncio.run(asyncio.wait_for(worker.run(until_idle=True), 60))
    with SqliteStore.open(path, mode="read") as opened:
        assert [f"t{k}" for k in range(115, 120)] == [trace.trace_id for trace in opened.traces.read()]
        assert 5 == len({outcome.sample_id for outcome in opened.outcomes.read()})
        assert (120, 115, True) == (
            opened.ledger().total.captured,
            opened.ledger().total.dropped,
            opened.ledger().total.balanced,
        )


def test_a_worker_forgets_what_was_sampled_out(tmp_path):
    """All ids of more than a day before it is idle, also if there are more than it removes in one turn."""
    path, now = tmp_path / "a.db", make_trace(0).started_at
    with SqliteStore.open(path, mode="own", clock=lambda: now) as opened:
        out = [SampledOut(trace_id=f"o{k}", started_at=now, inclusion_probability=0.5) for k in range(4_500)]
        opened.traces.ingest("test", 1, [*out, Captured(trace=make_trace(0))])
    for ages, days, left in (
        (Retention(), 0.9, 4_500),
        (Retention(sampled_out_older_than="10d"), 9.0, 4_500),
        (None, 1.1, 0),
    ):
        setup = ScoringSetup("ccrs.qr", judge=FakeJudge())
        worker = Worker(path, setup, retention=ages, clock=lambda days=days: now + days * DAY_S)
        asyncio.run(asyncio.wait_for(worker.run(until_idle=True), 60))
        with SqliteStore.open(path, mode="read") as opened:
            assert left == sum(opened.traces.explain(each.trace_id) is not None for each in out)
            assert (4_500, 1, True) == (
                opened.ledger().total.sampled_out,
                opened.ledger().total.scored,
                opened.ledger().total.balanced,
            )


def test_a_worker_that_has_just_started_does_not_forget_while_requests_arrive(tmp_path, monkeypatch):
    """A broker may deliver again what a worker has stored before it was killed. After ten minutes nothing of it is left."""
    now = make_trace(0).started_at
    with SqliteStore.open(tmp_path / "a.db", mode="own", clock=lambda: now) as opened:
        opened.traces.ingest("test", 1, [SampledOut(trace_id="o", started_at=now, inclusion_probability=0.5)])
        retention = RetentionStep(Retention(), errors=StepErrors(), clock=lambda: now + 2 * DAY_S)
        retention.update(opened, is_idle=False)
        assert opened.traces.explain("o") is not None
        started = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: started + 601)
        retention.update(opened, is_idle=False)
        assert opened.traces.explain("o") is None


def test_the_command_removes_old_requests(store):
    """It counts before it removes, and removes texts and requests of different ages at once."""
    for _ in range(2):
        done = prune(store, "--requests-older-than", age(12), "--dry-run")
        assert "12 requests would be removed with their scores" in done.stdout
    done = prune(store, "--requests-older-than", age(12), "--bodies-older-than", age(15), "--json")
    assert {"requests": 12, "removed": 3} == {key: json.loads(done.stdout)[key] for key in ("requests", "removed")}
    assert "0 requests removed with their scores" in prune(store, "--requests-older-than", age(12)).stdout
    with SqliteStore.open(store, mode="read") as opened:
        assert [f"t{k}" for k in range(15, 21)] == [trace.trace_id for trace in opened.traces.read()]
        assert [] == list(opened.upkeep.recount())
    last = prune(store, "--requests-older-than", age(21))
    assert "8 requests removed with their scores\n1 kept: not scored yet\n" in last.stdout
    kept = {"requests": 0, "requests_kept": {"pending": 1, "undelivered": 0, "canaries": 0}, "labels": 0}
    assert kept == json.loads(prune(store, "--requests-older-than", age(21), "--json").stdout)
    refused = prune(store)
    assert (2, True) == (refused.returncode, "--bodies-older-than, --requests-older-than or both" in refused.stderr)


def test_table_of_the_configuration(tmp_path):
    """`[retention]` is for workers and monitors; its mistakes are named."""
    file = tmp_path / "c.toml"
    file.write_text('[retention]\nbodies_older_than = "30d"\nrequests_older_than = "400d"\n')
    assert 0 == run_command("--config", file, "metrics").returncode
    with Monitor.from_config(file, store=tmp_path / "a.db") as monitor:
        assert Retention(bodies_older_than="30d", requests_older_than="400d") == monitor._worker_options["retention"]
    assert (30 * DAY_S, DAY_S) == tuple(
        map(monitor._worker_options["retention"].seconds, ("bodies_older_than", "sampled_out_older_than"))
    )
    for table, message in (
        (
            "[retention]\nbodies = 1",
            "'retention.bodies' is not a setting. Keys of [retention]: bodies_older_than",
        ),
        ("[retention]\nbodies_older_than = 30", "must be a positive age such as 30d, 12h or 90m, got 30"),
    ):
        file.write_text(table)
        done = run_command("--config", file, "metrics")
        assert (2, True) == (done.returncode, message in " ".join(done.stderr.split()))
    with pytest.raises(ConfigurationError, match=r"Monitor\(retention=...\)"):
        Monitor(store=tmp_path / "a.db", retention={"x": 1})


def test_ages():
    """Days, hours and minutes."""
    assert [2_592_000.0, 43_200.0, 90.0] == [parse_age(text, name="x") for text in ("30d", "12h", "1.5m")]


def test_a_store_that_is_pruned_stops_growing(tmp_path):
    """Days of traffic with a retention of two days: what a day adds is the numbers, and no text."""
    sizes = []
    with SqliteStore.open(tmp_path / "a.db", mode="own") as opened:
        opened.plan.set([PlannedMetric(name=name, version="1", judge_hash="h") for name in METRICS], [])
        for day in range(12):
            for k in range(40 * day, 40 * day + 40):
                trace = make_trace(k).model_copy(update={"response": random.Random(k).randbytes(12_000).hex()})
                opened.traces.ingest("test", k + 1, [Captured(trace=trace)])
                add_requests(opened, k, 1)  # the trace is known, so this adds its scores
            opened.upkeep.remove_texts(before=make_trace(40 * (day - 1)).started_at)
            opened.checkpoint()
            sizes.append((tmp_path / "a.db").stat().st_size)
    first, rest = sizes[1] - sizes[0], (sizes[-1] - sizes[2]) / 9
    assert rest < 0.15 * first


def test_a_store_whose_requests_expire_keeps_its_size(tmp_path):
    """Days of traffic with five metrics and two sinks, of which three are kept: the file is as large as after some days."""
    sizes, clock = [], [make_trace(0).started_at]
    with SqliteStore.open(tmp_path / "a.db", mode="own", clock=lambda: clock[0]) as opened:
        opened.plan.set([PlannedMetric(name=name, version="1", judge_hash="h") for name in METRICS], ["one", "two"])
        for day in range(20):
            for k in range(30 * day, 30 * day + 30):
                opened.traces.ingest("test", k + 1, [Captured(trace=make_trace(k))])
                add_requests(opened, k, 1)  # the trace is known, so this adds its scores
            for sink in ("one", "two"):
                opened.deliveries.mark(sink, [due.id for due in opened.deliveries.due(sink, limit=999)], "sent")
            while opened.upkeep.remove_requests(before=make_trace(30 * (day - 2)).started_at):
                pass
            opened.checkpoint()
            sizes.append((tmp_path / "a.db").stat().st_size)
    assert sizes[-1] <= 1.1 * sizes[6]
    assert sizes[1] > 1.2 * sizes[0]
