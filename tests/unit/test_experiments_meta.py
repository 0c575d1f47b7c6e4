"""Metrics evaluated on outcomes: what is counted, what is refused, and what is said in words."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import ragstone
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import read_outcomes
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.stats import (
    cohen_kappa,
    correlate,
    describe,
    drawn_prediction_powered_mean,
    fisher_mean,
    krippendorff_alpha,
    spearman,
)
from ragstone_lab import topicality, validate_metrics

FAST = {"n_resamples": 200, "n_permutations": 300}


@pytest.fixture
def written(tmp_path):
    """Write outcomes to a file: by metric a list of values, None for a failure, "n.a." for what does not apply."""

    def write(name, values, *, prefix="q", judge_hash="h", judge="a judge", more=()):
        lines = []
        for metric, row in values.items():
            for i, value in enumerate(row):
                same = {
                    "sample_id": f"{prefix}{i}",
                    "metric": metric,
                    "metric_version": "1",
                    "judge": judge,
                    "judge_hash": judge_hash,
                }
                if value is None:
                    lines.append(Failure(kind="timeout", reason="slow", **same))
                elif value == "n.a.":
                    lines.append(NotApplicable(reason="nothing to score", **same))
                else:
                    lines.append(Score(value=value, method="single_reply", **same))
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(o.model_dump_json() + "\n" for o in [*lines, *more]), encoding="utf-8")
        return path

    return write


def noisy(seed, n=60):
    """Scores of steps of 0.1 that crowd at 1."""
    rng = np.random.default_rng(seed)
    return np.clip(np.round(rng.beta(3, 1, n), 1), 0, 1).tolist()


def test_distribution_counts_what_was_not_scored(written):
    """Failures and what does not apply are in no statistic, and in the counts."""
    report = validate_metrics(written("a", {"ccrs.qr": [1.0, 1.0, 0.5, None, "n.a.", None]}))
    (found,) = report.distributions
    assert describe([1.0, 1.0, 0.5], low=0, high=1) == found.population
    assert (2, 1) == (found.n_failed, found.n_not_applicable)
    assert 2 / 3 == pytest.approx(found.population.at_high.value)
    assert "3 / 2 / 1" in str(report)
    assert report.findings()[0].startswith("many scores are at the ceiling, ")
    assert "ccrs.qr (67% in a)" in report.findings()[0]


def test_metric_without_any_score(written):
    """Nothing is said of it but that; it has no correlation."""
    report = validate_metrics(written("a", {"ccrs.qr": [None, None], "ccrs.ir": [0.1, 0.2]}))
    assert report.distributions[0].population is None
    assert report.distributions[0].mean is None
    assert all(c.mean.value is None and not c.n_pairs for c in report.correlations)
    assert "no score" in str(report)


def test_correlations_are_within_systems(written):
    """Over the samples that both metrics scored, then Fisher's z over systems; a constant metric is left out and counted."""
    x, y = noisy(1), noisy(2)
    a = written("a", {"ccrs.qr": [*x, 0.3, None], "ccrs.ir": [*y, None, 0.4]})
    b = written("b", {"ccrs.qr": y, "ccrs.ir": [0.5] * 60})
    c = written("c", {"ccrs.qr": x, "ccrs.ir": x[30:] + y[:30]})
    found = {m.kind: m for m in validate_metrics(a, b, c, **FAST).correlations}
    values = found["spearman"].per_system
    assert spearman(x, y) == pytest.approx(values["a"])
    assert values["b"] is None
    assert {"a": 60, "b": 60, "c": 60} == found["pearson"].n_pairs
    intervals = [correlate(x, other, "spearman", x_range=(0, 1), y_range=(0, 1)) for other in (y, x[30:] + y[:30])]
    expected = fisher_mean([values["a"], values["c"]], intervals)
    actual = found["spearman"].mean
    assert (expected.value, expected.low, expected.high, 2, 1) == pytest.approx(
        (actual.value, actual.low, actual.high, actual.n, actual.n_undefined)
    )


