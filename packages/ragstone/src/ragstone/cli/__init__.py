"""The command line: parse, call, print."""

from ragstone._util.own_process import collect_garbage_rarely
from ragstone.cli._signals import end_at_once, interruptible, until_exit

__all__ = ["main", "program"]


def main(arguments: list[str] | None = None) -> None:
    """Run `ragstone`, and exit with an `ExitCode`."""
    with interruptible():
        # All other modules are imported inside, because a signal ends an import with a traceback.
        with end_at_once():
            from ragstone.cli._main import run
        run(arguments)


def program() -> None:
    """Run `ragstone` as a process, which ends with it."""
    collect_garbage_rarely()
    with until_exit():
        main()
