"""Which samples changed between two systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

import ragstone
from ragstone.errors import ConfigurationError
from ragstone.experiments import Experiment, _cards
from ragstone.schema import Failure, Score

METRIC = "ccrs.qr"


def experiment(*values: float | None, first: int = 0) -> Experiment:
    """A system with these scores. None is a failure."""
    rows = [
        {"id": f"q{i}", "query": f"Why {i}?", "contexts": ["Rain."], "response": f"Because {value}."}
        for i, value in enumerate(values, start=first)
    ]
    result = ragstone.evaluate(rows, [METRIC], judge="lexical")
    outcomes = [
        Failure(kind="timeout", reason="late", **common)
        if value is None
        else Score(value=value, method="x", judge=o.judge, **common)
        for o, value in zip(result.outcomes, values, strict=True)
        for common in [
            {
                "sample_id": o.sample_id,
                "metric": METRIC,
                "metric_version": o.metric_version,
                "judge_hash": o.judge_hash,
            }
        ]
    ]
    return replace(result, outcomes=tuple(outcomes))


def ids(changed: Sequence[object]) -> list[str]:
    """The ids in order."""
    return [each.sample_id for each in changed]


def test_the_largest_change_comes_first_and_a_loss_before_an_equal_gain() -> None:
    """Equal scores, rounding errors and samples without both scores are not changes."""
    old = experiment(0.5, 0.2, 0.9, 0.4, 0.3, None, 0.7)
    new = experiment(0.5, 0.4, 0.7, 0.9, 0.1 + 0.2, 0.8, None)
    comparison = ragstone.compare({"old": old, "new": new})

    changed = comparison.changed(METRIC)
    assert ["q3", "q2", "q1"] == ids(changed)
    first = changed[0]
    assert ("old", "new", METRIC, 0.4, 0.9) == (first.baseline, first.system, first.metric, first.before, first.after)
    assert pytest.approx(0.5) == first.change
    assert [True, False, True] == [each.is_better for each in changed]
    assert ["q3"] == ids(comparison.changed(METRIC, min_change=0.5)), "a change equal to the limit counts"
    assert ["q3", "q2"] == ids(comparison.changed(METRIC, n=2))
    assert [0.9, 0.7] == [
        comparison.changed(METRIC, system="old")[0].before,
        comparison.changed(METRIC, baseline="old")[1].after,
    ]


def test_a_higher_score_is_a_loss_if_lower_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """The direction of the metric decides which change is better."""
    known = _cards.card_of
    monkeypatch.setattr(_cards, "card_of", lambda name: replace(known(name), direction="lower"))
    old, new = experiment(0.5, 0.5), experiment(0.2, 0.8)
    old, new = (replace(each, cards=()) for each in (old, new))

    changed = ragstone.compare({"old": old, "new": new}).changed(METRIC)
    assert [("q1", False), ("q0", True)] == [(each.sample_id, each.is_better) for each in changed]


def test_one_of_several_systems_must_be_named() -> None:
    """A comparison with a baseline uses that one."""
    systems = {"a": experiment(0.1, 0.1), "b": experiment(0.2, 0.1), "c": experiment(0.1, 0.3)}
    comparison = ragstone.compare(systems)

    with pytest.raises(ConfigurationError, match=r"there are 3 systems .*system='c'"):
        comparison.changed(METRIC)
    assert ["q1"] == ids(comparison.changed(METRIC, system="c"))
    assert ["q1", "q0"] == ids(comparison.changed(METRIC, system="c", baseline="b"))
    assert "c" == ragstone.compare(systems, baseline="c").changed(METRIC, system="a")[0].baseline


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "ccrs.cc"}, "unknown metric 'ccrs.cc'"),
        ({"system": "x"}, "unknown system 'x'"),
        ({"system": "a", "baseline": "a"}, "both 'a'"),
        ({"min_change": -0.1}, "min_change must be .* got -0.1"),
        ({"min_change": float("nan")}, "min_change must be .* got nan"),
        ({"n": 0}, "n must be at least 1, got 0"),
    ],
)
def test_an_invalid_argument_is_named(arguments: dict[str, object], message: str) -> None:
    """The error says the value, the rule and what is possible."""
    comparison = ragstone.compare({"a": experiment(0.1, 0.2), "b": experiment(0.2, 0.1)})
    with pytest.raises(ConfigurationError, match=message):
        comparison.changed(**{"metric": METRIC} | arguments)


def test_different_samples_do_not_change() -> None:
    """Traffic of two periods has no sample in common."""
    comparison = ragstone.compare(
        {"a": experiment(0.1, 0.2), "b": experiment(0.2, 0.1, first=5)}, paired=False, cluster=None
    )
    with pytest.raises(ConfigurationError, match="do not share samples"):
        comparison.changed(METRIC)