def test_power_tells_systems_apart(written):
    """One metric sees that c is worse, the other is noise; rows are aligned by id, whatever their order."""
    base = noisy(3)
    worse = [max(0.0, v - 0.2) for v in base]
    a = written("a", {"ccrs.qr": base, "ccrs.ir": noisy(4)})
    b = written("b", {"ccrs.qr": [*base[:-1], None], "ccrs.ir": noisy(5)})
    c = written("c", {"ccrs.qr": worse, "ccrs.ir": noisy(6)})
    found = {m.metric: m for m in validate_metrics(a, b, c, **FAST).powers}
    assert (2, 3, 60) == (
        found["ccrs.qr"].power.n_significant,
        found["ccrs.qr"].power.n_pairs,
        found["ccrs.qr"].n_samples,
    )
    assert found["ccrs.qr"].p_values["a / b"] > 0.5
    assert found["ccrs.qr"].p_values["b / c"] < 0.05
    assert sorted(found["ccrs.qr"].power.asl) == list(found["ccrs.qr"].power.asl)
    assert 0 == found["ccrs.ir"].power.n_significant
    assert () == validate_metrics(a, **FAST).powers


def test_p_values_that_another_seed_may_move(written):
    """Few permutations leave a p-value near 0.05 undecided; the report counts it, and says what decides."""
    base = noisy(3)
    a = written("a", {"ccrs.qr": base})
    for shift in range(1, 12):
        other = [max(0.0, v - 0.1) if i < shift else v for i, v in enumerate(base)]
        report = validate_metrics(a, written("b", {"ccrs.qr": other}), n_permutations=100)
        (power,) = report.powers
        (p,) = power.p_values.values()
        near = abs(p - 0.05) <= 2 * math.sqrt(p * (1 - p) / 101)
        if power.n_permutations == 100 and near:
            assert 1 == power.n_uncertain
            assert "Use more permutations." in str(report)
            return
    pytest.fail("no shift gave a p-value near the limit")


def test_repeats_from_files_and_within_one(written):
    """A sample scored three times has three pairs; failures and other judges are left out and counted."""
    again = Score(
        sample_id="q0", metric="ccrs.qr", metric_version="1", judge_hash="h", value=0.2, method="single_reply"
    )
    a = written("a", {"ccrs.qr": [0.9, 0.5, 0.5, 0.7]}, more=[again])
    b = written("b", {"ccrs.qr": [0.9, 0.55, None, 0.7], "ccrs.zz": [1.0]})
    (found,) = validate_metrics(a, repeats=[b]).repeatability
    assert (3, 7, 1, 0) == (found.rate.n, found.rate.n_replies, found.n_unscored, found.n_other_judge)
    # q0: two of three pairs; q1 is within a tenth of the range, q3 equal; q2 has one score only.
    assert 2 / 9 == pytest.approx(found.rate.pairs.value)
    assert 1 == found.rate.n_left_out
    other = written("o", {"ccrs.qr": [0.9, 0.5, 0.5, 0.7]}, judge_hash="x")
    (found,) = validate_metrics(a, repeats=[other]).repeatability
    assert (1, 4) == (found.rate.n, found.n_other_judge)


def test_flip_threshold_is_a_share_of_the_range(written):
    """UDCG's range is a third as wide as 1: so is what counts as a flip."""
    a = written("a", {"udcg": [0.5, 0.5], "ccrs.qr": [0.5, 0.5]})
    b = written("b", {"udcg": [0.55, 0.51], "ccrs.qr": [0.55, 0.51]})
    found = {f.metric: f.rate.pairs.value for f in validate_metrics(a, repeats=[b]).repeatability}
    assert {"udcg": 0.5, "ccrs.qr": 0.0} == found


def test_repeats_belong_to_a_system(written):
    """With several systems a repeat is named; one that shares no sample is a mistake."""
    a, b = written("a", {"ccrs.qr": [0.5]}), written("b", {"ccrs.qr": [0.5]})
    with pytest.raises(ConfigurationError, match="each repeat needs its system"):
        validate_metrics(a, b, repeats=[a])
    with pytest.raises(ConfigurationError, match="'c'"):
        validate_metrics(a, b, repeats={"c": [a]})
    with pytest.raises(DataError, match="must contain the same samples"):
        validate_metrics(a, repeats=[written("c", {"ccrs.qr": [0.5]}, prefix="z")])
    assert 1 == len(validate_metrics(a, b, repeats={"b": [a]}, **FAST).repeatability)


