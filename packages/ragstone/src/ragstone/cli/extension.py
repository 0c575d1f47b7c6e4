"""What a distribution needs to add commands to `ragstone`.

Its entry point of the group `ragstone.commands` has the name of a command that `ragstone --help` lists, and is a module
with two tables by path: `GROUPS` (the purpose of each group of commands) and `COMMANDS` (a `Command` each). The modules
of the commands are in the same package, as in `ragstone.cli`: the function `NAME_command` in `_NAME.py`, or in that of
the group. These names may change in any release, as those of `ragstone.extension`.
"""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.cli._application import load_app
    from ragstone.cli._commands import Command
    from ragstone.cli._estimate import cost_of
    from ragstone.cli._exit_codes import ExitCode
    from ragstone.cli._models import Models, with_cache
    from ragstone.cli._options import parse_named_file
    from ragstone.cli._output import (
        describe_excess,
        leave,
        print_result,
        print_text,
        sanitize_for_terminal,
        terminal_options,
    )
    from ragstone.cli._progress import show_progress
    from ragstone.cli._settings import OF_COMMAND, arguments_of, settings_of
    from ragstone.cli._stdin import stdin_as_file

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_application": "load_app",
            "_commands": "Command",
            "_estimate": "cost_of",
            "_exit_codes": "ExitCode",
            "_models": "Models with_cache",
            "_options": "parse_named_file",
            "_output": "describe_excess leave print_result print_text sanitize_for_terminal terminal_options",
            "_progress": "show_progress",
            "_settings": "OF_COMMAND arguments_of settings_of",
            "_stdin": "stdin_as_file",
        },
        "ragstone.cli",
    )
