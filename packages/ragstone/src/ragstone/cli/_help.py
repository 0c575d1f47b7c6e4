"""`--help`, and `--help-all` for the options that it does not show."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from ragstone.cli._options import options_of

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


def add_shared_options(command: Any) -> None:
    """Add the options of settings to each command that uses them, and `--help-all` if there are hidden options."""
    for inner in getattr(command, "commands", {}).values():
        add_shared_options(inner)
    if getattr(command, "settings", ""):
        # Imported only here: the list of commands does not need the settings.
        from ragstone.cli._settings import options_for

        command.params += options_for(command)
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