def test_yes_no_labels(written):
    """Scores from the middle of the range on are a yes; kappa, alpha and the prediction-powered mean follow."""
    scores = [0.9, 0.5, 0.4, 0.1, 0.8, 0.2, 0.7, None, 0.6, 0.3]
    a = written("a", {"ccrs.qr": scores})
    labels = [
        {"id": f"q{i}", "label": word} for i, word in enumerate(("yes", "no", "no", "no", "pass", "", "yes", "no"))
    ]
    (found,) = validate_metrics(a, labels=labels, **FAST).labels
    people, judge = [1, 0, 0, 0, 1, 1], [1, 1, 0, 0, 1, 1]
    assert (6, 1, 3, (0.0, 1.0)) == (found.n, found.n_unscored, found.n_unlabeled, found.categories)
    assert cohen_kappa(people, judge).coefficient.value == found.cohen.coefficient.value
    assert krippendorff_alpha(list(zip(people, judge, strict=True))).coefficient.value == pytest.approx(
        found.krippendorff.coefficient.value
    )
    assert 5 / 6 == pytest.approx(found.exact.value)
    labeled, alone = [0.9, 0.5, 0.4, 0.1, 0.8, 0.7], [0.2, 0.6, 0.3]
    expected = drawn_prediction_powered_mean([1, 0, 0, 0, 1, 1, None, None, None], labeled + alone, [1.0] * 9)
    assert expected.estimate == found.human_mean.estimate
    assert any("with 6 labels (fewer than 30)" in note for note in found.notes)
    (strict,) = validate_metrics(a, labels=labels, threshold=0.6, **FAST).labels
    assert 1.0 == strict.exact.value


@pytest.mark.parametrize("spelled", [{True: "correct", False: "wrong"}, {True: 1, False: 0}])
def test_yes_no_labels_of_a_metric_with_negative_scores(written, spelled):
    """Wrong is the lowest label, and not the middle of a range from -1 to 1."""
    a = written("a", {"vera.answer_relevance_cosine": [0.8, 0.1] * 15})
    labels = [{"id": f"q{i}", "label": spelled[i % 2 == 0]} for i in range(30)]
    (found,) = validate_metrics(a, labels=labels, **FAST).labels
    assert ((0.0, 1.0), (-1.0, 1.0), 0.5) == (found.label_range, found.categories, found.exact.value)
    assert (1.0, 0.45) == (found.errors.auc.value, pytest.approx(found.bias.value))


def test_the_scale_of_words_is_known(written):
    """Partly is the middle of the scale, also if no answer is wrong, and without a note that the range is a guess."""
    a = written("a", {"ccrs.qr": [0.4, 0.9], "own": [3.0, 4.0]})
    labels = [{"id": "q0", "label": "partly"}, {"id": "q1", "label": "correct"}]
    report = validate_metrics(a, labels=labels, **FAST)
    assert [(0.0, 1.0)] * 2 == [found.label_range for found in report.labels]
    assert not any("not stated" in note for note in report.notes)


def test_a_metric_without_a_range_has_no_common_scale_with_labels(written):
    """Correlations and the estimated mean do not need one. Agreement needs a threshold, and the bias stays unknown."""
    rng = np.random.default_rng(3)
    a = written("a", {"vera.composite": [float(rng.normal(-2 if i % 4 == 0 else 3)) for i in range(60)]})
    labels = [{"id": f"q{i}", "label": int(i % 4 != 0)} for i in range(40)]
    report = validate_metrics(a, labels=labels, **FAST)
    (found,) = report.labels
    assert (None, None, None, None) == (found.exact, found.cohen, found.krippendorff.coefficient, found.bias)
    assert found.spearman.value > 0.6
    assert found.human_mean.estimate.low < 0.75 < found.human_mean.estimate.high
    assert () == report.findings()
    assert any("no range of the metric" in note for note in found.notes)
    (known,) = validate_metrics(a, labels=labels, threshold=0.5, **FAST).labels
    assert known.exact.value > 0.9
    assert known.bias is None


