"""The commands. Results are printed to stdout, progress and notes to stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

import ragstone
from ragstone.cli._commands import (
    children,
    command_at,
    example_of,
    is_group,
    load_function,
    nearest,
    panel_of,
    purpose_of,
)
from ragstone.cli._declare import command_of
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._help import HELP_NAMES, add_shared_options, use_layout, wants_help
from ragstone.cli._logs import LogFormat, configure_logging
from ragstone.cli._signals import end_at_once


class _LazyCommands(Mapping[str, Any]):
    """The commands of a group by name. A command's module is imported when the command is first looked up."""

    def __init__(self, path: str) -> None:
        self._start = f"{path} " if path else ""
        self._names = children(path)
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._loaded:
            path = self._start + name
            texts = {"epilog": f"Example:\n\n{example_of(path)}", "rich_help_panel": panel_of(path)}
            if is_group(path):
                self._loaded[name] = _Group(name=name, path=path, help=purpose_of(path), **texts)
            else:
                self._loaded[name] = _load(name, path, texts)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def listed(self) -> dict[str, TyperCommand]:
        """Return commands that have a purpose only. Importing all commands takes a second."""
        return {
            name: TyperCommand(name, help=purpose_of(path), rich_help_panel=panel_of(path))
            for name, path in ((name, self._start + name) for name in self)
        }


def _load(name: str, path: str, texts: Mapping[str, Any]) -> Any:
    """Import a command."""
    whole = typer.Typer(add_completion=False)
    with end_at_once():
        whole.command(name, **texts)(command_of(load_function(path)))
    command = typer.main.get_command(whole)
    command.settings = command_at(path).settings  # type: ignore[attr-defined]
    add_shared_options(command)
    return command


class _Group(TyperGroup):
    """A group of commands, which are imported when they are used."""

    commands: Any

    def __init__(self, *, path: str = "", **attributes: Any) -> None:
        super().__init__(no_args_is_help=attributes.pop("no_args_is_help", True), **attributes)
        self.commands = _LazyCommands(path)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._listed():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._listed():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _listed(self) -> Iterator[None]:
        """List commands in the block without their modules, whose import takes a second."""
        loading, self.commands = self.commands, self.commands.listed()
        try:
            yield
        finally:
            self.commands = loading

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            path = nearest(name)
            hint = "`ragstone --help` lists all commands." if path is None else f"Did you mean `ragstone {path}`?"
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)


_EXPECTED: Final = {
    "greater_than_equal": "a number of at least {ge}",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}",
    "less_than": "a number below {lt}",
    **dict.fromkeys(("int_parsing", "int_from_float", "int_type"), "an integer"),
    **dict.fromkeys(("float_parsing", "float_type"), "a number"),
}


def _describe_value(error: typer.BadParameter) -> str:
    """Return the message for an invalid value of an option. Typer validates with pydantic, whose text omits the value."""
    from pydantic import ValidationError

    if isinstance(error.__cause__, ValidationError):
        (first, *_) = error.__cause__.errors(include_url=False)
        if (expected := _EXPECTED.get(first["type"])) is not None:
            return f"got {first['input']!r}. Write {expected.format(**first.get('ctx', {}))}."
    return error.message.removeprefix("Value error, ")


class _Commands(_Group):
    """All commands. Typer turns Ctrl-C into exit code 130 without a message, so they print it."""

    def make_context(self, info_name: Any, args: list[str], *more: Any, **options: Any) -> Any:
        if wants_help(args):
            use_layout()
        return super().make_context(info_name, args, *more, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _describe_value(error)
            raise
        except KeyboardInterrupt:
            typer.echo("ragstone: interrupted. Stored results are kept.", err=True)
            raise typer.Exit(ExitCode.INTERRUPTED) from None


app = typer.Typer(
    name="ragstone",
    cls=_Commands,
    help="Measure the quality of a RAG application's retrieval and answers, with a confidence interval for every mean.",
    no_args_is_help=True,
    context_settings={"help_option_names": HELP_NAMES},
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:  # noqa: FBT001 - typer passes it by position
    if value:
        typer.echo(f"ragstone {ragstone.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print log messages to stderr.")] = False,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Format of log messages: text, or json for log collectors.")
    ] = "text",
    config: Annotated[Path | None, typer.Option("--config", help="TOML file with settings.")] = None,
) -> None:
    configure_logging(logging.INFO if verbose else logging.WARNING, log_format)
    if config is not None:
        # A command that does not use settings does not read it.
        from ragstone.settings import read_file

        read_file(config)
