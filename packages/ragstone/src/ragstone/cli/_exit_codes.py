"""Exit codes of the commands."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of all commands. `docs/reference/cli.md` has the same table."""

    OK = 0
    GATE = 1
    """A gate failed."""
    USAGE = 2
    """An argument, a file or the configuration is invalid, or a file or store was not found."""
    INFRASTRUCTURE = 3
    """The store, a sink or the judge failed, or more judged outcomes failed than the limit."""
    BUDGET = 4
    """The budget was reached before everything was scored."""
    INTERRUPTED = 130
    """Ctrl-C, SIGTERM or SIGHUP."""
