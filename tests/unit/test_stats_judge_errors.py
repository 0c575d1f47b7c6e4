"""Errors of a judge against people, checked against scikit-learn, and what is unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn import metrics
from sklearn.calibration import calibration_curve

import ragstone
from ragstone.stats import judge_errors, rogan_gladen
from ragstone_lab import validate_metrics

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("levels", [3, 1000])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_estimates_are_those_of_scikit_learn(levels, share):
    """Confusion matrix, sensitivity, specificity and AUC with ties, and the threshold with the largest Youden index."""
    y = RNG.random(200) < share
    x = np.clip(np.round((0.4 * y + 0.6 * RNG.random(200)) * levels) / levels, 0, 1)
    found = judge_errors(x, y.astype(float), threshold=0.6, correct_from=1.0)
    (tn, fp), (fn, tp) = metrics.confusion_matrix(y, x >= 0.6)
    assert (tp, fp, fn, tn) == (
        found.n_true_positive, found.n_false_positive, found.n_false_negative, found.n_true_negative
    )  # fmt: skip
    assert metrics.recall_score(y, x >= 0.6) == pytest.approx(found.sensitivity.value)
    assert metrics.recall_score(~y, x < 0.6) == pytest.approx(found.specificity.value)
    assert metrics.precision_score(y, x >= 0.6) == pytest.approx(found.precision.value)
    assert metrics.precision_score(~y, x < 0.6) == pytest.approx(found.negative_precision.value)
    assert metrics.roc_auc_score(y, x) == pytest.approx(found.auc.value)
    assert found.auc.low < found.auc.value < found.auc.high
    false, true, thresholds = metrics.roc_curve(y, x, drop_intermediate=False)
    at = [*thresholds].index(found.best_threshold)
    assert (true - false).max() == pytest.approx(true[at] - false[at])
    assert (None, (), None) == (found.calibration_error, found.reliability, found.length_bias)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_of_an_auc_is_that_of_its_definition(level, size):
    """DeLong's variance from all pairs, over clusters of this size, with a tenth of an answer in the middle."""
    y = np.repeat(RNG.random(40), size) + 0.1 * RNG.random(40 * size) < 0.3
    x = np.round(y + RNG.normal(0, 0.9, y.size), 1)
    clusters = np.repeat(np.arange(40), size)
    wins = (x[y][:, None] > x[~y]) + (x[y][:, None] == x[~y]) / 2
    auc = wins.mean()
    influence = np.empty(x.size)
    influence[y] = (wins.mean(axis=1) - auc) / y.sum()
    influence[~y] = (wins.mean(axis=0) - auc) / (~y).sum()
    units = [len({*clusters[side]}) for side in (y, ~y)]
    variance = sum(influence[clusters == c].sum() ** 2 for c in range(40)) * 40 / 39
    variance += 0.1 * (0.5 - auc) ** 2 * sum(1 / n**2 for n in units)
    t = stats.t.ppf((1 + level) / 2, min(units) - 1)

    errors = judge_errors(
        x, y.astype(float), threshold=0.5, correct_from=0.5, clusters=clusters.tolist(), confidence_level=level
    )
    found = errors.auc
    assert level == errors.sensitivity.confidence_level == errors.specificity.confidence_level
    assert auc == pytest.approx(found.value)
    for end, (low, high) in ((found.low, (1e-9, auc)), (found.high, (auc, 1 - 1e-9))):
        # The variance of an AUC of p is in proportion to p (1 - p), as that of a share.
        expected = optimize.brentq(
            lambda p: (auc - p) ** 2 * auc * (1 - auc) - t**2 * variance * p * (1 - p), low, high
        )
        assert expected == pytest.approx(end)


def test_reliability_is_that_of_scikit_learn():
    """Of a judge that is too sure."""
    p = np.minimum(RNG.random(500) * 1.02, 1)
    y = (RNG.random(500) < 0.25 + p / 2).astype(float)
    found = judge_errors(p, y, threshold=0.5, correct_from=0.5, are_probabilities=True)

    share, mean = calibration_curve(y, p, n_bins=10)
    assert [*mean] == pytest.approx([each for each, _ in found.reliability])
    assert [*share] == pytest.approx([each.value for _, each in found.reliability])
    sizes = [each.n for _, each in found.reliability]
    assert np.average(abs(share - mean), weights=sizes) == pytest.approx(found.calibration_error)
    assert 0.08 < found.calibration_error < 0.2
    with pytest.raises(ValueError, match=r"probabilities must be in \[0, 1\], got 0.5 to 3.0"):
        judge_errors([0.5, 3.0], [0, 1], threshold=1, correct_from=1, are_probabilities=True)


def test_a_judge_that_prefers_long_answers_is_found():
    """Judge minus people rises with length. The judge and people alone say nothing about it."""
    lengths, people = RNG.integers(5, 200, 300), RNG.random(300)
    fair, biased = people + RNG.normal(0, 0.1, 300), people + 0.002 * lengths + RNG.normal(0, 0.1, 300)
    one, other = (
        judge_errors(x, people, threshold=0.5, correct_from=0.5, lengths=lengths).length_bias for x in (fair, biased)
    )
    assert one.low < 0 < one.high
    assert other.low > 0.3
    assert judge_errors(people, people, threshold=0.5, correct_from=0.5, lengths=lengths).length_bias is None


