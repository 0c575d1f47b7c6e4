"""`ragstone store export`: what the file contains, who reads it, and that it is complete or not there."""

from __future__ import annotations

import json
import stat
import tracemalloc
from datetime import UTC, datetime

import pytest

from command_line import run_command
from completions import complete
from ragstone.errors import StoreCorruptError
from ragstone.experiments import read_outcomes
from ragstone.schema import Captured, Failure, Passage, Score, Trace
from ragstone.sinks import export_row, write_export
from ragstone.store import PlannedMetric, open_store
from watched_store import fill

T0 = 1_790_000_000.0


@pytest.fixture
def store(tmp_path):
    """A store with a request that quotes secrets in every text, one that was sampled, and one whose text was removed."""
    path = tmp_path / "a.db"
    with open_store(path, mode="own", clock=lambda: T0) as opened:
        opened.plan.set([PlannedMetric(name=name, version="1") for name in "ab"], [])
        for i in range(3):
            trace = Trace(
                trace_id=f"t{i}", started_at=T0 + 86400 * i, query="SECRET q", response="SECRET r", app="bot", release="7",
                session_id=f"s{i}", tags=("topic:billing",), inclusion_probability=0.25 if i else 1.0,
                contexts=(Passage(text="SECRET p"),),
            )  # fmt: skip
            opened.traces.ingest("x", i + 1, [Captured(trace=trace)])
            about = {"sample_id": f"t{i}", "metric_version": "1"}
            score = Score(
                metric="a", value=0.5, method="exact", explanation="SECRET e", details={"x": "SECRET d"}, **about
            )
            complete(opened, f"t{i}", [score, Failure(metric="b", kind="bug", reason="SECRET said", **about)])
        assert 1 == opened.upkeep.remove_texts(before=T0 + 5)
    return path


def export(store, output, *options):
    done = run_command("store", "export", store, output, *options)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_the_file_has_weights_tags_and_no_text(store, tmp_path):
    """Only its owner can read it. Without --text, nothing in it quotes what was captured."""
    out = tmp_path / "o.jsonl"
    assert f"6 outcomes written to {out}" in export(store, out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert 0o600 == stat.S_IMODE(out.stat().st_mode)
    assert "SECRET" not in out.read_text()
    assert [("t0", "a", 0.5, 1.0), ("t1", "a", 0.5, 4.0)] == [
        (r["trace_id"], r["metric"], r["value"], r["weight"]) for r in rows if r["metric"] == "a"
    ][:2]
    assert ("bot", "7", "s1", {"tag:topic": "billing"}, "bug") == (
        rows[3]["app"], rows[3]["release"], rows[3]["session_id"], rows[3]["slices"], rows[3]["kind"],
    )  # fmt: skip


def test_text_is_what_the_store_still_has(store, tmp_path):
    """Removed texts are missing, and the outcome stays."""
    out = tmp_path / "o.jsonl"
    export(store, out, "--texts")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [None, None] == [rows[0][name] for name in ("query", "explanation")]
    assert ["SECRET q", "SECRET r", ["SECRET p"], "SECRET e"] == [
        rows[2][name] for name in ("query", "response", "contexts", "explanation")
    ]


def test_the_period_and_other_commands(store, tmp_path):
    """A period selects requests, and reports read the file with its sampling probabilities and sessions."""
    out = tmp_path / "o.jsonl"
    middle = datetime.fromtimestamp(T0 + 86400 * 1.5, UTC).strftime("%Y-%m-%dT%H:%M")
    assert "4 outcomes" in export(f"{store}@..{middle}", out)
    export(store, out)
    read = read_outcomes(out)
    assert {"t0": 0.5, "t1": 0.5, "t2": 0.5} == read.values("a")
    assert {"t1": 0.25, "t2": 0.25} == read.inclusion_probabilities
    assert {"t0": "s0", "t1": "s1", "t2": "s2"} == read.labels["session_id"]


def test_an_export_that_fails_leaves_the_old_file(store, tmp_path):
    """Nothing is left behind."""
    out = tmp_path / "o.jsonl"
    out.write_text("old")

    def rows():
        with open_store(store, mode="read") as opened:
            for row in opened.outcomes.export():
                yield export_row(*row, include_text=False)
                raise StoreCorruptError("damaged")

    with pytest.raises(StoreCorruptError):
        write_export(out, rows())
    assert "old" == out.read_text()
    assert {"a.db", "o.jsonl"} <= {p.name for p in tmp_path.iterdir()}
    assert not list(tmp_path.glob(".*"))


def test_memory_does_not_grow_with_the_store(tmp_path):
    """The rows are read and written in pages."""
    path = tmp_path / "big.db"
    with open_store(path, mode="own", clock=lambda: T0) as opened:
        fill(opened, T0, days=11, per_day=400)
    with open_store(path, mode="read") as opened:
        tracemalloc.start()
        try:
            n = write_export(
                tmp_path / "o.jsonl", (export_row(*row, include_text=False) for row in opened.outcomes.export())
            )
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert 4400 == n
    assert peak < (tmp_path / "o.jsonl").stat().st_size / 2


@pytest.mark.parametrize(
    ("output", "message"),
    [("o.csv", "must end in .jsonl"), ("no/o.jsonl", "does not exist"), ("a.db", "must end in")],
)
def test_refusals(store, tmp_path, output, message):
    """With the rule and the way out."""
    done = run_command("store", "export", store, tmp_path / output)
    assert 2 == done.returncode
    assert message in " ".join(done.stderr.split())
