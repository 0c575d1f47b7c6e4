"""An option of the command line is the name of its Python parameter, with dashes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

import ragstone
from command_line import app
from ragstone.experiments import save_run
from ragstone.judges import ConnectionOptions
from ragstone.replay import areplay_traces
from ragstone.settings import Limits
from ragstone.worker import ScoringSetup, Worker
from ragstone_lab import (
    build_dataset,
    build_negatives,
    correlate_udcg,
    fit_udcg,
    rank_udcg,
    run_udcg_experiment,
    topicality,
    validate_metrics,
)

PYTHON: dict[str, tuple[Callable[..., Any], ...]] = {
    "evaluate": (ragstone.evaluate, save_run),
    "compare": (ragstone.compare, ragstone.Comparison.check_regression, ragstone.Comparison.view),
    "replay": (areplay_traces,),
    "worker": (ScoringSetup, Worker),
    "lab validate-metrics": (validate_metrics,),
    "lab topicality": (topicality,),
    "lab dataset build": (build_dataset,),
    "lab dataset negatives": (build_negatives,),
    "lab udcg fit": (fit_udcg,),
    "lab udcg correlate": (correlate_udcg,),
    "lab udcg rank": (rank_udcg,),
    "lab udcg experiment": (run_udcg_experiment,),
}
"""The functions that a command stands for."""

ONLY_HERE = {
    *(
        "json",
        "output",
        "dry-run",
        "until-idle",
        "plan",
        "replan",
        "fail-if-worse",
        "field",
        "rows",
        "cache",
        "repeat",
        "details",
        "fail-under",
        "equivalent-within",
        "junit",
        "listen",
        "from",
    ),
    *(
        "judge-model",
        "erag",
        "run",
        "full",
        "budget-usd",
        "set",
        "help-all",
        "criterion",
        "no-retriever-tool",
    ),
}
"""Options that have no parameter of their name: they print, write, or stand for an object or its opposite."""


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """All commands, by their full names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


COMMANDS = dict(commands(typer.main.get_command(app)))


def spellings(parameter: str) -> set[str]:
    """What the option of a parameter may be called: without its unit, without `n_`, one of several."""
    bare = parameter.removesuffix("_s").removeprefix("n_")
    return {name.replace("_", "-") for name in (parameter, bare, bare.removesuffix("s"), bare.removesuffix("es"))} | {
        bare.removesuffix("eses").replace("_", "-") + "esis"
    }


def test_every_command_is_known():
    """A renamed command is renamed here as well."""
    assert PYTHON.keys() <= COMMANDS.keys()


@pytest.mark.parametrize("name", sorted(PYTHON))
def test_options_are_called_as_in_python(name: str):
    """No option is without its Python twin."""
    parameters = {p for function in PYTHON[name] for p in inspect.signature(function).parameters}
    allowed = {
        s
        for p in {*parameters, *ConnectionOptions.__annotations__, *Limits.model_fields, "judge", "reader"}
        for s in spellings(p)
    }
    options = {o.removeprefix("--") for p in COMMANDS[name].params for o in p.opts if o.startswith("--")}

    assert set() == options - allowed - ONLY_HERE
