"""Labels of a drawn sample: coverage with unequal probabilities and clusters, and known values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ragstone.stats import cohen_kappa, drawn_kappa, drawn_prediction_powered_mean, hajek_mean


def traffic(rng: np.random.Generator, n: int, *, per_cluster: int = 1):
    """Labels, biased scores and where the metrics disagree; the true mean label is 0.6 within its own error."""
    level = np.repeat(rng.normal(size=n // per_cluster), per_cluster)
    labels = (rng.normal(size=n) + level < 0.358).astype(float)  # P(N(0, 2) < 0.358) = 0.6
    disagreement = rng.uniform(size=n) * (1 + 2 * (labels == 0))
    scores = np.clip(0.3 * labels + 0.4 + 0.25 * rng.normal(size=n) * (0.3 + disagreement), 0, 1)
    return labels, scores, disagreement, level


@pytest.mark.parametrize("per_cluster", [1, 4])
def test_coverage_with_unequal_probabilities(per_cluster: int):
    """Half of the draw is uniform, half where metrics disagree, on sampled traffic: 95% intervals hold, and plain ones do not."""
    rng = np.random.default_rng(1)
    n_runs, n, n_labels = 500, 800, 120
    covered = naive = 0
    widths = []
    for _ in range(n_runs):
        y, f, d, level = traffic(rng, n, per_cluster=per_cluster)
        sampled = np.where(y == 1, 0.5, 1.0)  # bad answers are kept more often
        kept = np.flatnonzero(rng.uniform(size=n) < sampled)
        y, f, d, p, level = y[kept], f[kept], d[kept], sampled[kept], level[kept]
        q = np.minimum(n_labels * (0.5 / y.size + 0.5 * d / d.sum()), 1)
        drawn = rng.uniform(size=y.size) < q
        labels = [float(v) if is_drawn else None for v, is_drawn in zip(y, drawn, strict=True)]
        clusters = level.tolist() if per_cluster > 1 else None
        result = drawn_prediction_powered_mean(labels, f, q, probabilities=p, clusters=clusters)
        covered += result.estimate.low <= 0.6 <= result.estimate.high
        widths.append((result.estimate.high - result.estimate.low, result.labels_only.high - result.labels_only.low))
        plain = drawn_prediction_powered_mean(labels, f, [1.0] * y.size).estimate
        naive += plain.low <= 0.6 <= plain.high
    assert 0.925 <= covered / n_runs <= 0.975
    assert naive / n_runs < 0.6
    ppi, alone = np.mean(widths, axis=0)
    assert ppi < alone


def test_with_equal_probabilities_it_is_the_classical_form():
    """The mean of the scores plus the mean error of the judge where labels are, and the variance of both parts."""
    rng = np.random.default_rng(2)
    y, f, _, _ = traffic(rng, 1000)
    labels = [float(v) if k < 200 else None for k, v in enumerate(y)]
    ours = drawn_prediction_powered_mean(labels, f, [0.2] * 1000)
    corrected, rest = y[:200] - ours.weight * f[:200], ours.weight * f[200:]
    assert corrected.mean() + 0.2 * ours.weight * f[:200].mean() + 0.8 * rest.mean() == pytest.approx(
        ours.estimate.value
    )
    # Of all scores, a fifth are those of the labeled items.
    own = y[:200] - 0.8 * ours.weight * f[:200]
    half = stats.t.ppf(0.975, 199) * math.sqrt(own.var(ddof=1) / 200 + 0.64 * rest.var(ddof=1) / 800)
    assert 2 * half == pytest.approx(ours.estimate.high - ours.estimate.low, rel=0.01)
    assert ours.labels_worth is not None
    assert ours.labels_worth > 200


@pytest.mark.parametrize(
    ("human", "judge", "judged"),
    [
        ([1.0, 1.0], [0.9, 0.9], [0.9] * 8),
        ([1.0, 1.0, 1.0], [0.2, 0.9, 0.5], [0.4, 0.6, 0.9]),
        ([1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0], [1.0, 0.0] * 40),
    ],
)
def test_labels_that_show_no_error_do_not_rule_it_out(human, judge, judged):
    """Few labels that are all alike, or all as the judge said, leave an interval and no point."""
    found = drawn_prediction_powered_mean([*human, *[None] * len(judged)], judge + judged, [1.0] * len(judge + judged))
    assert found.estimate.low <= found.estimate.value <= found.estimate.high
    assert found.estimate.high - found.estimate.low > 0.3


def test_a_good_judge_is_worth_labels():
    """With a judge near the labels, and much traffic, the interval is that of several times as many labels."""
    rng = np.random.default_rng(0)
    truth = rng.beta(2, 1, 2060)
    judge = truth + 0.2 + rng.normal(0, 0.05, 2060)
    found = drawn_prediction_powered_mean([*truth[:60].tolist(), *[None] * 2000], judge, [1.0] * 2060)
    assert found.labels_worth is not None
    assert found.labels_worth > 5 * 60
    assert found.estimate.high - found.estimate.low < (found.labels_only.high - found.labels_only.low) / 2
    # The judge alone is wrong by its bias.
    assert not found.estimate.low <= found.judge_mean <= found.estimate.high


def test_useless_scores_leave_the_labels():
    """Constant scores give Hajek's mean of the labels."""
    result = drawn_prediction_powered_mean([1.0, 0.0, 1.0, None], [0.5] * 4, [0.1, 0.9, 0.5, 0.2])
    assert hajek_mean([1.0, 0.0, 1.0], [0.1, 0.9, 0.5]) == result.estimate
    assert (0.0, None, 3, 1) == (result.weight, result.labels_worth, result.n_labeled, result.n_judged)


