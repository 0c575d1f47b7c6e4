"""The weighted mean of the CCRS ratings: stated and learned weights, intervals, and files."""

from __future__ import annotations

import asyncio
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from command_line import app
from ragstone.errors import ConfigurationError, DataError, JudgeError
from ragstone.judges import NumberReply
from ragstone.metrics import CCRS, CcrsComposite, resolve_metrics
from ragstone.schema import Failure, Interval, NotApplicable, Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge, make_sample
from ragstone_lab import validate_metrics

RATINGS = {"contextual_coherence": 80, "question_relevance": 40, "information_density": 60, "information_recall": 50}
FAST = {"n_resamples": 100, "n_permutations": 50}


def score(metrics, judge=None, **fields):
    scorer = Scorer(list(metrics), judge or FakeJudge(RATINGS))
    return {o.metric: o for o in asyncio.run(scorer.score(make_sample(**fields)))}


def test_the_weighted_mean():
    """Of the ratings with a weight, whose sum does not matter; short and full names are the same."""
    for weights in ({"cc": 3, "qr": 1}, {"ccrs.cc": 0.75, "ccrs.qr": 0.25, "ccrs.id": 0}):
        metric = CcrsComposite(weights)
        outcome = score([metric])["ccrs.composite"]
        assert pytest.approx(0.75 * 0.8 + 0.25 * 0.4) == outcome.value
        assert {"ccrs.cc": 0.8, "ccrs.qr": 0.4} == outcome.details["parts"]
        assert (2, {"query", "contexts", "response"}) == (metric.judge_calls, set(metric.needs))
        assert outcome.interval is None


def test_weights_are_part_of_the_version():
    """Composites with other weights are not compared by accident."""
    versions = [CcrsComposite(w).card.version for w in ({"cc": 1, "qr": 1}, {"cc": 2, "qr": 2}, {"cc": 2, "qr": 1})]
    assert versions[0] == versions[1] != versions[2]


def test_ratings_are_shared_with_the_metrics():
    """Five metrics and the composite cost five calls."""
    judge = FakeJudge(50)
    score([*CCRS, CcrsComposite(dict.fromkeys(("cc", "qr", "id", "ac", "ir"), 1))], judge, reference=("a",))
    assert 5 == len(judge.prompts)


class SpreadJudge(FakeJudge):
    """A judge whose ratings have an interval of 20 on both sides."""

    async def ask_number(self, prompt, *, low=0, high=100):
        value = RATINGS[prompt.construct]
        interval = Interval(low=value - 20, high=value + 20, method="student_t")
        return NumberReply(value=value, raw=str(value), method="sampled", interval=interval)


def test_intervals_of_ratings_and_weights():
    """Independent errors: the squares of the weighted distances are added, and those of learned weights to them."""
    weights = {"cc": 1, "qr": 1}
    outcome = score([CcrsComposite(weights)], SpreadJudge())["ccrs.composite"]
    half = math.hypot(0.5 * 0.2, 0.5 * 0.2)
    assert pytest.approx((0.6 - half, 0.6 + half)) == (outcome.interval.low, outcome.interval.high)
    covariance = [[0.04, -0.04], [-0.04, 0.04]]
    learned = score([CcrsComposite({"cc": 0.5, "qr": 0.5}, covariance=covariance)])["ccrs.composite"]
    # The weights differ in opposite directions: the error is 0.2 * (0.8 - 0.4).
    assert pytest.approx(0.6 - 1.959964 * 0.08) == learned.interval.low
    both = score([CcrsComposite({"cc": 0.5, "qr": 0.5}, covariance=covariance)], SpreadJudge())["ccrs.composite"]
    assert pytest.approx(0.6 + math.hypot(half, 1.959964 * 0.08)) == both.interval.high


