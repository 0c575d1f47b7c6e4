"""Means of requests that were sampled with different probabilities: weighted by their inverse, or refused."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import ragstone
from completions import complete
from ragstone.cli import main
from ragstone.errors import DataError
from ragstone.schema import Captured, Score, Trace
from ragstone.stats import hajek_mean, simultaneous_differences
from ragstone.store import PlannedMetric, SqliteStore
from ragstone_lab import topicality, validate_metrics

QR = {"metric": "ccrs.qr", "metric_version": "1", "judge": "j", "judge_hash": "h"}


@pytest.fixture
def sampled(tmp_path):
    """A store of traffic with a mean of 0.2: all requests of an app that scores 0.6, a tenth of one that scores 0.1."""
    path = tmp_path / "app.db"
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name="ccrs.qr", version="1", judge_hash="h")], [])
        for i in range(100):
            often = i < 50
            id_ = f"r{i}"
            trace = Trace(trace_id=id_, query="q", started_at=1e9 + i, inclusion_probability=1.0 if often else 0.1)
            store.traces.ingest("a", i + 1, [Captured(trace=trace)])
            value = (0.6 if often else 0.1) + (0.05 if i % 2 else -0.05)
            complete(store, id_, [Score(sample_id=id_, value=value, method="single_reply", **QR)])
    return path


TRUE = (50 * 0.6 + 500 * 0.1) / 550


def test_validate_metrics_weights_means_and_shares(sampled):
    """The mean is that of all traffic, not of the scored requests, and the report says what is not weighted."""
    report = validate_metrics(sampled)
    (found,) = report.distributions
    assert (found.mean.method, found.mean.n) == ("hajek", 100)
    assert found.mean.value == pytest.approx(TRUE)
    assert found.mean.value == pytest.approx(found.population.mean)
    assert found.mean.low < TRUE < found.mean.high < 0.3
    assert found.population.geometric_mean is None
    assert re.search(r"app: requests were sampled with different probabilities", str(report))


def test_shares_at_the_ends_of_the_range_are_weighted(tmp_path):
    """Of 550 requests, the 50 that were always kept have the lowest score, and the 500 others the highest."""
    path = tmp_path / "ends.jsonl"
    rows = [
        {
            "outcome": "score",
            "sample_id": f"r{i}",
            "value": 0.0 if often else 1.0,
            "method": "x",
            "inclusion_probability": 1.0 if often else 0.1,
        }
        | QR
        for i in range(100)
        for often in [i % 2 == 0]
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = validate_metrics(path).distributions
    low, high = found.population.at_low, found.population.at_high
    assert [50 / 550, 500 / 550] == pytest.approx([low.value, high.value])
    assert ["hajek", "hajek"] == [low.method, high.method]


def test_the_command_prints_the_weighted_mean(sampled, capsys):
    """`validate-metrics STORE` prints what `status STORE` prints."""
    meta = _printed(capsys, "lab", "validate-metrics", str(sampled), "--json")
    assert meta["distributions"][0]["mean"]["value"] == pytest.approx(TRUE)
    status = _printed(capsys, "status", str(sampled), "--json")
    assert meta["distributions"][0]["mean"]["value"] == pytest.approx(status["scores"][0]["mean"])


def _printed(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert not ended.value.code
    return json.loads(capsys.readouterr().out)


def test_a_prediction_powered_mean_is_refused(sampled):
    """It would be a mean of the scored requests."""
    rows = [{"id": f"r{i}", "label": float(i < 50)} for i in range(0, 100, 5)]
    (found,) = validate_metrics(sampled, labels=rows).labels
    assert found.human_mean is None
    assert "different probabilities" in " ".join(found.notes)


def test_topicality_is_refused(sampled, tmp_path):
    """It does not weight its means."""
    with pytest.raises(DataError, match=r"app.*different probabilities"):
        topicality(sampled, sampled)


def _rows(probabilities):
    rows = [
        {"id": f"{i}", "query": "Why?", "contexts": ["Rain."], "response": "Rain." if i % 2 else "The sun."}
        for i in range(len(probabilities))
    ]
    return [
        row if p is None else row | {"inclusion_probability": p} for row, p in zip(rows, probabilities, strict=True)
    ]


def test_rows_with_probabilities_are_weighted_and_stay_so_in_a_file(tmp_path):
    """`evaluate` weights rows that say how likely they were kept, and `compare` and `validate_metrics` read it back."""
    p = [0.1 if i % 2 else 1.0 for i in range(20)]
    experiment = ragstone.evaluate(_rows(p), ["ccrs.cc"], judge="lexical")
    (summary,) = experiment.summary()
    values = [o.value for o in experiment.outcomes]
    assert summary.estimate == hajek_mean(values, p)
    assert summary.estimate.value > np.mean(values) + 0.2
    experiment.to_jsonl(tmp_path / "a.jsonl")
    (found,) = validate_metrics(tmp_path / "a.jsonl").distributions
    assert found.mean == summary.estimate


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([0.5, -0.5, 0.5], r"row 2 \('1'\): inclusion_probability is -0.5. It must be a number above 0"),
        ([0.5, 0, 0.5], r"inclusion_probability is 0. It must"),
        ([0.5, 2, 0.5], r"inclusion_probability is 2. It must"),
        ([0.5, float("nan"), 0.5], r"inclusion_probability is missing, although other"),
        ([0.5, "nan", 0.5], r"inclusion_probability is 'nan'. It must"),
        ([0.5, "often", 0.5], r"inclusion_probability is 'often'. It must"),
        ([0.5, True, 0.5], r"inclusion_probability is True. It must"),
        ([0.5, None, 0.5], r"row 2 \('1'\): inclusion_probability is missing, although other rows have it"),
        ([None, 0.5, 0.5], r"row 1 \('0'\): inclusion_probability is missing, although other rows have it"),
    ],
)
def test_bad_probabilities_are_refused_before_any_call(probabilities, message, tmp_path):
    """Negative, above one, not a number, or missing for some: the message names the row, the value and the rule."""
    with pytest.raises(DataError, match=message):
        ragstone.evaluate(_rows(probabilities), ["ccrs.cc"], judge="lexical")


def test_bad_probabilities_in_a_file_of_outcomes(tmp_path):
    """The message names the line."""
    score = Score(sample_id="a", value=0.5, method="x", **QR)
    path = tmp_path / "a.jsonl"
    lines = [score.model_dump(mode="json") | {"sample_id": f"{i}", "inclusion_probability": 0.5} for i in range(3)]
    del lines[1]["inclusion_probability"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataError, match=r"line 2 of .*: inclusion_probability is missing"):
        validate_metrics(path)


def test_equal_probabilities_change_nothing():
    """A constant rate does not move a mean, and keeps the interval of unweighted scores."""
    one = ragstone.evaluate(_rows([0.5] * 20), ["ccrs.cc"], judge="lexical").summary()[0]
    two = ragstone.evaluate(_rows([None] * 20), ["ccrs.cc"], judge="lexical").summary()[0]
    assert one.estimate == two.estimate


@pytest.mark.parametrize(
    ("weights", "message"), [([0.5, -1.0], "got -1.0"), ([0.5, float("nan")], "got nan"), ([0.5], "2 values and 1")]
)
def test_the_function_names_bad_probabilities(weights, message):
    """`hajek_mean` refuses what is not a probability for each value."""
    with pytest.raises(ValueError, match=message):
        hajek_mean([0.1, 0.2], weights)


@pytest.mark.parametrize("clusters", [None, [i // 5 for i in range(100)]])
def test_a_one_sided_interval_ends_at_the_range(clusters):
    """And its other limit is nearer to the mean than that of the two-sided one."""
    rng = np.random.default_rng(3)
    values, probabilities = rng.uniform(0.2, 0.8, 100), rng.choice([0.1, 1.0], 100)

    def estimate(side):
        return hajek_mean(values, probabilities, clusters=clusters, low=0.0, high=1.0, side=side)

    both, lower, upper = estimate("two-sided"), estimate("lower"), estimate("upper")
    assert (0.0, 1.0) == (upper.low, lower.high)
    assert both.low < lower.low < lower.value == upper.value < upper.high < both.high


def test_compare_weights_differences_and_their_test(tmp_path):
    """One system is better on a tenth of the requests, which were always kept, and worse on the others."""
    paths = []
    for name in ("a", "b"):
        rows = []
        for i in range(110):
            often = i < 60
            score = Score(sample_id=f"{i}", value=0.5, method="single_reply", **QR).model_dump(mode="json")
            change = (0.2 if often else -0.2) if name == "b" else 0.0
            score["value"] = 0.5 + change + 0.001 * (i % 7)
            rows.append(score | {"inclusion_probability": 1.0 if often else 0.1})
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    (metric,) = ragstone.compare(paths, n_permutations=500).metrics
    (pair,) = metric.pairs
    assert abs(pair.difference) == pytest.approx(0.2 * (500 - 60) / 560)
    assert pair.p_value < 0.01


def test_differences_and_gates_of_sampled_rows_are_weighted(tmp_path):
    """Over sessions of two rows: the interval of a paired difference, and one-sided bounds with and without changes."""
    rng = np.random.default_rng(4)
    p, sessions = rng.choice([0.1, 1.0], 80), [f"s{i // 2}" for i in range(80)]
    values = np.round([np.full(80, 0.3), 0.3 + np.where(p < 1, 0.1, 0.3) + rng.normal(0, 0.1, 80)], 3)
    for name, column in zip(("a", "b", "same"), (*values, values[0]), strict=True):
        rows = [
            {"outcome": "score", "sample_id": f"r{i}", "value": value, "method": "x"}
            | {"inclusion_probability": p[i], "clusters": {"session_id": sessions[i]}}
            | QR
            for i, value in enumerate(column)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    change = values[1] - values[0]
    found = ragstone.compare([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    (pair,) = found.metrics[0].pairs
    (expected,) = simultaneous_differences([values[::-1].T], clusters=sessions, weights=1 / p)[0].pairs
    assert (np.average(change, weights=1 / p), expected.low, expected.high) == pytest.approx(
        (pair.difference, pair.low, pair.high)
    )
    (gate,) = found.check_regression(margin=0.5).gates
    assert hajek_mean(change, p, clusters=sessions, low=-1.0, side="lower").low == pytest.approx(gate.low)
    # If no row changes, the effective number of sessions bounds the share of rows that may.
    weights = (1 / p).reshape(40, 2).sum(axis=1)
    n = weights.sum() ** 2 / (weights**2).sum()
    same = ragstone.compare([tmp_path / "a.jsonl", tmp_path / "same.jsonl"])
    assert 0.05 ** (1 / n) - 1 == pytest.approx(same.check_regression(margin=0.5).gates[0].low)
