"""`--criterion FILE`: criteria of the user, in addition to `--metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragstone.metrics import quote, split_metrics


def parse_metrics(metrics: str, criteria: Sequence[Path] | None) -> list[str]:
    """Return the names of metrics: those of a text, then one for each file of criteria."""
    return [*split_metrics(metrics), *parse_criteria(criteria)]


def parse_criteria(criteria: Sequence[Path] | None) -> list[str]:
    """Return the names of the metrics of files of criteria."""
    return [f"criterion@{quote(str(file))}" for file in criteria or ()]