def test_grades_from_one_to_five(written):
    """Grades become scores, a grade that no one gave stays one, and disagreement counts by its distance."""
    a = written("a", {"ccrs.qr": [0.0, 0.3, 0.6, 0.7, 1.0, 0.9]})
    labels = [{"id": f"q{i}", "ccrs.qr": grade} for i, grade in enumerate((1, 2, 4, 4, 5, 5))]
    (found,) = validate_metrics(a, labels=labels, **FAST).labels
    assert (0.0, 0.25, 0.5, 0.75, 1.0) == found.categories
    assert (1.0, 5.0) == found.label_range
    # 0.6 is nearest to 0.5, a grade too low; 0.9 is nearest to 1.
    expected = cohen_kappa(
        [0, 1, 3, 3, 4, 4], [0, 1, 2, 3, 4, 4], weights="quadratic", categories=range(5)
    ).coefficient.value
    assert expected == pytest.approx(found.cohen.coefficient.value)
    (narrow,) = validate_metrics(
        a, labels=[{"id": "q0", "label": 1}, {"id": "q1", "label": 1}], label_range=(1, 5), **FAST
    ).labels
    assert (0.0, 0.25, 0.5, 0.75, 1.0)[:1] == narrow.categories[:1]
    assert (1.0, 5.0) == narrow.label_range


def test_labels_on_a_continuous_scale_have_no_kappa(written):
    """No one agrees exactly on 0.137: interval alpha and rank correlation remain."""
    values = noisy(7)
    a = written("a", {"ccrs.qr": values})
    labels = [{"id": f"q{i}", "score": min(1.0, v * 0.9 + i / 1000)} for i, v in enumerate(values[:40])]
    (found,) = validate_metrics(a, labels=labels, **FAST).labels
    assert (None, None, ()) == (found.cohen, found.exact, found.categories)
    assert found.spearman.value > 0.9
    assert found.kendall.low < found.kendall.value < found.kendall.high
    assert "continuous" in str(validate_metrics(a, labels=labels, **FAST))


def test_several_raters(written):
    """People are compared with each other, and the judge with their mean."""
    a = written("a", {"ccrs.qr": [0.9, 0.2, 0.8, 0.1, 0.4]})
    votes = [("yes", "yes", "yes"), ("no", "no", "yes"), ("yes", "yes", "no"), ("no", "no", "no")]
    labels = [
        {"id": f"q{i}", "label": word, "rater": rater}
        for i, row in enumerate(votes)
        for rater, word in zip("abc", row, strict=True)
    ]
    (found,) = validate_metrics(a, labels=labels, **FAST).labels
    assert 1.0 == found.exact.value
    assert 4 == found.people.n
    assert found.people.coefficient.value < 1
    assert found.people_fleiss is not None
    (uneven,) = validate_metrics(a, labels=labels[:-1], **FAST).labels
    assert uneven.people is not None
    assert uneven.people_fleiss is None


def test_much_is_printed_briefly(written):
    """What stands out comes first, of many correlations the strongest are printed, and what holds for all is said once."""
    names = [f"own.{n:02}" for n in range(11)]
    values = noisy(9)
    report = validate_metrics(
        written("a", {name: [*noisy(n)[:-1], 0.5] if n < 9 else values for n, name in enumerate(names)}),
        labels=[{"id": f"q{i}", "label": i % 2} for i in range(20)],
        label_range=(0, 1),
        **FAST,
    )
    assert 55 == sum(c.kind == "spearman" for c in report.correlations)
    text = str(report)
    assert text.splitlines()[0] == report.findings()[0]
    block = text.split("\n\ncorrelation")[1].split("\n\n", maxsplit=1)[0].splitlines()
    assert block[2].startswith("own.09 and own.10")
    assert 45 == sum(" and " in line.split("  ")[0] for line in block[2:47])
    assert "the 45 strongest of 55 pairs" in block[-1]
    assert 1 == text.count("labels from 0 to 1")
    assert "all metrics: labels from 0 to 1" in text


