"""The command line: parse, call, print."""

from ragstone.cli._main import main

__all__ = ["main"]
