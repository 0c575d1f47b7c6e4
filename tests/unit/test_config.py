"""One TOML file for the Monitor and for the commands."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from ragstone.cli import main
from ragstone.errors import ConfigurationError
from ragstone.monitor import Monitor
from ragstone.monitor._monitor import _KEYS
from ragstone.settings import TABLES, read_file


def write(path: Path, text: str) -> Path:
    """Write a configuration."""
    path.write_text(text, encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command line: its exit code, stdout and stderr."""
    code = 0
    try:
        main(list(arguments))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    out = capsys.readouterr()
    return code, out.out, out.err


def test_a_file_can_say_every_argument_that_is_no_object():
    """A key that no argument has could not be set in Python, and the other way round."""
    parameters = set(inspect.signature(Monitor).parameters)
    assert parameters - {"clock"} == {*_KEYS, "judge", "reader", "embedder"}
    whole = {key for key in _KEYS.values() if key in TABLES}
    keys = {f"{table}.{name}" for table, kind in TABLES.items() if table not in whole for name in kind.model_fields}
    captured = {key for key in keys if key.partition(".")[0] in ("scoring", "redaction", "app", "capture")}
    assert captured <= set(_KEYS.values())


def test_a_monitor_by_a_file(tmp_path):
    """Arguments in code count before those of the file."""
    path = write(
        tmp_path / "r.toml",
        f"""
        judge = "lexical"
        [capture]
        store = {str(tmp_path / "a.db")!r}
        [scoring]
        metrics = ["ccrs.qr"]
        [limits]
        concurrency = 3
        """,
    )
    given = {}

    class RecordingMonitor(Monitor):
        def __init__(self, **arguments):
            given.update(arguments)
            super().__init__(**arguments)

    RecordingMonitor.from_config(path, concurrency=5).close()
    expected = {"store": str(tmp_path / "a.db"), "judge": {"url": "lexical"}, "metrics": ("ccrs.qr",), "concurrency": 5}
    assert expected == given


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("metrics = 1", "'metrics' is not a table of settings. Did you mean .scoring. metrics"),
        ("store = ", "cannot be read: Invalid value"),
        (None, "was not found. Check the path"),
        ('[limits]\nconcurrency = "many"', "limits.concurrency must be an integer of at least 1, got 'many'"),
        ("app = 5", "app.name must be a text of 1 to 200 characters, such as 'qa-bot', got 5"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, text, words):
    """The message names the file, the key and what could be meant."""
    path = tmp_path / "r.toml"
    if text is not None:
        write(path, text)
    with pytest.raises(ConfigurationError, match=rf"r\.toml':? {words}"):
        read_file(path)


def test_the_name_of_the_application_is_no_option_of_a_command(tmp_path, capsys):
    """`app` of the file is the captured application, and `evaluate --app` is the function to run."""
    rows = write(tmp_path / "rows.jsonl", json.dumps({"query": "How tall?", "response": "31 m tall.", "contexts": []}))
    config = write(tmp_path / "r.toml", 'judge = "lexical"\napp = "qa-bot"\n[scoring]\nmetrics = ["ccrs.qr"]\n')

    code, out, _ = run(capsys, "--config", str(config), "evaluate", str(rows), "--json")
    assert (0, ["ccrs.qr"]) == (code, [metric["metric"] for metric in json.loads(out)["metrics"]])


def test_commands_use_the_settings_of_a_file(tmp_path, capsys):
    """The command line counts before the file."""
    rows = write(tmp_path / "rows.jsonl", json.dumps({"query": "How tall?", "response": "31 m tall.", "contexts": []}))
    config = write(
        tmp_path / "r.toml",
        f"""
        judge = "lexical"
        [scoring]
        metrics = ["ccrs.qr", "ccrs.cc"]
        sinks = ["jsonl:{tmp_path}/scores.jsonl"]
        """,
    )
    code, out, _ = run(capsys, "--config", str(config), "evaluate", str(rows), "--json")
    assert (0, ["ccrs.qr", "ccrs.cc"]) == (code, [metric["metric"] for metric in json.loads(out)["metrics"]])
    assert 2 == len((tmp_path / "scores.jsonl").read_text().splitlines())

    _, out, _ = run(capsys, "--config", str(config), "evaluate", str(rows), "--json", "--metrics", "ccrs.id")
    assert ["ccrs.id"] == [metric["metric"] for metric in json.loads(out)["metrics"]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[budgt]", "'budgt' is not a table of settings. Did you mean 'budget'?"),
        ("[evaluate]\ndry-run = true", "'evaluate' is not a table of settings. Tables: judge, reader, "),
        ("metrics = 3", "'metrics' is not a table of settings. Did you mean [scoring] metrics?"),
        ("[judge]\nmax-retries = 3\nmax_retries = 4", "judge.max_retries is set twice. Remove one of them."),
    ],
)
def test_a_table_that_is_not_of_settings_is_refused(tmp_path, capsys, text, words):
    """Also by a command that does not use settings: a typo would change nothing, silently."""
    code, _, err = run(capsys, "--config", str(write(tmp_path / "r.toml", text)), "metrics")
    assert 2 == code
    assert words in err


@pytest.mark.parametrize("value", ["0", "'many'", "2.5", "[1]"])
def test_an_invalid_value_names_the_file_it_is_from(tmp_path, capsys, value):
    """The option is named if the command line sets it."""
    rule = "limits.concurrency must be an integer of at least 1, got"
    config = write(tmp_path / "r.toml", f"[limits]\nconcurrency = {value}")
    code, _, err = run(capsys, "--config", str(config), "evaluate", "rows.jsonl", "--judge", "lexical")
    assert 2 == code
    assert f"{str(config)!r}: {rule} " in err
    config = write(tmp_path / "r.toml", "[limits]\nconcurrency = 3")
    code, _, err = run(capsys, "--config", str(config), "evaluate", "rows.jsonl", "--set", "limits.concurrency=0")
    assert (2, f"ragstone: --set: {rule} 0.\n") == (code, err)