def test_what_stands_out_is_said_in_words(written):
    """Two metrics that say the same, a judge that agrees by chance alone, or as well as people do, and one that is mild."""
    values = noisy(9)
    a = written("a", {"ccrs.qr": values, "ccrs.ir": [v * 0.9 for v in values], "ccrs.ac": noisy(10)})
    assert ["ccrs.qr measures nearly the same as ccrs.ir (1.00) (Spearman correlation)"] == [
        found for found in validate_metrics(a).findings() if "nearly" in found
    ]
    opposite = written("o", {"ccrs.qr": values, "ccrs.ir": [1 - v for v in values]})
    assert "ccrs.qr measures nearly the opposite of ccrs.ir (-1.00)" in " ".join(validate_metrics(opposite).findings())
    few = written("f", {"ccrs.qr": values[:2], "ccrs.ir": values[:2]})
    assert "measures nearly" not in " ".join(validate_metrics(few).findings())
    b = written("b", {"ccrs.qr": [0.9, 0.1] * 30})
    by_chance = [{"id": f"q{i}", "label": i // 2 % 2} for i in range(40)]
    assert "is not significantly better than chance" in " ".join(
        validate_metrics(b, labels=by_chance, **FAST).findings()
    )
    exactly = [{"id": f"q{i}", "label": 1 - i % 2, "rater": rater} for i in range(40) for rater in "ab"]
    quarrel = [*exactly[:-4], *({**row, "label": 1 - row["label"]} for row in exactly[-4::2]), *exactly[-3::2]]
    words = " ".join(validate_metrics(b, labels=quarrel, **FAST).findings())
    assert "better than chance" not in words
    assert (
        "on these 40 samples the judge agrees with people at least as well as people with each other (alpha 0." in words
    )
    mild = written("c", {"ccrs.qr": [0.9, 0.7] * 30})
    assert "is above the estimated human mean" in " ".join(validate_metrics(mild, labels=exactly, **FAST).findings())


def test_labels_of_a_selected_sample_are_noticed(written):
    """Labeled are the best answers alone: the report says that this is no random sample."""
    values = sorted(noisy(8), reverse=True)
    a = written("a", {"ccrs.qr": values})
    best = [{"id": f"q{i}", "label": 1 if i % 3 else 0} for i in range(30)]
    rng = np.random.default_rng(1)
    fair = [{"id": f"q{i}", "label": int(values[i] > 0.6)} for i in rng.permutation(60)[:30]]
    assert any("not a random sample" in note for note in validate_metrics(a, labels=best).labels[0].notes)
    assert not any("not a random sample" in note for note in validate_metrics(a, labels=fair).labels[0].notes)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"label": 1}], {}, "row 1 does not have an id"),
        ([{"id": "q0"}], {}, "row 1 does not have a label"),
        ([{"id": "q0", "label": "perhaps"}], {}, "'perhaps'"),
        ([{"id": "q0", "label": math.inf}], {}, "finite"),
        ([{"id": "q0", "label": -1.7e308}, {"id": "q1", "label": 1.7e308}], {}, r"within 1e\+100"),
        ([{"id": "q0", "label": ""}], {}, r"does not contain labels \(1 row, and empty or NaN labels are skipped\)"),
        ([{"id": "zz", "label": 1}], {}, "zz"),
        ([{"id": "q0", "label": 1, "system": "other"}], {}, "'other'"),
        ([{"id": "q0", "verdict": 1}], {"label_columns": ["verdikt"]}, "'verdikt'"),
        ([{"id": "q0", "label": 7}], {"label_range": (1, 5)}, "got 7"),
        ([{"id": "q0", "label": 7}], {"label_range": (5, 5)}, "low < high"),
        ([{"id": "q0", "label": 7}], {}, "all labels of ccrs.qr are 7. State --set research.label_range"),
        (["q0"], {}, "row 1: a row must be an object"),
    ],
)
def test_labels_that_cannot_be_used(written, rows, options, message):
    """The message names the row, the value and what it should be."""
    a = written("a", {"ccrs.qr": [0.5, 0.6]})
    with pytest.raises((DataError, ConfigurationError), match=message):
        validate_metrics(a, labels=rows, **options)


