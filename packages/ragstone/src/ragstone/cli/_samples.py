"""`ragstone samples`: print a small file to try commands with."""

from __future__ import annotations

from typing import Annotated

import typer

from ragstone.demo import SAMPLE_FILES, sample_file
from ragstone.errors import ConfigurationError

_FILES = "\n\n".join(f"{name}: {content}." for name, content in SAMPLE_FILES.items())


def samples_command(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Which file: " + ", ".join(SAMPLE_FILES) + ".")
    ] = "answers",
) -> None:
    """Print a small sample file, to try other commands with: `ragstone samples > samples.jsonl`."""
    if name not in SAMPLE_FILES:
        raise ConfigurationError(f"unknown sample file {name!r}. Available: {', '.join(SAMPLE_FILES)}.")
    typer.echo(sample_file(name), nl=False)


samples_command.__doc__ = f"{samples_command.__doc__}\n\n{_FILES}"
