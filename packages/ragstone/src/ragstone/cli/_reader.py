"""Options of the reader, for each command that has `--reader`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ragstone.cli._panels import READER

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
    Estimator | None,
    typer.Option(
        "--reader-estimator",
        rich_help_panel=READER,
        help="How p(abstain) is estimated. auto (the default) uses the most accurate method that the endpoint supports.",
    ),
]
DrawsOption = Annotated[
    int | None,
    typer.Option(
        "--reader-max-draws", min=1, rich_help_panel=READER, help="Maximum replies drawn per p(abstain). Default: 20."
    ),
]
