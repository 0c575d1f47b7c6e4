"""`evaluate --output`: what is complete survives interruptions and kills, and is not scored again."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from command_line import MAIN, run_command
from ragstone import evaluate
from ragstone.errors import ConfigurationError, JudgeError, StoreError
from ragstone.experiments import count_kept
from ragstone.testing import FakeJudge
from waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")

SLOW = """
import asyncio, os, sys
import ragstone
from ragstone.metrics import MetricBase

class Slow(MetricBase):
    name = "slow"
    title = "Slow"
    description = "Half of the number of the row, after a while."
    needs = frozenset({"query"})
    high = 1000.0

    async def compute(self, sample, judge, reader=None):
        await asyncio.sleep(float(sys.argv[3]))
        # What a model would be paid for.
        with open("paid.txt", "a") as file:
            file.write(sample.id + chr(10))
        return self.make_score(sample, int(sample.id) / 2, method="exact")

if __name__ == "__main__":
    result = ragstone.evaluate(sys.argv[1], [Slow()], output=sys.argv[2], concurrency=3)
    print(result.n_resumed, result.n_cut)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a script and 60 rows."""
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    write_rows(tmp_path / "rows.jsonl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_rows(path: Path, n: int = 60, **fields: Any) -> None:
    """Write rows that all metrics apply to."""
    rows = [
        {"id": str(i), "query": f"How far is {i}?", "contexts": [f"{i} km."], "response": "Far.", "session": i // 2}
        for i in range(n)
    ]
    path.write_text("".join(json.dumps({**row, **fields}) + "\n" for row in rows), encoding="utf-8")


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start the script."""
    return subprocess.Popen([sys.executable, "slow.py", *arguments], stdout=subprocess.PIPE, text=True)


def timeless(path: Path) -> list[dict[str, Any]]:
    """The outcomes in a file, without the times at which they were made."""
    return [json.loads(line) | {"created_at": 0, "duration_s": 0} for line in path.read_text().splitlines()]


def wait_for_lines(folder: Path, process: subprocess.Popen[str], n: int) -> None:
    """Wait until more than `n` samples are complete, or the process has ended."""
    wait_until(lambda: process.poll() is not None or count_kept(folder / "out.jsonl") > n, limit_s=120)


