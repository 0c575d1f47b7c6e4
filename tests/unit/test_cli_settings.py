"""Settings on the command line: `--set`, options that are keys, their sources, and `doctor --settings`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from command_line import app, run_command
from ragstone.cli._commands import all_tables
from ragstone.settings import TABLES

SECRET = "hunter2-very-secret"


def settings(*arguments: object, **environment: str) -> dict[str, tuple[str, str]]:
    """Return the value and the source of each setting."""
    done = run_command(*arguments, "doctor", "--settings", "--json", **environment)
    assert 0 == done.returncode, done.stderr
    return {row["key"]: (row["value"], row["source"]) for row in json.loads(done.stdout)}


def shown(*options: str, **environment: str) -> tuple[str, str]:
    """Return `limits.concurrency` of a command line with these options."""
    done = run_command("doctor", "--settings", "--json", *options, **environment)
    assert 0 == done.returncode, done.stderr
    (row,) = [row for row in json.loads(done.stdout) if row["key"] == "limits.concurrency"]
    return row["value"], row["source"]


def test_each_source_comes_before_the_next(tmp_path: Path) -> None:
    """An option comes before the environment, the environment before the file, and the file before the default."""
    file = tmp_path / "r.toml"
    file.write_text("[limits]\nconcurrency = 3\n")
    assert ("16", "default") == settings()["limits.concurrency"]
    assert ("3", "file") == settings("--config", file)["limits.concurrency"]
    assert ("4", "environment") == settings("--config", file, RAGSTONE_LIMITS_CONCURRENCY="4")["limits.concurrency"]
    assert ("5", "option") == shown("--set", "limits.concurrency=5", RAGSTONE_LIMITS_CONCURRENCY="4")
    assert ("6", "option") == shown("--set", "limits.concurrency=5", "--set", "limits.concurrency=6")


def test_all_settings_are_listed_without_secrets() -> None:
    """`doctor --settings` lists each key, calls no endpoint, and prints neither keys nor passwords."""
    environment = {"RAGSTONE_JUDGE": f"http://u:{SECRET}@127.0.0.1:9/v1", "RAGSTONE_JUDGE_API_KEY": SECRET}
    found = settings(**environment)
    assert {f"{table}.{name}" for table, kind in TABLES.items() for name in kind.model_fields} == found.keys()
    assert ("(hidden)", "environment") == found["judge.api_key"]
    assert ("http://127.0.0.1:9/v1", "environment") == found["judge.url"]
    for width in ("80", "120", "200"):
        done = run_command("doctor", "--settings", COLUMNS=width, **environment)
        assert 0 == done.returncode
        assert SECRET not in done.stdout + done.stderr
        assert max(map(len, done.stdout.splitlines())) <= int(width)
        assert ("meaning" in done.stdout) == (width != "80")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("judge.max_retrys=8", "--set: 'judge.max_retrys' is not a setting. Did you mean 'max_retries'? Keys of [judge]:"),
        ("jugde.max_retries=8", "--set: 'jugde' is not a table of settings. Did you mean 'judge'?"),
        ("judge.max_retries=many", "--set: judge.max_retries must be an integer of at least 0, got 'many'."),
        ("judge.max_retries", "--set: 'judge.max_retries' must be TABLE.KEY=VALUE. Example: --set judge.max_retries=8"),
        ("watch.min_drop=0.1", "--set: `evaluate` does not use watch.min_drop. It uses the tables embedder, scoring, judge, reader, "),
    ],
)  # fmt: skip
def test_an_invalid_setting_names_key_rule_and_way_out(text: str, message: str) -> None:
    """A setting that cannot be used is a usage error before anything is read."""
    done = run_command("evaluate", "none.jsonl", "--set", text)
    assert 2 == done.returncode
    assert f"ragstone: {message}" in done.stderr


@pytest.mark.parametrize(
    ("command", "text", "message"),
    [
        ("report x.db", "limits.concurrency=3", "`report` does not use limits.concurrency. It uses limits.max_page_mb. Commands that use limits.concurrency: evaluate, repair, worker, ingest, replay, "),
        ("evaluate x.jsonl", "scoring.mode=process", "`evaluate` does not use scoring.mode. It uses scoring.reasons, scoring.metrics, scoring.sinks. Only `Monitor`, or a command that is not installed, uses scoring.mode."),
        ("worker x.db", "analysis.seed=3", "`worker` does not use analysis.seed. It uses the tables judge, "),
        ("labels draw x.db", "judge.draws=3", "`labels draw` does not use judge.draws. It uses analysis.seed. Commands that use judge.draws: "),
        ("compare a.jsonl b.jsonl", "analysis.undecided=pass", "Commands that use analysis.undecided: evaluate, report, replay."),
        ("lab udcg rank a.jsonl", "judge=lexical", None),
        ("report x.db", "scoring.reasons=3", None),
    ],
)  # fmt: skip
def test_a_setting_that_a_command_does_not_use_is_refused(command: str, text: str, message: str | None) -> None:
    """A key that would change nothing is a usage error that names keys of the command, and the commands that use the key."""
    done = run_command(*command.split(), "--set", text)
    assert 2 == done.returncode
    assert ("does not use" in done.stderr, True) == (message is not None, (message or "") in done.stderr), done.stderr


def test_each_key_that_a_command_uses_is_a_setting() -> None:
    """The table of commands names tables and keys that exist."""
    keys = {f"{table}.{name}" for table, kind in TABLES.items() for name in kind.model_fields}
    words = {word for each in all_tables()[1].values() for word in each.settings.split()}
    assert set() == words - keys - {*TABLES, "*", "--set"}


@pytest.mark.parametrize("written", ["judge.url=http://c/v1", "judge=http://c/v1"])
def test_an_option_comes_before_the_environment_and_the_file(written: str, tmp_path: Path) -> None:
    """Also if it is written as `--set`: a key of the command line is not sent to the endpoint of the file."""
    file = tmp_path / "r.toml"
    file.write_text("[judge]\nurl = 'http://a/v1'\ndraws = 9\n")
    found = settings("--config", file, RAGSTONE_JUDGE_DRAWS="6")
    assert (("http://a/v1", "file"), ("6", "environment")) == (found["judge.url"], found["judge.draws"])
    done = run_command("--config", file, "doctor", "--settings", "--json", "--set", written, "--set", "judge.api_key=k")
    rows = {row["key"]: (row["value"], row["source"]) for row in json.loads(done.stdout)}
    assert (("http://c/v1", "option"), ("(hidden)", "option")) == (rows["judge.url"], rows["judge.api_key"])


def test_the_name_of_a_table_and_its_main_key_are_one_key() -> None:
    """The last one counts, in any order."""
    for first, last in (("judge", "judge.url"), ("judge.url", "judge")):
        done = run_command("doctor", "--settings", "--json", "--set", f"{first}=lexical", "--set", f"{last}=openai:m")
        assert "openai:m" == json.loads(done.stdout)[0]["value"]


def test_an_empty_key_is_refused() -> None:
    """A variable that is not set does not call an endpoint without a key."""
    done = run_command("evaluate", "rows.jsonl", "--judge", "http://127.0.0.1:9/v1", "--set", "judge.api_key=")
    assert (2, "ragstone: --set: judge.api_key must be a text.\n") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (("--judge-model", "m", "--set", "judge.model="), "--set"),
        (("--set", "judge.model=", "--judge-model", ""), "--judge-model"),
        (("--set", "judge.draws=2", "--set", "judge.model="), "--set"),
    ],
)
def test_the_last_option_of_a_key_counts(options: tuple[str, ...], place: str) -> None:
    """Its error names how it was written."""
    done = run_command("doctor", "--settings", *options)
    assert (2, f"ragstone: {place}: judge.model must be a text, got ''.\n") == (done.returncode, done.stderr)


def test_the_settings_of_a_store_that_does_not_exist_are_an_error(tmp_path: Path) -> None:
    """A misspelled path does not look like a store without a plan."""
    done = run_command("doctor", "--settings", "--store", tmp_path / "none.db")
    assert 2 == done.returncode
    assert "store not found" in done.stderr


def test_an_option_is_checked_by_the_rule_of_its_key() -> None:
    """The message of an option that is a key names the option, the key, the rule and the value."""
    done = run_command("evaluate", "none.jsonl", "--reasons", "-1")
    assert (2, "ragstone: --reasons: scoring.reasons must be an integer of at least 0, got -1.\n") == (
        done.returncode,
        done.stderr,
    )


def test_keys_are_completed() -> None:
    """The shell offers the keys that begin with the written text."""
    command = typer.main.get_command(app).commands["evaluate"]  # type: ignore[attr-defined]
    (option,) = [option for option in command.params if option.name == "set"]
    context = typer.Context(command)
    offered = [item.value for item in option.shell_complete(context, "judge.max_r")]
    assert ["judge.max_retries="] == offered
    assert [] == option.shell_complete(context, "research.")


def test_the_plan_of_a_store_is_a_source(tmp_path: Path) -> None:
    """The settings of a store's plan are shown with this source, and options come before them."""
    store, rows = tmp_path / "r.db", tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"query": "a b", "contexts": ["a b c"], "response": "b"}) + "\n")
    scored = run_command("replay", rows, "--store", store, "--judge", "lexical", "--metrics", "ccrs.qr")
    assert 0 == scored.returncode, scored.stderr
    done = run_command("doctor", "--settings", "--store", store, "--json")
    sources = {row["key"]: (row["value"], row["source"]) for row in json.loads(done.stdout)}
    assert ("ccrs.qr", "plan") == sources["scoring.metrics"]
    assert ("lexical", "plan") == sources["judge.url"]
    done = run_command("doctor", "--settings", "--store", store, "--json", "--judge", "http://127.0.0.1:9/v1")
    sources = {row["key"]: (row["value"], row["source"]) for row in json.loads(done.stdout)}
    assert ("http://127.0.0.1:9/v1", "option") == sources["judge.url"]


