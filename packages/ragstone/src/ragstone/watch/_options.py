"""Options of the monitoring: the table `[watch]` of a configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

from ragstone.errors import ConfigurationError
from ragstone.sinks import check_alarm_spec

SESSION_MAX_S: Final = 4 * 3600.0
"""A session that has been open for four hours is closed, and its next request starts a new unit."""

LATE_SHARE: Final = 0.1
"""Largest share of units of a session seen before for which the promise covers a stream."""


_SLICES: Final = ("release", "environment", "operation", "retriever", "language")
"""Slices with a fixed name. The others are `tag:NAME`."""
_MAX_SLICES: Final = 12
_MIN_CANARIES: Final = 5
_MAX_CANARIES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Range and direction of a metric with two finite bounds."""

    low: float
    high: float
    higher_is_better: bool = True

    def to_unit(self, value: float) -> float:
        """Map a value of the metric to [0, 1]."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def to_value(self, unit: float) -> float:
        """Map a number in [0, 1] to the range of the metric."""
        return self.low + unit * (self.high - self.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How streams are watched.

    Raises:
        ConfigurationError: If a value is out of range.
    """

    false_alarms_per_quarter: float = 1.0
    """Expected number of false alarms per quarter, over all applications and metrics of one store. In (0, 100]."""
    min_drop: float = 0.05
    """Smallest drop that matters, as a share of the metric's range, in (0, 0.5]. The tolerance is 0.3 of it."""
    session_gap_s: float = 1800.0
    """A session is closed this long after its last request, in seconds, at most four hours."""
    slices: Sequence[str] = (*_SLICES, "tag:topic")
    """Fields whose values are compared when an alarm is raised, at most 12: `release`, `environment`, `operation`,
    `retriever`, `language` and `tag:NAME`, the values of the tags NAME:VALUE."""
    canaries: int = 0
    """Requests that the judge scores again every day, to see whether it has changed. 0, or 5 to 200. Their texts are kept."""
    notify: Sequence[str] = ()
    """Destinations of alarms: `slack:https://...`, `webhook:https://...`, `otlp` or `otlp:http://...`."""
    targets: Mapping[str, float] = field(default_factory=dict)
    """Required mean by metric, in the metric's unit. It replaces the learned reference."""

    def __post_init__(self) -> None:
        """Check all values."""
        _check("false_alarms_per_quarter", self.false_alarms_per_quarter, 0.0, 100.0)
        _check("min_drop", self.min_drop, 0.0, 0.5)
        _check("session_gap_s", self.session_gap_s, 0.0, SESSION_MAX_S)
        if type(self.canaries) is not int or self.canaries not in (0, *range(_MIN_CANARIES, _MAX_CANARIES + 1)):
            raise ConfigurationError(
                f"[watch] canaries must be 0 or {_MIN_CANARIES} to {_MAX_CANARIES} requests, got {self.canaries!r}."
            )
        if unknown := [name for name in self.slices if name not in _SLICES and not re.fullmatch("tag:.+", name)]:
            raise ConfigurationError(
                f"[watch] slices must be among {', '.join(_SLICES)} and tag:NAME, got {', '.join(unknown)}."
            )
        if len(self.slices) > _MAX_SLICES:
            raise ConfigurationError(f"[watch] slices can name at most {_MAX_SLICES} fields, got {len(self.slices)}.")
        for place in self.notify:
            try:
                check_alarm_spec(str(place))
            except ConfigurationError as error:
                raise ConfigurationError(f"[watch] notify: {error}") from None

    @classmethod
    def from_table(cls, table: Mapping[str, Any], *, source: str) -> Self:
        """Read the table `[watch]`.

        Args:
            table: Its keys and values.
            source: Name of the file, for messages.

        Raises:
            ConfigurationError: If a key is unknown or a value is invalid.
        """
        known = [f.name for f in fields(cls)]
        if unknown := sorted(set(table) - set(known)):
            raise ConfigurationError(
                f"{source!r}: [watch] does not have {', '.join(unknown)}. Keys: {', '.join(known)}."
            )
        values = dict(table)
        for key in ("slices", "notify"):
            if key in values:
                if not isinstance(values[key], Sequence) or isinstance(values[key], str):
                    raise ConfigurationError(f"{source!r}: [watch] {key} must be a list, got {values[key]!r}")
                values[key] = tuple(map(str, values[key]))
        targets = values.get("targets", {})
        if not isinstance(targets, Mapping):
            raise ConfigurationError(f"{source!r}: [watch] targets must be a table of numbers, got {targets!r}")
        for metric, target in targets.items():
            if not _is_number(target):
                raise ConfigurationError(f"{source!r}: the target of {metric!r} must be a number, got {target!r}")
        return cls(**values)

    def check_targets(self, scales: Mapping[str, Scale]) -> None:
        """Check that each target belongs to a watched metric and lies strictly inside its range.

        Args:
            scales: Ranges of the watched metrics, by name.

        Raises:
            ConfigurationError: If one does not.
        """
        for metric, target in self.targets.items():
            scale = scales.get(metric)
            if scale is None:
                raise ConfigurationError(
                    f"[watch.targets] names {metric!r}, which is not a computed metric with a finite range. Metrics: "
                    f"{', '.join(scales) or 'none'}."
                )
            if not scale.low < target < scale.high:
                raise ConfigurationError(
                    f"the target of {metric!r} must be strictly between {scale.low:g} and {scale.high:g}, got {target:g}."
                )


def _check(name: str, value: object, low: float, high: float) -> None:
    if not _is_number(value) or not low < value <= high:  # type: ignore[operator]
        raise ConfigurationError(f"[watch] {name} must be a number above {low:g} and at most {high:g}, got {value!r}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
