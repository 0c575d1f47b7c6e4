"""`limits.processes`: equal outcomes, killed processes, killed owners, a shared budget, and refused arguments."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ragstone
from builders import make_trace
from command_line import MAIN, run_command, run_in_new_process
from fake_servers import FakeJudgeServer
from process_metrics import DeadlyMetric, EndlessMetric, ProcessMetric
from processes import children, is_running
from ragstone.errors import ConfigurationError
from ragstone.judges import Budget, OpenAICompatibleJudge, wait_for_outages
from ragstone.metrics import MetricBase
from ragstone.schema import Captured, Failure, NotApplicable, Sample, Score
from ragstone.store import SqliteStore
from ragstone.worker import ScorerSpec, Worker, read_ledger
from waiting import wait_until

METRICS = ("ccrs", "rouge_l")


def rows(n: int) -> list[dict[str, Any]]:
    """Rows whose scores differ. One does not have a response."""
    return [
        {
            "id": str(i),
            "query": f"What is item {i}?",
            "contexts": [f"Item {i} is a stone. " * (1 + i % 7)],
            "response": None if i == 3 else f"Item {i % 5} is a stone.",
            "reference": f"Item {i} is a stone.",
        }
        for i in range(n)
    ]


def comparable(outcomes: Sequence[Score | NotApplicable | Failure]) -> list[dict[str, Any]]:
    """Outcomes without the fields that differ from run to run."""
    fields = {"created_at", "duration_s"}
    return [outcome.model_dump(exclude=fields) for outcome in outcomes]


def test_outcomes_are_equal_with_and_without_processes() -> None:
    """Several processes return the outcomes of one, in the order of the rows, whatever metrics print."""
    with FakeJudgeServer() as server:
        alone = ragstone.evaluate(rows(40), METRICS, judge=server.url)
        together = ragstone.evaluate(rows(40), (*METRICS, ProcessMetric()), judge=server.url, processes=2)
    pids = {o.value for o in together.outcomes if isinstance(o, Score) and o.metric == "process"}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert comparable(alone.outcomes) == comparable([o for o in together.outcomes if o.metric != "process"])
    # Each process asks the judge once what it supports.
    assert together.usage.calls - alone.usage.calls == 2


def test_a_killed_process_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """After `kill -9` of scoring processes, each trace has exactly one outcome for each metric."""
    path, n = tmp_path / "r.db", 300
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest("app", n, [Captured(trace=make_trace(f"t{i}")) for i in range(n)])
    setup = ScorerSpec(METRICS, judge="lexical").open(processes=2)
    worker = Worker(path, setup)
    kills = [20, 100, 180]

    def kill(*_: object) -> None:
        done[0] += 1
        if setup.processes is not None and kills and done[0] >= kills[0]:
            kills.pop(0)
            os.kill(setup.processes.pids[len(kills) % 2], signal.SIGKILL)

    done = [0]
    worker.on_outcomes = kill

    async def work() -> None:
        async with setup:
            await worker.run(until_idle=True)

    asyncio.run(asyncio.wait_for(work(), 300))
    assert kills == []
    with SqliteStore.open(path, mode="read") as store:
        outcomes = Counter((o.sample_id, o.metric) for o in store.outcomes.read())
        assert [] == store.upkeep.recount()
    assert set(outcomes.values()) == {1}
    assert len(outcomes) == n * 6
    ledger = read_ledger(path).total
    assert (ledger.balanced, ledger.pending, ledger.failed) == (True, 0, 0)


def test_a_sample_that_kills_every_process_fails_alone() -> None:
    """The sample fails after three processes, and all others are scored."""
    data = [*rows(12)[4:], {"id": "bad", "query": "q", "contexts": ["c"], "response": "deadly"}]
    result = ragstone.evaluate(data, (DeadlyMetric(),), judge="lexical", processes=2)
    failed = [o for o in result.outcomes if not isinstance(o, Score)]
    assert [("bad", "bug")] == [(o.sample_id, getattr(o, "kind", None)) for o in failed]
    assert "3 scoring processes ended while they scored this sample" in failed[0].reason
    assert "signal 9" in failed[0].reason
    assert len(result.outcomes) == len(data)


def test_processes_share_one_budget(tmp_path: Path) -> None:
    """The endpoint receives as many calls as the budget permits, over all processes."""
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows(30))), encoding="utf-8")
    with FakeJudgeServer() as server:
        arguments = [
            "--judge",
            server.url,
            "--metrics",
            "ccrs.qr",
            "--set",
            "budget.calls=12",
            "--set",
            "limits.processes=2",
        ]
        result = run_in_new_process("evaluate", file, *arguments, "--json")
        paid = server.stats.calls
    assert result.returncode == 4, result.stderr
    assert paid == 12


def test_the_budget_gets_back_what_processes_could_not_send() -> None:
    """Calls to a port that refuses connections are in no usage, and do not use up the budget of the owner."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    budget = Budget(calls=3)

    async def score() -> list[Any]:
        judge = {"url": url, "model": "m", "backoff_s": 0.01}
        spec = ScorerSpec("ccrs.qr", judge=judge, budget=budget)
        with wait_for_outages(0.0):
            async with spec.open(processes=2) as setup:
                return [
                    await setup.score(Sample(id=str(n), query="Which stone?", response="The grey.")) for n in range(6)
                ]

    outcomes = [outcome for scored in asyncio.run(score()) for outcome in scored]
    assert {"unavailable"} == {outcome.kind for outcome in outcomes}
    assert 0 == budget.spent.calls


