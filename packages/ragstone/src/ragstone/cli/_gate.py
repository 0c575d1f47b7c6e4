"""`--fail-under`: a gate on means, for the commands that score or read scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from ragstone._util.files import check_output
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._output import leave
from ragstone.errors import ConfigurationError
from ragstone.experiments import ScoreCheck, check_level, check_thresholds
from ragstone.metrics import Metric, full_name, resolve_metrics
from ragstone.settings import Analysis


def check_junit(path: Path | None, *, has_gate: bool, gates: str) -> None:
    """Check `--junit` before anything is scored."""
    if path is not None:
        if not has_gate:
            raise ConfigurationError(f"--junit writes the result of a gate. Add {gates}")
        check_output(path, (".xml",))


def parse_metric_values(option: str, texts: Sequence[str]) -> dict[str, float]:
    """Parse the values METRIC=MEAN of an option."""
    values: dict[str, float] = {}
    for text in texts:
        metric, separator, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            separator = ""
        if not separator or not metric:
            raise ConfigurationError(f"{option} must be METRIC=MEAN, got {text!r}. Example: {option} ccrs.ac=0.8")
        if full_name(metric) in map(full_name, values):
            raise ConfigurationError(f"{option} is given twice for {metric!r}. Give each metric once")
        values[metric] = value
    return values


def parse_thresholds(
    texts: Sequence[str] | None,
    analysis: Analysis,
    metrics: Sequence[str | Metric] | None = None,
    *,
    junit: Path | None = None,
) -> dict[str, float]:
    """Parse `--fail-under`, and check it before anything is scored. `metrics` is None if they are not known yet."""
    check_junit(junit, has_gate=bool(texts), gates="--fail-under METRIC=MEAN")
    thresholds = parse_metric_values("--fail-under", texts or ())
    check_level(analysis.confidence_level, decides_gate=bool(thresholds))
    if thresholds and metrics is not None:
        check_thresholds(thresholds, [metric.card for metric in resolve_metrics(metrics)])
    return thresholds


def exit_if_failed(check: ScoreCheck | None) -> None:
    """Exit with 1 if a metric misses its threshold or is undecided, or with 3 if the only failed ones have no score."""
    if check is None or check.ok:
        return
    if not check.is_testable:
        names = ", ".join(gate.metric for gate in check.gates if gate.state == "no score")
        leave(f"the gate cannot be decided, because {names} does not have a score.")
    raise typer.Exit(ExitCode.GATE)
