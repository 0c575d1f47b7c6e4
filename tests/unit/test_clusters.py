"""Clusters of samples that resemble each other: means, tests, notes and errors."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from datetime import date
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

import ragstone
from clustered_scores import Setting, miss_rates
from completions import complete
from ragstone.cli import main
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import Clusters, TimeRange, choose_clusters, cluster_notes, count_units
from ragstone.experiments._clusters import labels_in, store_labels
from ragstone.experiments._outcomes import open_source
from ragstone.schema import Captured, Sample, Score, Trace, trace_from_sample
from ragstone.settings import Analysis
from ragstone.stats import (
    cluster_codes,
    design_effect,
    estimate_mean,
    hajek_mean,
    mean_interval,
    simultaneous_differences,
)
from ragstone.store import PlannedMetric, SqliteStore
from ragstone_lab import validate_metrics
from value_groups import compare_value_groups

QR = {"metric": "ccrs.qr", "metric_version": "1", "judge": "j", "judge_hash": "h"}


def test_design_effect_by_hand():
    """Analysis of variance of three clusters of two: between 0.5, within 0.125, so ICC 0.6 and an effect of 1.6."""
    effect = design_effect([0.0, 0.5, 0.5, 1.0, 1.0, 1.5], ["a", "a", "b", "b", "c", "c"])
    assert effect.icc == pytest.approx((0.5 - 0.125) / (0.5 + 0.125))
    assert effect.value == pytest.approx(1 + effect.icc)
    assert (effect.n, effect.n_clusters, effect.n_independent) == (6, 3, pytest.approx(6 / 1.6))


def test_design_effect_of_unequal_clusters_by_hand():
    """Sizes 1, 2, 3: between 5/12, within 1/6, and the size that counts is (6 - 14/6) / 2 = 11/6, so ICC 0.45."""
    effect = design_effect([0.0, 1.0, 0.0, 1.0, 1.0, 1.0], ["a", "b", "b", "c", "c", "c"])
    assert effect.icc == pytest.approx((5 / 12 - 1 / 6) / (5 / 12 + 5 / 6 / 6))
    assert effect.value == pytest.approx(1 + (14 / 6 - 1) * 0.45)


def test_design_effect_of_unequal_clusters_counts_the_mean_size_of_an_item():
    """Sizes 1 and 3 with ICC 1: an item is on average in a cluster of 2.5."""
    effect = design_effect([0.0, 1.0, 1.0, 1.0, 2.0], ["a", "b", "b", "b", None])
    assert (effect.icc, effect.n_clusters) == (1.0, 3)
    assert effect.value == pytest.approx(1 + (1 + 9 + 1) / 5 - 1)


@pytest.mark.parametrize(
    ("values", "labels"), [([1.0, 0.0], ["a", "a"]), ([1.0, 0.0], ["a", "b"]), ([1.0, 0.0], [None, None]), ([], [])]
)
def test_design_effect_needs_two_clusters_and_two_items_of_one(values, labels):
    """Otherwise the correlation within clusters is unknown."""
    assert design_effect(values, labels) is None


def test_opposite_items_of_a_cluster_count_as_independent():
    """A negative estimate of the correlation is 0, so that an interval is never shorter than that of independent items."""
    effect = design_effect([0.0, 1.0, 0.0, 1.0, 0.0, 1.0], ["a", "a", "b", "b", "c", "c"])
    assert (effect.icc, effect.value) == (0.0, 1.0)


def test_items_without_a_label_are_clusters_of_their_own():
    """None is not a label."""
    assert cluster_codes(["a", None, "a", None, "b"]).tolist() == [0, 1, 0, 2, 3]


def test_copies_of_each_row_do_not_make_an_interval_shorter():
    """Ten copies of each item are ten items per cluster, with the mean and interval of one each."""
    x = np.random.default_rng(0).beta(2, 2, 40)
    one = hajek_mean(x, clusters=range(40))
    ten = hajek_mean(np.repeat(x, 10), clusters=np.repeat(np.arange(40), 10).tolist())
    assert (one.low, one.high) == pytest.approx((ten.low, ten.high))
    assert mean_interval(np.repeat(x, 10)).high - one.value < 0.5 * (one.high - one.value)


def test_the_variance_of_clusters_is_the_jackknife():
    """Unbounded values: Student's t for the spread of the means without each cluster."""
    from scipy import stats

    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(8), rng.integers(2, 9, 8))
    x, p = rng.normal(size=labels.size), rng.uniform(0.2, 1, labels.size)
    found = hajek_mean(x, p, clusters=labels.tolist(), low=-math.inf, high=math.inf)
    without = [np.average(x[labels != c], weights=1 / p[labels != c]) for c in range(8)]
    error = math.sqrt(7 / 8 * sum((m - found.value) ** 2 for m in without))
    share = np.array([(1 / p[labels == c]).sum() for c in range(8)]) / (1 / p).sum()
    moved = np.array(without) - found.value
    kurtosis = 8 * (moved**4).sum() / (moved**2).sum() ** 2
    freedom = min(1 / (share**2).sum(), 16 / (kurtosis - 1)) - 1
    assert (found.high - found.low) / 2 == pytest.approx(stats.t.ppf(0.975, freedom) * error)


