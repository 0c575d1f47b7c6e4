"""The options that say how the judge is asked for a number, for each command that scores."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from ragstone.cli._panels import JUDGE

__all__ = ["NumberTokensOption", "ScoreDrawsOption", "ScoreModeOption"]

ScoreMode = Literal["single", "expected", "sampled"]
ScoreModeOption = Annotated[
    ScoreMode,
    typer.Option(
        "--judge-score-mode",
        rich_help_panel=JUDGE,
        help="What a judge's number is: its reply, the expectation over all numbers of the scale where the endpoint tells "
        "their probabilities, or the mean of several replies.",
    ),
]
ScoreDrawsOption = Annotated[
    int, typer.Option("--judge-draws", min=2, rich_help_panel=JUDGE, help="Replies for --judge-score-mode sampled.")
]
NumberTokensOption = Annotated[
    int | None,
    typer.Option(
        "--judge-max-tokens",
        min=1,
        rich_help_panel=JUDGE,
        help="Length limit of the judge's replies with a number. A judge that reasons first needs 4096. Default: 64.",
    ),
]
