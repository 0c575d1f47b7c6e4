"""Options that define how the judge rates, for each command that scores."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from ragstone.cli._panels import JUDGE

ScoreMode = Literal["single", "expected", "sampled", "reasoned"]
ScoreModeOption = Annotated[
    ScoreMode | None,
    typer.Option(
        "--judge-score-mode",
        rich_help_panel=JUDGE,
        help="How a rating is obtained. single (the default): one reply. expected: the expected value over all numbers of the scale "
        "(if the endpoint returns log-probabilities). sampled: the mean of several replies. reasoned: reasons first, then the number.",
    ),
]
ScoreDrawsOption = Annotated[
    int | None,
    typer.Option(
        "--judge-draws",
        min=2,
        rich_help_panel=JUDGE,
        help="Number of replies for --judge-score-mode sampled. Default: 5.",
    ),
]
NumberTokensOption = Annotated[
    int | None,
    typer.Option(
        "--judge-max-tokens",
        min=1,
        rich_help_panel=JUDGE,
        help="Maximum tokens of a rating reply. A judge that reasons first gets 4096 in addition. Default: 64.",
    ),
]