@pytest.mark.parametrize("side", ["two-sided", "lower", "upper"])
@pytest.mark.parametrize("mirrored", [False, True])
def test_bounded_means_have_the_interval_of_wilson(side, mirrored):
    """For independent yes/no items, it is Wilson's with Student's t, and a larger quantile on the long side of the data."""
    from scipy import stats

    k, p = 100, 0.3 if mirrored else 0.7
    found = hajek_mean([1.0] * round(k * p) + [0.0] * round(k * (1 - p)), clusters=range(k), side=side)
    t = stats.t.ppf(0.975 if side == "two-sided" else 0.95, k - 1)
    skewness = (1 - 2 * p) / math.sqrt(p * (1 - p))
    more = abs(skewness) * (2 * t**2 + 1) / (6 * math.sqrt(k)) / (2 if side == "two-sided" else 1)

    def limit(q):
        n = k - 1
        return (p + q * q / (2 * n) + q * math.sqrt(p * (1 - p) / n + (q / (2 * n)) ** 2)) / (1 + q * q / n)

    low, high = limit(-t - (0 if mirrored else more)), limit(t + (more if mirrored else 0))
    expected = (0.0 if side == "upper" else low, 1.0 if side == "lower" else high)
    assert (found.low, found.high) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_skewness_of_unequal_clusters_counts_their_effective_number(sign):
    """The limit on the long side has the quantile that the skewness of the means without each cluster asks for."""
    from scipy import stats

    rng = np.random.default_rng(5)
    sizes = np.array([1, 2, 2, 3, 3, 4, 6, 9, 14, 22])
    labels = np.repeat(np.arange(10), sizes)
    x = np.clip(0.5 + sign * (rng.exponential(0.15, 10)[labels] - 0.2 + rng.normal(0, 0.05, labels.size)), 0.01, 0.99)
    found = hajek_mean(x, clusters=labels.tolist())
    moved = np.array([found.value - x[labels != c].mean() for c in range(10)])
    n = sizes.sum() ** 2 / (sizes**2).sum()
    kurtosis = 10 * (moved**4).sum() / (moved**2).sum() ** 2
    t = stats.t.ppf(0.975, min(n, 20 / (kurtosis - 1)) - 1)
    skewness = (moved**3).mean() / (moved**2).mean() ** 1.5
    assert abs(skewness) > 0.5
    more = abs(skewness) / math.sqrt(n) * (2 * t**2 + 1) / 12

    def limit(q):
        p, error = found.value, 9 / 10 * (moved**2).sum()
        shrink = q * q * error / (p * (1 - p))
        return (p + shrink / 2 + q * math.sqrt(error * (1 + shrink / (4 * p * (1 - p))))) / (1 + shrink)

    expected = (limit(-t - more * (skewness < 0)), limit(t + more * (skewness > 0)))
    assert (found.low, found.high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clusters": ["a"] * 4}, "at least two clusters, but all 4 values are in the cluster 'a'"),
        ({"clusters": ["a", "b"]}, "each of 4 items needs a cluster, got 2 clusters"),
    ],
)
def test_a_mean_over_clusters_names_what_is_wrong(options, message):
    """One cluster only, and missing labels."""
    with pytest.raises(ValueError, match=message):
        hajek_mean([0.1, 0.2, 0.3, 0.4], **options)


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        ("means", "ceiling"),
        ("means", "rare"),
        ("weighted means", "ceiling"),
        ("flip rates", "smooth"),
        ("agreement", "high"),
        ("groups", "ceiling"),
    ],
)
@pytest.mark.parametrize("icc", [0.0, 0.5])
def test_intervals_over_clusters_cover(estimator, kind, icc):
    """At most 6 misses in 100, plus three standard errors of 300 runs, with 30 clusters of random sizes.

    `tests/simulate/test_cluster_intervals.py` has all kinds of scores and numbers of clusters.
    """
    found = miss_rates(estimator, Setting(icc=icc, n_clusters=30, kind=kind, equal=False), runs=300)
    assert max(found.values()) <= 0.06 + 3 * math.sqrt(0.06 * 0.94 / 300), found


