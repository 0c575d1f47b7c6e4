"""`ragstone metrics`: the list is complete, an explanation can be followed, and a package that is missing hides nothing."""

from __future__ import annotations

import importlib.util
import json

import pytest

from command_line import run_command
from ragstone.metrics import all_metrics


def run(*arguments):
    return run_command("metrics", *arguments)


def test_every_metric_is_listed():
    """Each metric has its line, with what it needs."""
    lines = {line.split()[0]: line for line in run().stdout.splitlines()[1:] if line.strip()}
    for metric in all_metrics():
        assert all(need in lines[metric.card.name] for need in metric.card.needs)


def test_metrics_stand_under_their_group():
    """What --metrics takes can be read off: the name of a group, then its members."""
    lines = run().stdout.splitlines()
    groups = [line.removesuffix(" (group)") for line in lines if line.endswith(" (group)")]
    assert list(dict.fromkeys(metric.card.group for metric in all_metrics())) == groups
    assert lines.index("ccrs (group)") < next(i for i, line in enumerate(lines) if line.startswith("ccrs.ir "))


def test_one_is_explained_with_its_example():
    """Definition, needs and cost, then a sample, what the judge replies, and the value that follows."""
    told = run("ccrs.ac").stdout
    for part in (
        "λ EM(r, g)",
        "response, reference",
        "judge 1 per sample",
        "judge reply for",
        ": 70",
        "0.7 * 0",
        "0.21",
    ):
        assert part in told


def test_a_parameter_makes_another_metric():
    """What `evaluate` takes as a metric can be explained."""
    assert "ndcg@3" in run("ndcg@3").stdout


def test_json_holds_the_cards():
    """A bound that is none is null, as JSON has no infinity."""
    cards = {card["name"]: card for card in json.loads(run("--json").stdout)}
    assert {metric.card.name for metric in all_metrics()} == set(cards)
    assert 0.21 == cards["ccrs.ac"]["example"]["value"]
    json.dumps(list(cards.values()), allow_nan=False)


def test_an_unknown_name_is_refused_with_a_hint():
    """The message names what is close."""
    done = run("ccrs.qq")
    assert 2 == done.returncode
    assert "Did you mean 'ccrs" in done.stderr


def test_what_is_not_installed_is_explained_all_the_same(monkeypatch):
    """Reading about a metric needs none of its packages; the line says which extra brings it."""
    extras = [metric.card for metric in all_metrics() if metric.card.extra is not None]
    if not extras:
        pytest.skip("no metric needs an extra")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    told = run(extras[0].name).stdout
    assert extras[0].extra.extra in told
