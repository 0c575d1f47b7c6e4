"""`--max-failed-share`: the share of judged outcomes that may fail before a command exits with code 3."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from ragstone.cli._panels import LIMITS
from ragstone.scoring import JudgedCounts

MAX_FAILED_SHARE: Final = 0.5
"""Default limit: with more failures than scores, a mean says more about the failures than about the application."""

FailedShareOption = Annotated[
    float,
    typer.Option(
        "--max-failed-share",
        min=0,
        max=1,
        rich_help_panel=LIMITS,
        help="Exit with code 3 if a larger share of the judged outcomes failed.",
    ),
]


def describe_excess(counts: JudgedCounts, limit: float) -> str | None:
    """Return why a run with these counts exits with code 3, or None if it does not."""
    if counts.failed_share <= limit:
        return None
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.kinds.most_common())
    return (
        f"{counts.n_failed} of {counts.n} judged outcomes failed ({counts.failed_share:.0%}), more than the limit "
        f"of {limit:.0%} (--max-failed-share). By kind: {kinds}."
    )
