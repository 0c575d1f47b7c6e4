"""What commands print of names, reasons and texts that come from files and from judges."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path

import pytest

from command_line import run_in_new_process
from ragstone._util.ascii import replace_unshown
from ragstone.cli import main
from ragstone.cli._output import print_json
from ragstone.schema import Score
from watched_store import DAY_S, make

HOSTILE = "a\x1b[31mb\x9b2Jc\u202ed"


def written(path: Path, metric: str) -> str:
    """A file of six outcomes, as a hostile hand would write it."""
    scores = [Score(sample_id=f"q{i}", metric=metric, metric_version="1", method="x", value=i / 5) for i in range(6)]
    path.write_text("".join(score.model_dump_json() + "\n" for score in scores), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_names_from_a_file_do_not_reach_the_terminal_as_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """Escapes would recolour, clear or turn around what stands there; JSON says them in its own way."""
    files = [written(tmp_path / f"{name}.jsonl", HOSTILE) for name in "ab"]
    with pytest.raises(SystemExit):
        main(["compare", *files, *options])

    out = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in out)
    if options:
        assert HOSTILE in {metric["metric"] for metric in json.loads(out)["metrics"]}


def test_errors_that_quote_a_file_do_not_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal lists the metrics that are there."""
    files = [written(tmp_path / f"{name}.jsonl", HOSTILE) for name in "ab"]
    with pytest.raises(SystemExit):
        main(["compare", *files, "--metrics", "ccrs"])

    err = capsys.readouterr().err
    assert "no system has outcomes of 'ccrs'" in err
    assert all(c.isprintable() or c == "\n" for c in err)


def test_an_output_that_has_only_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    """Similar characters or question marks, where Python would end with an error. JSON keeps its texts."""
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", stdout)
    text = "a \u00b7 b \u2026 \u00e9 \ud800"
    replace_unshown(stdout)
    print(text)
    print_json({"name": text})
    first, _, rest = stdout.buffer.getvalue().decode("ascii").partition("\n")
    assert "a - b ... ? ?" == first
    assert {"name": text} == json.loads(rest)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_names_of_applications_on_any_output(tmp_path: Path, encoding: str) -> None:
    """The title of an alarm has a character that is not ASCII."""
    store = make(tmp_path / "a.db", time.time() - 11.6 * DAY_S)
    for command in ("watch", "status"):
        done = run_in_new_process(command, store, PYTHONIOENCODING=encoding)
        assert 0 == done.returncode, done.stderr
        assert f"qa-bot {'-' if encoding == 'ascii' else chr(0xB7)} " in done.stdout
