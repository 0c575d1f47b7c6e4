"""Exit codes: 0 ok, 1 a gate failed, 2 usage, 3 infrastructure, 4 budget reached, 130 interrupted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from command_line import run_command
from fake_servers import FakeJudgeServer
from ragstone.schema import Captured, Score, Trace
from ragstone.store import SqliteStore

pytestmark = pytest.mark.usefixtures("virtual_time")

ROWS = [{"id": f"q{i}", "query": f"Why {i}?", "contexts": ["So."], "response": "So."} for i in range(8)]
NOBODY = "http://127.0.0.1:9/v1"
BUDGET = "--judge=SERVER --set budget.calls=1 --metrics=ccrs.qr"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with rows, outcomes and stores, and a judge whose address replaces SERVER."""
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name, value in (("good", 0.9), ("bad", 0.1)):
        scores = (
            Score(sample_id=f"q{i}", metric="ccrs.qr", metric_version="1", method="x", value=value + i / 100)
            for i in range(8)
        )
        Path(f"{name}.jsonl").write_text("".join(score.model_dump_json() + "\n" for score in scores))
    with SqliteStore.open("store.db", mode="own") as store:
        traces = [
            Trace(trace_id=row["id"], started_at=1.0, query=row["query"], response="So.", prompt_contexts=[{"text": "So."}])
            for row in ROWS
        ]  # fmt: skip
        store.traces.ingest("s", 1, [Captured(trace=trace) for trace in traces])
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--version", 0),
        ("no-such-command", 2),
        ("evaluate rows.jsonl --judge lexical", 0),
        ("evaluate rows.jsonl", 2),
        ("evaluate rows.jsonl --dry-run", 0),
        ("evaluate no-such.jsonl", 2),
        ("evaluate rows.jsonl --metrics no-such", 2),
        (f"evaluate rows.jsonl --metrics ccrs.qr --judge {NOBODY} --set limits.deadline_s=1", 3),
        (f"evaluate rows.jsonl {BUDGET}", 4),
        ("compare good.jsonl bad.jsonl", 0),
        ("compare bad.jsonl good.jsonl --fail-if-worse", 0),
        ("compare good.jsonl bad.jsonl --fail-if-worse", 1),
        ("compare good.jsonl bad.jsonl --margin 0.01", 1),
        ("compare good.jsonl good.jsonl --equivalent-within 0.9", 0),
        ("compare bad.jsonl good.jsonl --equivalent-within 0.1", 1),
        ("compare bad.jsonl good.jsonl --equivalent-within 0.1 --margin 0.1", 2),
        ("compare bad.jsonl good.jsonl --margin 2", 2),
        ("compare good.jsonl no-such.jsonl --fail-if-worse", 2),
        ("compare good.jsonl rows.jsonl --fail-if-worse", 2),
        ("replay rows.jsonl --store new.db --judge lexical", 0),
        ("replay rows.jsonl --dry-run", 0),
        ("replay no-such.jsonl", 2),
        (
            f"replay rows.jsonl --store new.db --metrics ccrs.qr --judge {NOBODY} --set limits.max_outage_s=0 --set limits.deadline_s=1",
            3,
        ),
        (f"replay rows.jsonl --store new.db {BUDGET}", 4),
        ("worker store.db --until-idle --judge lexical", 0),
        ("worker store.db --until-idle --metrics no-such", 2),
        ("worker no/such/folder.db --until-idle", 2),
        (f"worker store.db --until-idle {BUDGET}", 4),
        ("status store.db", 0),
        ("status store.db --trace no-such", 2),
        ("status no-such.db", 2),
        ("store deliveries store.db", 0),
        ("store deliveries store.db --sink no-such", 2),
        ("store deliveries no-such.db", 2),
        ("lab validate-metrics good.jsonl", 0),
        ("lab validate-metrics no-such.jsonl", 2),
        ("lab topicality good.jsonl bad.jsonl", 0),
        ("lab topicality good.jsonl no-such.jsonl", 2),
        ("metrics", 0),
        ("metrics no-such", 2),
        ("doctor --judge lexical", 0),
        (f"doctor --judge {NOBODY}", 3),
        ("demo --output-dir rows.jsonl", 2),
        ("ingest new.db --listen nowhere", 2),
        ("ingest no/such/folder.db", 2),
        ("lab dataset build no-such-folder", 2),
        ("lab dataset negatives no-such-folder", 2),
        ("lab udcg correlate no-such.jsonl", 2),
    ],
)
@pytest.mark.usefixtures("folder")
def test_exit_code(command: str, code: int) -> None:
    """Each command says by its code who can act."""
    with FakeJudgeServer() as server:
        done = run_command(*command.replace("SERVER", server.url).split())
    assert code == done.returncode, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "step"),
    [
        ("compare good.jsonl bad.jsonl --fail-if-worse", "ragstone.cli._compare.compare"),
        ("replay rows.jsonl --judge lexical", "ragstone.cli._replay.areplay_traces"),
        ("lab validate-metrics good.jsonl", "ragstone_lab.validate_metrics"),
        ("status store.db", "ragstone.cli._status.read_ledger"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_an_interrupted_command_exits_with_130_and_a_message(
    monkeypatch: pytest.MonkeyPatch, command: str, step: str
) -> None:
    """A command prints that stored results are kept if Ctrl-C interrupts it."""

    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(step, interrupted)
    done = run_command(*command.split())
    assert 130 == done.returncode, done.stderr
    assert "ragstone: interrupted. Stored results are kept." in done.stderr


@pytest.mark.usefixtures("folder")
def test_an_interrupted_evaluation_names_the_option_that_keeps_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an output nothing is kept."""

    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ragstone.cli._evaluate.evaluate", interrupted)
    done = run_command("evaluate", "rows.jsonl")
    assert 130 == done.returncode
    assert "stopped. Nothing is kept. With --output FILE, an interrupted run can be resumed." in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into every folder")
@pytest.mark.usefixtures("folder")
def test_a_file_that_cannot_be_written_is_not_a_failed_gate() -> None:
    """It is the infrastructure's."""
    Path("locked").mkdir(mode=0o500)
    assert 3 == run_command("evaluate", "rows.jsonl", "--judge", "lexical", "-o", "locked/o.jsonl").returncode


@pytest.mark.usefixtures("folder")
def test_a_defect_is_not_a_failed_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own exit code for it, 1, would be one."""

    def broken(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("ragstone.cli._compare.compare", broken)
    done = run_command("compare", "good.jsonl", "bad.jsonl", "--fail-if-worse")
    assert 3 == done.returncode
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("evaluate rows.jsonl --set analysis.undecided=maybe", "must be one of 'fail', 'pass', got 'maybe'"),
        ("evaluate rows.jsonl --on-bad-row guess", "'guess' is not one of 'raise', 'skip'"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_wrong_choice_names_the_value_and_the_choices(command: str, value: str) -> None:
    """In one sentence, without the name of an error class."""
    done = run_command(*command.split(), COLUMNS="200")
    assert (2, True, False) == (done.returncode, value in done.stderr, "Value error" in done.stderr), done.stderr