def test_what_cannot_be_known_is_none():
    """Without wrong answers, there is no specificity and no AUC. Without an overlap, the interval is not a point."""
    found = judge_errors([0.9, 0.2], [1.0, 1.0], threshold=0.5, correct_from=0.5)
    assert (0.5, None, None, None) == (
        found.sensitivity.value, found.specificity, found.auc, found.best_threshold
    )  # fmt: skip
    perfect = judge_errors([0.9] * 20 + [0.1] * 20, [1.0] * 20 + [0.0] * 20, threshold=0.5, correct_from=0.5).auc
    assert (1.0, 1.0) == (perfect.value, perfect.high)
    assert 0.7 < perfect.low < 0.9
    one = judge_errors([0.9, 0.1, 0.5], [1.0, 1.0, 0.0], threshold=0.5, correct_from=0.5).auc
    assert (0.5, 0.0, 1.0) == (one.value, one.low, one.high)
    empty = judge_errors([], [], threshold=0.5, correct_from=0.5)
    assert (0, None, None) == (empty.n_true_positive, empty.sensitivity, empty.auc)


def test_whole_clusters_count_once():
    """Copies of answers in one cluster change neither a number nor an interval much."""
    rng = np.random.default_rng(1)
    y = rng.random(80) < 0.5
    x = y + rng.normal(0, 0.8, 80)
    lengths = rng.integers(5, 200, 80) + 40 * x
    one = judge_errors(x, y.astype(float), threshold=0.5, correct_from=0.5, lengths=lengths)
    codes = np.repeat(np.arange(80), 5)
    copied = judge_errors(
        x[codes],
        y[codes].astype(float),
        threshold=0.5,
        correct_from=0.5,
        clusters=codes.tolist(),
        lengths=lengths[codes],
    )
    for name in ("sensitivity", "specificity", "auc", "length_bias"):
        first, second = getattr(one, name), getattr(copied, name)
        assert first.value == pytest.approx(second.value)
        assert (first.low, first.high) == pytest.approx((second.low, second.high), abs=0.05)


@pytest.mark.parametrize(("judge", "people"), [([0.5], [0.5, 0.6]), ([math.nan], [0.5]), ([0.5], [math.inf])])
def test_bad_input_is_refused(judge, people):
    """With the number of values of each."""
    with pytest.raises(ValueError, match="need one finite number per answer"):
        judge_errors(judge, people, threshold=0.5, correct_from=0.5)


def test_the_validation_shows_the_errors(tmp_path):
    """Of an experiment with the length bias. A file of outcomes without texts says that it is unknown."""
    rows = [
        {
            "id": f"q{i}",
            "query": "Why?",
            "contexts": ["Rain."],
            "response": f"Rain. {'x ' * (i % 7)}" if i % 3 else "Sun.",
        }
        for i in range(60)
    ]
    experiment = ragstone.evaluate(rows, ["ccrs.cc"], judge="lexical")
    labels = [{"sample_id": f"q{i}", "label": int(i % 3 > 0 and i % 10 > 0)} for i in range(60)]
    found = validate_metrics(experiment, labels=labels)
    (errors,) = (agreement.errors for agreement in found.labels)
    assert (36, 4, 0, 20) == (
        errors.n_true_positive, errors.n_false_positive, errors.n_false_negative, errors.n_true_negative
    )  # fmt: skip
    assert errors.length_bias.high < 0
    assert errors.calibration_error is None
    assert "from 0.50 on the judge calls an answer correct: 36 of 36 correct ones (sensitivity 1.00 [0." in str(found)
    assert "(chosen on these labels, so it separates new answers less well)" in str(found)
    experiment.to_jsonl(tmp_path / "o.jsonl")
    assert "(correlation of judge - people with the length of the answer) unknown" in str(
        validate_metrics(tmp_path / "o.jsonl", labels=labels)
    )