def test_a_covariance_fits_weights_that_do_not_add_up_to_one():
    """It is scaled with them, and rows of unused weights are left out."""
    table = [[4.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 4.0]]
    found = score([CcrsComposite({"cc": 5, "id": 0, "qr": 5}, covariance=table)])["ccrs.composite"]
    assert pytest.approx(min(1, 0.6 + 1.959964 * 0.2 * math.hypot(0.8, 0.4))) == found.interval.high


def test_missing_and_failed_parts():
    """A mean of other metrics would not be comparable."""
    metric = CcrsComposite({"cc": 1, "ir": 1})
    assert isinstance(score([metric], reference=())["ccrs.composite"], NotApplicable)
    empty = score([metric], contexts=(), reference=("a",))["ccrs.composite"]
    assert empty.reason.startswith("ccrs.cc is not applicable")
    down = FakeJudge(50, fail=lambda prompt: JudgeError("down", kind="refused"))
    assert isinstance(score([metric], down, reference=("a",))["ccrs.composite"], Failure)
    assert 0.0 == score([metric], response=" ", reference=("a",))["ccrs.composite"].value


@pytest.mark.parametrize(
    ("weights", "covariance", "words"),
    [
        ({}, None, "at least one weight must be above 0"),
        ({"cc": 0}, None, "at least one weight must be above 0"),
        ({"xx": 1}, None, "unknown metric 'xx'. Metrics: ccrs.cc"),
        ({"cc": -1, "qr": 2}, None, "weight of ccrs.cc must be a number of 0 or more, got -1"),
        ({"cc": float("inf")}, None, "got inf"),
        ({"cc": "much"}, None, "got 'much'"),
        ({"cc": 1, "qr": 1}, [[1.0]], "2 by 2 finite numbers"),
        ({"cc": 1}, [[float("nan")]], "1 by 1 finite numbers"),
        ({"cc": 1}, 3, "1 by 1 finite numbers"),
    ],
)
def test_impossible_weights(weights, covariance, words):
    """The message names the metric and the rule."""
    with pytest.raises(ConfigurationError, match=words):
        CcrsComposite(weights, covariance=covariance)


def test_files(tmp_path):
    """TOML for stated weights, JSON for learned ones."""
    stated = tmp_path / "weights.toml"
    stated.write_text("[weights]\ncc = 3\nqr = 1\n")
    (metric,) = resolve_metrics(f"ccrs.composite@{stated}")
    assert {"ccrs.cc": 0.75, "ccrs.qr": 0.25} == metric.weights
    for text, words in (
        ("[weights]\n", "does not contain a table"),
        ("weights = 3", "does not contain"),
        ("[", "cannot be read"),
    ):
        stated.write_text(text)
        with pytest.raises(DataError, match=words):
            resolve_metrics(f"ccrs.composite@{stated}")
    with pytest.raises(ConfigurationError, match="file with weights not found"):
        resolve_metrics("ccrs.composite@nowhere.toml")


@pytest.fixture
def labeled(tmp_path):
    """Outcomes of two systems, and labels that are 3 * cc + qr with some noise."""

    def write(n=60, **options):
        rng = np.random.default_rng(1)
        labels, paths = [], []
        for system in ("a", "b"):
            lines = []
            for i in range(n):
                cc, qr, ir = rng.uniform(0, 1, 3)
                for name, value in (("cc", cc), ("qr", qr), ("ir", ir)):
                    lines.append(
                        Score(sample_id=f"q{i}", metric=f"ccrs.{name}", metric_version="1", value=value, method="x")
                    )
                labels.append({"id": f"q{i}", "system": system, "label": 1 + 3 * cc + qr + rng.normal(0, 0.1)})
            paths.append(tmp_path / f"{system}.jsonl")
            paths[-1].write_text("".join(line.model_dump_json() + "\n" for line in lines))
        return paths, labels

    return write


