"""The options that say how the application's generator is asked, for each command that has a `--reader`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ragstone.cli._panels import READER
from ragstone.errors import ConfigurationError
from ragstone.judges import ConnectionOptions, Judge, Reader, judge_from, reader_from

__all__ = ["AbstentionOption", "DrawsOption", "EstimatorOption", "ReaderPromptOption", "build_reader"]

Estimator = Literal["auto", "exact", "first_token", "monte_carlo"]

ReaderPromptOption = Annotated[
    Path | None,
    typer.Option(
        "--reader-prompt",
        rich_help_panel=READER,
        help="A file with the application's own prompt, {context} and {question} in it: a text, or *.json with a list of "
        "chat messages. Default: our own.",
    ),
]
AbstentionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reader-abstention",
        rich_help_panel=READER,
        help="What the reader replies when the passages lack the answer. May be given several times. Default: NO-RESPONSE.",
    ),
]
EstimatorOption = Annotated[
    Estimator,
    typer.Option(
        "--reader-estimator",
        rich_help_panel=READER,
        help="How p(abstain) is found; auto takes the best that the endpoint can do.",
    ),
]
DrawsOption = Annotated[
    int | None,
    typer.Option(
        "--reader-max-draws", min=1, rich_help_panel=READER, help="Most replies drawn for one p(abstain). Default: 20."
    ),
]


def build_reader(
    spec: str | None,
    *,
    judge: Judge | str | None,
    prompt: Path | None = None,
    abstention: list[str] | None = None,
    estimator: Estimator = "auto",
    draws: int | None = None,
    connection: ConnectionOptions | None = None,
) -> Reader | str | None:
    """The reader that the options describe; without any, `spec` as it is.

    Args:
        spec: What `--reader` says.
        judge: Whose model reads where no reader is named; an object shares its connections and limits.
        prompt: What `--reader-prompt` says.
        abstention: What `--reader-abstention` says.
        estimator: What `--reader-estimator` says.
        draws: What `--reader-max-draws` says.
        connection: Options of the reader's own endpoint, if it has one.

    Raises:
        ConfigurationError: A file that cannot be read, a prompt without its places, a reader without a model.
    """
    options: dict[str, Any] = {}
    if prompt is not None:
        options["prompt"] = _prompt(prompt)
    if abstention:
        options["abstention"] = tuple(abstention)
    if estimator != "auto":
        options["estimator"] = estimator
    if draws is not None:
        options["max_draws"] = draws
    if connection and (spec or os.environ.get("RAGSTONE_READER")):
        return reader_from(spec, judge=judge_from(judge), connection=connection, **options)
    if not options:
        return spec
    return reader_from(spec, judge=judge_from(judge), **options)


def _prompt(file: Path) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
        return json.loads(text) if file.suffix == ".json" else text
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--reader-prompt {str(file)!r} cannot be read: {error}") from None
