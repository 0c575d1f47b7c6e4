"""Intervals of Hedges' g: the error is that of the jackknife, and clusters make it larger."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

import ragstone
from ragstone.experiments import Experiment
from ragstone.experiments._compare.pairs import _effect, interval_of_effect, standard_error
from ragstone.judges import JudgeIdentity
from ragstone.metrics import resolve_metrics
from ragstone.schema import Sample, Score, Usage

METRIC = "ccrs.qr"


def system(values: np.ndarray, *, first: int = 0, size: int = 0) -> Experiment:
    """A system with these scores, in sessions of `size` rows."""
    ids = [f"q{i}" for i in range(first, first + len(values))]
    metadata = [{"session_id": f"s{i // size}"} if size else {} for i in range(len(values))]
    shared = {"metric": METRIC, "metric_version": "1", "judge": "j", "judge_hash": "h", "method": "x"}
    return Experiment(
        samples=tuple(Sample(id=id_, query="Why?", metadata=m) for id_, m in zip(ids, metadata, strict=True)),
        outcomes=tuple(Score(sample_id=id_, value=float(v), **shared) for id_, v in zip(ids, values, strict=True)),
        cards=(resolve_metrics([METRIC])[0].card,),
        judge=JudgeIdentity(name="j", hash="h"),
        usage=Usage(),
        wall_s=0.0,
    )


def scores(n: int, seed: int, *, best: float) -> np.ndarray:
    """Scores in steps, a share of them 1."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < best, 1.0, rng.integers(0, 5, n) / 5)


def g_of(difference: np.ndarray) -> float:
    """Hedges' g of paired differences, without its correction for small n."""
    return float(difference.mean() / difference.std(ddof=1))


def jackknife(statistic: list[float]) -> float:
    """The jackknife's standard error from the values without each sample."""
    n = len(statistic)
    return math.sqrt((n - 1) / n * float(((np.array(statistic) - np.mean(statistic)) ** 2).sum()))


def test_the_error_of_a_paired_effect_is_that_of_the_jackknife() -> None:
    """Also for skewed differences, for which the formula of normal scores is wrong."""
    old, new = scores(200, 1, best=0.3), scores(200, 2, best=0.9)
    (pair,) = ragstone.compare({"old": system(old), "new": system(new)}).metrics[0].pairs
    low, high = pair.effect_interval
    error = jackknife([g_of(np.delete(new - old, i)) for i in range(200)])
    assert pytest.approx(pair.effect_size) == (low + high) / 2
    assert pytest.approx(error * t.ppf(0.975, 199), rel=0.03) == (high - low) / 2


@pytest.mark.parametrize("n_higher", [8, 12, 16, 40])
def test_the_interval_holds_together_with_the_verdict(n_higher: int) -> None:
    """A few higher scores of 60 and none lower are no significant difference beside eleven noisy metrics."""
    rng = np.random.default_rng(3)
    card = resolve_metrics([METRIC])[0].card

    def many(higher: float) -> Experiment:
        values = {f"noise{i}": rng.integers(0, 11, 60) / 10 for i in range(11)}
        values[METRIC] = np.where(np.arange(60) < n_higher, higher, 0.5)
        made = system(values[METRIC])
        outcomes = [
            Score(
                sample_id=f"q{i}", metric=m, metric_version="1", value=float(v), judge="j", judge_hash="h", method="x"
            )
            for m, column in values.items()
            for i, v in enumerate(column)
        ]
        return replace(made, outcomes=tuple(outcomes), cards=tuple(replace(card, name=m) for m in values))

    result = ragstone.compare({"old": many(0.5), "new": many(0.7)})
    (pair,) = next(metric for metric in result.metrics if metric.metric == METRIC).pairs
    assert (n_higher, 0) == (pair.n_higher, pair.n_lower)
    assert (pair.low is None) == (pair.effect_interval is None)
    if pair.effect_interval is not None:
        low, high = pair.effect_interval
        assert (pair.better is None) == (low <= 0 <= high)
        alone = ragstone.compare({"old": many(0.5), "new": many(0.7)}, metrics=METRIC).metrics[0].pairs[0]
        assert alone.effect_interval[1] < high, "twelve metrics need a wider interval than one"


