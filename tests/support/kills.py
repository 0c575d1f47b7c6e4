"""An application, workers and their servers, which are killed at random moments, and what must hold afterwards.

`RAGSTONE_KILLS` sets the number of kills of the long runs, and `RAGSTONE_SEED` repeats a run.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import pytest
from _pytest.mark.structures import ParameterSet

from command_line import MAIN
from fake_servers import FakeJudgeServer
from processes import children, is_running
from ragstone.errors import StoreError
from ragstone.store import open_store

__all__ = ["MANY_KILLS", "METRICS", "Deployment", "Restartable", "check_books", "kill_and_check", "runs"]

MANY_KILLS: Final = int(os.environ.get("RAGSTONE_KILLS", "40"))
METRICS: Final = ("ccrs.qr", "ccrs.ac")
PER_KILL: Final = 25
"""Requests that the application records for each kill."""
_AT_THE_KILL: Final = 10
"""Those that it begins to record less than half a second before."""
_LIMIT_S: Final = 1800.0
"""Time in which a busy machine scores what many kills have left over, in seconds."""

APPLICATION = """
import os, sys, time
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft

store, judge, metrics, scoring, acknowledged, prefix, *sinks = sys.argv[1:]
out = os.open(acknowledged, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
monitor = Monitor(
    store=store, judge=judge, metrics=metrics.split(","), scoring=scoring, sinks=sinks, durability="sync", concurrency=4
)
n = 0
for line in sys.stdin:
    for n in range(n + 1, n + 1 + int(line)):
        if monitor.record(TraceDraft(trace_id=f"{prefix}-{n}", query="Which stone?", response="The grey stone.")):
            os.write(out, f"{prefix}-{n}\\n".encode())
        time.sleep(0.01)
monitor.flush(60)  # it reports what a full disk has lost, so that `drain` reports what comes after
done = monitor.drain(1800)
monitor.close()
sys.exit(not done)
"""
"""Records as many requests as each line of standard input says. The end of the input ends it, when its work is done."""


class Restartable(Protocol):
    """A server that tests kill and start again."""

    def kill(self) -> None:
        """Kill -9 the server."""

    def start_again(self) -> None:
        """Start after a kill, and wait until it is ready."""


@dataclass
class Deployment:
    """Processes of one way to run Ragstone, which are started again when they have ended, as by a supervisor.

    Args:
        store: File or URL of the store.
        folder: Where files of the test go.
        broker: URL of the message broker between application and workers, or None.
        scoring: The argument of `Monitor`. With "none", `ragstone worker` scores.
        workers: Number of `ragstone worker`s, for "none".
        processes: `limits.processes` of each worker.
        servers: Servers that can be killed, by name.
    """

    store: str
    folder: Path
    broker: str | None = None
    scoring: str = "none"
    workers: int = 1
    processes: int = 1
    servers: Mapping[str, Restartable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.acknowledged = self.folder / "acknowledged"
        self.acknowledged.touch()
        self.files = [self.folder / "a.jsonl", self.folder / "b.jsonl"]
        self._sinks = [f"jsonl:{file}" for file in self.files]
        self._log = (self.folder / "log").open("ab")
        self._n_applications = 0
        self._scoring_processes: set[int] = set()

    def start(self, judge: str) -> None:
        """Start the application and the workers."""
        self._judge = judge
        self._application = self._start_application()
        self._workers = [self._start_worker() for _ in range(self.workers if self.scoring == "none" else 0)]

    def supervise(self) -> None:
        """Start again what has ended."""
        if self._application.poll() is not None:
            self._close_application()
            self._application = self._start_application()
            # What the one before it has not read is gone, and who waits for progress waits for a request.
            self.record(1)
        self._supervise_workers()

    def record(self, n: int = PER_KILL) -> None:
        """Let the application record requests, unless it is dead."""
        assert self._application.stdin is not None
        with suppress(BrokenPipeError):
            self._application.stdin.write(f"{n}\n".encode())

    def kill(self, victim: str, moments: random.Random) -> None:
        """Kill -9 a process, or a server, which is then started again.

        Args:
            victim: "application", "owner" (of the store or of scoring processes), "child" (a scoring process), "owner and child",
                "application and owner" (one after the other), or the name of a server.
            moments: Draws which one it is, and pauses.
        """
        if victim in self.servers:
            self.servers[victim].kill()
            time.sleep(moments.uniform(0, 0.5))
            self.servers[victim].start_again()
            return
        if victim == "application and owner":
            self.kill("application", moments)
            # A worker moves what is left in the spool.
            time.sleep(moments.uniform(0, 0.5))
            victim = "owner"
        owner = self._application if victim == "application" else moments.choice(self._owners)
        pids = [] if victim == "child" else [owner.pid]
        if "child" in victim:
            pids += moments.sample(children(owner.pid), 1) if children(owner.pid) else []
        moments.shuffle(pids)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if owner.pid in pids:
            owner.wait()

    def finish(self) -> None:
        """Score everything, and end all processes as a service manager does."""
        self.supervise()
        # The segments of killed applications are published by those that follow.
        self.record(1)
        self._close_application()
        assert self._application.wait(_LIMIT_S) == 0, "the application did not finish its work"
        if self._workers:
            _wait_until(self._is_finished)
        else:
            with open_store(self.store, mode="read") as store:
                assert store.ledger().total.pending == 0, "the application has not waited for its work"
            # Deliveries that wait for another attempt do not keep an application.
            _wait_until(lambda: self._is_finished() or self._start_worker("--until-idle").wait(_LIMIT_S))
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            # SIGTERM ends one that has just started and is still importing.
            assert worker.wait(_LIMIT_S) in (0, 130, -signal.SIGTERM), "a worker did not end as it should"
        assert self._start_worker("--until-idle").wait(_LIMIT_S) == 0
        _wait_until(lambda: not any(map(is_running, self._scoring_processes)))

    def end(self) -> None:
        """Kill what still runs."""
        for process in (self._application, *self._workers):
            process.kill()
            process.wait()
        self._close_application()
        self._log.close()

    def count_delivered(self) -> int:
        """Return the number of bytes that the sinks have written."""
        return sum(file.stat().st_size for file in self.files if file.exists())

    @property
    def running(self) -> list[subprocess.Popen[bytes]]:
        """The application and the workers."""
        return [self._application, *self._workers]

    @property
    def pids(self) -> list[int]:
        """The application, the workers and their scoring processes."""
        return [pid for process in self.running for pid in (process.pid, *children(process.pid))]

    @property
    def _owners(self) -> list[subprocess.Popen[bytes]]:
        return self._workers or [self._application]

    def _start_application(self) -> subprocess.Popen[bytes]:
        self._n_applications += 1
        sinks = [] if self.scoring == "none" else self._sinks
        arguments = [self.broker or self.store, self._judge, ",".join(METRICS), self.scoring, self.acknowledged]
        return self._run(APPLICATION, "spool", *arguments, f"life{self._n_applications}", *sinks, bufsize=0)

    def _start_worker(self, *options: str) -> subprocess.Popen[bytes]:
        command = [
            "worker",
            self.store,
            "--judge",
            self._judge,
            "--metrics",
            ",".join(METRICS),
            "--set=limits.concurrency=4",
        ]
        for sink in self._sinks:
            command += ["--sink", sink]
        if self.broker is not None:
            command += ["--from", self.broker]
        # On a host of its own, a worker that reads a broker has another spool than the application.
        spool = "spool" if self.broker is None else "worker-spool"
        return self._run(MAIN, spool, *command, "--set", f"limits.processes={self.processes}", *options)

    def _run(self, code: str, spool: str, *arguments: object, bufsize: int = -1) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)], bufsize=bufsize, stderr=self._log,
            stdin=subprocess.PIPE if code == APPLICATION else subprocess.DEVNULL,
            env=os.environ | {"RAGSTONE_SPOOL": str(self.folder / spool)},
        )  # fmt: skip

    def _supervise_workers(self) -> None:
        for place, worker in enumerate(self._workers):
            if worker.poll() is not None:
                self._workers[place] = self._start_worker()
        for owner in self._owners:
            self._scoring_processes.update(children(owner.pid))

    def _close_application(self) -> None:
        assert self._application.stdin is not None
        self._application.stdin.close()

    def _is_finished(self) -> bool:
        self._supervise_workers()
        try:
            with open_store(self.store, mode="read") as store:
                ledger = store.ledger()
        except StoreError:
            return False
        n = len(self.acknowledged.read_text(encoding="utf-8").split())
        waits = ledger.total.pending or any(counts.pending for counts in ledger.outbox.values())
        return ledger.total.captured >= n and not waits


def kill_and_check(deployment: Deployment, victims: Sequence[str], n_kills: int) -> None:
    """Kill the victims in turn, each at a random moment while requests are scored, and check what the store and the sinks contain."""
    seed = int(os.environ.get("RAGSTONE_SEED", random.randrange(2**32)))
    print(f"RAGSTONE_SEED={seed}")
    moments = random.Random(seed)
    with FakeJudgeServer(latency_s=0.02) as judge:
        deployment.start(judge.url)
        try:
            for n in range(n_kills):
                deployment.supervise()
                deployment.record(PER_KILL - _AT_THE_KILL)
                # Half of the kills meet a process that has just started, the others one that delivers.
                progress = (lambda: judge.calls) if moments.random() < 0.5 else deployment.count_delivered
                before = progress()
                _wait_until(lambda: deployment.supervise() or progress() > before)  # noqa: B023 - called here
                # Half of the kills of an application meet it while it records.
                deployment.record(_AT_THE_KILL)
                time.sleep(moments.uniform(0, 0.5))
                deployment.kill(victims[n % len(victims)], moments)
                print(f"{time.strftime('%X')} killed {victims[n % len(victims)]}", flush=True)
            deployment.finish()
        finally:
            deployment.end()
    acknowledged = set(deployment.acknowledged.read_text(encoding="utf-8").split())
    counts = check_books(deployment.store, acknowledged, METRICS, deployment.files, judge.calls)
    print(f"{n_kills} kills of {', '.join(victims)}: {counts}")


def runs(quick: Mapping[str, int]) -> list[ParameterSet]:
    """Return the name of each combination with its number of kills.

    Args:
        quick: The number of kills in short runs, by name. `nox -s tests` runs those with one kill, and `nox -s slow` those with more.
            0: only `nox -s long`, with many kills.
    """
    few = [
        pytest.param(name, n, id=f"{name}-quick", marks=[pytest.mark.slow] if n > 1 else [])
        for name, n in quick.items()
        if n
    ]
    return few + [pytest.param(name, MANY_KILLS, id=f"{name}-many", marks=pytest.mark.long) for name in quick]


def _wait_until(condition: Callable[[], object]) -> None:
    """Wait without using the processor that the killed processes need to start again."""
    end = time.monotonic() + _LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"nothing happened within {_LIMIT_S:g} s"
        time.sleep(0.05)


def check_books(
    store: str, acknowledged: AbstractSet[str], metrics: Sequence[str], files: Sequence[Path], paid: float = math.inf
) -> str:
    """Check that each request has one outcome for each metric, in the store and in each file, and that all counters equal a recount.

    Args:
        store: File or URL of the store. No process uses it.
        acknowledged: Ids of requests that must be there. Others may be.
        metrics: Names of the metrics.
        files: What the sinks have written.
        paid: Number of calls that the judge has received, if it is known.

    Returns:
        The counts, as text.
    """
    with open_store(store, mode="own") as opened:
        ledger = opened.ledger()
        assert opened.upkeep.recount() == []
        assert opened.upkeep.verify().ok
        stored = {trace.trace_id for trace in opened.traces.read()}
        outcomes = list(opened.outcomes.read())
    assert acknowledged <= stored
    assert Counter((o.sample_id, o.metric) for o in outcomes) == Counter((t, m) for t in stored for m in metrics)
    total = ledger.total
    # What a full disk has lost was not acknowledged, and is counted.
    assert (total.captured - total.dropped, total.scored, total.balanced) == (len(stored), len(stored), True), total
    assert set(ledger.metrics) == set(metrics)
    for row in ledger.metrics.values():
        found = (row.captured - row.dropped, row.pending, row.failed, row.balanced)
        assert found == (len(stored), 0, 0, True), row
    assert len(ledger.outbox) == len(files)
    for counts in ledger.outbox.values():
        assert (counts.sent, counts.pending, counts.skipped, counts.failed) == (len(outcomes), 0, 0, 0)
    for file in files:
        lines = Counter(json.loads(line)["id"] for line in file.read_text(encoding="utf-8").splitlines())
        expected = Counter(outcome.id for outcome in outcomes)
        assert (expected - lines, lines - expected) == ({}, {}), f"lost and doubled lines of {file.name}"
    # What was paid for is never counted twice. A killed worker may have paid for a reply, and not have counted or stored it.
    calls = sum(outcome.usage.calls for outcome in outcomes if outcome.usage is not None)
    assert calls <= paid, (calls, paid)
    assert ledger.spent_today.calls <= paid
    return (
        f"{len(acknowledged)} requests acknowledged, {len(stored)} stored, {len(outcomes)} outcomes; "
        f"calls: {paid} paid, {ledger.spent_today.calls} in the spend of the day, {calls} in outcomes"
    )
