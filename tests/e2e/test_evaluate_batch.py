"""`ragstone evaluate --batch`: judge calls of a dataset go through files, as a batch API reads and writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batch_folder import answer, lines_of, requests_in
from command_line import run_command
from fake_servers import FakeJudgeServer
from ragstone import evaluate
from ragstone.errors import ConfigurationError
from ragstone.experiments import Experiment
from ragstone.judges import BatchPendingError
from ragstone.schema import Failure, Score

N = 6
CCRS = "ccrs.cc,ccrs.qr,ccrs.id"
CCRS_CALLS = 3


def rows() -> list[dict[str, Any]]:
    """Rows of which each has other texts."""
    return [
        {
            "id": f"t{i}",
            "query": f"What is item {i}?",
            "contexts": [f"Item {i} is a stone found at the river.", f"Item {i + 1} is wood."],
            "response": f"Item {i} is a stone. It is old.",
        }
        for i in range(N)
    ]


@pytest.fixture
def data(tmp_path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    return path


@pytest.fixture
def server() -> Iterator[FakeJudgeServer]:
    with FakeJudgeServer() as running:
        yield running


def finish(server: FakeJudgeServer, folder: Path, **arguments: Any) -> tuple[Experiment, int]:
    """Run until nothing waits, and answer the requests between the runs. Returns the result and the number of runs."""
    for n_runs in range(1, 10):
        try:
            return evaluate(rows(), judge=server.url, batch=folder, **arguments), n_runs
        except BatchPendingError as waiting:
            report = waiting.report
        n_answered = answer(server, folder, name=f"results-{n_runs}")
        assert n_answered == report.n_written
    raise AssertionError("samples wait for ever")


def said(result: Experiment) -> dict[tuple[str, str], tuple[object, ...]]:
    """What each outcome says, without its time."""
    return {
        (o.sample_id, o.metric): (
            getattr(o, "value", None),
            o.usage and (o.usage.input_tokens, o.usage.output_tokens, o.usage.calls, o.usage.cached),
        )
        for o in result.outcomes
    }


@pytest.mark.parametrize(
    ("metrics", "most_runs"),
    [(CCRS.split(","), 2), (["ccrs.cc", "ragas.faithfulness", "judged.ndcg@10"], 5), (["ccrs.cc", "udcg"], 4)],
    ids=["one round", "several rounds", "a reader"],
)
def test_scores_and_bills_are_those_of_calls_that_are_sent(server, tmp_path, metrics, most_runs):
    """Of each outcome and of the whole run, and the server sees as many requests."""
    plain = evaluate(rows(), metrics, judge=server.url)
    n_sent = len(server.stats.requests)
    batched, n_runs = finish(server, tmp_path / "batch", metrics=metrics)
    assert 1 < n_runs <= most_runs
    assert said(plain) == said(batched)
    assert plain.usage == batched.usage
    assert [s.estimate for s in plain.summary()] == [s.estimate for s in batched.summary()]
    # Each run asks once more what the endpoint accepts.
    prompts = [json.dumps(request["messages"]) for request in server.stats.requests]
    assert sorted(p for p in prompts[:n_sent] if "item" in p) == sorted(p for p in prompts[n_sent:] if "item" in p)


def test_the_command(server, data, tmp_path):
    """Writes, says what to do with exit code 3, reads the results, and has an output only then."""
    folder, output = tmp_path / "a batch", tmp_path / "outcomes.jsonl"
    command = ["evaluate", data, "--judge", server.url, "--metrics", CCRS, "--batch", folder, "--output", output]
    first = run_command(*command)
    assert 3 == first.returncode
    last = first.stderr.splitlines()[-1]
    assert last.startswith(
        f"exit code 3: {N} samples wait for the results of {len(requests_in(folder))} requests. Run this file"
    )
    assert f"put the results into '{folder}' as a file *.jsonl" in last
    assert (
        f"{folder}/requests-0001-fake-judge.jsonl: {len(requests_in(folder))} requests for fake-judge" in first.stderr
    )
    assert not output.exists()
    too_early = run_command(*command, "--json")
    assert 3 == too_early.returncode
    found = json.loads(too_early.stdout)["batch"]
    assert ([], 0, len(requests_in(folder))) == (found["files"], found["n_written"], found["n_waiting"])
    answer(server, folder)
    with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write("not a result\n")
    last_run = run_command(*command, "--json")
    assert 0 == last_run.returncode, last_run.stderr
    assert "1 line of the files of results ignored" in last_run.stderr
    assert 1 == json.loads(last_run.stdout)["batch"]["n_ignored"]
    assert N * CCRS_CALLS == len(lines_of(output)) - sum('"experiment"' in line for line in lines_of(output))
    assert not output.with_name("outcomes.jsonl.partial").exists()


def test_samples_with_all_results_are_kept(server, tmp_path):
    """With an output, a sample is scored once, as soon as its results are there."""
    folder, arguments = tmp_path / "b", {"metrics": CCRS.split(","), "output": tmp_path / "o.jsonl"}
    with pytest.raises(BatchPendingError):
        evaluate(rows(), judge=server.url, batch=folder, **arguments)
    answer(server, folder, change=lambda place, _: place % 5 > 0)
    with pytest.raises(BatchPendingError) as waiting:
        evaluate(rows(), judge=server.url, batch=folder, **arguments)
    n_waiting = int(str(waiting.value).split()[0])
    assert 0 < n_waiting < N
    assert 0 == waiting.value.report.n_written
    answer(server, folder, name="rest")
    result = evaluate(rows(), judge=server.url, batch=folder, **arguments)
    assert N - n_waiting == result.n_resumed
    assert N * CCRS_CALLS == sum(isinstance(o, Score) for o in result.outcomes)


def test_an_application_is_asked_once(server, tmp_path):
    """Its answers are kept between the runs, so their requests stay the same."""
    asked = []

    def app(question: str) -> dict[str, Any]:
        asked.append(question)
        return {"answer": f"It is stone number {len(asked)}.", "contexts": ["Item 1 is a stone."]}

    traces = tmp_path / "traces.jsonl"
    result, n_runs = finish(server, tmp_path / "b", metrics=["ccrs.cc"], app=app, traces=traces, repeats=2)
    assert 2 == n_runs
    assert 2 * N == len(asked)
    assert N == sum(isinstance(o, Score) for o in result.outcomes)


def test_a_refused_request_is_a_failure(server, tmp_path):
    """With the endpoint's reason. The other samples have scores."""

    def refuse(place: int, result: dict[str, Any]) -> None:
        if place == 0:
            result["response"] |= {"status_code": 400, "body": {"error": {"message": "too long for me"}}}

    arguments = {"metrics": ["ccrs.cc"], "judge": server.url, "batch": tmp_path / "b"}
    with pytest.raises(BatchPendingError):
        evaluate(rows(), **arguments)
    answer(server, tmp_path / "b", change=refuse)
    result = evaluate(rows(), **arguments)
    [failure] = [o for o in result.outcomes if isinstance(o, Failure)]
    assert ("rejected", True) == (failure.kind, "too long for me" in failure.reason)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits the size of files, as POSIX does")
