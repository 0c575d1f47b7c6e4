"""The command line: parse, call, print."""

from ragstone.cli._signals import end_at_once, interruptible

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run `ragstone`, and exit with an `ExitCode`."""
    with interruptible():
        # All other modules are imported inside, because a signal ends an import with a traceback.
        with end_at_once():
            from ragstone.cli._main import run
        run(arguments)
