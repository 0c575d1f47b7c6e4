"""Laws of `compare`: names, order and direction change how a difference is told, never what it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragstone
from ragstone.experiments import Experiment
from ragstone.experiments._compare.pairs import PairDifference
from ragstone.judges import JudgeIdentity
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, Score, Usage
from ragstone.stats._independent import step_down

CARD = MetricCard(
    name="m",
    title="M",
    description="",
    low=0.0,
    high=1.0,
    needs=(),
    version="1",
    source="here",
    group="own",
    judge_calls=0,
)
Values = Sequence[float | None]


def experiment(by_metric: Mapping[str, Values], *, direction: str = "higher") -> Experiment:
    """A system with these values; None is a failure."""
    common = {"metric_version": "1", "judge": "j", "judge_hash": "h"}
    return Experiment(
        samples=(),
        outcomes=tuple(
            Failure(sample_id=f"q{i}", metric=metric, kind="timeout", reason="late", **common)
            if value is None
            else Score(sample_id=f"q{i}", metric=metric, value=value, method="x", **common)
            for metric, values in by_metric.items()
            for i, value in enumerate(values)
        ),
        cards=tuple(replace(CARD, name=metric, direction=direction) for metric in by_metric),
        judge=JudgeIdentity(name="j", hash="h"),
        usage=Usage(),
        wall_s=0.0,
    )


values = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, None])
tables = st.integers(2, 4).flatmap(
    lambda m: st.lists(st.lists(values, min_size=m, max_size=m), min_size=1, max_size=12)
)


def pairs(
    table: Sequence[Values], *, flip: bool = False, direction: str = "higher"
) -> dict[frozenset[str], PairDifference]:
    """All pairs of a table of samples by systems, by their names."""
    columns = [[None if v is None else 1 - v if flip else v for v in column] for column in zip(*table, strict=True)]
    sources = {f"s{i}": experiment({"m": column}, direction=direction) for i, column in enumerate(columns)}
    (metric,) = ragstone.compare(sources, n_permutations=200).metrics
    return {frozenset((p.system, p.other)): p for p in metric.pairs}


@settings(max_examples=60, deadline=None)
@given(tables)
def test_a_pair_s_numbers_belong_together(table):
    """Counts add up, the interval holds the difference, the worst case holds it too, and of a claim the sign is known."""
    for pair in pairs(table).values():
        assert pair.n == pair.n_higher + pair.n_equal + pair.n_lower
        if pair.difference is None:
            assert (0, None, None) == (pair.n, pair.p_value, pair.better)
            continue
        assert pair.low is None or pair.low <= pair.difference <= pair.high
        weight = pair.n / (pair.n + pair.n_failed)
        low, high = pair.bounds
        assert (
            weight * pair.difference - (1 - weight) - 1e-9
            <= low
            <= high
            <= weight * pair.difference + 1 - weight + 1e-9
        )
        if pair.better is not None:
            # The interval is cut at 0 where only the sign is known.
            assert pair.low is None or not pair.low < 0 < pair.high
            assert (pair.better == pair.system) == (pair.difference > 0)


@settings(max_examples=30, deadline=None)
@given(tables)
def test_less_of_the_opposite_is_better(table):
    """A metric turned upside down, of which less is better, makes the same claims."""
    straight, turned = pairs(table), pairs(table, flip=True, direction="lower")
    for names, pair in straight.items():
        other = turned[names]
        assert (pair.p_value is None) == (other.p_value is None)
        if pair.p_value is not None:
            # Where permutations are drawn, other ones are drawn for other numbers.
            assert pair.p_value == pytest.approx(other.p_value, abs=0.3)
            assert None in {pair.better, other.better} or pair.better == other.better


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(values, min_size=2, max_size=2), min_size=1, max_size=7))
def test_two_systems_in_the_other_order_differ_as_much(table):
    """Claims and p-values stay, the sign turns; seven rows have few enough permutations to look at all of them."""
    ((one,), (other,)) = (list(pairs(t).values()) for t in (table, [row[::-1] for row in table]))
    assert (one.p_value, one.n, one.n_higher) == (other.p_value, other.n, other.n_lower)
    if one.difference is not None:
        assert -other.difference == pytest.approx(one.difference)


statistics = st.one_of(st.none(), st.sampled_from([0.0, 0.4, 1.0, 1.5, 1.9, 2.2, 2.6, 3.0, 9.0]))
families = st.integers(1, 3).flatmap(
    lambda pairs_: st.lists(st.lists(statistics, min_size=pairs_, max_size=pairs_), min_size=1, max_size=4)
)


@settings(max_examples=300, deadline=None)
@given(families, st.sampled_from([0.05, 0.2]), st.integers(0, 3))
def test_step_down_is_the_plain_procedure(reached, alpha, seed):
    """Reject what the maximum of the family rejects, drop metrics whose pairs are all rejected, and repeat."""
    rng = np.random.default_rng(seed)
    largest = [np.abs(rng.normal(size=(199, max(len(r), 1)))).max(axis=1) for r in reached]
    claimed: set[tuple[int, int]] = set()
    while True:
        unfinished = [t for t, r in enumerate(reached) if any((t, k) not in claimed for k in range(len(r)))]
        drawn = np.max([largest[t] for t in unfinished], axis=0) if unfinished else np.zeros(199)
        new = {
            (t, k)
            for t in unfinished
            for k, one in enumerate(reached[t])
            if one is not None and ((drawn >= one).sum() + 1) / 200 <= alpha
        }
        if new <= claimed:
            break
        claimed |= new
    adjusted = step_down(largest, reached, extra=1)
    assert claimed == {(t, k) for t, ps in enumerate(adjusted) for k, p in enumerate(ps) if p <= alpha}
    for r, ps, own in zip(reached, adjusted, largest, strict=True):
        for one, p in zip(r, ps, strict=True):
            assert p == 1 if one is None else ((own >= one).sum() + 1) / 200 <= p <= 1


def _null(rng: np.random.Generator, *, n: int, systems: int, metrics: int) -> np.ndarray:
    """Samples by systems by metrics: hard and easy samples, metrics that go together, and no difference of systems."""
    sample = rng.normal(size=(n, 1, metrics)) * 0.6 + rng.normal(size=(n, 1, 1)) * 0.4
    answer = rng.normal(size=(n, systems, metrics)) * 0.5 + rng.normal(size=(n, systems, 1)) * 0.3
    return 1 / (1 + np.exp(-(sample + answer)))


@pytest.mark.slow
def test_false_claims_are_as_rare_as_promised():
    """Six alike systems on five metrics: across metrics any false claim is rare, and each metric keeps its own level."""
    rng, runs, names = np.random.default_rng(7), 40, [f"m{k}" for k in range(5)]
    any_across, any_each = 0, 0
    for run in range(runs):
        x = _null(rng, n=40, systems=6, metrics=5)
        sources = {f"s{j}": experiment({name: x[:, j, k].tolist() for k, name in enumerate(names)}) for j in range(6)}
        each = ragstone.compare(sources, n_permutations=199, seed=run, across_metrics=False)
        any_each += sum(any(p.better for p in m.pairs) for m in each.metrics)
        across = ragstone.compare(sources, n_permutations=199, seed=run)
        any_across += any(p.better for m in across.metrics for p in m.pairs)
    # Within three standard errors of 5 %.
    for found, trials in ((any_across, runs), (any_each, 5 * runs)):
        assert 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials) >= found / trials


@pytest.mark.slow
@pytest.mark.parametrize("systems", [2, 4])
def test_so_many_more_samples_find_the_difference_four_times_in_five(systems):
    """What a pilot without a difference promises holds when there is one."""
    rng, runs, found, gain = np.random.default_rng(3), 60, 0, 0.1

    def compared(n: int, shift: float, seed: int) -> PairDifference:
        x = np.clip(_null(rng, n=n, systems=systems, metrics=1)[..., 0] * 0.7 + 0.1, 0, 1)
        x[:, 1] += shift
        sources = {f"s{j}": experiment({"m": x[:, j].tolist()}) for j in range(systems)}
        (metric,) = ragstone.compare(sources, n_permutations=400, seed=seed, min_effect=gain).metrics
        return next(p for p in metric.pairs if {p.system, p.other} == {"s0", "s1"})

    for run in range(runs):
        pilot = compared(24, 0.0, run)
        found += compared(24 + pilot.n_more, gain, run).better == "s1"
    assert 0.8 - 3 * math.sqrt(0.16 / runs) <= found / runs <= 0.8 + 3 * math.sqrt(0.16 / runs)