def _accepted(unlabeled, judge, people, level):
    """The shares that a test with the adjusted shares accepts, tried one by one; without clusters."""
    hits, alarms = judge[people == 1], judge[people == 0]
    shares = [(x.sum() + 1) / (x.size + 2) for x in (unlabeled, hits, alarms)]
    variances = [
        max(p * (1 - p) / (x.size + 2), x.var(ddof=1) / x.size)
        for p, x in zip(shares, (unlabeled, hits, alarms), strict=True)
    ]
    t = stats.t.ppf((1 + level) / 2, min(hits.size, alarms.size) - 1)
    tried = np.linspace(0, 1, 20001)
    expected = tried * shares[1] + (1 - tried) * shares[2]
    error = np.sqrt(variances[0] + tried**2 * variances[1] + (1 - tried) ** 2 * variances[2])
    return tried[np.abs(shares[0] - expected) <= t * error]


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize(("sensitivity", "specificity", "share"), [(0.9, 0.8, 0.3), (0.75, 0.95, 0.6), (1.0, 0.7, 0.9)])
def test_the_interval_of_rogan_and_gladen_is_the_set_that_a_test_accepts(sensitivity, specificity, share, level):
    """An independent computation over a grid, and the estimate of the formula."""
    rng = np.random.default_rng(11)
    people = np.repeat([1.0, 0.0], [40, 60])
    judge = (rng.random(100) < np.where(people == 1, sensitivity, 1 - specificity)).astype(float)
    truth = rng.random(300) < share
    unlabeled = (rng.random(300) < np.where(truth, sensitivity, 1 - specificity)).astype(float)
    found = rogan_gladen(unlabeled, judge, people, threshold=0.5, correct_from=0.5, confidence_level=level)
    se, sp = judge[people == 1].mean(), 1 - judge[people == 0].mean()
    assert min(1, max(0, (unlabeled.mean() + sp - 1) / (se + sp - 1))) == pytest.approx(found.value)
    accepted = _accepted(unlabeled, judge, people, level)
    assert (min(accepted.min(), found.value), max(accepted.max(), found.value)) == pytest.approx(
        (found.low, found.high), abs=1e-4
    )


def test_rogan_and_gladen_do_not_need_a_random_sample():
    """With mostly wrong answers among the labels, the estimate stays that of the traffic."""
    rng = np.random.default_rng(12)
    truth = rng.random(20_000) < 0.8
    unlabeled = rng.random(20_000) < np.where(truth, 0.9, 0.3)
    for correct in (0.1, 0.5):
        people = (np.arange(4000) < 4000 * correct).astype(float)
        judge = rng.random(4000) < np.where(people == 1, 0.9, 0.3)
        found = rogan_gladen(unlabeled, judge, people, threshold=0.5, correct_from=0.5)
        assert found.low < 0.8 < found.high
        assert found.high - found.low < 0.2


@pytest.mark.parametrize(
    ("judge", "people", "clusters", "reason"),
    [
        ([1] * 25 + [0] * 25, [1, 0] * 25, None, "not shown to call correct answers correct"),
        ([0] * 25 + [1] * 25, [1] * 25 + [0] * 25, None, "not shown"),
        ([1] * 20 + [0] * 9, [1] * 20 + [0] * 9, None, "labels of 10 correct and 10 wrong answers, got 60, 20 and 9"),
        ([1] * 20 + [0] * 20, [1] * 20 + [0] * 20, ([*range(60)], [*range(40)]), "in the same clusters"),
        ([1] * 20 + [0] * 20, [1] * 20 + [0] * 20, ([*range(60)], [-1] * 20 + [-2] * 20), "not shown"),
    ],
)
def test_an_unknown_share_is_refused(judge, people, clusters, reason):
    """A judge that guesses or is inverted, too few labels of a class or clusters of it, clusters of both kinds."""
    found = rogan_gladen([1] * 30 + [0] * 30, judge, people, threshold=0.5, correct_from=0.5, clusters=clusters)
    assert reason in str(found)


def test_clusters_widen_the_interval_of_rogan_and_gladen():
    """Answers that repeat themselves five times tell no more than one."""
    people = np.tile([1.0, 0.0], 30)
    judge = np.where(np.arange(60) % 6 < 2, 1 - people, people)
    unlabeled = np.repeat([1.0, 0.0], 50)
    plain = rogan_gladen(unlabeled, judge, people, threshold=0.5, correct_from=0.5)
    clusters = (np.repeat(np.arange(100), 5).tolist(), np.repeat(np.arange(100, 160), 5).tolist())
    arguments = (np.repeat(unlabeled, 5), np.repeat(judge, 5), np.repeat(people, 5))
    found = rogan_gladen(*arguments, threshold=0.5, correct_from=0.5, clusters=clusters)
    assert (plain.low, plain.high) == pytest.approx((found.low, found.high), abs=0.03)
    assert plain.value == pytest.approx(found.value)
    apart = rogan_gladen(*arguments, threshold=0.5, correct_from=0.5)
    assert apart.high - apart.low < 0.6 * (found.high - found.low)


@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.9, 0.9), (0.97, 0.6), (0.7, 0.7), (0.6, 0.6)])
def test_coverage_of_rogan_and_gladen(sensitivity, specificity):
    """An interval that is shown and wrong is rarer than 5% of the data sets, and a weak judge is mostly refused."""
    rng = np.random.default_rng(5)
    people = np.repeat([1.0, 0.0], [30, 30])
    n, n_wrong, n_shown = 400, 0, 0
    for _ in range(n):
        judge = rng.random(60) < np.where(people == 1, sensitivity, 1 - specificity)
        unlabeled = rng.random(200) < np.where(rng.random(200) < 0.2, sensitivity, 1 - specificity)
        found = rogan_gladen(unlabeled, judge, people, threshold=0.5, correct_from=0.5)
        if not isinstance(found, str):
            n_shown += 1
            n_wrong += not found.low <= 0.2 <= found.high
    assert n_wrong <= stats.binom.ppf(0.999, n, 0.05)
    assert (n_shown < n / 2) == (sensitivity + specificity < 1.3)