def test_labels_of_several_systems_name_theirs(written):
    """An id alone does not say whose answer was labeled."""
    a, b = written("a", {"ccrs.qr": noisy(1)}), written("b", {"ccrs.qr": noisy(2)})
    with pytest.raises(DataError, match="'system'"):
        validate_metrics(a, b, labels=[{"id": "q0", "label": 1}], **FAST)
    labels = [{"id": f"q{i}", "label": i % 2, "system": "b"} for i in range(20)]
    assert ["b"] == [found.system for found in validate_metrics(a, b, labels=labels, **FAST).labels]


def test_names_of_systems_and_metrics(written):
    """A mapping names systems, files of one name are told apart, metrics go by name and group."""
    a = written("a", {"ccrs.qr": [0.5], "ccrs.ir": [0.5], "other": [0.5]})
    assert ("a", "a (2)", "new") == validate_metrics(a, a, {"new": a}, **FAST).systems
    assert ["ccrs.qr", "ccrs.ir"] == [d.metric for d in validate_metrics(a, metrics=["ccrs"]).distributions]
    assert ["other"] == [d.metric for d in validate_metrics(a, metrics=["other"]).distributions]
    with pytest.raises(DataError, match=r"'vera'\. Available: ccrs\.qr"):
        validate_metrics(a, metrics=["vera"])
    with pytest.raises(ConfigurationError, match="at least one"):
        validate_metrics()
    with pytest.raises(ConfigurationError, match="have the name 'x'"):
        validate_metrics({"x": a}, {"x": a})


def test_a_value_outside_the_metrics_range_is_refused(written):
    """A rounding error is forgiven, a score in percent is not."""
    validate_metrics(written("a", {"ccrs.qr": [1 + 1e-12]}))
    with pytest.raises(DataError, match="85"):
        validate_metrics(written("b", {"ccrs.qr": [85.0]}))


def test_metrics_that_nobody_knows_have_no_bounds(written):
    """No floor and no ceiling, and JSON without infinity."""
    report = validate_metrics(written("a", {"mine": [3.0, 3.0, 3.0]}), written("b", {"mine": [3.0, 90.0, 7.0]}), **FAST)
    assert report.distributions[0].population.at_high is None
    json.dumps(report.to_dict(), allow_nan=False)


def test_different_judges_are_pointed_out(written):
    """Scores of two judges are no one scale; the baseline is no judge."""
    a = written("a", {"ccrs.qr": [0.5]}, judge="one")
    b = written("b", {"ccrs.qr": [0.5, 0.6]}, judge="lexical baseline")
    notes = " ".join(validate_metrics(a, b, **FAST).notes)
    assert "scored by 2 judges (lexical baseline, one)" in notes
    assert "1 of 2 samples are in all systems" in notes
    assert "which is not a judge" in notes


def test_experiments_can_be_given_as_they_are():
    """No file in between."""
    rows = [
        {"query": "Why?", "contexts": ["Rain."], "response": r, "reference": "Rain."} for r in ("Rain.", "Sun.", "No")
    ]
    result = ragstone.evaluate(rows, ["ccrs"], judge="lexical")
    report = validate_metrics({"x": result, "y": result}, **FAST)
    assert 5 == len(report.powers)
    assert 30 == len(report.correlations)


