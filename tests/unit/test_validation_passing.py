"""`validate_metrics(pass_at=...)`: pass@k from repeated answers."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from command_line import app
from ragstone import evaluate
from ragstone.errors import ConfigurationError, DataError
from ragstone.schema import Failure, Score
from ragstone.stats import mean_interval, pass_at_k
from ragstone_lab import validate_metrics

FAST = {"n_resamples": 50, "n_permutations": 20}
MERGED = {"q0": [1.0, 0.0, 0.0, 0.0], "q1": [0.6, 0.5, 0.4, 0.1], "q2": [0.0, 0.0, 0.0, None], "q3": [1.0, 1.0]}
PASSED = {"q0": (4, 1), "q1": (4, 2), "q2": (3, 0), "q3": (2, 2)}


@pytest.fixture
def merged(tmp_path):
    """Outcomes as `evaluate --repeats` writes them."""

    def write(metric="exact_match", values=MERGED, name="run"):
        lines = []
        for id_, several in values.items():
            known = [value for value in several if value is not None]
            lines.append(
                Score(
                    sample_id=id_,
                    metric=metric,
                    metric_version="1",
                    value=sum(known) / len(known),
                    method="mean_of_repeats",
                    details={"repeats": several},
                )
            )
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(line.model_dump_json() + "\n" for line in lines))
        return path

    return write


def test_the_mean_of_pass_at_k(merged):
    """Over samples with enough scores; one that was not scored is neither a pass nor a failure."""
    report = validate_metrics(merged(), pass_at=[3, 1, 3], **FAST)
    one, three = report.pass_rates
    assert (1, 3, 0, 1) == (one.k, three.k, one.n_few, three.n_few)
    for found, ids in ((one, PASSED), (three, ("q0", "q1", "q2"))):
        assert mean_interval([pass_at_k(*PASSED[id_], found.k) for id_ in ids]) == found.rate
        assert 0.5 == found.threshold


def test_the_threshold_and_the_direction(merged):
    """A score at the threshold passes; if lower values are better, a score below it does."""
    (strict,) = validate_metrics(merged(), pass_at=[1], threshold=0.51, **FAST).pass_rates
    assert pytest.approx((1 / 4 + 1 / 4 + 0 + 1) / 4) == strict.rate.value
    (low,) = validate_metrics(merged("crux.redundancy"), pass_at=[1], threshold=0.1, **FAST).pass_rates
    assert pytest.approx((3 / 4 + 1 / 4 + 1 + 0) / 4) == low.rate.value


def test_other_files_are_further_answers(merged):
    """Each file has one answer of each sample."""
    files = [merged(values={"q0": [v], "q1": [1.0]}, name=f"f{n}") for n, v in enumerate((0.0, 1.0, 0.0))]
    (two,) = validate_metrics(files[0], repeats=files[1:], pass_at=[2], **FAST).pass_rates
    assert pytest.approx((pass_at_k(3, 1, 2) + 1) / 2) == two.rate.value


def test_an_application(tmp_path):
    """From `evaluate(app=..., repeats=...)` to the table."""
    answers = iter(["Oslo", "Rome", "Rome", "Rome"])
    data = [{"id": "a", "query": "Where?", "reference": "Oslo"}]
    result = evaluate(
        data,
        ["exact_match"],
        app=lambda question: {"answer": next(answers), "contexts": ["x"]},
        repeats=4,
        app_concurrency=1,
        traces=tmp_path / "traces.jsonl",
    )
    found = {rate.k: rate.rate.value for rate in validate_metrics(result, pass_at=[1, 2, 4], **FAST).pass_rates}
    assert {1: pytest.approx(0.25), 2: pytest.approx(0.5), 4: 1.0} == found


@pytest.mark.parametrize(
    ("metric", "pass_at", "error", "words"),
    [
        ("exact_match", [0], ConfigurationError, "pass_at must be 1 or more, got 0"),
        (
            "exact_match",
            [5],
            DataError,
            "pass@5 needs at least 5 scored answers of one sample. Evaluate with --repeats",
        ),
        ("acme.unbounded", [1], ConfigurationError, "does not have a bounded range"),
    ],
)
def test_what_cannot_be_computed(merged, metric, pass_at, error, words):
    """The message says what is missing."""
    with pytest.raises(error, match=words):
        validate_metrics(merged(metric), pass_at=pass_at, **FAST)


def test_a_failed_judge_is_not_a_failed_answer(tmp_path):
    """A sample without any score is left out, and counted."""
    lines = [
        Score(sample_id="a", metric="exact_match", metric_version="1", value=1.0, method="exact"),
        Failure(sample_id="b", metric="exact_match", metric_version="1", kind="timeout", reason="slow"),
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(line.model_dump_json() + "\n" for line in lines))
    report = validate_metrics(path, pass_at=[1], **FAST)
    (found,) = report.pass_rates
    assert (1.0, 1, 1, 1, 0) == (found.rate.value, found.rate.n, found.n_few, found.n_unscored, found.n_other_judge)
    assert "exact_match, run: excluded 1 without a score, 0 of another judge or prompt" in str(report)


def test_scores_of_another_judge_are_not_other_answers(tmp_path):
    """Two judges of one answer are not two answers, of which one passes."""
    files = []
    for name, value in (("a", 0.0), ("b", 1.0)):
        score = Score(
            sample_id="q", metric="ccrs.cc", metric_version="1", value=value, method="single_reply", judge=name, judge_hash=name
        )  # fmt: skip
        (path := tmp_path / f"{name}.jsonl").write_text(score.model_dump_json() + "\n")
        files.append(path)
    one, two = validate_metrics(files[0], repeats=files[1:], pass_at=[1, 2], **FAST).pass_rates
    assert (0.0, None) == (one.rate.value, two.rate)
    assert (0, 1, 0, 1) == (one.n_few, one.n_other_judge, two.n_unscored, two.n_few)


def test_the_command(merged):
    """One row for each k."""
    line = ["lab", "validate-metrics", str(merged()), "--set=analysis.n_permutations=20"]
    line.append("--set=analysis.n_resamples=20")
    shown = CliRunner().invoke(app, [*line, "--set=research.pass_at=1,3"])
    assert 0 == shown.exit_code, shown.output
    assert "pass@k: probability that at least one of k answers" in shown.stdout
    plain = json.loads(CliRunner().invoke(app, [*line, "--set=research.pass_at=2", "--json"]).stdout)
    assert [2] == [rate["k"] for rate in plain["pass_rates"]]
    refused = CliRunner().invoke(app, [*line, "--set=research.pass_at=many"])
    assert "research.pass_at must be integers, such as 1,5" in str(refused.exception)


def test_sessions_widen_the_interval(tmp_path):
    """Samples of one session that pass together count as fewer."""
    rows = []
    for i in range(60):
        value = float(i // 10 % 2)
        score = Score(
            sample_id=f"q{i}", metric="exact_match", metric_version="1", value=value, method="mean_of_repeats",
            details={"repeats": [value, value]},
        )  # fmt: skip
        rows.append(score.model_dump(mode="json") | {"clusters": {"session_id": f"s{i // 10}"}})
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (apart,) = validate_metrics(path, pass_at=[1], cluster="none", **FAST).pass_rates
    (together,) = validate_metrics(path, pass_at=[1], cluster="session_id", **FAST).pass_rates
    assert 0.5 == apart.rate.value == together.rate.value
    assert together.rate.high - together.rate.low > 2 * (apart.rate.high - apart.rate.low)
