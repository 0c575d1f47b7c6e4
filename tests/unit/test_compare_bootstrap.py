"""The paired bootstrap: as a test of `compare`, over clusters, and with correction for metrics and pairs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import ragstone
from command_line import app
from ragstone.errors import ConfigurationError
from ragstone.experiments._compare.pairs import Family, compare_metrics
from ragstone.settings import Analysis
from ragstone.stats import paired_bootstrap

QUESTIONS = 40
METRICS = ("ccrs.cc", "ccrs.qr")


def experiment(share, *, n=QUESTIONS, sessions=None, seed=0):
    """A system that answers this share of the questions."""
    answered = np.random.default_rng(seed).random(n if sessions is None else sessions) < share
    answered = np.resize(answered, n)
    rows = [
        {
            "id": f"q{i}",
            "query": f"What is stone {i}?",
            "contexts": [f"Stone {i} is dark."],
            "response": f"Stone {i} is dark." if yes else "No idea.",
            **({} if sessions is None else {"session_id": f"s{i % sessions}"}),
        }
        for i, yes in enumerate(answered)
    ]
    return ragstone.evaluate(rows, METRICS, judge="lexical")


@pytest.fixture(scope="module")
def systems():
    """Two systems, of which one is better."""
    return {"old": experiment(0.4), "new": experiment(0.8, seed=1)}


def column(result, metric):
    """The scores of all samples on a metric."""
    return result.scores.metrics[metric].values.T


def test_a_difference_has_the_intervals_and_p_values_of_the_bootstrap(systems):
    """Bonferroni's level for intervals, Holm's correction for p-values, over both metrics."""
    result = ragstone.compare(systems, test="bootstrap", n_permutations=2000)
    alone = {}
    for metric in result.metrics:
        old, new = column(result, metric.metric)
        (pair,) = metric.pairs
        alone[metric.metric] = paired_bootstrap(new, old, n_resamples=2000, confidence_level=1 - 0.05 / 2)
        assert [alone[metric.metric].low, alone[metric.metric].high] == pytest.approx([pair.low, pair.high])
        assert pair.difference == pytest.approx(float((new - old).mean()))
        assert ("new", "bootstrap", 2000, False) == (pair.better, metric.test, metric.n_permutations, metric.exact)
    least, most = sorted(test.p_value for test in alone.values())
    adjusted = sorted(metric.pairs[0].p_value for metric in result.metrics)
    assert [2 * least, max(2 * least, most)] == pytest.approx(adjusted)
    assert "bootstrap" == result.to_dict()["test"]
    assert "paired bootstrap of samples" in result.method
    assert "Bonferroni's correction for all metrics and pairs" in result.method


def test_metrics_alone_are_not_corrected(systems):
    """Without a correction across metrics, each interval is that of its pair."""
    result = ragstone.compare(systems, test="bootstrap", across_metrics=False)
    (pair,) = result.metrics[1].pairs
    old, new = column(result, result.metrics[1].metric)
    found = paired_bootstrap(new, old)
    assert [found.low, found.high, found.p_value] == pytest.approx([pair.low, pair.high, pair.p_value])


def test_whole_clusters_are_resampled():
    """Samples of a session are drawn together, and the interval says that of clusters."""
    systems = {name: experiment(share, n=90, sessions=30) for name, share in {"a": 0.3, "b": 0.7}.items()}
    result = ragstone.compare(systems, test="bootstrap", primary="ccrs.qr")
    labels = [f"s{int(id_[1:]) % 30}" for id_ in result.scores.sample_ids]
    a, b = column(result, "ccrs.qr")
    found = paired_bootstrap(b, a, clusters=labels)
    (pair,) = result.metrics[0].pairs
    assert [found.low, found.high] == pytest.approx([pair.low, pair.high])
    assert "paired bootstrap of clusters" in result.method
    assert [found.low, found.high] != pytest.approx([paired_bootstrap(b, a).low, paired_bootstrap(b, a).high])


def test_sampled_samples_have_weights(systems):
    """A sample that was drawn with a probability of 1 in 4 stands for 4."""
    scores = ragstone.compare(systems, metrics=["ccrs.qr"]).scores
    drawn = np.where(np.arange(QUESTIONS) % 3, 1.0, 0.25)
    sampled, analysis = replace(scores, probabilities=drawn), Analysis(test="bootstrap", n_permutations=1000)
    metric = scores.metrics["ccrs.qr"]
    [compared] = compare_metrics([metric], sampled, Family.of(2, analysis))
    [pair] = compared.pairs
    old, new = metric.values.T
    assert pair.difference == pytest.approx(np.average(new - old, weights=1 / drawn))


def test_equal_differences_have_no_error():
    """A bootstrap cannot test a difference that is the same on all samples."""
    result = ragstone.compare({"a": experiment(0), "b": experiment(1)}, metrics=["ccrs.cc"], test="bootstrap")
    (pair,) = result.metrics[0].pairs
    assert (None, None, None) == (pair.p_value, pair.low, pair.high)
    assert "All 40 differences are equal, so a bootstrap cannot estimate their error" in result.verdict[0]
    same = ragstone.compare({"a": experiment(0), "b": experiment(0)}, metrics=["ccrs.qr"], test="bootstrap")
    assert "identical scores on all 40 samples" in same.verdict[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": "t"}, 'test must be "permutation" or "bootstrap", got \'t\''),
        ({"hypotheses": ["new > old"]}, "hypotheses are tested by permutation"),
        ({"n_permutations": 300}, r"300 resamples are too few .* 2 differences.* at least 6\d\d"),
    ],
)
def test_what_a_bootstrap_cannot_do_is_refused(systems, options, message):
    """The message names the value, the rule and the way out."""
    with pytest.raises(ConfigurationError, match=message):
        ragstone.compare(systems, **{"test": "bootstrap", **options})


@pytest.mark.parametrize(("n", "sessions", "units"), [(29, None, "samples"), (60, 29, "clusters")])
def test_few_samples_or_clusters_are_refused(n, sessions, units):
    """29 are too few, 30 are enough."""
    few = {name: experiment(0.5, n=n, sessions=sessions, seed=seed) for seed, name in enumerate("ab")}
    with pytest.raises(ConfigurationError, match=f"needs 30 {units} with scores of both systems, got 29 for b and a"):
        ragstone.compare(few, test="bootstrap")
    more = None if sessions is None else sessions + 1
    enough = {name: experiment(0.5, n=n + 1, sessions=more, seed=seed) for seed, name in enumerate("ab")}
    ragstone.compare(enough, test="bootstrap", n_permutations=1000)


def test_the_gate_for_worse_metrics_needs_the_permutation_test(systems):
    """A margin bounds means, whatever the test."""
    result = ragstone.compare(systems, test="bootstrap")
    with pytest.raises(ConfigurationError, match="uses the permutation test"):
        result.check_regression()
    assert result.check_regression(margin=0.5).ok


def test_the_command_names_the_test(systems, tmp_path):
    """`--set analysis.test=bootstrap` reaches the comparison."""
    files = []
    for name, one in systems.items():
        one.to_jsonl(tmp_path / f"{name}.jsonl")
        files.append(str(tmp_path / f"{name}.jsonl"))
    found = CliRunner().invoke(app, ["compare", *files, "--set", "analysis.test=bootstrap", "--json"])
    assert 0 == found.exit_code, found.output
    assert "bootstrap" == json.loads(found.stdout)["test"]


def test_weights_and_clusters_make_a_ratio_of_sums():
    """The mean is weighted, and a cluster counts with the sum of its weights."""
    first, second = np.array([1.0, 0.0, 1.0, 0.5, np.nan]), np.array([0.0, 0.5, 0.5, 0.5, 1.0])
    weights, clusters = [1.0, 2.0, 4.0, 1.0, 9.0], ["a", "a", "b", None, "c"]
    found = paired_bootstrap(first, second, weights=weights, clusters=clusters, n_resamples=4000)
    assert found.difference == pytest.approx((1 - 1 + 2 + 0) / 8)
    assert (4, 1) == (found.n, found.n_missing)
    # Three clusters with differences 0, .5 and 0: the largest resample draws the second only.
    assert (found.low, found.high) == pytest.approx((0.0, 0.5))
    # Weights of equal size change nothing.
    x = np.random.default_rng(0).random((50, 2)).T
    equal, none = paired_bootstrap(*x, weights=[3.0] * 50), paired_bootstrap(*x)
    assert (none.low, none.high, none.p_value) == pytest.approx((equal.low, equal.high, equal.p_value))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1.0, 0.0]}, "finite weight above 0"),
        ({"weights": [1.0]}, "each of 2 samples needs a finite weight"),
        ({"clusters": ["a"]}, "each of 2 samples needs a cluster, got 1"),
    ],
)
def test_weights_and_clusters_fit_the_samples(options, message):
    """Each sample has one of both."""
    with pytest.raises(ValueError, match=message):
        paired_bootstrap([1.0, 0.5], [0.5, 0.0], **options)


def test_warnings_are_printed_once(systems, tmp_path):
    """The gate below a comparison does not repeat its notes, but has them alone."""
    files = []
    for name, one in systems.items():
        one.to_jsonl(tmp_path / f"{name}.jsonl")
        files.append(str(tmp_path / f"{name}.jsonl"))
    result = ragstone.compare(systems)
    note = "which is not a judge"
    found = CliRunner().invoke(app, ["compare", *files, "--margin", "0.2"])
    assert 1 == " ".join(found.output.split()).count(note)
    assert note in str(result.check_regression(margin=0.2))
