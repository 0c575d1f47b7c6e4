"""`--help`, and `--help-all` for the options that it does not show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

HELP_NAMES: Final = ["-h", "--help"]
_ALL: Final = "--help-all"


def wants_help(arguments: list[str]) -> bool:
    """Whether arguments ask for a help text."""
    return not arguments or not {*HELP_NAMES, _ALL}.isdisjoint(arguments)


def use_layout() -> None:
    """Let Typer print options in two columns. Imported only here: most commands do not print help."""
    from typer import rich_utils

    from ragstone.cli._help_table import HelpTable

    rich_utils.Table = HelpTable  # type: ignore[attr-defined]


def options_of(declaration: Callable[..., None]) -> list[Any]:
    """Return the options that a function declares in its signature, for commands that share them."""
    whole = typer.Typer(add_completion=False)
    whole.command()(declaration)
    return list(typer.main.get_command(whole).params)


def add_help_all(command: Any) -> None:
    """Add `--help-all` to each command within a command that has hidden options."""
    for inner in getattr(command, "commands", {}).values():
        add_help_all(inner)
    if any(getattr(parameter, "hidden", False) for parameter in command.params):
        command.params += options_of(_declare_help_all)


def _show_all(context: typer.Context, value: bool) -> None:  # noqa: FBT001 - typer passes it by position
    if value and not context.resilient_parsing:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


def _declare_help_all(
    *,
    help_all: Annotated[
        bool,
        typer.Option(_ALL, is_eager=True, expose_value=False, callback=_show_all, help="Show all options and exit."),
    ] = False,
) -> None:
    """Declare the option."""