def test_the_same_intervals_without_clusters_miss_more():
    """The simulation is able to fail: as independent rows, means miss more than 15 in 100 at ICC 0.5."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(300):
        x = np.repeat(rng.random(30), 5)
        found = estimate_mean(x, low=0.0, high=1.0)
        missed += not found.low <= 0.5 <= found.high
    assert missed > 45


def test_a_paired_test_flips_whole_clusters():
    """Three clusters have eight sign flips, counted by hand, however many rows they have."""
    difference = {"a": [0.3, 0.4], "b": [0.2], "c": [-0.1, 0.2, 0.1]}
    rows = [(label, d) for label, ds in difference.items() for d in ds]
    (result,) = simultaneous_differences([[[d, 0.0] for _, d in rows]], clusters=[label for label, _ in rows])
    (pair,) = result.pairs
    sums = [sum(ds) for ds in difference.values()]
    flipped = [
        abs(sum(s * t for s, t in zip(signs, sums, strict=True))) for signs in itertools.product([1, -1], repeat=3)
    ]
    assert pair.p_value == pytest.approx(sum(f >= sum(sums) - 1e-9 for f in flipped) / 8)
    assert (pair.n, pair.mc_error) == (6, 0.0)


def test_weights_of_rows_move_differences():
    """A row that stands for ten counts ten times, in the difference and in the permutations."""
    d, w = [0.5, -0.2, 0.1, 0.3], [10, 1, 1, 1]
    (result,) = simultaneous_differences([[[one, 0.0] for one in d]], weights=w)
    assert result.pairs[0].difference == pytest.approx(np.average(d, weights=w))
    (copies,) = simultaneous_differences([[[one, 0.0] for one in d]])
    assert result.pairs[0].p_value <= copies.pairs[0].p_value
    with pytest.raises(ValueError, match="finite weight above 0"):
        simultaneous_differences([[[1.0, 0.0]] * 2], weights=[1.0, -1.0])


def test_an_unpaired_test_permutes_whole_clusters():
    """Ten copies of each value are ten items per cluster, with the p-value and interval of one each."""
    rng = np.random.default_rng(1)
    groups = [rng.random(15).tolist(), (rng.random(12) + 0.2).clip(0, 1).tolist()]
    one = compare_value_groups(groups, n_resamples=2000).pairs[0]
    ten = compare_value_groups(
        [[v for v in g for _ in range(10)] for g in groups],
        clusters=[[i for i in range(len(g)) for _ in range(10)] for g in groups],
        n_resamples=2000,
    ).pairs[0]
    assert ten.p_value == one.p_value
    assert (ten.low, ten.high) == pytest.approx((one.low, one.high))


@pytest.mark.parametrize("test", ["paired", "unpaired"])
def test_dependent_data_have_few_false_claims(test):
    """ICC 0.5: at most 6 in 100 plus three standard errors of 300 runs. As independent rows, many more."""
    with_clusters, without = false_claims(test, runs=300)
    assert with_clusters <= 0.06 + 3 * math.sqrt(0.06 * 0.94 / 300)
    assert without > 0.12


@pytest.mark.slow
@pytest.mark.parametrize("test", ["paired", "unpaired"])
def test_dependent_data_have_few_false_claims_of_many(test):
    """At most 6 in 100 plus one standard error of 2,000 runs."""
    assert false_claims(test, runs=2000)[0] <= 0.06 + math.sqrt(0.06 * 0.94 / 2000)


def false_claims(test, *, runs):
    """Share of runs without a difference that claim one: with clusters, and as independent rows. 40 clusters of five."""
    rng = np.random.default_rng(4)
    codes = np.repeat(np.arange(40), 5)
    found = np.zeros(2)
    for seed in range(runs):
        x = (rng.standard_normal((40, 2))[codes] + rng.standard_normal((200, 2))) * 0.1 + 0.5
        for k, labels in enumerate((codes.tolist(), None)):
            if test == "paired":
                (pair,) = simultaneous_differences([x], clusters=labels, n_resamples=199, seed=seed)[0].pairs
            else:
                of_groups = None if labels is None else [labels[:100], labels[100:]]
                groups = [x[:100, 0].clip(0, 1), x[100:, 0].clip(0, 1)]
                (pair,) = compare_value_groups(groups, clusters=of_groups, n_resamples=199, seed=seed).pairs
            found[k] += pair.p_value <= 0.05
    return found / runs


def rows(n_sessions=20, size=5, **more):
    """Sessions that are all right or all wrong."""
    return [
        {
            "id": f"{s}-{i}",
            "query": "Why?",
            "contexts": ["Rain."],
            "response": "Rain." if s % 3 else "The sun.",
            "session_id": f"s{s}",
            **more,
        }
        for s in range(n_sessions)
        for i in range(size)
    ]


def test_evaluate_uses_sessions_if_rows_share_them():
    """The interval is that of sessions, the note has the numbers, and `none` turns it off."""
    found = ragstone.evaluate(rows(), ["ccrs.cc"], judge="lexical")
    off = ragstone.evaluate(rows(), ["ccrs.cc"], judge="lexical", cluster="none")
    (summary,), (independent,) = found.summary(), off.summary()
    assert summary.estimate.method == "cluster"
    assert summary.estimate.value == pytest.approx(independent.estimate.value)
    assert summary.estimate.high - summary.estimate.low > 1.8 * (independent.estimate.high - independent.estimate.low)
    assert found.notes()[0].startswith(
        "100 rows in 20 sessions, ICC 1.00 (ccrs.cc): design effect 5.0, worth 20 independent rows. Intervals and tests treat "
        "whole sessions as independent"
    )
    assert "20 clusters (session_id): with fewer than 30, intervals are a rough guide" in str(found)
    assert off.notes() == ()


def test_rare_sessions_and_other_keys_are_not_used_unasked():
    """Below 5% of shared rows nothing changes; for users there is a note; a named key is used."""
    few = [row | {"session_id": row["id"]} for row in rows()]
    few[0]["session_id"] = few[1]["session_id"] = "shared"
    assert ragstone.evaluate(few, ["ccrs.cc"], judge="lexical").summary()[0].estimate.method != "cluster"
    users = [{k: v for k, v in row.items() if k != "session_id"} | {"user_id": row["session_id"]} for row in rows()]
    asked, unasked = (ragstone.evaluate(users, ["ccrs.cc"], judge="lexical", cluster=c) for c in ("user_id", "auto"))
    assert unasked.summary()[0].estimate.method != "cluster"
    assert "in 20 users, ICC 1.00" in unasked.notes()[0]
    assert "--set analysis.cluster=user_id" in unasked.notes()[0]
    assert asked.summary()[0].estimate.method == "cluster"


@pytest.mark.parametrize(
    ("cluster", "error", "message"),
    [
        (
            "sesion_id",
            ConfigurationError,
            r"cluster 'sesion_id': no sample has this key. Keys of these samples: .*session_id",
        ),
        ("tenant", DataError, r"cluster 'tenant': all 10 samples are in one cluster \('t'\)"),
    ],
)
def test_unknown_keys_and_single_clusters_are_refused_before_any_call(cluster, error, message, tmp_path):
    """In every command: the message has the key, the rule and the way out."""
    data = rows(2, tenant="t")
    with pytest.raises(error, match=message):
        ragstone.evaluate(data, ["ccrs.cc"], judge="lexical", cluster=cluster)
    experiment = ragstone.evaluate(data, ["ccrs.cc"], judge="lexical")
    for call in (ragstone.compare, validate_metrics):
        sources = {"a": experiment, "b": experiment}
        with pytest.raises(error, match="cluster"):
            call(sources, cluster=cluster)


def test_a_file_of_outcomes_has_the_key_that_evaluate_named(tmp_path, capsys):
    """The error of a file without it says so, and following it works."""
    path = tmp_path / "rows.jsonl"
    told = [
        {"id": str(i), "query": "q", "response": f"a{i % 3}", "references": ["a1"], "document": f"d{i % 8}"}
        for i in range(40)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in told))
    plain, named = str(tmp_path / "plain.jsonl"), str(tmp_path / "named.jsonl")
    evaluate = ["evaluate", str(path), "--metrics", "exact_match", "--json"]
    _printed([*evaluate, "-o", plain], capsys)
    error = " ".join(
        _printed(["lab", "validate-metrics", plain, "--set", "analysis.cluster=document"], capsys, 2).split()
    )
    assert "the key that `evaluate --set analysis.cluster=KEY` named when it was written" in error
    _printed([*evaluate, "-o", named, "--set", "analysis.cluster=document"], capsys)
    found = _printed(["lab", "validate-metrics", named, "--set", "analysis.cluster=document", "--json"], capsys)
    assert any("40 rows in 8 clusters of document" in note for note in found["notes"])


def test_columns_that_outcomes_do_not_have_come_from_the_evaluated_file(tmp_path, capsys):
    """`--data ROWS --set analysis.cluster=COLUMN` of report and compare, with the interval of an experiment over this column."""
    files = {}
    chosen = ("--metrics", "ccrs.cc", "--judge", "lexical")
    for name, wrong in (("old", 3), ("new", 4)):
        told = [
            row
            | {"document": f"d{row['id'].partition('-')[0]}", "session_id": None}
            | {"response": "Rain." if int(row["id"].partition("-")[0]) % wrong else "The sun."}
            for row in rows()
        ]
        files[name] = (str(tmp_path / f"{name}.jsonl"), str(tmp_path / f"{name}-outcomes.jsonl"))
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
        _printed(["evaluate", files[name][0], *chosen, "-o", files[name][1], "--json"], capsys)
    (data, old), (new_data, new) = files["old"], files["new"]
    (wanted,) = ragstone.evaluate(data, ["ccrs.cc"], judge="lexical", cluster="document").summary()

    report = ["report", old, "--set", "analysis.cluster=document", "--json", "--full"]
    error = " ".join(_printed(report, capsys, 2).split())
    assert "cluster 'document': no sample has this key" in error
    assert "Other columns are read from the evaluated file: --data ROWS" in error
    gated = _printed([*report, "--data", data, "--fail-under", "ccrs.cc=0.3"], capsys)
    estimate = gated["metrics"][0]["estimate"]
    assert (estimate["method"], estimate["low"]) == ("cluster", pytest.approx(wanted.estimate.low))
    assert gated["gate"]["notes"] == ["limits treat whole clusters (document) as independent"]

    compare = ["compare", f"old={old}", f"new={new}", "--set", "analysis.cluster=document", "--json", "--full"]
    assert "--data ROWS" in _printed(compare, capsys, 2)
    both = ["--data", data, "--data", new_data]
    found = _printed([*compare, *both], capsys)
    assert found["metrics"][0]["systems"][0]["estimate"]["low"] == pytest.approx(wanted.estimate.low)
    assert any("100 rows in 20 clusters of document" in note for note in found["notes"])
    off = _printed(["compare", f"old={old}", f"new={new}", "--json", "--full"], capsys)
    assert found["metrics"][0]["pairs"][0]["p_value"] > 4 * off["metrics"][0]["pairs"][0]["p_value"]
    change = _printed(
        ["report", f"old={old}", f"new={new}", "--set", "analysis.cluster=document", *both, "--json", "--full"], capsys
    )
    pair = found["metrics"][0]["pairs"][0]
    assert change["metrics"][0]["change"]["low"] == pytest.approx(pair["low"])
    # Labels that one file lacks come from the other, because the samples are the same.
    partial = tmp_path / "partial.jsonl"
    lines = [json.loads(line) for line in Path(new_data).read_text(encoding="utf-8").splitlines()]
    kept = [row if n < 50 else {k: v for k, v in row.items() if k != "document"} for n, row in enumerate(lines)]
    partial.write_text("".join(json.dumps(row) + "\n" for row in kept))
    both = ["--data", data, "--data", str(partial)]
    change = _printed(
        ["report", f"old={old}", f"new={new}", "--set", "analysis.cluster=document", *both, "--json", "--full"], capsys
    )
    assert change["metrics"][0]["change"]["low"] == pytest.approx(pair["low"])


def test_a_label_of_a_file_of_outcomes_wins_over_the_one_of_the_evaluated_file(tmp_path):
    """Outcomes were scored with their own labels, and rows that changed since then do not replace them."""
    scored = ragstone.evaluate(rows(), ["ccrs.cc"], judge="lexical")
    scored.to_jsonl(tmp_path / "outcomes.jsonl")
    others = [s.model_copy(update={"metadata": {"session_id": s.id, "lot": s.id[0]}}) for s in scored.samples]
    opened = open_source(tmp_path / "outcomes.jsonl", samples=others, analysis=Analysis(cluster="lot"))
    list(opened.outcomes())
    assert opened.dependence().labels["session_id"]["3-1"] == "s3"
    assert opened.dependence().labels["lot"]["3-1"] == "3"


def test_rows_without_a_label_are_counted():
    """Each is a cluster of its own."""
    data = rows()
    del data[0]["session_id"]
    assert "1 of 100 samples do not have a session_id. Each counts as a cluster of its own." in str(
        ragstone.evaluate(data, ["ccrs.cc"], judge="lexical")
    )


def test_compare_and_gates_flip_whole_sessions(tmp_path):
    """From experiments and from files: wider intervals, and a gate that no longer excludes the loss."""
    old = ragstone.evaluate(rows(), ["ccrs.cc"], judge="lexical")
    better = [row | {"response": "Rain."} if row["session_id"] in {"s0", "s3"} else row for row in rows()]
    new = ragstone.evaluate(better, ["ccrs.cc"], judge="lexical")
    result, off = (ragstone.compare({"old": old, "new": new}, cluster=c) for c in ("auto", "none"))
    assert off.verdict == ("new beats old on ccrs.cc by 10 points [4, 16]",)
    assert "no significant difference" in result.verdict[0]
    assert result.metrics[0].pairs[0].difference == off.metrics[0].pairs[0].difference
    assert "Intervals and tests treat whole sessions as independent" in str(result)
    for name, one in (("old", old), ("new", new)):
        one.to_jsonl(tmp_path / f"{name}.jsonl")
    again = ragstone.compare([tmp_path / "old.jsonl", tmp_path / "new.jsonl"])
    assert again.metrics == result.metrics


def test_a_gate_does_not_count_the_rows_of_a_session_as_independent():
    """One of 60 sessions is lost: as 300 independent rows the loss is small, as 60 sessions it may be large."""
    old = ragstone.evaluate(rows(60), ["ccrs.cc"], judge="lexical")
    worse = [row | {"response": "The sun."} if row["session_id"] == "s1" else row for row in rows(60)]
    new = ragstone.evaluate(worse, ["ccrs.cc"], judge="lexical")
    ragstone.assert_no_regression(old, new, margin=0.06, cluster="none")
    with pytest.raises(AssertionError, match="NOT SHOWN"):
        ragstone.assert_no_regression(old, new, margin=0.06)


def test_validate_metrics_permutes_whole_sessions(tmp_path):
    """Discriminative power and correlations count sessions: less power, other intervals; labels and repeats too."""
    old = ragstone.evaluate(rows(), ["ccrs.cc", "ccrs.qr"], judge="lexical")
    better = [row | {"response": "Rain."} if row["session_id"] in {"s0", "s3"} else row for row in rows()]
    new = ragstone.evaluate(better, ["ccrs.cc", "ccrs.qr"], judge="lexical")
    sessions, none = (validate_metrics({"old": old, "new": new}, cluster=c) for c in ("auto", "none"))
    assert none.powers[0].power.n_significant == 1
    assert sessions.powers[0].power.n_significant == 0
    labels = [{"id": row["id"], "label": float(i % 2)} for i, row in enumerate(rows())]
    found = [validate_metrics(old, labels=labels, repeats=[new], cluster=c) for c in ("auto", "none")]
    (over, *_), (alone, *_) = (report.labels for report in found)
    for name in ("exact", "bias", "pearson", "kendall", "spearman"):
        one, other = getattr(over, name), getattr(alone, name)
        assert one.value == pytest.approx(other.value)
        assert (one.low, one.high) != pytest.approx((other.low, other.high)), name
    assert ["jackknife", "bootstrap"] == [of.krippendorff.coefficient.method for of in (over, alone)]
    assert ["jackknife", "bootstrap"] == [of.cohen.coefficient.method for of in (over, alone)]
    assert ["cluster"] * 2 == [row.rate.pairs.method for row in found[0].repeatability]
    assert "cluster" not in {row.rate.pairs.method for row in found[1].repeatability}
    some = validate_metrics(old, labels=labels[:40]).labels[0]
    assert ("ppi_drawn" in some.human_mean.estimate.method) or "cluster" in some.human_mean.estimate.method


@pytest.mark.parametrize("n_sessions", [8, 30])
def test_correlations_count_sessions(n_sessions, tmp_path):
    """Copies of rows within a session do not make the interval of a correlation shorter."""
    rng = np.random.default_rng(0)
    x = rng.random((n_sessions, 2))
    for name, copies in (("one", 1), ("ten", 10)):
        lines = [
            Score(sample_id=f"{s}-{i}", value=float(x[s, k]), method="x", **QR | {"metric": metric}).model_dump(
                mode="json"
            )
            | {"clusters": {"session_id": f"s{s}"}}
            for s in range(n_sessions)
            for i in range(copies)
            for k, metric in enumerate(("ccrs.qr", "ccrs.cc"))
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    one, ten = (validate_metrics(tmp_path / f"{name}.jsonl").correlations[0].mean for name in ("one", "ten"))
    assert (one.low, one.high) == pytest.approx((ten.low, ten.high))


@pytest.fixture
def traffic(tmp_path):
    """Two weeks of 30 sessions of five requests with one score in each session."""
    path = tmp_path / "app.db"
    rng = np.random.default_rng(3)
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name="ccrs.qr", version="1", judge_hash="h")], [])
        for k, (week, session, i) in enumerate(itertools.product(range(2), range(30), range(5))):
            if i == 0:
                value = float(rng.uniform(0.4, 0.6) + 0.01 * week)
            trace = Trace(
                trace_id=f"t{k}",
                query="q",
                started_at=1e9 + 1e6 * week + k,
                session_id=f"w{week}-s{session}",
                metadata={"tenant": f"w{week}-{session // 2}"},
            )
            store.traces.ingest("a", k + 1, [Captured(trace=trace)])
            complete(store, f"t{k}", [Score(sample_id=f"t{k}", value=value, method="single_reply", **QR)])
    return path


def test_traffic_permutes_whole_sessions(traffic):
    """By default from the store's sessions, by name from a key of the metadata; as independent requests it claims."""
    weeks = {"before": TimeRange(traffic, until=1e9 + 9e5), "after": TimeRange(traffic, since=1e9 + 9e5)}
    sessions, tenants, none = (ragstone.compare(weeks, cluster=c) for c in ("auto", "tenant", "none"))
    assert none.metrics[0].pairs[0].better == "after"
    assert sessions.metrics[0].pairs[0].better is None
    assert "300 rows in 60 sessions, ICC 1.00 (ccrs.qr): design effect 5.0, worth 60 independent rows" in str(sessions)
    assert "300 rows in 30 clusters of tenant" in str(tenants)
    assert none.metrics[0].pairs[0].difference == pytest.approx(sessions.metrics[0].pairs[0].difference)
    assert sessions.metrics[0].systems[0].estimate.method == "cluster"
    users = validate_metrics(traffic).distributions[0].mean
    assert users.method == "cluster"


