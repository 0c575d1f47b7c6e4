"""`ragstone evaluate FILE --app module:name`, as a user meets it: output, exit codes, resume after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import MAIN, Done, run_command
from fake_servers import FakeJudgeServer
from waiting import wait_until

APP = """
import os, time

def ask(question):
    with open("asked.txt", "a") as file:
        file.write(question + "\\n")
    return {"response": "At the river.", "contexts": ["The stone lies at the river."]}

def hang(question):
    if "c" in question and not os.path.exists("go"):
        time.sleep(600)
    return ask(question)

def fail(question):
    raise LookupError("no index")

broken = 3
class Engine: ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with an application and a dataset, as the current one."""
    (tmp_path / "rag.py").write_text(APP, encoding="utf-8")
    (tmp_path / "wrong.py").write_text("import a_package_that_is_missing\n", encoding="utf-8")
    rows = [{"id": name, "question": f"Where is {name}?", "ground_truth": "At the river."} for name in "abc"]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    # The command imports the application in this process.
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "rag", raising=False)
    return tmp_path


def evaluate(app: str, *options: object) -> Done:
    """Run the command."""
    return run_command("evaluate", "q.jsonl", "--judge", "lexical", "--app", app, *options)


def asked(folder: Path) -> list[str]:
    """The questions that the application got."""
    file = folder / "asked.txt"
    return sorted(file.read_text().splitlines()) if file.exists() else []


def test_an_application_is_asked_and_scored(folder: Path) -> None:
    """Outcomes go to the file, the captured calls to another one, and these can be evaluated again."""
    done = evaluate("rag:ask", "--output", "o.jsonl", "--repeats", "2", "--metrics", "ccrs.ac,ccrs.cc")

    assert 0 == done.returncode, done.stderr
    assert "6 calls of the application, 0 failed" in done.stdout
    assert "means of 2 repeats" in done.stdout
    outcomes = [json.loads(line) for line in (folder / "o.jsonl").read_text().splitlines()]
    assert ["a", "a", "b", "b", "c", "c"] == [outcome["sample_id"] for outcome in outcomes]
    traces = folder / "q.rag.ask.traces.jsonl"
    assert ["a#1", "a#2"] == [json.loads(line)["trace_id"] for line in traces.read_text().splitlines()[:2]]
    again = run_command("evaluate", traces, "--judge", "lexical", "--metrics", "ccrs.ac,ccrs.cc", "--json")
    assert [6, 6] == [metric["n_scored"] for metric in json.loads(again.stdout)["metrics"]]


def test_each_repeat_and_each_run_asks_the_judge(folder: Path) -> None:
    """Also about the same answer: another model may have the URL, and the judge is a part of a repeat's deviation."""
    with FakeJudgeServer() as server:
        command = ["evaluate", "q.jsonl", "--judge", server.url, "--metrics", "ccrs.cc", "--app", "rag:ask", "--json"]
        for options, n_calls in (
            ([], 3),
            ([], 3),
            (["--repeats", "2"], 6),
            (["--set=cache=kept", "--repeats", "2"], 6),
        ):
            done = run_command(*command, *options)
            assert 0 == done.returncode, done.stderr
            usage = json.loads(done.stdout)["usage"]
            assert 0 == usage["cached"]
            assert n_calls <= usage["calls"] <= n_calls + 1  # one that prepares the endpoint
        usage = json.loads(run_command(*command, "--set=cache=kept", "--repeats", "2").stdout)["usage"]
        assert (0, 6) == (usage["calls"], usage["cached"])
    assert not [*folder.glob("*.cache")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_is_resumed_by_the_same_command(folder: Path, number: signal.Signals) -> None:
    """What was answered is not asked again, also while a call hangs in a thread."""
    command = [sys.executable, "-c", MAIN, "evaluate", "q.jsonl", "--judge", "lexical", "--app", "rag:hang"]
    partial = folder / "q.rag.hang.traces.jsonl.partial"
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        wait_until(lambda: partial.exists() and 2 == partial.read_bytes().count(b"\n"), limit_s=120)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=240)
    if number == signal.SIGINT:
        assert 130 == process.returncode
        assert "2 answers are kept. Run the same command to resume." in stderr
    assert 2 == partial.read_bytes().count(b"\n")
    (folder / "go").touch()
    done = evaluate("rag:hang", "--json")

    assert 0 == done.returncode, done.stderr
    assert ["Where is a?", "Where is b?", "Where is c?"] == asked(folder)
    assert 3 == json.loads(done.stdout)["application"]["n_calls"]
    assert not partial.exists()


def test_failures_of_every_sample_are_reported_with_the_exit_code_of_infrastructure(folder: Path) -> None:
    """With the application's own message."""
    done = evaluate("rag:fail")
    assert 3 == done.returncode
    assert "application, for example ccrs.cc of sample a: the application raised LookupError: no index" in done.stderr
    (folder / "q.jsonl").write_text("".join(f'{{"question": "{n}"}}\n' for n in range(30)), encoding="utf-8")
    stopped = evaluate("rag:fail")
    assert 3 == stopped.returncode
    assert "first 10 of 30 samples, so the run was stopped" in stopped.stderr
    assert "Traceback" not in stopped.stderr


@pytest.mark.parametrize(
    ("app", "options", "expected"),
    [
        ("rag", (), "--app must be MODULE:NAME, got 'rag'"),
        ("rag.py:ask", (), "--app must be MODULE:NAME, got 'rag.py:ask'"),
        ("absent:ask", (), "the module 'absent' was not found in"),
        ("wrong:ask", (), "'a_package_that_is_missing' is not installed"),
        ("rag:nope", (), "'rag' does not have 'nope'. Its functions and classes: Engine, ask, fail, hang"),
        ("rag:broken", (), "got int"),
        ("rag:Engine", (), "got the class Engine"),
        ("rag:ask", ("--traces", "no/t.jsonl"), "does not exist. Create it"),
    ],
)
def test_wrong_options_are_explained(folder: Path, app: str, options: tuple[str, ...], expected: str) -> None:
    """Value, rule and way out; nothing is asked."""
    done = evaluate(app, *options)

    assert (2, []) == (done.returncode, asked(folder))
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_options_of_an_application_need_one(folder: Path) -> None:
    """Otherwise they would have no effect."""
    done = run_command("evaluate", "q.jsonl", "--judge", "lexical", "--repeats", "3")
    assert 2 == done.returncode
    assert "belong to an application" in done.stderr
