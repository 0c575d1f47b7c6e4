"""`ragstone status`, in process."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from command_line import run_command
from completions import complete
from ragstone.schema import Captured, Failure, Score, Trace
from ragstone.spool import SpoolWriter
from ragstone.store import PlannedMetric, SqliteStore, settle_labels

PLANNED = PlannedMetric(name="ccrs.qr", version="1", judge_hash="j")


def stored(path: Path, probabilities: list[float]) -> str:
    """A store of a score for each probability, 1 for sure and else 0, and one failure."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PLANNED], [])
        key = {"metric": "ccrs.qr", "metric_version": "1", "judge": "lexical baseline", "judge_hash": "j"}
        for n, probability in enumerate([*probabilities, 1.0]):
            trace = Trace(trace_id=f"t{n}", started_at=1.0, query="Why?", inclusion_probability=probability)
            store.traces.ingest("s", n + 1, [Captured(trace=trace)])
            outcome = (
                Score(sample_id=f"t{n}", value=float(probability == 1), method="exact", **key)
                if n < len(probabilities)
                else Failure(sample_id=f"t{n}", kind="timeout", reason="too slow", **key)
            )
            complete(store, f"t{n}", [outcome])
    return str(path)


def status(*arguments: str) -> str:
    return run_command("status", *arguments).stdout


def test_status_begins_with_the_means(tmp_path: Path) -> None:
    """With the metric's display name, its interval and its counts; then the ledger."""
    text = status(stored(tmp_path / "a.db", [1.0] * 3))
    assert "Question relevance (ccrs.qr)" in text.splitlines()[2]
    assert "3 / 1 / 0" in text.splitlines()[2]
    assert "1 failed. Depending on their scores, the mean lies in [0.750, 1.000]" in text
    assert "which is not a judge" in text
    assert "captured = scored" in text


def test_json_has_them_too(tmp_path: Path) -> None:
    """And says that the judge is a baseline."""
    found = json.loads(status(stored(tmp_path / "a.db", [1.0] * 3), "--json"))
    assert found["judge_is_baseline"]
    (scores,) = found["scores"]
    assert ("Question relevance", 1.0, 3, 1) == tuple(scores[k] for k in ("title", "mean", "n_scored", "n_failed"))


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    """A disk can lose the content of a store: zeros and success would hide it from a script."""
    (tmp_path / "a.db").touch()
    result = run_command("status", tmp_path / "a.db")
    assert result.returncode == 3
    assert "a.db' is empty" in result.stderr
    assert "ragstone store restore" in result.stderr
    assert result.stdout == ""


def test_requests_in_a_spool_are_shown_without_a_store(tmp_path: Path) -> None:
    """An application writes its spool before the store's owner makes the file."""
    with closing(SpoolWriter(tmp_path / "a.db.spool")) as spool:
        entry = Captured(trace=Trace(trace_id="t", started_at=1.0, query="Why?"))
        spool.append([entry.model_dump_json().encode()])
    assert "1 request is pending" in status(str(tmp_path / "a.db"))
    for command in ("report", "traces", "compare"):
        done = run_command(command, *[tmp_path / "a.db"] * (1 + (command == "compare")))
        assert 2 == done.returncode
        assert "does not exist yet: its captured requests wait in a spool. `ragstone status" in done.stderr
    settle_labels(tmp_path / "a.db")
    assert [tmp_path / "a.db.spool"] == list(tmp_path.iterdir())


@pytest.mark.parametrize("json_output", [[], ["--json"]], ids=["text", "json"])
def test_an_emptied_store_with_a_spool_is_an_error(tmp_path: Path, json_output: list[str]) -> None:
    """A spool can keep requests that the store had scored: without a word about the lost scores, they look new."""
    path = stored(tmp_path / "a.db", [1.0] * 3)
    with closing(SpoolWriter(tmp_path / "a.db.spool")) as spool:
        entry = Captured(trace=Trace(trace_id="t", started_at=1.0, query="Why?"))
        spool.append([entry.model_dump_json().encode()])
    assert 0 == run_command("status", path, *json_output).returncode
    os.truncate(path, 0)
    result = run_command("status", path, *json_output)
    assert result.returncode == 3
    assert ('"pending": 1' if json_output else "1 request is pending") in result.stdout
    assert "a.db' is empty" in result.stderr
    assert "ragstone store restore" in result.stderr


