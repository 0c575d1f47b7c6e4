"""`--help` fits a terminal: names of options are whole at 60 and 80 columns, and no line is longer."""

from __future__ import annotations

import pytest

from command_line import run_in_new_process


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize(
    ("command", "names"),
    [
        (("evaluate",), ("--max-concurrent-requests", "--usd-per-million-tokens", "--no-stop-early", "--output, -o")),
        (
            ("compare",),
            ("--no-across-metrics", "--equivalent-within", "--allow-different-judges", "--confidence-level"),
        ),
        (("labels", "add"), ("store", "--label-range")),
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


def test_the_list_of_commands_is_unchanged() -> None:
    """Commands have their own columns."""
    lines = run_in_new_process("--help", COLUMNS="80", TERMINAL_WIDTH="80").stdout.splitlines()
    assert any(line.split()[1:3] == ["compare", "Compare"] for line in lines if len(line.split()) > 2)