def test_learned_weights(labeled, tmp_path):
    """They are those of the labels, within their intervals, and the file makes the same composite."""
    paths, labels = labeled()
    file = tmp_path / "weights.json"
    report = validate_metrics(*paths, labels=labels, fit_weights=file, **FAST)
    fit = report.weights
    assert ("ccrs.cc", "ccrs.qr", "ccrs.ir") == fit.metrics
    for weight, truth in zip(fit.weights, (0.75, 0.25, 0.0), strict=True):
        assert weight.low - 0.02 <= truth <= weight.high + 0.02
        assert 0 <= weight.low <= weight.value <= weight.high <= 0.9
    assert (60, 120) == (fit.n_samples, fit.n_labels)
    assert fit.equal_weights < 0.9 < fit.rank_correlation.value
    (metric,) = resolve_metrics(f"ccrs.composite@{file}")
    assert {
        n: pytest.approx(w.value) for n, w in zip(fit.metrics, fit.weights, strict=True) if w.value
    } == metric.weights
    assert "weight in ccrs.composite" in str(report)
    assert () == tuple(note for note in fit.notes if "significantly" in note)


def test_equal_metrics_share_a_weight_in_an_unknown_way(labeled, tmp_path):
    """Least squares gives one of them all of it, in each resample. That is no evidence for this division."""
    paths, labels = labeled()
    for path in paths:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        kept = [line for line in lines if line["metric"] == "ccrs.cc"]
        path.write_text(
            "".join(json.dumps(row) + "\n" for line in kept for row in (line, line | {"metric": "ccrs.qr"}))
        )
    first, second = validate_metrics(*paths, labels=labels, fit_weights=tmp_path / "w.json", **FAST).weights.weights
    assert (1.0, 0.0) == (first.value, second.value)
    assert (0.0, 1.0, 0.0, 1.0) == (first.low, first.high, second.low, second.high)


def test_weights_that_follow_no_label_are_said_to(labeled, tmp_path):
    """Labels by chance: the weights are those of noise, and the report says so."""
    paths, labels = labeled(n=30)
    rng = np.random.default_rng(1)
    noise = [row | {"label": float(rng.random())} for row in labels]
    fit = validate_metrics(*paths, labels=noise, fit_weights=tmp_path / "w.json", **FAST).weights
    assert "does not significantly follow the labels of other samples" in fit.notes[-1]
    zero = [name for name, weight in zip(fit.metrics, fit.weights, strict=True) if weight.value == 0]
    assert (f"no weight for {', '.join(zero)}:" in fit.notes[0]) == bool(zero)


def test_few_samples_are_refused(labeled, tmp_path):
    """Weights of a handful of labels would be noise."""
    paths, labels = labeled(n=19)
    with pytest.raises(DataError, match="at least 20 samples with labels and all scores, got 19"):
        validate_metrics(*paths, labels=labels, fit_weights=tmp_path / "w.json", **FAST)
    with pytest.raises(DataError, match=r"Pass them with labels= \(--labels\)"):
        validate_metrics(*paths, fit_weights=tmp_path / "w.json", **FAST)
    opposite = [row | {"label": -row["label"]} for row in labeled(n=60)[1]]
    with pytest.raises(DataError, match="increases with the labels"):
        validate_metrics(
            *labeled(n=60)[0], metrics=["ccrs.cc", "ccrs.qr"], labels=[*opposite], fit_weights="w.json", **FAST
        )


def test_the_command(labeled, tmp_path):
    """`--fit-weights` writes the file that the metric reads."""
    paths, labels = labeled()
    rows = tmp_path / "labels.jsonl"
    rows.write_text("\n".join(map(json.dumps, labels)))
    line = [
        "lab",
        "validate-metrics",
        *map(str, paths),
        "--labels",
        str(rows),
        "--fit-weights",
        str(tmp_path / "w.json"),
    ]
    done = CliRunner().invoke(app, [*line, "--set", "analysis.n_resamples=50", "--set", "analysis.n_permutations=20"])
    assert 0 == done.exit_code, done.output
    assert f"--metrics ccrs.composite@{tmp_path / 'w.json'}" in done.stderr.replace("\n", "")
    assert resolve_metrics(f"ccrs.composite@{tmp_path / 'w.json'}")[0].weights["ccrs.cc"] > 0.6