def test_topicality_of_a_repository_that_is_about_the_domain(written):
    """Retrieval is better inside, faithfulness is not asked."""
    inside = written("sales", {"p": [0.9, 0.8, 1.0, 0.7] * 10, "vera.faithfulness": [0.9, 1.0] * 20})
    outside = written("random", {"p": [0.1, 0.0, 0.3, None] * 10, "vera.faithfulness": [0.2, 0.1] * 20})
    report = topicality(inside, outside)
    assert ["in", "in"] == [m.advantage for m in report.metrics]
    assert [True, False] == [m.carries_signal for m in report.metrics]
    assert (40, 30, 10) == (report.metrics[0].n_in, report.metrics[0].n_out, report.metrics[0].n_failed_out)
    assert report.verdict().startswith("the repository serves in-domain queries better on 1 of 1")
    text = str(report)
    assert "not informative, excluded from the verdict" in text
    assert "40 / 0 / 0" in text
    assert "30 / 10 / 0" in text
    json.dumps(report.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("inside", "outside", "verdict"),
    [
        ({"p": noisy(1)}, {"p": noisy(2)}, "no significant difference on any of 1 metric"),
        ({"p": [0.1, 0.2] * 20}, {"p": [0.8, 0.9] * 20}, "serves out-of-domain queries better"),
        ({"p": [0.1, 0.2] * 20, "r": [0.9, 0.8] * 20}, {"p": [0.8, 0.9] * 20, "r": [0.1, 0.2] * 20}, "mixed"),
        ({"p": [0.5] * 3}, {"r": [0.5] * 3}, "no verdict"),
        ({"p": [0.5] * 3}, {"p": [None] * 3}, "no verdict"),
        ({"vera.faithfulness": [0.9] * 3}, {"vera.faithfulness": [0.1] * 3}, "no verdict"),
    ],
)
def test_verdicts(written, inside, outside, verdict):
    """In words, for each way it may come out."""
    assert verdict in topicality(written("in", inside), written("out", outside), n_resamples=500).verdict()


def test_lower_is_better_for_some(written):
    """A metric whose card says so is ahead where it is lower."""
    lower = next(
        (m.card for m in ragstone.metrics.all_metrics() if m.card.direction == "lower" and "halluc" not in m.card.name),
        None,
    )
    if lower is None:
        pytest.skip("every metric of ours is better when higher")
    report = topicality(written("in", {lower.name: [0.1, 0.2] * 20}), written("out", {lower.name: [0.8, 0.9] * 20}))
    assert "in" == report.metrics[0].advantage


def test_verdict_holds_all_differences_together(written):
    """With four metrics each interval is wider than alone; the means' intervals are as they were."""
    values = {m: noisy(i, 40) for i, m in enumerate("pqrs")}
    a, b = written("in", values), written("out", {m: noisy(i + 9, 40) for i, m in enumerate("pqrs")})
    alone, together = topicality(a, b, metrics=["p"]).metrics[0].contrast, topicality(a, b).metrics[0].contrast
    assert alone.first == together.first
    assert alone.difference.high - alone.difference.low < together.difference.high - together.difference.low
    assert 1 - 0.05 / 4 == pytest.approx(together.difference.confidence_level)


@pytest.mark.parametrize(("n", "advantage"), [(1, "none"), (3, "none"), (4, "in")])
def test_a_handful_of_queries_shows_no_topic(written, n, advantage):
    """3 and 3 queries fall apart like this by luck once in ten, 4 and 4 once in 35; an interval of unbounded scores does not know."""
    report = topicality(written("in", {"p": [0.9, 0.8, 1.0, 0.9][:n]}), written("out", {"p": [0.1, 0.0, 0.2, 0.1][:n]}))
    (found,) = report.metrics
    assert (0 < found.contrast.difference.low) == (n > 1)
    assert advantage == found.advantage
    assert (advantage == "none") == report.verdict().startswith("no significant difference")


def test_failed_queries_may_undo_the_verdict(written):
    """What they had scored is not known; where it could turn the difference, the verdict says so."""
    inside = written("in", {"ccrs.qr": [0.9, 0.8] * 20})
    one, many = ([*[0.3, 0.4] * 20, *[None] * n] for n in (1, 360))
    sure, unsure = (topicality(inside, written(f"out{len(row)}", {"ccrs.qr": row})) for row in (one, many))
    assert (0.85 - (14 + 360) / 400, 0.85 - 14 / 400) == pytest.approx(unsure.metrics[0].bounds)
    assert ["in", "in"] == [report.metrics[0].advantage for report in (sure, unsure)]
    assert [False, True] == ["could reverse it on ccrs.qr" in report.verdict() for report in (sure, unsure)]
    assert "360 queries failed. Depending on their scores, the difference is between -0.085 and +0.815" in str(unsure)