def test_the_command_takes_a_cluster(traffic, capsys):
    """`analysis.cluster` of `lab validate-metrics` and compare, with a usage error for an unknown key."""
    for arguments, code in (
        (["lab", "validate-metrics", str(traffic), "--set", "analysis.cluster=tenant", "--json"], 0),
        (
            [
                "compare",
                f"{traffic}@..2001-09-14",
                f"{traffic}@2001-09-14..",
                "--set",
                "analysis.cluster=session_id",
                "--json",
            ],
            0,
        ),
        (["lab", "validate-metrics", str(traffic), "--set", "analysis.cluster=unknown"], 2),
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert (ended.value.code or 0) == code, capsys.readouterr().err
        if not code:
            assert json.loads(capsys.readouterr().out)["notes"]


def _printed(arguments, capsys, code=0):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    found = capsys.readouterr()
    assert (ended.value.code or 0) == code, found.err
    return json.loads(found.out) if not code else found.err


def test_status_and_report_have_the_intervals_of_sessions(traffic, capsys):
    """The same interval from the store's counts as from its outcomes, wider than that of independent requests."""
    widths = {}
    for cluster in ("auto", "session_id", "tenant", "none"):
        (row,) = _printed(["status", str(traffic), "--set", f"analysis.cluster={cluster}", "--json"], capsys)["scores"]
        report = _printed(["report", str(traffic), "--set", f"analysis.cluster={cluster}", "--json", "--full"], capsys)
        (metric,) = report["metrics"]
        assert (row["mean"], *row["ci"]) == pytest.approx([metric["estimate"][key] for key in ("value", "low", "high")])
        assert row["method"] == metric["estimate"]["method"] == ("cluster" if cluster != "none" else "student_t")
        widths[cluster] = row["ci"][1] - row["ci"][0]
    assert widths["auto"] == widths["session_id"] > 1.9 * widths["none"]
    assert widths["tenant"] != widths["session_id"]
    notes = _printed(["status", str(traffic), "--json"], capsys)["notes"]
    assert "300 rows in 60 sessions" in notes[0]
    assert "Intervals and tests treat whole sessions as independent" in notes[0]


@pytest.mark.parametrize("command", ["status", "report"])
def test_a_store_without_the_key_is_a_usage_error(command, traffic, capsys):
    """With the value and the keys there are."""
    error = _printed([command, str(traffic), "--set", "analysis.cluster=sesion"], capsys, 2)
    assert "cluster 'sesion': no sample has this key. Keys of these samples: session_id" in " ".join(error.split())


def test_a_report_against_a_baseline_and_its_gate_use_the_same_clusters(traffic, tmp_path, capsys):
    """The difference is not significant for sessions, and the gate is undecided."""
    weeks = [f"before={traffic}@..2001-09-14", f"after={traffic}@2001-09-14.."]
    gated = [*weeks, "--fail-under", "ccrs.qr=0.493", "--set", "analysis.undecided=pass", "--json", "--full"]
    sessions, none = (
        _printed(["report", *gated, "--set", f"analysis.cluster={c}"], capsys) for c in ("session_id", "none")
    )
    changes = [found["metrics"][0]["change"] for found in (sessions, none)]
    assert [change["low"] <= 0 <= change["high"] for change in changes] == [True, False]
    lows = [found["gate"]["gates"][0]["low"] for found in (sessions, none)]
    assert lows[0] < lows[1]
    page = tmp_path / "report.html"
    main_result = _printed(
        ["report", *weeks, "--set", "analysis.cluster=tenant", "-o", str(page), "--json", "--full"], capsys
    )
    assert main_result["metrics"][0]["estimate"]["method"] == "cluster"
    assert "--set analysis.cluster=tenant" in page.read_text()


def test_replay_prints_means_over_sessions(tmp_path, capsys):
    """Copies of a conversation do not make the interval shorter, and the note says why."""
    rows = [
        {
            "id": f"{s}-{i}",
            "query": "Why is it wet?",
            "contexts": ["Rain."],
            "response": "Rain." if s % 3 else "Sun.",
            "session_id": f"s{s}",
        }
        for s in range(12)
        for i in range(4)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [
        "replay",
        str(path),
        "--store",
        str(tmp_path / "r.db"),
        "--metrics",
        "ccrs.qr,ccrs.cc",
        "--judge",
        "lexical",
        "--json",
    ]
    sessions, none = (_printed([*command, "--set", f"analysis.cluster={c}"], capsys) for c in ("auto", "none"))
    for found, method in ((sessions, "cluster"), (none, None)):
        estimates = [row["estimate"] for row in found["metrics"] if row["estimate"]]
        assert estimates
        assert all((e["method"] == method) == (method is not None) for e in estimates)
    assert "48 rows in 12 sessions" in sessions["notes"][0]
    assert not none["notes"]
    assert "no sample has this key" in _printed([*command, "--set", "analysis.cluster=nothing"], capsys, 2)


def test_a_mean_over_one_cluster_is_weighted_and_has_no_interval():
    """Of two items, the first one stands for ten."""
    found = estimate_mean([0.0, 1.0], low=0.0, high=1.0, probabilities=[0.1, 1.0], clusters=["a", "a"])
    assert (pytest.approx(1 / 11), 0.0, 1.0, "range") == (found.value, found.low, found.high, found.method)


def test_each_sample_without_a_label_is_a_unit():
    """Two sessions and three samples alone."""
    clusters = Clusters(key="session_id", by_sample={"a": "s", "b": "s", "c": "t"}, is_automatic=False)
    assert (5, 6) == (count_units("abcdef", clusters), count_units("abcdef", None))


def test_only_texts_and_integers_are_labels():
    """A flag would make two clusters of all samples. pandas makes floats of integers if a cell is empty."""
    fields = {
        "id": 7,
        "flag": True,
        "name": "a",
        "empty": "",
        "share": 0.5,
        "none": None,
        "float": 7.0,
        "nan": math.nan,
    }
    fields |= {"large": 2.0**53, "uuid": UUID(int=1)}
    assert {"id": "7", "name": "a", "float": "7", "uuid": str(UUID(int=1))} == labels_in(fields, fields)


def test_sessions_of_a_column_with_an_empty_cell_are_clusters():
    """A float in memory and in a file is the session of the integer: intervals were those of independent rows."""
    data = [row | {"session_id": n // 5, "day": date.fromordinal(n // 5 + 1)} for n, row in enumerate(rows())]
    whole = ragstone.evaluate(data, ["ccrs.cc"], judge="lexical").summary()[0].estimate
    data = [row | {"session_id": float(row["session_id"])} for row in data]
    assert ragstone.evaluate(data, ["ccrs.cc"], judge="lexical").summary()[0].estimate == whole
    data[0]["session_id"] = math.nan
    result = ragstone.evaluate(data, ["ccrs.cc"], judge="lexical")
    assert "1 of 100 samples do not have a session_id" in " ".join(result.notes())
    with pytest.raises(ConfigurationError, match="cluster 'day': no sample has a text or an integer under this key"):
        ragstone.evaluate(data, ["ccrs.cc"], judge="lexical", cluster="day")


def test_a_stored_request_has_the_user_of_a_column_with_an_empty_cell():
    """`store erase --user` finds it."""
    sample = Sample(id="1", query="q", metadata={"session_id": 7.0, "user_id": 100.0})
    trace = trace_from_sample(sample, source="rows", started_at=0.0)
    assert (trace.session_id, trace.user_id) == ("7", "100")


@pytest.mark.parametrize(("n", "is_used"), [(40, True), (41, False)])
def test_sessions_are_used_from_five_percent_of_shared_rows_on(n, is_used):
    """Two of 40 rows share one."""
    labels = {"session_id": {"r0": "s", "r1": "s"}}
    assert is_used == (choose_clusters("auto", labels, [f"r{i}" for i in range(n)]) is not None)


def test_the_design_effect_of_a_comparison_is_that_of_differences(tmp_path):
    """The samples of a session are alike, and what a change does to them is not. The labels may be in one file only."""
    rng = np.random.default_rng(0)
    base = np.repeat(rng.uniform(0.2, 0.8, 40), 5)
    paths = []
    for name in ("old", "new"):
        values = base + rng.normal(0, 0.05, 200)
        lines = [
            Score(sample_id=f"q{i}", value=float(v), method="x", **QR).model_dump(mode="json")
            | ({"session_id": f"s{i // 5}"} if name == "new" else {})
            for i, v in enumerate(values)
        ]
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    (note,) = [note for note in ragstone.compare(paths).notes if "ICC" in note]
    assert note.startswith("200 rows in 40 sessions, ICC 0.0")


@pytest.mark.parametrize(("n", "n_notes"), [(29, 1), (30, 0)])
def test_fewer_than_30_clusters_are_few(n, n_notes):
    """Of two metrics, the one with the larger design effect is described."""
    by_sample = {f"q{i}": f"s{i // 2}" for i in range(2 * n)}
    clusters = Clusters(key="session_id", by_sample=by_sample, is_automatic=True)
    scores = {
        "same": {id_: float(i // 2 % 2) for i, id_ in enumerate(by_sample)},
        "other": {id_: float(i % 2) for i, id_ in enumerate(by_sample)},
    }
    notes = cluster_notes("auto", clusters, {"session_id": by_sample}, by_sample, scores)
    assert "ICC 1.00 (same)" in notes[0]
    assert n_notes == sum("rough guide" in note for note in notes)


def test_samples_without_a_label_are_clusters_beside_a_single_one():
    """So there are two clusters or more."""
    labels = {"tenant": {"a": "t", "b": "t"}}
    assert choose_clusters("tenant", labels, "abc").by_sample == labels["tenant"]
    with pytest.raises(DataError, match="all 2 samples are in one cluster"):
        choose_clusters("tenant", labels, "ab")


def test_labels_of_a_period_are_those_of_its_requests(tmp_path):
    """Until a time, which is excluded."""
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        for i in range(4):
            trace = Trace(trace_id=f"t{i}", started_at=1e9 + i, query="q", metadata={"tenant": f"x{i % 2}"})
            store.traces.ingest("a", i + 1, [Captured(trace=trace)])
        assert {"t1": "x1", "t2": "x0"} == store_labels(store, "tenant", since=1e9 + 1, until=1e9 + 3)


@pytest.mark.parametrize("rare", [[], [0.0]])
def test_a_sample_without_rare_distant_scores_allows_for_them(rare):
    """Fifty scores of 0.9 to 1 in ten sessions may come from a mean of 0.9 * 0.95, and 0 may be among them."""
    scores = [0.9 + 0.1 * (n * 7 % 50) / 50 for n in range(50)]
    scores[: len(rare)] = rare
    sessions = [str(n // 5) for n in range(50)]
    found = hajek_mean(scores, clusters=sessions)
    gate = hajek_mean(scores, clusters=sessions, side="lower")
    assert found.low < 0.85
    assert gate.low < 0.8
    # A higher level contains a lower one, and the estimate.
    wide = hajek_mean(scores, clusters=sessions, confidence_level=0.99)
    assert wide.low < found.low < found.value < found.high <= wide.high


def test_scores_that_are_spread_have_the_interval_of_the_jackknife():
    """One more score at the end of the range would hardly move it, so that it does not become wider."""
    scores = [(n * 37 % 100) / 100 for n in range(100)]
    sessions = [str(n // 5) for n in range(100)]
    found = hajek_mean(scores, clusters=sessions)
    means = [sum(scores[n : n + 5]) / 5 for n in range(0, 100, 5)]
    error = statistics.stdev(means) / 20**0.5
    assert found.high - found.low < 2 * 2.3 * error