def kill_and_resume(folder: Path, n_kills: int, seed: int) -> None:
    """Kill runs at random points. The last one writes each outcome once, and nothing complete was paid for twice."""
    print(f"seed {seed}")
    points = random.Random(seed)
    partial = folder / "out.jsonl.partial"
    for _ in range(n_kills):
        before = count_kept(folder / "out.jsonl")
        whole = (
            [line for line in partial.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")] if before else []
        )
        complete = {json.loads(line)["sample_id"] for line in whole[1:]}
        paid = len((folder / "paid.txt").read_text().split()) if (folder / "paid.txt").exists() else 0
        with start("rows.jsonl", "out.jsonl", "0.02") as process:
            wait_for_lines(folder, process, before + points.randint(0, max(1, 60 // n_kills)))
            process.kill()
        new = (folder / "paid.txt").read_text().split()[paid:]
        assert not complete & set(new)
        if process.returncode == 0:
            break
        if partial.exists() and points.random() < 0.5:
            # The operating system, or a full disk, may keep a part of the last line only.
            partial.write_bytes(partial.read_bytes()[: -points.randint(1, 30)])
    with start("rows.jsonl", "out.jsonl", "0") as process:
        process.communicate(timeout=120)
    assert process.returncode == 0
    with start("rows.jsonl", "whole.jsonl", "0") as process:
        process.communicate(timeout=120)
    assert timeless(folder / "out.jsonl") == timeless(folder / "whole.jsonl")
    assert Counter(o["sample_id"] for o in timeless(folder / "out.jsonl")) == {str(i): 1 for i in range(60)}
    assert not partial.exists()


def test_killed_runs_resume(folder: Path) -> None:
    """A few kills."""
    kill_and_resume(folder, 3, seed=random.randrange(2**32))


@pytest.mark.long
def test_thirty_killed_runs_resume(folder: Path) -> None:
    """Kills at 30 points."""
    kill_and_resume(folder, 30, seed=random.randrange(2**32))


SIGNALS = [signal.SIGINT, signal.SIGTERM] if sys.platform == "win32" else [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_command_says_what_is_kept(folder: Path, number: signal.Signals) -> None:
    """Exit code 130, no traceback, the number of complete samples and how to go on."""
    write_rows(folder / "rows.jsonl", 4000, contexts=["A long passage of many words. " * 40] * 5)
    command = [sys.executable, "-c", MAIN, "evaluate", "rows.jsonl", "--judge", "lexical", "--output", "out.jsonl"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        wait_until(lambda: count_kept(folder / "out.jsonl") > 20 or process.poll() is not None, limit_s=120)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    n_kept = count_kept(folder / "out.jsonl")
    assert f"stopped. The outcomes of {n_kept} of 4000 samples are kept in 'out.jsonl.partial'." in stderr
    assert "Run the same command to resume." in stderr
    assert not (folder / "out.jsonl").exists()
    assert (folder / "out.jsonl.partial").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("moment", ["hook", "finalizer"])
def test_a_signal_while_python_shuts_down_does_not_end_it(number: signal.Signals, moment: str) -> None:
    """The command is complete. In a hook of `atexit`, the exit code is 130, and afterwards that of the command."""
    code = f"""
import atexit, os, sys
def stop(kill=os.kill, pid=os.getpid()):
    kill(pid, {int(number)})
class Late:
    pass
late = sys.late = Late()
if "{moment}" == "finalizer":
    Late.__del__ = lambda _: stop()
import ragstone.cli
main = ragstone.cli.main
def command():
    if "{moment}" == "hook":
        atexit.register(stop)
    main()
ragstone.cli.main = command
ragstone.cli.program()
"""
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == (130 if moment == "hook" else 0), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout


def test_nohup_is_respected(folder: Path) -> None:
    """A command that starts with SIGHUP ignored continues."""
    command = [sys.executable, "-c", MAIN, "evaluate", "rows.jsonl", "--judge", "lexical", "--output", "out.jsonl"]
    code = (
        f"import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.executable, {command!r})"
    )
    write_rows(folder / "rows.jsonl", 400)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: count_kept(folder / "out.jsonl") > 20 or process.poll() is not None, limit_s=120)
        process.send_signal(signal.SIGHUP)
        assert process.wait(120) == 0
    assert len(timeless(folder / "out.jsonl")) % 400 == 0


@pytest.mark.parametrize("ignores_interrupt", [False, True], ids=["foreground", "background"])
def test_sigterm_cancels_the_work_of_an_event_loop(ignores_interrupt: bool) -> None:
    """Also of a command in the background of a script, which ignores SIGINT. It raises nothing in the middle of other work."""
    code = f"""
import asyncio, os, signal
if {ignores_interrupt}:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
from ragstone.cli._signals import until_exit
async def work():
    try:
        if {ignores_interrupt}:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.1)
            print("goes on")
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("canceled")
        raise
with until_exit():
    asyncio.run(work())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (130, "") == (done.returncode, done.stderr)
    assert [*(["goes on"] if ignores_interrupt else []), "canceled"] == done.stdout.split("\n")[:-1]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("module", ["typer", "pydantic", "ragstone.experiments", "numpy"])
def test_a_signal_during_imports_has_no_traceback(module: str, number: signal.Signals) -> None:
    """The signal arrives when a module is imported for the first time."""
    code = f"""
import os, signal, sys, builtins
before = builtins.__import__
def slow(name, *more, **named):
    if name == "{module}" or name.startswith("{module}."):
        builtins.__import__ = before
        os.kill(os.getpid(), {int(number)})
    return before(name, *more, **named)
from ragstone.cli import main
builtins.__import__ = slow
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "evaluate", "rows.jsonl", "--judge", "lexical"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def interrupted(folder: Path, **options: Any) -> None:
    """Leave a run that was interrupted after 20 samples."""

    def stop(n_done: int, _total: int) -> None:
        if n_done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate("rows.jsonl", ["ccrs.cc"], output="out.jsonl", progress=stop, judge="lexical", **options)
    assert 19 <= count_kept("out.jsonl") <= 20


@pytest.mark.usefixtures("folder")
def test_resumed_and_cut_samples_are_counted(folder: Path) -> None:
    """In the experiment, its text and JSON. Other files stay as they are."""
    interrupted(folder)
    partial = folder / "out.jsonl.partial"
    n_kept = count_kept("out.jsonl")
    lines = partial.read_bytes().splitlines(keepends=True)
    lines[3] = b"\xff\x00 damaged\n"
    lines[4] = lines[4].replace(b'"outcome": "score"', b'"outcome": "sc0re"')
    partial.write_bytes(b"".join(lines) + b'{"sample_id": "to')
    seen: list[int] = []
    result = evaluate(
        "rows.jsonl", ["ccrs.cc"], output="out.jsonl", judge="lexical", progress=lambda n, _: seen.append(n)
    )
    assert (result.n_resumed, result.n_cut) == (n_kept - 2, 3)
    assert seen == list(range(61))
    assert f"outcomes from an interrupted run: {n_kept - 2} samples. 3 cut lines of it, scored again" in str(result)
    assert result.to_dict()["n_resumed"] == n_kept - 2
    assert len(timeless(folder / "out.jsonl")) == 60
    assert not partial.exists()
    again = evaluate("rows.jsonl", ["ccrs.cc"], judge="lexical")
    assert [o.value for o in again.outcomes] == [o.value for o in result.outcomes]


def test_another_run_does_not_resume(folder: Path) -> None:
    """Other metrics, judges and rows are refused with the reason and the way out, and nothing is lost."""
    interrupted(folder)
    kept = (folder / "out.jsonl.partial").read_bytes()
    with pytest.raises(
        ConfigurationError, match=r"metrics ccrs\.cc instead of ccrs\.qr\. Run that command again"
    ) as info:
        evaluate("rows.jsonl", ["ccrs.qr"], output="out.jsonl", judge="lexical")
    assert "delete this file to start again, or give another --output" in str(info.value)
    with pytest.raises(ConfigurationError, match=r"no application instead of application '\S+:answer' and 2 repeats"):
        evaluate("rows.jsonl", ["ccrs.cc"], output="out.jsonl", judge="lexical", app=answer, repeats=2)
    write_rows(folder / "rows.jsonl", response="Near.")
    done = run_command("evaluate", "rows.jsonl", "--metrics", "ccrs.cc", "--judge", "lexical", "-o", "out.jsonl")
    assert done.returncode == 2
    assert "other rows: the data has changed" in done.stderr
    assert (folder / "out.jsonl.partial").read_bytes() == kept
    (folder / "out.jsonl.partial").write_text('{"outcome": "score"}\n')
    with pytest.raises(ConfigurationError, match="is not an interrupted evaluation:"):
        evaluate("rows.jsonl", ["ccrs.cc"], output="out.jsonl", judge="lexical")


def answer(question: str) -> dict[str, Any]:
    """An application."""
    return {"response": f"{question} Far.", "contexts": ["Far."]}


@pytest.mark.usefixtures("folder")
def test_runs_of_an_application_resume_with_their_repeats(folder: Path) -> None:
    """The answers are in the file of traces, and their outcomes in the output."""
    interrupted(folder, app=answer, traces="t.jsonl", repeats=2)
    result = evaluate(
        "rows.jsonl", ["ccrs.cc"], output="out.jsonl", judge="lexical", app=answer, traces="t.jsonl", repeats=2
    )
    assert 19 <= result.n_resumed <= 20
    assert len(result.outcomes) == 60


@pytest.mark.usefixtures("folder")
def test_a_failure_that_may_not_repeat_is_scored_again() -> None:
    """Outages are not complete. Replies that cannot be read are."""

    def stop(n_done: int, _total: int) -> None:
        if n_done == 40:
            raise KeyboardInterrupt

    errors = itertools.cycle([JudgeError("busy", kind="unavailable"), JudgeError("what", kind="unparseable")])
    judge = FakeJudge(fail=lambda _: next(errors))
    with pytest.raises(KeyboardInterrupt):
        evaluate("rows.jsonl", ["ccrs.cc"], output="o.jsonl", judge=judge, progress=stop, concurrency=1)
    kept = Path("o.jsonl.partial").read_text()
    assert "unparseable" in kept
    assert "unavailable" not in kept
    assert count_kept("o.jsonl") == 20


def test_an_output_that_cannot_be_written_is_explained(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory, a missing directory, a long name and a read-only disk: exit code 2 or 3, no traceback."""
    evaluate_to = ("evaluate", "rows.jsonl", "--metrics", "ccrs.cc", "--judge", "lexical", "--output")
    for output, expected, code in [
        (".", "is a directory. Give the path of a file", 2),
        ("no/o.jsonl", "does not exist. Create it", 2),
        ("x" * 300, "File name too long", 2),
    ]:
        done = run_command(*evaluate_to, output)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
        assert expected in done.stderr
    real = os.open

    def read_only(path: Any, *arguments: Any, **more: Any) -> int:
        if str(path).endswith(".partial"):
            raise OSError(30, "Read-only file system")
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(StoreError, match=r"Read-only file system.*give another --output"):
        evaluate("rows.jsonl", ["ccrs.cc"], judge="lexical", output="o.jsonl")
    done = run_command(*evaluate_to, "o.jsonl")
    assert (done.returncode, "Traceback" in done.stderr) == (3, False)