def test_calls_for_a_canceled_sample_are_counted(tmp_path: Path) -> None:
    """The owner learns what was paid for a sample that nobody needs anymore."""
    begun = tmp_path / "begun"

    async def score(url: str) -> None:
        async with ScorerSpec((EndlessMetric(),), judge=url).open(processes=2) as setup:
            await setup.scorer.prepare()
            before = setup.scorer.usage.calls
            scoring = asyncio.create_task(setup.score(Sample(id="s", query="q", response=str(begun))))
            await asyncio.to_thread(wait_until, begun.exists)
            scoring.cancel()
            await asyncio.gather(scoring, return_exceptions=True)
            await asyncio.to_thread(wait_until, lambda: setup.scorer.usage.calls == before + 1)

    with FakeJudgeServer() as server:
        asyncio.run(score(server.url))


OWNER = """
import asyncio, sys
from ragstone.schema import Sample
from ragstone.worker import ScorerSpec
from process_metrics import ProcessMetric

async def main():
    async with ScorerSpec((ProcessMetric(),), judge="lexical").open(processes=2) as setup:
        await setup.scorer.prepare()
        print(*setup.processes.pids, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_their_owner(number: signal.Signals) -> None:
    """Standard input ends with the owner, also after `kill -9`, and the processes end with it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env=environment)
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 2
    assert all(map(is_running, pids))
    owner.send_signal(number)
    owner.wait()
    owner.stdout.close()
    wait_until(lambda: not any(map(is_running, pids)))


def test_sigterm_stops_a_worker_and_its_processes(tmp_path: Path) -> None:
    """SIGTERM to the whole group, as a service manager sends it, ends the worker with exit code 0, and nothing is lost."""
    path = tmp_path / "r.db"
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest("app", 50, [Captured(trace=make_trace(f"t{i}")) for i in range(50)])
    command = [sys.executable, "-c", MAIN, "worker", str(path), "--judge", "lexical", "--set", "limits.processes=2"]
    owner = subprocess.Popen(command, start_new_session=True)
    wait_until(lambda: read_ledger(path).total.pending == 0)
    pids = children(owner.pid)
    assert len(pids) == 2
    os.killpg(owner.pid, signal.SIGTERM)
    assert owner.wait() == 0
    wait_until(lambda: not any(map(is_running, pids)))
    assert read_ledger(path).total.scored == 50


class Local(MetricBase):
    """A metric with a lock, which cannot be pickled."""

    name = "local"

    def __init__(self) -> None:
        self.lock = threading.Lock()

    async def compute(self, sample: Sample, judge: object) -> Score:
        """Return 1."""
        return self.make_score(sample, 1.0, method="exact")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"processes": 0}, "processes must be an integer of at least 1, got 0"),
        ({"processes": True}, "got True"),
        ({"processes": "2"}, "got '2'"),
        (
            {"processes": 2, "judge": OpenAICompatibleJudge("http://127.0.0.1:9/v1", model="m")},
            "cannot be sent .* Name the",
        ),
        ({"processes": 2, "metrics": (Local(),)}, "cannot be sent to another process"),
        ({"processes": 17, "judge": "http://127.0.0.1:9/v1"}, "16 cannot be divided among 17 processes"),
        ({"processes": 2, "judge": "vllm:some/model"}, "runs inside of one process. .*start a server"),
    ],
)
def test_what_cannot_be_scored_in_processes_is_refused(arguments: dict[str, Any], message: str) -> None:
    """Invalid arguments are errors before any process starts, with the way out."""
    with pytest.raises(ConfigurationError, match=message):
        ragstone.evaluate(rows(1), **{"metrics": "ccrs", "judge": "lexical", **arguments})


def test_a_process_that_cannot_import_a_metric_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the process is the error of the run."""
    monkeypatch.setattr(ProcessMetric, "__module__", "process_metrics_elsewhere")
    monkeypatch.setitem(sys.modules, "process_metrics_elsewhere", sys.modules["process_metrics"])
    with pytest.raises(ConfigurationError, match=r"process_metrics_elsewhere.*Define the classes .* in a module"):
        ragstone.evaluate(rows(1), (ProcessMetric(),), judge="lexical", processes=2)


def test_the_command_refuses_no_process() -> None:
    """`--set limits.processes=0` is a usage error."""
    result = run_command("evaluate", "rows.jsonl", "--set", "limits.processes=0")
    assert result.returncode == 2
    assert "limits.processes" in result.stderr
    assert "limits.processes must be an integer of at least 1, got 0." in result.stderr