def test_the_hint_to_keep_outcomes_follows_the_errors_of_settings(tmp_path: Path) -> None:
    """It is printed when scoring starts, and not before a message about a run that does not start."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"query": "a b", "contexts": ["a b c"], "response": "b"}) + "\n")
    for options in (("--metrics", "none"), ("--judge", "lexical", "--sink", "none:x"), ()):
        done = run_command("evaluate", rows, *options)
        assert 2 == done.returncode
        assert "Only the means" not in done.stderr
    done = run_command("evaluate", rows, "--judge", "lexical", "--metrics", "ccrs.qr")
    assert 0 == done.returncode
    assert 1 == done.stderr.count("Only the means will be printed.")


def test_a_model_that_does_not_exist_is_an_error_of_its_source(tmp_path: Path) -> None:
    """The message names the variable, the table of the file or the option that the user wrote."""
    file, rows = tmp_path / "r.toml", tmp_path / "rows.jsonl"
    file.write_text("[judge]\nurl = 'nobody'\n")
    rows.write_text(json.dumps({"query": "a b", "contexts": ["a b c"], "response": "b"}) + "\n")
    found = [
        run_command("evaluate", rows, RAGSTONE_JUDGE="nobody"),
        run_command("evaluate", rows, "--judge", "lexical", RAGSTONE_READER="nobody"),
        run_command("--config", file, "evaluate", rows),
        run_command("--config", file, "evaluate", rows, "--judge", "nobody"),
    ]
    assert [2] * 4 == [done.returncode for done in found]
    assert [
        "RAGSTONE_JUDGE='nobody'",
        "RAGSTONE_READER='nobody'",
        "url = 'nobody' in the table [judge]",
        "--judge 'nobody'",
    ] == [done.stderr.partition(" is unknown")[0].removeprefix("ragstone: ") for done in found]


def test_a_key_is_not_sent_to_several_judges(tmp_path: Path) -> None:
    """A judge card of several endpoints has the key of each."""
    labels = tmp_path / "labels.jsonl"
    row = {"query": "Why?", "contexts": ["Because."], "response": "Because.", "metric": "ccrs.qr"}
    labels.write_text("".join(json.dumps({**row, "id": str(n), "label": n % 2}) + "\n" for n in range(20)))
    judges = ("--judge", "http://127.0.0.1:9/v1", "--judge", "http://127.0.0.1:10/v1")
    done = run_command("lab", "judge-card", "--labels", labels, *judges, RAGSTONE_JUDGE_API_KEY=SECRET)
    assert 2 == done.returncode
    assert "judge.api_key is for one endpoint, and --judge names several." in done.stderr
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("port", ["99999", "x"])
def test_a_judge_at_an_impossible_port_is_not_waited_for(port: str, tmp_path: Path) -> None:
    """It is an error of the URL, which does not show its password."""
    done = run_command("evaluate", tmp_path / "rows.jsonl", "--judge", f"http://u:{SECRET}@h:{port}/v1")
    assert 2 == done.returncode
    assert "is not a URL: Port" in done.stderr
    assert SECRET not in done.stderr