@pytest.mark.parametrize("json_output", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("DELETE FROM counters", "its counts of ccrs.qr do not add up"),
        ("UPDATE counters SET n = n - 1 WHERE name = 'state:scored'", "its counts of traces do not add up"),
        ("DELETE FROM outcome_counts", "differ from their counters"),
        ("DELETE FROM outcomes", "differ from their counters"),
        ("DELETE FROM meta", "the table meta is empty"),
        ("DROP TABLE outcomes", "tables are missing (outcomes)"),
    ],
)
def test_a_damaged_store_is_an_error(tmp_path: Path, damage: str, says: str, json_output: list[str]) -> None:
    """Whatever could be read is printed, the error names the store and the way out, and the exit code is 3."""
    path = stored(tmp_path / "a.db", [1.0] * 3)
    with closing(sqlite3.connect(path)) as db:
        db.execute(damage)
        db.commit()
    result = run_command("status", path, *json_output)
    assert result.returncode == 3
    assert says in result.stderr
    assert "a.db" in result.stderr
    assert "restore" in result.stderr
    assert "Traceback" not in result.stderr


def test_means_of_sampled_requests_are_weighted(tmp_path: Path) -> None:
    """A request that was kept with probability 0.1 stands for ten."""
    (scores,) = json.loads(status(stored(tmp_path / "a.db", [1.0, 0.1, 1.0]), "--json"))["scores"]
    assert "hajek" == scores["method"]
    assert pytest.approx(2 / 12) == scores["mean"]
    assert scores["bounds"] is None


UNUSED = {
    *("aiohttp", "openai", "httpx", "scipy.stats", "pandas"),
    *(
        f"ragstone.{room}"
        for room in ("capture", "monitor", "replay", "requests", "scoring", "sinks", "views", "watch")
    ),
    *(f"ragstone.judges.{module}" for module in ("_factory", "_model_judge", "lexical", "openai_model", "reader")),
    *(f"ragstone.worker.{module}" for module in ("_backfill", "_delivery", "_process", "_setup", "_worker")),
    *(f"ragstone.experiments.{module}" for module in ("_app", "_compare.compare", "_evaluate", "_report", "_views")),
    *("ragstone.brokers._factory", "ragstone.cli._backfill", "ragstone.cli._watch"),
}
"""Modules that score, deliver, watch or make reports. Reading means and a ledger needs none of them."""


def test_status_loads_nothing_that_scores(tmp_path: Path) -> None:
    """The means and the ledger of a store are read without judges, worker, sinks and reports."""
    code = (
        "import sys\nfrom ragstone.cli import main\n"
        "try:\n    main(['status', sys.argv[1]])\nexcept SystemExit:\n    pass\n"
        "print('loaded:', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, stored(tmp_path / "a.db", [1.0] * 3)], capture_output=True, text=True, check=True
    )
    assert "Question relevance (ccrs.qr)" in done.stdout
    loaded = set(done.stdout.partition("loaded:")[2].split())
    assert {"ragstone.store", "ragstone.worker._status", "ragstone.experiments._summary"} <= loaded
    assert set() == UNUSED & loaded


def test_a_metric_that_is_not_installed_has_no_title(tmp_path: Path) -> None:
    """Metrics of the plan that this installation does not know are shown by name, and the others as always."""
    path = stored(tmp_path / "a.db", [1.0] * 3)
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PLANNED, PlannedMetric(name="gone.metric", version="1", judge_hash="")], [])
    found = json.loads(status(path, "--json"))["scores"]
    assert {"ccrs.qr": "Question relevance", "gone.metric": None} == {each["metric"]: each["title"] for each in found}
