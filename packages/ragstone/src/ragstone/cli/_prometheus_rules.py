"""`ragstone store prometheus-rules`: alert rules for the metrics of a worker."""

from __future__ import annotations

import importlib.resources
import string

import typer

from ragstone.errors import ConfigurationError
from ragstone.experiments import card_of


def prometheus_rules_command(*, target: list[str] | None = None) -> None:
    """Print Prometheus alert rules.

    The rules use the metrics of `--listen` and of `PrometheusSink`.

    Options:
        target (METRIC=MEAN): Also alert if the mean of a metric over 24 hours is worse than this. Repeatable.
    """
    rules = [_read("ragstone.rules.yml")]
    if target:
        rules += ["\n  - name: ragstone-targets\n    rules:\n", "\n".join(map(_target_rule, target))]
    typer.echo("".join(rules), nl=False)


def _read(name: str) -> str:
    return (importlib.resources.files("ragstone.sinks") / "alerts" / name).read_text(encoding="utf-8")


def _target_rule(text: str) -> str:
    """Return the rule of METRIC=MEAN."""
    metric, _, mean = text.rpartition("=")
    card = card_of(metric) if metric else None
    if card is None:
        raise ConfigurationError(
            f"--target must be METRIC=MEAN with the name of a metric, such as ccrs.qr=0.8, got {text!r}. "
            "`ragstone metrics` lists them."
        )
    try:
        target = float(mean)
    except ValueError:
        raise ConfigurationError(f"--target {card.name}= needs a number, got {mean!r}.") from None
    if not card.low < target < card.high:
        raise ConfigurationError(
            f"the target of {card.name} must be strictly between {card.low:g} and {card.high:g}, got {target:g}."
        )
    is_higher = card.direction == "higher"
    return string.Template(_read("target.rules.yml")).substitute(
        alert="RagstoneMeanBelowTarget" if is_higher else "RagstoneMeanAboveTarget",
        operator="<" if is_higher else ">",
        metric=card.name.replace("\\", r"\\").replace('"', r"\""),
        target=f"{target:g}",
    )