def test_three_query_sets_are_compared_in_pairs(written):
    """As in table 3 of VERA: the set of the smaller topic is between the others, and all differences hold together."""
    rates = {"sales": [0.9, 0.7, 0.8, 1.0], "basketball": [0.5, 0.3, 0.4, 0.6], "random": [0.1, 0.0, 0.2, 0.1]}
    files = [
        written(name, {"vera.retrieval_precision": row * 10, "vera.faithfulness": row * 10})
        for name, row in rates.items()
    ]
    report = topicality(*files, n_resamples=500)
    assert ("sales", "basketball", "random") == report.query_sets
    found = [m for m in report.metrics if m.carries_signal]
    assert [("sales", "basketball"), ("sales", "random"), ("basketball", "random")] == [
        (m.in_domain, m.out_of_domain) for m in found
    ]
    assert [0.4, 0.75, 0.35] == pytest.approx([m.contrast.difference.value for m in found])
    assert [1 - 0.05 / 3] * 3 == pytest.approx([m.contrast.difference.confidence_level for m in found])
    for m in found:
        alone = topicality(*(files[[*rates].index(name)] for name in (m.in_domain, m.out_of_domain)), n_resamples=500)
        one = next(each for each in alone.metrics if each.carries_signal)
        assert (one.contrast.first.mean, one.contrast.second.mean) == (m.contrast.first.mean, m.contrast.second.mean)
    lines = report.verdict().splitlines()
    assert 3 == len(lines)
    assert lines[1].startswith("sales (in-domain) and random: the repository serves in-domain queries better on 1 of 1")
    assert lines[2].startswith("basketball and random: the repository serves basketball queries better on 1 of 1")
    assert 1 == str(report).count("vera.retrieval_precision  random")
    with pytest.raises(ConfigurationError, match="at least two sets of queries, got one"):
        topicality(files[0])


def test_a_third_set_without_scores_leaves_the_other_pair(written):
    """A pair without scores has no difference, and the others keep their means."""
    sets = {"in": [0.9, 0.8] * 10, "none": [None] * 20, "out": [0.1, 0.2] * 10}
    report = topicality(*(written(name, {"p": row}) for name, row in sets.items()), n_resamples=500)
    assert [None, "in", None] == [m.contrast and m.advantage for m in report.metrics]
    assert ["no verdict", "no verdict"] == [report.verdict().splitlines()[at].split(": ")[1] for at in (0, 2)]
    text = str(report)
    assert (1, "0 / 20 / 0") == (text.count("no comparison"), "0 / 20 / 0" if "0 / 20 / 0" in text else "")


def test_topicality_warns(written):
    """Different judges score the two sets. Equal scores need no warning, because their interval is not empty."""
    a = written("in", {"ccrs.qr": [1.0] * 5}, judge="one")
    b = written("out", {"ccrs.qr": [0.0] * 5}, judge="two")
    report = topicality(a, b)
    assert "different judges" in " ".join(report.notes)
    (found,) = report.metrics
    assert found.contrast.superiority.low < 0.7
    assert found.contrast.first.mean.low < 0.6
    with pytest.raises(ConfigurationError, match="level"):
        topicality(a, b, confidence_level=1)


def test_topicality_shows_how_standard_errors_converge(written):
    """The JSON has the standard errors for increasing numbers of resamples."""
    paths = [written(name, {"vera.answer_relevance": noisy(seed)}) for seed, name in enumerate(("in", "out"))]
    report = topicality(*paths, n_resamples=600)
    errors = report.metrics[0].contrast.second.standard_errors
    assert [50, 100, 200, 500, 600] == list(errors)
    plain = json.loads(json.dumps(report.to_dict()))
    assert errors[50] == plain["metrics"][0]["contrast"]["second"]["standard_errors"]["50"]


def test_the_last_outcome_and_the_words_of_an_answer_are_read(tmp_path):
    """Of a sample that was scored twice, and as number of words."""
    rows = [{"id": "a", "query": "Why?", "contexts": ["Rain."], "response": "Because of the rain."}]
    result = ragstone.evaluate(rows, ["ccrs.cc"], judge="lexical")
    (outcome,) = result.outcomes
    again = outcome.model_copy(update={"value": 0.25})
    found = read_outcomes(replace(result, outcomes=(outcome, again)))
    assert ({"a": 0.25}, {"a": 4}) == (found.values("ccrs.cc"), found.lengths)
    assert {"a": (outcome, again)} == found.repeats["ccrs.cc"]
