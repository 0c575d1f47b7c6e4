"""Options of the reader, for each command that has `--reader`."""

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
        help="File with the application's prompt, which contains {context} and {question}: text, or *.json with a list of "
        "chat messages. Default: Ragstone's prompt.",
    ),
]
AbstentionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reader-abstention",
        rich_help_panel=READER,
        help="The reader's reply if the passages do not contain the answer. Repeatable. Default: NO-RESPONSE.",
    ),
]
EstimatorOption = Annotated[
    Estimator,
    typer.Option(
        "--reader-estimator",
        rich_help_panel=READER,
        help="How p(abstain) is estimated. auto uses the most accurate method that the endpoint supports.",
    ),
]
DrawsOption = Annotated[
    int | None,
    typer.Option(
        "--reader-max-draws", min=1, rich_help_panel=READER, help="Maximum replies drawn per p(abstain). Default: 20."
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
    """Build the reader from its options. Without options, return `spec` unchanged.

    Args:
        spec: Value of `--reader`.
        judge: The judge whose model reads if no reader is given. A judge object shares its connections and limits.
        prompt: Value of `--reader-prompt`.
        abstention: Values of `--reader-abstention`.
        estimator: Value of `--reader-estimator`.
        draws: Value of `--reader-max-draws`.
        connection: Options of the reader's own endpoint, if it has one.

    Raises:
        ConfigurationError: If the file cannot be read, the prompt lacks a placeholder or the reader does not have a
            model.
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