def test_a_full_disk(server, data, tmp_path):
    """Ends the command with a message. No request is lost: the next run writes all of them."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000)); from ragstone.cli import main; main()"
    arguments = ["evaluate", data, "--judge", server.url, "--metrics", CCRS, "--batch", tmp_path / "b"]
    # Not its bytecode, which the limit would cut, for all later commands.
    done = subprocess.run(
        [sys.executable, "-B", "-c", limited, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert 3 == done.returncode, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert (
        f"ragstone: the batch folder '{tmp_path / 'b'}' cannot be read or written: File too large. Requests are missing"
        in last
    )
    assert not list((tmp_path / "b").glob("*requests-*"))
    assert 3 == run_command(*arguments).returncode
    answer(server, tmp_path / "b")
    assert 0 == run_command(*arguments).returncode


def test_several_processes_are_refused(server, tmp_path):
    """Before any row is scored."""
    with pytest.raises(ConfigurationError, match="scores in one process, got processes=2"):
        evaluate(rows(), ["ccrs.cc"], judge=server.url, batch=tmp_path / "b", processes=2)
    assert not server.stats.requests


def test_an_empty_folder_name_is_refused(server, tmp_path, monkeypatch):
    """It is a variable of the shell that is not set, and not the current directory."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="the batch folder is an empty text"):
        evaluate(rows(), ["ccrs.cc"], judge=server.url, batch="")
    assert not list(tmp_path.iterdir())