def test_wrong_input():
    """Lengths, ranges and numbers."""
    with pytest.raises(ValueError, match="each item needs a label or None"):
        drawn_prediction_powered_mean([1.0, 0.0], [0.5], [0.5, 0.5])
    with pytest.raises(ValueError, match="must be finite"):
        drawn_prediction_powered_mean([1.0, 0.0], [0.5, float("nan")], [0.5, 0.5])
    with pytest.raises(ValueError, match="at least two values"):
        drawn_prediction_powered_mean([1.0, None], [0.5, 0.5], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"in \(0, 1\]"):
        drawn_kappa([True], [True], [0.0])
    with pytest.raises(ValueError, match="two ratings and a probability"):
        drawn_kappa([True], [True, False], [1.0])


def test_kappa_of_equal_probabilities_is_cohens():
    """And weights are as if an item occurred several times."""
    rng = np.random.default_rng(3)
    a = rng.uniform(size=200) < 0.4
    b = np.where(rng.uniform(size=200) < 0.8, a, ~a)
    ours = drawn_kappa(a.tolist(), b.tolist(), [0.3] * 200)
    cohen = cohen_kappa(a.tolist(), b.tolist())
    assert ours.coefficient is not None
    assert cohen.coefficient is not None
    assert cohen.coefficient.value == pytest.approx(ours.coefficient.value)
    assert cohen.coefficient.low == pytest.approx(ours.coefficient.low, abs=0.03)
    assert cohen.coefficient.high == pytest.approx(ours.coefficient.high, abs=0.03)
    weighted = drawn_kappa([True, False, False], [True, True, False], [0.25, 1.0, 0.5])
    repeated = cohen_kappa([True] * 4 + [False] * 3, [True] * 5 + [False] * 2)
    assert weighted.coefficient is not None
    assert repeated.coefficient is not None
    assert repeated.coefficient.value == pytest.approx(weighted.coefficient.value)


def test_kappa_covers_with_unequal_probabilities():
    """The kappa of all items, from a draw that prefers disagreement."""
    rng = np.random.default_rng(4)
    n_runs, covered = 400, 0
    for _ in range(n_runs):
        a = rng.uniform(size=1500) < 0.4
        b = np.where(rng.uniform(size=1500) < 0.85, a, ~a)  # kappa of the process: (0.85 - e) / (1 - e), e = 0.508
        q = np.where(a == b, 0.07, 0.25)
        drawn = rng.uniform(size=1500) < q
        found = drawn_kappa(a[drawn].tolist(), b[drawn].tolist(), q[drawn]).coefficient
        assert found is not None
        yes = 0.4 * 0.85 + 0.6 * 0.15
        chance = 0.4 * yes + 0.6 * (1 - yes)
        covered += found.low <= (0.85 - chance) / (1 - chance) <= found.high
    assert 0.92 <= covered / n_runs <= 0.98


