"""`--help` fits a terminal: names of options are whole at 60 and 80 columns, and no line is longer."""

from __future__ import annotations

import re
from typing import Annotated

import pytest
import typer

from command_line import run_command, run_in_new_process
from ragstone.cli._help import add_shared_options


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize(
    ("command", "names"),
    [
        (("evaluate",), ("--judge-model", "--budget-usd", "-o, --output", "--fail-under METRIC=MEAN")),
        (("compare",), ("--equivalent-within", "--gate-metrics", "--unpaired")),
        (("labels", "add"), ("store", "--author")),
    ],
)
def test_names_are_not_cut(width: int, command: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Neither is a type, and the opposite of a flag stands below it."""
    done = run_in_new_process(*command, "--help", COLUMNS=str(width), TERMINAL_WIDTH=str(width))
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stdout.splitlines() if line.startswith("│ --") and "…" in line[:32]]
    for name in names:
        assert name in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= width


def test_the_short_form_of_help() -> None:
    """`-h` is `--help` in the program, in commands, in groups and in the commands of groups."""
    for command in ((), ("metrics",), ("labels",), ("labels", "add")):
        short, long = (run_command(*command, name, COLUMNS="80") for name in ("-h", "--help"))
        assert 0 == short.returncode
        assert "Usage:" in short.stdout
        assert long.stdout == short.stdout


def test_hidden_options_are_shown_by_help_all(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help-all` shows the options that `--help` omits, and exists only if there are such options."""

    def command(shown: Annotated[int, typer.Option()] = 0, rare: Annotated[int, typer.Option(hidden=True)] = 0) -> None:
        print(shown, rare)

    app = typer.Typer(add_completion=False)
    app.command()(command)
    built = typer.main.get_command(app)
    add_shared_options(built)

    def texts(*arguments: str) -> str:
        built.main(arguments, "program", standalone_mode=False)
        return capsys.readouterr().out

    assert "--help-all" in texts("--help")
    assert "--rare" not in texts("--help")
    assert "--rare" in texts("--help-all")
    assert "0 5\n" == texts("--rare", "5")
    assert "--help-all" not in run_command("labels", "draw", "--help").stdout


@pytest.mark.parametrize("command", ["evaluate", "replay"])
def test_the_help_fits_a_screen(command: str) -> None:
    """`--help` shows at most 25 options in 60 lines of 80 columns, and `--help-all` shows all of them."""
    short = run_in_new_process(command, "--help", COLUMNS="80", TERMINAL_WIDTH="80").stdout
    whole = run_in_new_process(command, "--help-all", COLUMNS="80", TERMINAL_WIDTH="80").stdout
    assert len(re.findall("^│ -", short, re.MULTILINE)) <= 25
    assert short.count("\n") <= 60
    assert {*re.findall("^│ (-.*?)  ", short, re.MULTILINE)} < {*re.findall("^│ (-.*?)  ", whole, re.MULTILINE)}
    assert "--retriever-tool" not in short
    assert "--retriever-tool" in whole