def test_the_error_of_two_groups_is_that_of_the_jackknife() -> None:
    """With different sizes and spreads, and a large difference."""
    old, new = scores(300, 1, best=0.1), scores(100, 2, best=0.9)
    sources = {"old": system(old), "new": system(new, first=1000)}
    (pair,) = ragstone.compare(sources, paired=False, cluster=None).metrics[0].pairs
    low, high = pair.effect_interval
    errors = [
        jackknife([_effect(np.delete(new, i), old) for i in range(100)]),
        jackknife([_effect(new, np.delete(old, i)) for i in range(300)]),
    ]
    assert pytest.approx(pair.effect_size) == (low + high) / 2
    assert pytest.approx(math.hypot(*errors) * t.ppf(0.975, 99), rel=0.03) == (high - low) / 2


def test_copies_of_a_row_in_its_session_do_not_make_it_shorter() -> None:
    """Five equal rows in a session are worth one."""
    old, new = scores(40, 1, best=0.3), scores(40, 2, best=0.9)
    (one,) = ragstone.compare({"old": system(old), "new": system(new)}).metrics[0].pairs
    sources = {"old": system(np.repeat(old, 5), size=5), "new": system(np.repeat(new, 5), size=5)}
    (five,) = ragstone.compare(sources).metrics[0].pairs
    widths = [pair.effect_interval[1] - pair.effect_interval[0] for pair in (one, five)]
    assert pytest.approx(widths[0], rel=0.05) == widths[1]


def test_few_samples_and_equal_differences_do_not_have_an_interval() -> None:
    """The table and JSON show the effect size alone."""
    few = {"old": system(scores(9, 1, best=0.3)), "new": system(scores(9, 2, best=0.9))}
    (pair,) = ragstone.compare(few).metrics[0].pairs
    assert (True, None) == (pair.effect_size is not None, pair.effect_interval)
    more = {"old": system(scores(10, 1, best=0.3)), "new": system(scores(10, 2, best=0.9))}
    assert ragstone.compare(more).metrics[0].pairs[0].effect_interval is not None
    equal = {"old": system(np.full(20, 0.5)), "new": system(np.full(20, 0.6))}
    (pair,) = ragstone.compare(equal).metrics[0].pairs
    assert (None, None) == (pair.effect_size, pair.effect_interval)
    json.dumps(ragstone.compare(equal).to_dict(), allow_nan=False)


def test_the_table_shows_the_interval() -> None:
    """Next to the effect size."""
    sources = {"old": system(scores(200, 1, best=0.3)), "new": system(scores(200, 2, best=0.9))}
    comparison = ragstone.compare(sources)
    (pair,) = comparison.metrics[0].pairs
    expected = f"{pair.effect_size:+.2f} [{pair.effect_interval[0]:.2f}, {pair.effect_interval[1]:.2f}]"
    assert expected.split(" ", 1)[1] in comparison.details()


def test_the_effect_of_few_samples_is_corrected() -> None:
    """By the exact factor of Hedges (1981), of which the formula is an approximation: 0.8 for two groups of three."""
    old, new = np.array([0.1, 0.4, 0.3]), np.array([0.6, 0.5, 0.9])
    sources = {"old": system(old), "new": system(new, first=1000)}
    (pair,) = ragstone.compare(sources, paired=False).metrics[0].pairs
    pooled = math.sqrt((old.var(ddof=1) + new.var(ddof=1)) / 2)
    exact = math.gamma(2) / (math.sqrt(2) * math.gamma(1.5))
    assert (new.mean() - old.mean()) / pooled * exact == pytest.approx(pair.effect_size, rel=0.01)


def test_the_error_of_a_mean_is_that_of_a_sample() -> None:
    """With n - 1, also over clusters of equal sizes, whose means it is the error of."""
    values = np.array([0.1, 0.4, 0.3, 0.9])
    expected = values.std(ddof=1) / 2
    assert expected == pytest.approx(standard_error(values, np.ones(4), None))
    assert expected == pytest.approx(standard_error(np.repeat(values, 3), np.ones(12), np.repeat(range(4), 3).tolist()))


def test_the_interval_of_an_effect_of_few_samples_is_that_of_student() -> None:
    """At 1.96 standard errors of many samples, ten have 2.26."""
    influences = np.array([0.1, -0.2, 0.3, -0.1, 0.0, 0.2, -0.3, 0.1, -0.2, 0.1])
    low, high = interval_of_effect(0.5, [(influences, None)], norm.ppf(0.975), 0.95)
    assert t.ppf(0.975, 9) * influences.std(ddof=1) / math.sqrt(10) == pytest.approx((high - low) / 2)
