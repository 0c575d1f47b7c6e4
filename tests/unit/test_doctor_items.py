"""The items of `ragstone doctor`, and how often a judge is called unusable."""

from __future__ import annotations

import asyncio
from itertools import product
from math import factorial

import pytest

from ragstone.cli._doctor_items import ITEMS, LEAST_AGREED, ItemsResult, rate_items
from ragstone.testing import FakeJudge


def result(n_agreed: int, n_ordered: int, n_reversed: int) -> ItemsResult:
    """Return the result of 30 items, all of them answered."""
    return ItemsResult(
        n=30,
        n_agreed=n_agreed,
        n_unusable=0,
        n_forced=0,
        n_ordered=n_ordered,
        n_reversed=n_reversed,
        calls=30,
        seconds=0.0,
    )


def chance_of_use(right: float, wrong: float) -> float:
    """Return the exact probability that a judge is called usable, from its probabilities of agreement on both kinds."""
    total = 0.0
    pairs = len(ITEMS)
    both, neither = right * wrong, (1 - right) * (1 - wrong)
    for n_both, n_neither in product(range(pairs + 1), repeat=2):
        n_one = pairs - n_both - n_neither
        if n_one < 0:
            continue
        ways = factorial(pairs) // (factorial(n_both) * factorial(n_neither) * factorial(n_one))
        chance = ways * both**n_both * neither**n_neither * (1 - both - neither) ** n_one
        # Ratings of 0 and 100: a pair with one agreement is a tie.
        total += chance * result(2 * n_both + n_one, n_both, n_neither).is_usable
    return total


@pytest.mark.parametrize(("right", "wrong"), [(0.8, 0.8), (0.95, 0.65), (0.65, 0.95), (1.0, 0.6), (0.7, 0.9)])
def test_good_judge(right, wrong):
    """A judge that agrees in 80 % is called unusable in at most 1 % of runs, also if one kind of answer is harder."""
    assert 1 - chance_of_use(right, wrong) <= 0.01


@pytest.mark.parametrize("always", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_judge_without_discrimination(always):
    """A judge whose replies do not depend on the answer is called usable in at most 11 % of runs."""
    assert chance_of_use(always, 1 - always) <= 0.11


def test_limits():
    """The documented limit is where the verdict changes."""
    assert result(LEAST_AGREED, 4, 0).is_usable
    assert not result(LEAST_AGREED - 1, 6, 0).is_usable
    assert result(15, 7, 0).is_usable
    assert not result(15, 9, 1).is_usable


def test_items():
    """Each item has a query, a passage and two different answers, and no text occurs twice as a query or passage."""
    assert {4} == {len(item) for item in ITEMS}
    assert 15 == len(ITEMS) == len({item[0] for item in ITEMS}) == len({item[1] for item in ITEMS})
    assert all(text.strip() == text != "" for item in ITEMS for text in item)
    assert all(right != wrong for _, _, right, wrong in ITEMS)


@pytest.mark.parametrize(
    ("n_agreed", "n_ordered", "words"),
    [
        (15, 6, "not better than chance"),
        (15, 7, "rates 7 of 15 right answers above the wrong one, but not on two sides of 50"),
        (19, 5, "this could be chance"),
        (20, 5, "this could be chance"),
        (21, 6, ": better than chance"),
    ],
)
def test_verdict(n_agreed, n_ordered, words):
    """From 21 agreements on, the interval of kappa is above 0. With fewer, the verdict says that it could be chance."""
    judged = result(n_agreed, n_ordered, 0)
    assert words in judged.as_text()
    assert (judged.kappa[1] > 0) == (n_agreed >= 21)


def test_the_middle_of_the_scale_agrees_with_nothing():
    """A judge that always gives 50 says neither right nor wrong."""
    judged = asyncio.run(rate_items(FakeJudge(50)))
    assert (30, 0, 0) == (judged.n, judged.n_agreed, judged.n_ordered)
