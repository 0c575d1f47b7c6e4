"""Laws of `compare`: names, order and direction change how a difference is told, never what it is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragstone
from ragstone.experiments import Experiment
from ragstone.experiments._compare.pairs import MetricComparison, PairDifference, adjust_across_metrics
from ragstone.judges import JudgeIdentity
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, Score, Usage

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
    """Counts add up, the interval holds the difference, the worst case holds it too, and a claim excludes 0."""
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
            assert not pair.low <= 0 <= pair.high
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


# Around the thresholds of the steps: 0.05 and 0.2, in two, three and four parts.
p_values_of_a_pair = st.one_of(
    st.none(),
    st.sampled_from([0.001, 0.0125, 0.015, 0.0166, 0.02, 0.025, 0.04, 0.05, 0.06, 0.066, 0.1, 0.15, 0.2, 0.3]),
)
families = st.integers(1, 3).flatmap(
    lambda pairs_: st.lists(st.lists(p_values_of_a_pair, min_size=pairs_, max_size=pairs_), min_size=1, max_size=4)
)


TEMPLATE = ragstone.compare({"a": experiment({"m": [0.1] * 6}), "b": experiment({"m": [0.2] * 6})}).metrics[0]


def _metrics(p_values: Sequence[Sequence[float | None]]) -> list[MetricComparison]:
    (pair,) = TEMPLATE.pairs
    return [
        replace(TEMPLATE, metric=f"m{i}", pairs=tuple(replace(pair, p_value=p) for p in ps))
        for i, ps in enumerate(p_values)
    ]


@settings(max_examples=300, deadline=None)
@given(families, st.sampled_from([0.8, 0.95]))
def test_adjusting_across_metrics_is_the_step_down_it_says(p_values, level):
    """Claims are those of the plain procedure: test each metric at its share, pass the share of a wholly claimed one on."""
    claimed: set[tuple[int, int]] = set()
    while True:
        unfinished = [i for i, ps in enumerate(p_values) if any((i, k) not in claimed for k in range(len(ps)))]
        new = {
            (i, k)
            for i in unfinished
            for k, p in enumerate(p_values[i])
            if p is not None and p <= (1 - level) * (1 + 1e-12) / len(unfinished)
        }
        if new <= claimed:
            break
        claimed |= new
    adjusted = adjust_across_metrics(_metrics(p_values), confidence_level=level)
    assert claimed == {(i, k) for i, m in enumerate(adjusted) for k, p in enumerate(m.pairs) if p.better is not None}
    for before, after in zip(itertools.chain(*p_values), (p for m in adjusted for p in m.pairs), strict=True):
        assert (before is None) == (after.p_value is None)
        assert before is None or before <= after.p_value <= 1


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
        each = ragstone.compare(sources, n_permutations=199, seed=run)
        any_each += sum(any(p.better for p in m.pairs) for m in each.metrics)
        across = adjust_across_metrics(each.metrics, confidence_level=0.95)
        any_across += any(p.better for m in across for p in m.pairs)
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