def test_kappa_without_information():
    """One rating only has no kappa; too few clusters have no interval."""
    assert drawn_kappa([True, True], [True, True], [0.5, 1.0]).coefficient is None
    found = drawn_kappa([True, False, True], [True, False, False], [0.5] * 3, clusters=[0, 1, 1]).coefficient
    assert found is not None
    assert (-1.0, 1.0, "range") == (found.low, found.high, found.method)


def test_kappa_of_equal_ratings():
    """As Cohen's kappa for equal probabilities, and wider for unequal ones, whose effective number is smaller."""
    ratings = [k % 3 == 0 for k in range(60)]
    same = drawn_kappa(ratings, ratings, [0.3] * 60).coefficient
    cohen = cohen_kappa(ratings, ratings).coefficient
    uneven = drawn_kappa(ratings, ratings, [0.1 if k % 2 else 1.0 for k in range(60)]).coefficient
    assert same is not None
    assert cohen is not None
    assert uneven is not None
    assert (cohen.value, pytest.approx(cohen.low), cohen.high) == (same.value, same.low, same.high)
    assert 1.0 == uneven.value == uneven.high
    assert 0.5 < uneven.low < same.low


def test_the_interval_of_few_labels_by_hand():
    """From the influence of each item on the estimate, with Student's t for ten labels."""
    y, f, _, _ = traffic(np.random.default_rng(6), 40)
    y[:10] = [1, 0, 1, 1, 0, 1, 0, 1, 1, 0]
    f = np.where(y == 1, f + 0.2, f)
    labels = [float(v) if k < 10 else None for k, v in enumerate(y)]
    found = drawn_prediction_powered_mean(labels, f, [0.25] * 40, low=-9.0, high=9.0)
    assert 0 < found.weight <= 1
    influence = found.weight * (f - f.mean()) / 40
    influence[:10] += (y[:10] - y[:10].mean() - found.weight * (f[:10] - f[:10].mean())) / 10
    value = y[:10].mean() + found.weight * (f.mean() - f[:10].mean())
    half = stats.t.ppf(0.975, 9) * math.sqrt(10 / 9 * (influence**2).sum())
    assert (value, value - half, value + half) == pytest.approx(
        (found.estimate.value, found.estimate.low, found.estimate.high)
    )


def test_a_judge_that_is_opposite_to_people_has_no_weight():
    """A negative weight would use it with the sign turned around."""
    labels, scores = [1.0, 0.0] * 10 + [None] * 20, [0.2, 0.8] * 10 + [0.4, 0.5] * 10
    found = drawn_prediction_powered_mean(labels, scores, [0.5] * 40)
    assert (0.0, found.labels_only) == (found.weight, found.estimate)


def test_the_interval_of_kappa_is_the_jackknife_over_clusters():
    """Kappa without each of twenty clusters of three items, which were drawn with a probability of 0.2 or 1."""
    rng = np.random.default_rng(8)
    a = rng.random(60) < 0.5
    b, p = np.where(rng.random(60) < 0.8, a, ~a), rng.choice([0.2, 1.0], 60)
    labels = np.repeat(np.arange(20), 3)

    def kappa(kept):
        agreement, yes, also = (np.average(x[kept], weights=1 / p[kept]) for x in (a == b, a, b))
        chance = yes * also + (1 - yes) * (1 - also)
        return (agreement - chance) / (1 - chance)

    value, without = kappa(labels >= 0), np.array([kappa(labels != c) for c in range(20)])
    sizes = np.bincount(labels, weights=1 / p)
    n = sizes.sum() ** 2 / (sizes**2).sum()
    half = stats.t.ppf(0.975, n - 1) * math.sqrt((n - 1) / n * ((without - value) ** 2).sum())
    found = drawn_kappa(a.tolist(), b.tolist(), p.tolist(), clusters=labels.tolist()).coefficient
    assert (value, value - half, min(1.0, value + half)) == pytest.approx((found.value, found.low, found.high))
