"""Clocks, limits, full disks and signals, at random moments while requests are captured and scored: the books agree.

`RAGSTONE_KILLS=100 nox -s long -- -k books_after_faults` runs each of them a hundred times.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from faults import COMPILER, FAKETIME, BadDisk, Clock, FullDisk, Limit, Signal, small_disk
from kills import MANY_KILLS, Deployment, kill_and_check, runs

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="changes limits of other processes"),
    # More than the deployment waits, so that it says what is missing.
    pytest.mark.timeout(2000 + 120 * MANY_KILLS),
]

DISKS = ("read-only", "full", "slow")
LIMITS = {"descriptors": "RLIMIT_NOFILE", "memory": "RLIMIT_AS"}
COMBINATIONS = {
    # How requests are scored, faults, and their number in the short run.
    "clock-worker": ({}, ("clock", "owner"), 2),
    "clock-process": ({"scoring": "process"}, ("clock", "application"), 0),
    "descriptors-worker": ({}, ("descriptors",), 2),
    "descriptors-thread": ({"scoring": "thread"}, ("descriptors",), 0),
    "memory-worker": ({}, ("memory",), 2),
    "memory-thread": ({"scoring": "thread"}, ("memory",), 0),
    "disk-worker": ({}, ("disk",), 2),
    "disk-thread": ({"scoring": "thread"}, ("disk",), 0),
    "read-only-worker": ({}, ("read-only",), 0),
    "read-only-thread": ({"scoring": "thread"}, ("read-only",), 0),
    "full-worker": ({}, ("full",), 0),
    "full-thread": ({"scoring": "thread"}, ("full",), 0),
    "slow-worker": ({}, ("slow", "owner"), 0),
    "slow-thread": ({"scoring": "thread"}, ("slow", "application"), 0),
    "signals-worker": ({"processes": 2}, ("signal",), 2),
    "signals-process": ({"scoring": "process"}, ("signal",), 0),
}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A disk of a few megabytes."""
    try:
        with small_disk(tmp_path / "disk", 24) as folder:
            yield folder
    except PermissionError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("name", "n_faults"), runs({name: quick for name, (*_, quick) in COMBINATIONS.items()}))
def test_books_after_faults(
    tmp_path: Path, name: str, n_faults: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `record` acknowledged (sync) is scored exactly once, and each sink has it once. What is lost is counted."""
    import resource

    options, faults, _ = COMBINATIONS[name]
    seed = os.environ.get("RAGSTONE_SEED", str(random.randrange(2**32)))
    monkeypatch.setenv("RAGSTONE_SEED", seed)
    moments = random.Random(int(seed))
    folder = request.getfixturevalue("disk") if "disk" in faults else tmp_path
    if "clock" in faults:
        if not FAKETIME:
            pytest.skip("needs libfaketime (apt install faketime)")
        clock = Clock(tmp_path, moments)
        for variable, value in clock.environment.items():
            monkeypatch.setenv(variable, value)
    if faults[0] in DISKS:
        if COMPILER is None:
            pytest.skip("needs a compiler of C")
        bad_disk = BadDisk(f"{tmp_path}/s", tmp_path, faults[0])  # the store, and the spool
        for variable, value in bad_disk.environment.items():
            monkeypatch.setenv(variable, value)
    deployment = Deployment(str(folder / "s.db"), tmp_path, **options)
    servers: dict[str, Callable[[], object]] = {
        "clock": lambda: clock,
        "disk": lambda: FullDisk(folder),
        "signal": lambda: Signal(lambda: deployment.running, moments),
        **{name: lambda: bad_disk for name in DISKS},
    } | {
        name: lambda kind=kind: Limit(getattr(resource, kind), lambda: deployment.pids, moments)
        for name, kind in LIMITS.items()
    }
    deployment.servers = {fault: servers[fault]() for fault in faults if fault in servers}
    kill_and_check(deployment, faults, n_faults)
    if "signal" in faults:
        print(dict(deployment.servers["signal"].n_sent))
