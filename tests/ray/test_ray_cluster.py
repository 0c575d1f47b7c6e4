"""Scoring on a small local cluster: an actor and a driver are killed, and each outcome is in the output once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ray = pytest.importorskip("ray")

import ragstone.ray  # noqa: E402
from ragstone.errors import ConfigurationError  # noqa: E402
from ragstone.experiments import read_outcomes  # noqa: E402
from ragstone.judges import Budget  # noqa: E402
from ragstone.worker import ScorerSpec  # noqa: E402

# Of Ray's own settings, when its data module is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning")
HERE = Path(__file__).parent
N = 300
DRIVER = """
import sys
import ray, ray.data
import ragstone.ray
from ragstone.worker import ScorerSpec
from slow_metric import Slow
address, output, pids, pause_s = sys.argv[1:]
ray.init(address=address, log_to_driver=False)
rows = [{"id": f"t{i}", "query": f"question {i}", "response": "r" * (i % 7)} for i in range(300)]
spec = ScorerSpec(["ccrs.qr", Slow(pids, float(pause_s))], judge="lexical", concurrency=16)
report = ragstone.ray.score(ray.data.from_items(rows), spec, output, actors=2, cpus_per_actor=0.5, rows_per_block=25)
print(report.n_scored, report.n_known, report.n_rejected)
"""


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a cluster with three logical CPUs, on loopback and without telemetry."""
    settings = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_raylet_start_wait_time_s": "300",
        "PYTHONPATH": str(HERE),
    }
    os.environ.update(settings)
    if address := os.environ.get("RAGSTONE_RAY_ADDRESS"):
        # A cluster that was started by hand with these settings and three CPUs.
        ray.init(address=address, log_to_driver=False)
        yield address
        ray.shutdown()
        return
    for attempt in range(3):
        try:
            ray.init(
                address="local", num_cpus=3, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False,
                _node_ip_address="127.0.0.1",
            )  # fmt: skip
            break
        except Exception:  # Ray raises plain exceptions
            # Its node process waits 15 s for another one, which imports much: too short on a busy machine.
            ray.shutdown()
            if attempt == 2:
                raise
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def start(cluster: str, output: Path, pids: Path, pause_s: float) -> subprocess.Popen[str]:
    """Start a driver in a process of its own."""
    pids.mkdir(exist_ok=True)
    command = [sys.executable, "-c", DRIVER, cluster, str(output), str(pids), str(pause_s)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for_files(folder: Path, pattern: str, n: int, driver: subprocess.Popen[str]) -> None:
    """Wait until a folder has so many files."""
    deadline = time.monotonic() + 600
    while len(list(folder.glob(pattern))) < n:
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_killed_actors_and_drivers_leave_each_outcome_once(cluster, tmp_path):
    """An actor is killed after the first block and replaced, then the driver is killed, and a second one scores the rest."""
    output = tmp_path / "scores"
    pids = tmp_path / "pids-1"
    first = start(cluster, output, pids, 3.0)
    wait_for_files(output, "*.parquet", 1, first)
    started = {path.name for path in pids.iterdir()}
    os.kill(int(min(started)), signal.SIGKILL)
    before = len(list(output.glob("*.parquet")))
    wait_for_files(pids, "*", len(started) + 1, first)
    wait_for_files(output, "*.parquet", before + 1, first)
    first.kill()
    first.communicate()
    n_parts = len(list(output.glob("*.parquet")))
    assert n_parts < N / 25, "the driver was killed too late to leave anything"
    second = start(cluster, output, tmp_path / "pids-2", 0.0)
    text, errors = second.communicate(timeout=600)
    assert second.returncode == 0, errors
    n_scored, n_known, n_rejected = map(int, text.split()[-3:])

    assert (n_scored + n_known, n_rejected) == (N, 0), text + errors
    assert n_known >= 25 * before
    rows = pq.read_table(output).to_pylist()
    # The two drivers give the metric different arguments, which are a part of its name.
    assert Counter(row["metric"].partition("@")[0] for row in rows) == {"ccrs.qr": N, "slow": N}
    assert len({row["outcome_id"] for row in rows}) == 2 * N
    assert {row["trace_id"] for row in rows} == {f"t{i}" for i in range(N)}
    lines = tmp_path / "scores.jsonl"
    lines.write_text("".join(f"{row['outcome_json']}\n" for row in rows), encoding="utf-8")
    assert read_outcomes(lines).values("ccrs.qr").keys() == {f"t{i}" for i in range(N)}


def test_small_blocks_are_joined(cluster, tmp_path):
    """A dataset of blocks of two or three rows becomes files of 25 rows, and one with the rest."""
    rows = [{"id": f"t{i}", "query": f"question {i}", "response": "r"} for i in range(103)]
    dataset = ray.data.from_items(rows, override_num_blocks=40)
    spec = ScorerSpec("ccrs.qr", judge="lexical")
    ragstone.ray.score(dataset, spec, str(tmp_path / "o"), actors=2, cpus_per_actor=0.5, rows_per_block=25)
    sizes = [pq.read_metadata(file).num_rows for file in (tmp_path / "o").glob("*.parquet")]
    assert sorted(sizes) == [3, 25, 25, 25, 25]


def test_a_cluster_that_is_too_small_is_refused(cluster, tmp_path):
    """Before anything is scored, with what fits."""
    rows = ray.data.from_items([{"query": "q", "response": "r"}])
    spec = ScorerSpec("ccrs.qr", judge="lexical")
    with pytest.raises(ConfigurationError, match=r"5 actors of 0\.5 CPUs do not fit: the cluster has 3 CPUs"):
        ragstone.ray.score(rows, spec, str(tmp_path / "o"), actors=5)
    with pytest.raises(ConfigurationError, match="budget"):
        ragstone.ray.score(rows, ScorerSpec("ccrs.qr", judge="lexical", budget=Budget(calls=5)), str(tmp_path / "o"))
