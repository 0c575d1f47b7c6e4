"""Check that scores of different systems are on the same scale."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.experiments._table import Origin

_MIXED: Final = (
    ("different versions of a metric", "version"),
    ("different judges", "judge"),
    ("a judge with different settings", "judge_hash"),
)


def judge_notes(metric: str, scales: Mapping[str, Collection[Origin]], *, allowed: bool) -> list[str]:
    """Check that scores of a metric are on the same scale, and return warnings if different scales are allowed.

    Raises:
        ConfigurationError: If the scales differ and `allowed` is false.
    """
    by_parts = [_by_part(scales, part) for _, part in _MIXED]
    mixed = [(what, by) for (what, _), by in zip(_MIXED, by_parts, strict=True) if len(set().union(*by.values())) > 1]
    if not mixed:
        return []
    what, by = mixed[0]
    values_text = "; ".join(
        f"{system}: {', '.join(map(repr, sorted(values)))}" for system, values in by.items() if values
    )
    note = f"{metric}: scores of {what} are not on the same scale ({values_text})"
    if not allowed:
        raise ConfigurationError(
            f"{note}. Score all systems with the same judge and version, or use `compare` with allow_different_judges "
            "(`ragstone compare --set analysis.allow_different_judges=true`) or without the metric (--metrics), and interpret the "
            "differences with care."
        )
    return [f"WARNING {note}: differences may come from the judges instead of the systems"]


def _by_part(scales: Mapping[str, Collection[Origin]], part: str) -> dict[str, set[str]]:
    return {system: {getattr(scale, part) for scale in made_with} for system, made_with in scales.items()}
