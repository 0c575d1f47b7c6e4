"""`validate_metrics(target=...)`: how well each metric ranks systems as a target does."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from command_line import app
from graded_records import write_graded_records
from ragstone.errors import DataError
from ragstone.schema import Failure, Score
from ragstone.stats import kendall_of_means
from ragstone_lab import validate_metrics

FAST = {"n_resamples": 100, "n_permutations": 50}
TARGET = {"bm25": [0.1, 0.2, 0.3, 0.2], "e5": [0.5, 0.6, 0.5, 0.4], "hybrid": [0.9, 0.8, 0.9, 1.0]}
OTHER = {"bm25": [0.6, 0.5, 0.5, 0.6], "e5": [0.1, 0.2, 0.1, 0.1], "hybrid": [0.9, 0.9, 1.0, 0.9]}
REPEATED = {"bm25": [0.9, 0.8, 0.9, 0.9], "e5": [0.5, 0.4, 0.5, 0.5], "hybrid": [0.1, 0.1, 0.2, 0.1]}


@pytest.fixture
def systems(tmp_path):
    """Files of three systems. A value of None is a failure."""

    def write(**metrics):
        paths = []
        for name in TARGET:
            lines = []
            for metric, values in {"crux.response_coverage": TARGET, **metrics}.items():
                for i, value in enumerate(values[name]):
                    same = {"sample_id": f"q{i}", "metric": metric.replace("__", "."), "metric_version": "1"}
                    lines.append(
                        Failure(kind="timeout", reason="slow", **same)
                        if value is None
                        else Score(value=value, method="exact", **same)
                    )
            path = tmp_path / f"{name}.jsonl"
            path.write_text("".join(line.model_dump_json() + "\n" for line in lines))
            paths.append(path)
        return paths

    return write


def ranked(report):
    return {found.metric: found for found in report.rankings}


@pytest.fixture
def graded(tmp_path):
    """The file of outcomes, the labels, and the scores by metric and record."""
    return write_graded_records(tmp_path)


def test_records_that_cannot_be_ranked_are_counted(graded):
    """A question with one relevance, one with a failed score, and one with equal scores."""
    path, labels, _ = graded
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["metric"] == "ce" and line["sample_id"] in ("q1r0", "q1r1"):
            line["value"] = 1.0
    kept = [line for line in lines if (line["metric"], line["sample_id"]) != ("ce.enriched", "q2r3")]
    failed = {"kind": "timeout", "reason": "slow", "outcome": "failure"}
    kept += [
        {name: line[name] for name in ("sample_id", "metric", "metric_version", "fingerprint")} | failed
        for line in lines
        if (line["metric"], line["sample_id"]) == ("ce.enriched", "q2r3")
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
    labels = [row | {"label": 3} if row["id"].startswith("q0r") else row for row in labels]
    report = validate_metrics(path, labels=labels, metrics=["ce", "ce.enriched"], **FAST)
    found = {(r.metric, r.measure): r for r in report.records}
    assert (39, 1, 0, 1) == tuple(
        getattr(found["ce", "MAP"], name) if name != "n" else found["ce", "MAP"].mean.n
        for name in ("n", "n_undefined", "n_unscored", "n_tied")
    )
    assert (38, 1, 1) == (
        found["ce.enriched", "MAP"].mean.n, found["ce.enriched", "MAP"].n_undefined, found["ce.enriched", "MAP"].n_unscored
    )  # fmt: skip
    assert 38 == found["ce.enriched", "MAP"].difference.n


@pytest.fixture
def records(tmp_path):
    """A file with the scores of four records of each of five questions, by metric."""

    def write(**metrics):
        scores = [
            Score(
                sample_id=f"q{q}r{r}", metric=metric.replace("__", "."), metric_version="1", fingerprint=f"{q:024x}", value=value, method="exact"
            )
            for metric, values in metrics.items()
            for q in range(5)
            for r, value in enumerate(values)
        ]  # fmt: skip
        path = tmp_path / "records.jsonl"
        path.write_text("".join(score.model_dump_json() + "\n" for score in scores))
        return path

    return write


def columns(**labels):
    """Rows with one label of each record in each column."""
    return [
        {"id": f"q{q}r{r}"} | {name.replace("__", "."): values[r] for name, values in labels.items()}
        for q in range(5)
        for r in range(4)
    ]


@pytest.mark.parametrize(
    "labels",
    [
        {"ragchecker__hallucination": [0, 1, 1, 1]},
        {"label": ["correct", "wrong", "wrong", "wrong"]},
        {"label": [4, 1, 2, 1]},
    ],
)
def test_labels_of_a_metric_of_which_lower_is_better(records, labels):
    """A label of the metric has its direction. Any other one says how good an answer is."""
    path = records(ragchecker__hallucination=[0.0, 1.0, 0.7, 1.0])
    report = validate_metrics(path, labels=columns(**labels), threshold=0.5, **FAST)
    (found,) = report.labels
    assert found.spearman.value > 0.7
    assert 1.0 == found.exact.value
    assert {"MAP": 1.0, "nDCG": 1.0, "MRR": 1.0} == {r.measure: r.mean.value for r in report.records}
    is_reversed = any("are reversed" in note for note in found.notes)
    assert ("label" in labels) == is_reversed


def test_each_metric_has_the_range_of_its_labels(records):
    """A record is relevant from the middle of the labels of its metric, and of words from the middle of their scale."""
    path = records(ccrs__cc=[1.0, 1.0, 0.0, 0.0], vera__groundedness=[1.0, 0.75, 0.25, 0.0])
    labels = columns(ccrs__cc=[1, 1, 0, 0], vera__groundedness=[5, 4, 2, 1])
    report = validate_metrics(path, labels=labels, **FAST)
    assert {("ccrs.cc", 0.5, 0, 1.0), ("vera.groundedness", 3.0, 0, 1.0)} == {
        (r.metric, r.relevant_from, r.n_undefined, r.mean.value) for r in report.records
    }
    assert "0.5 (ccrs.cc), 3 (vera.groundedness) or better" in str(report)
    words = columns(label=["correct", "partly", "correct", "partly"])
    assert {(0.5, 5)} == {
        (r.relevant_from, r.n_undefined) for r in validate_metrics(path, labels=words, **FAST).records
    }


def test_one_record_of_each_question_is_no_ranking(systems):
    """Labels of answers to different questions have no table of records."""
    labels = [{"id": f"q{i}", "label": i % 2} for i in range(4)]
    report = validate_metrics(systems()[0], labels=labels, metrics=["crux.response_coverage"], **FAST)
    assert () == report.records


def test_tau_with_the_target(systems):
    """Over the samples that all systems share, for every metric except for the target."""
    report = validate_metrics(*systems(crux__coverage=OTHER), target="crux.response_coverage", **FAST)
    found = ranked(report)["crux.coverage"]
    assert ["crux.coverage"] == [r.metric for r in report.rankings]
    columns = [list(zip(*of.values(), strict=True)) for of in (OTHER, TARGET)]
    assert kendall_of_means(*columns, n_resamples=100) == found.tau
    assert (1 / 3, 2, 1) == (pytest.approx(found.tau.value), found.n_same_order, found.n_other_order)
    assert (4, 0) == (found.n_samples, found.n_incomplete)
    assert pytest.approx((0.55, 0.2)) == found.means["bm25"]


def test_lower_is_better(systems):
    """A metric of which less is better agrees if its order is the opposite."""
    report = validate_metrics(*systems(crux__redundancy=REPEATED), target="crux.response_coverage", **FAST)
    assert 1.0 == ranked(report)["crux.redundancy"].tau.value


def test_incomplete_samples_are_excluded_and_counted(systems):
    """Means over different samples are not compared."""
    holes = {**OTHER, "e5": [None, 0.2, 0.1, 0.1]}
    found = ranked(validate_metrics(*systems(crux__coverage=holes), target="crux.response_coverage", **FAST))
    assert (3, 1) == (found["crux.coverage"].n_samples, found["crux.coverage"].n_incomplete)


def test_labels_as_the_target(systems):
    """The mean label of each sample and system, over raters."""
    labels = [
        {"id": f"q{i}", "system": name, "rater": rater, "label": value + shift}
        for name, values in TARGET.items()
        for i, value in enumerate(values)
        for rater, shift in (("a", 0.0), ("b", 0.1))
    ]
    paths = systems(crux__coverage=OTHER)
    report = validate_metrics(*paths, labels=labels, label_range=(0, 1.2), target="labels", **FAST)
    found = ranked(report)
    assert {"crux.response_coverage", "crux.coverage"} == found.keys()
    assert 1.0 == found["crux.response_coverage"].tau.value
    assert pytest.approx((0.2, 0.25)) == found["crux.response_coverage"].means["bm25"]


def test_labels_of_a_metric_of_which_lower_is_better_as_the_target(systems):
    """The system with the lowest labels of redundancy is the best one, and with the lowest scores."""
    rows = [
        {"id": f"q{i}", "system": name, "crux.redundancy": value}
        for name, values in REPEATED.items()
        for i, value in enumerate(values)
    ]
    paths = systems(crux__redundancy=REPEATED)
    report = validate_metrics(*paths, labels=rows, target="labels", metrics=["crux.redundancy"], **FAST)
    assert 1.0 == ranked(report)["crux.redundancy"].tau.value


@pytest.mark.parametrize(
    ("n", "target", "words"),
    [
        (2, "crux.response_coverage", "at least 3 systems, got 2"),
        (3, "labels", r"Pass them with labels= \(--labels\)"),
        (3, "crux.density", "no scores of the target 'crux.density'"),
    ],
)
def test_what_cannot_be_ranked(systems, n, target, words):
    """The message says what is missing."""
    with pytest.raises(DataError, match=words):
        validate_metrics(*systems(crux__coverage=OTHER)[:n], target=target, **FAST)


def test_systems_without_common_samples(systems):
    """They are not ranked by means of different questions."""
    holes = {"bm25": [0.6, None, None, None], "e5": [None, 0.2, None, None], "hybrid": [None, None, 1.0, 0.9]}
    with pytest.raises(DataError, match="no metric has two samples that all 3 systems share"):
        validate_metrics(*systems(crux__coverage=holes), target="crux.response_coverage", **FAST)


def test_the_command(systems):
    """One table, and the same numbers in JSON."""
    line = [
        "lab",
        "validate-metrics",
        *map(str, systems(crux__coverage=OTHER)),
        "--set",
        "research.target=crux.response_coverage",
    ]
    line += ["--set", "analysis.n_resamples=100", "--set", "analysis.n_permutations=50"]
    shown = CliRunner().invoke(app, line)
    assert 0 == shown.exit_code, shown.output
    assert "ranking by crux.response_coverage" in shown.stdout
    assert "2 of 3" in shown.stdout
    plain = json.loads(CliRunner().invoke(app, [*line, "--json"]).stdout)
    assert pytest.approx(1 / 3) == plain["rankings"][0]["tau"]["value"]
