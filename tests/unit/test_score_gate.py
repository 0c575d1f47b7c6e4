"""`--fail-under` and `Experiment.check`: what reaches a threshold, what misses it, and what is undecided."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import run_command
from ragstone.errors import ConfigurationError
from ragstone.experiments import Experiment
from ragstone.experiments._gates import ScoreGate
from ragstone.judges import JudgeIdentity
from ragstone.metrics import MetricCard, resolve_metrics
from ragstone.schema import Failure, NotApplicable, Sample, Score, Usage
from ragstone.stats import mean_interval

METRIC = "ccrs.cc"
CARDS = {m.card.name: m.card for m in resolve_metrics(["ccrs.cc", "ccrs.qr", "ccrs.ac"])}
OWN = MetricCard(name="own.x", title="X", description="", low=0.0, high=math.inf, needs=(), version="1", source="", group="own")  # fmt: skip
CARDS |= {"own.x": OWN, "own.harm": replace(OWN, name="own.harm", title="H", high=10.0, direction="lower")}

Value = float | str | None | tuple[float, float]


def outcome(metric: str, sample: str, value: Value) -> Score | Failure | NotApplicable:
    """A score, "n.a.", or a failure: None, or its bounds."""
    common = {"sample_id": sample, "metric": metric, "metric_version": "1", "judge": "j", "judge_hash": "h"}
    if value is None or isinstance(value, tuple):
        return Failure(kind="timeout", reason="late", details={"bounds": list(value)} if value else {}, **common)
    if isinstance(value, str):
        return NotApplicable(reason="no", **common)
    return Score(value=value, method="x", **common)


def experiment(
    values: Sequence[Value], *, metric: str = METRIC, metadata: Sequence[dict[str, object]] = ()
) -> Experiment:
    """A system with these values."""
    samples = tuple(
        Sample(id=f"q{i}", query="Why?", response="So.", metadata=metadata[i] if metadata else {})
        for i in range(len(values))
    )
    return Experiment(
        samples=samples,
        outcomes=tuple(outcome(metric, f"q{i}", value) for i, value in enumerate(values)),
        cards=(CARDS[metric],),
        judge=JudgeIdentity(name="j", hash="h"),
        usage=Usage(),
        wall_s=0.0,
    )


SCORES = [0.9, 1.0, 0.8, 0.95, 0.7] * 12


@pytest.mark.parametrize(
    ("threshold", "state"), [(0.7, "reached"), (0.86, "undecided"), (0.88, "undecided"), (0.95, "missed")]
)
def test_a_limit_decides(threshold: float, state: str) -> None:
    """Undecided metrics fail unless they may pass. The limits are those of `mean_interval`."""
    (gate,) = experiment(SCORES).check({METRIC: threshold}).gates
    assert (state, state == "reached") == (gate.state, gate.ok)
    limits = [mean_interval(SCORES, side="lower").low, mean_interval(SCORES, side="upper").high]
    assert [np.mean(SCORES), *limits] == pytest.approx([gate.mean, gate.low, gate.high])
    lenient = experiment(SCORES).check({METRIC: threshold}, undecided="pass")
    assert lenient.ok == (state != "missed")


def test_a_limit_equal_to_the_threshold() -> None:
    """The metric passes if the limit excludes all worse means, and fails only if it excludes the threshold too."""
    low, high = (
        (gate := experiment(SCORES).check({METRIC: 0.8}).gates[0]).low,
        gate.high,
    )
    states = [experiment(SCORES).check({METRIC: t}).gates[0].state for t in (low, low + 1e-6, high, high + 1e-6)]
    assert ["reached", "undecided", "undecided", "missed"] == states


@pytest.mark.parametrize(("threshold", "state"), [(4.0, "reached"), (3.0, "undecided"), (1.0, "missed")])
def test_a_high_mean_is_worse_if_lower_is_better(threshold: float, state: str) -> None:
    """The threshold is then the largest acceptable mean."""
    check = experiment([2.0, 3.0, 4.0] * 20, metric="own.harm").check({"own.harm": threshold})
    assert state == check.gates[0].state
    assert f"<= {threshold:g}" in str(check)


def test_a_limit_equal_to_the_threshold_if_lower_is_better() -> None:
    """The metric passes if the limit excludes all higher means, and fails only if it excludes the threshold too."""

    def gate(threshold: float) -> ScoreGate:
        return experiment([2.0, 3.0, 4.0] * 20, metric="own.harm").check({"own.harm": threshold}).gates[0]

    low, high = gate(3.0).low, gate(3.0).high
    assert low is not None
    assert high is not None
    states = [gate(t).state for t in (high, high - 1e-6, low, low - 1e-6)]
    assert ["reached", "undecided", "undecided", "missed"] == states


def test_failed_samples_count_with_their_worst_scores() -> None:
    """A judge that fails on hard questions does not open the gate, and one that fails on all does not close it."""
    whole = experiment([0.9, 1.0] * 60)
    half = experiment([0.9, 1.0, None] * 40)
    assert whole.check({METRIC: 0.85}).ok
    (gate,) = half.check({METRIC: 0.85}).gates
    assert ("undecided", 80, 40, pytest.approx(0.95)) == (gate.state, gate.n_scored, gate.n_failed, gate.mean)
    assert mean_interval([0.9, 1.0, 0.0] * 40, side="lower").low == pytest.approx(gate.low)
    assert mean_interval([0.9, 1.0, 1.0] * 40, side="upper").high == pytest.approx(gate.high)
    assert "the limits contain any scores of 40 failed samples" in str(half.check({METRIC: 0.85}))


def test_failures_with_bounds_count_with_their_bounds() -> None:
    """A bound outside of the metric's range is ignored."""
    (gate,) = experiment([0.9, 1.0, (0.8, 0.9)] * 40).check({METRIC: 0.8}).gates
    assert mean_interval([0.9, 1.0, 0.8] * 40, side="lower").low == pytest.approx(gate.low)
    assert mean_interval([0.9, 1.0, 0.9] * 40, side="upper").high == pytest.approx(gate.high)


def test_a_failure_of_a_metric_without_bounds_leaves_one_side_open() -> None:
    """It may be any value from 0 on, so the mean has a lower limit only."""
    (gate,) = experiment([5.0, 6.0, 7.0, None] * 20, metric="own.x").check({"own.x": 9.0}).gates
    assert ("undecided", None) == (gate.state, gate.high)
    assert gate.low is not None
    json.dumps(experiment([5.0, None], metric="own.x").check({"own.x": 2}).to_dict(), allow_nan=False)


def test_samples_to_which_the_metric_does_not_apply_are_counted_and_excluded() -> None:
    """The output names their number."""
    check = experiment([0.9, 1.0, "n.a."] * 40).check({METRIC: 0.85})
    assert (True, 80, 40) == (check.ok, check.gates[0].n_scored, check.gates[0].n_not_applicable)
    assert "not applicable to 40 of 120 samples" in str(check)
    assert "which do not count" not in str(experiment(["n.a."] * 3).check({METRIC: 0.85})), "there is no mean"


@pytest.mark.parametrize(
    ("values", "why"), [([None] * 5, "all 5 samples failed"), (["n.a."] * 5, "not applicable to any sample")]
)
@pytest.mark.parametrize("undecided", ["fail", "pass"])
def test_a_metric_without_scores_fails_and_is_not_testable(values: list[Value], why: str, undecided: str) -> None:
    """It must not pass as undecided."""
    check = experiment(values).check({METRIC: 0.5}, undecided=undecided)
    assert (False, False, "no score") == (check.ok, check.is_testable, check.gates[0].state)
    assert f"NO SCORE: {why}" in " ".join(str(check).split())


def test_rows_of_a_session_and_sampled_rows() -> None:
    """Limits treat whole clusters as independent and weight sampled rows, as in all other means."""
    values = [value for value in SCORES[:20] for _ in range(5)]
    alone = experiment(values)
    sessions = experiment(values, metadata=[{"session_id": f"s{i // 5}"} for i in range(100)])
    (one,), (other,) = alone.check({METRIC: 0.83}).gates, sessions.check({METRIC: 0.83}).gates
    assert ("reached", "undecided", True) == (one.state, other.state, other.low < one.low)
    assert "limits treat whole clusters (session_id)" in str(sessions.check({METRIC: 0.82}))

    rates = [{"inclusion_probability": 0.1 if value > 0.85 else 1.0} for value in SCORES]
    weighted = experiment(SCORES, metadata=rates).check({METRIC: 0.85}).gates[0]
    weights = [1 / rate["inclusion_probability"] for rate in rates]
    assert np.average(SCORES, weights=weights) == pytest.approx(weighted.mean)
    assert "weighted by 1 / sampling probability" in str(experiment(SCORES, metadata=rates).check({METRIC: 0.85}))


def test_the_last_outcome_of_a_sample_counts() -> None:
    """A file may contain a sample twice, for example a failure and its repetition."""
    both = experiment([None] * 60)
    both = replace(both, outcomes=both.outcomes + experiment(SCORES).outcomes)
    (gate,) = both.check({METRIC: 0.8}).gates
    assert (60, 0) == (gate.n_scored, gate.n_failed)
    back = replace(both, outcomes=experiment(SCORES).outcomes + both.outcomes[:60]).check({METRIC: 0.8}).gates[0]
    assert (0, 60) == (back.n_scored, back.n_failed)


def test_about_how_many_more_samples_decide() -> None:
    """With this number and the same mean the limit reaches the threshold, and with a third of it, it does not."""
    (gate,) = experiment(SCORES).check({METRIC: 0.85}).gates
    more = np.resize(SCORES, len(SCORES) + gate.n_more)
    assert 100 < gate.n_more < 1000
    assert mean_interval(more, side="lower").low >= 0.85
    assert mean_interval(np.resize(SCORES, len(SCORES) + gate.n_more // 3), side="lower").low < 0.85
    (equal,) = experiment([0.5] * 40).check({METRIC: 0.5}).gates
    assert ("undecided", None) == (equal.state, equal.n_more)


def test_the_distance_of_the_limit_falls_with_the_root_of_the_number_of_samples() -> None:
    """Failed samples count among those there are, and the number of more samples is rounded up to two digits."""
    (gate,) = experiment([*SCORES, None, None]).check({METRIC: 0.84}).gates
    assert gate.mean is not None
    assert gate.low is not None
    n_all = 62 * ((gate.mean - gate.low) / (gate.mean - 0.84)) ** 2
    assert 200 < n_all < 1000
    assert 10 * math.ceil((n_all - 62) / 10) == gate.n_more


@pytest.mark.parametrize(
    ("thresholds", "options", "message"),
    [
        ({METRIC: 1.0}, {}, r"threshold of ccrs\.cc must be a number above 0 and below 1, got 1\.0"),
        ({METRIC: 0.0}, {}, "got 0.0"),
        ({METRIC: 80}, {}, r"got 80, .*such as ccrs\.cc=0\.8"),
        ({METRIC: math.nan}, {}, "got nan"),
        ({METRIC: "0.3"}, {}, "must be a number above 0 and below 1, got '0.3'"),
        ({"bleu": 0.5}, {}, r"a threshold for 'bleu', which is not scored. Scored metrics: ccrs\.cc"),
        ({}, {}, "a gate needs a threshold"),
        ({METRIC: 0.5}, {"undecided": "maybe"}, 'undecided must be "fail" or "pass"'),
        ({METRIC: 0.5}, {"confidence_level": 0.5}, r"must be above 0\.5 and below 1"),
    ],
)
def test_invalid_arguments_are_named(thresholds: dict[str, float], options: dict[str, object], message: str) -> None:
    """With the value, the rule and what to write instead."""
    with pytest.raises(ConfigurationError, match=message):
        experiment(SCORES).check(thresholds, **options)


def test_a_group_sets_all_its_metrics_and_a_metric_overrides_it() -> None:
    """In any order."""
    both = experiment([0.9] * 60)
    cards = (CARDS["ccrs.cc"], CARDS["ccrs.qr"])
    both = replace(both, cards=cards, outcomes=both.outcomes + experiment([0.6] * 60, metric="ccrs.qr").outcomes)
    for thresholds in ({"ccrs": 0.8, "ccrs.qr": 0.4}, {"ccrs.qr": 0.4, "ccrs": 0.8}):
        assert {"ccrs.cc": 0.8, "ccrs.qr": 0.4} == {g.metric: g.threshold for g in both.check(thresholds).gates}
    assert not both.check({"ccrs": 0.8}).ok
    assert str(both.check({"ccrs": 0.8})).splitlines()[4].startswith("Question relevance (ccrs.qr)"), (
        "failed metrics come first"
    )


ROWS = [{"id": f"q{i}", "query": f"Why {i}?", "contexts": ["So."], "response": "So."} for i in range(40)]


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with rows, and the outcomes of scores, of failures and of both."""
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name, values in (("good", SCORES), ("failed", [None] * 9)):
        experiment(values).to_jsonl(f"{name}.jsonl")
    mixed = [*experiment(SCORES).outcomes, *experiment(["n.a."] * 9, metric="ccrs.qr").outcomes]
    Path("mixed.jsonl").write_text("".join(o.model_dump_json() + "\n" for o in mixed))
    return tmp_path


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("evaluate rows.jsonl --judge lexical --metrics ccrs.cc --fail-under ccrs.cc=0.8", 0),
        ("evaluate rows.jsonl --judge lexical --metrics ccrs.cc --fail-under ccrs.cc=0.95", 1),
        (
            "evaluate rows.jsonl --judge lexical --metrics ccrs.cc --fail-under ccrs.cc=0.95 --set analysis.undecided=pass",
            0,
        ),
        ("report good.jsonl --fail-under ccrs.cc=0.8", 0),
        ("report good.jsonl --fail-under ccrs.cc=0.95 --set analysis.undecided=pass", 1),
        ("report good.jsonl --fail-under ccrs.cc=0.8 -o report.md", 0),
        ("report good.jsonl --fail-under ccrs.cc=0.9 -o report.md", 1),
        ("report good.jsonl --fail-under ccrs.cc=0.9 --json", 1),
        ("report failed.jsonl --fail-under ccrs.cc=0.1", 3),
        ("report mixed.jsonl --fail-under ccrs.cc=0.8 --fail-under ccrs.qr=0.8", 3),
        ("report mixed.jsonl --fail-under ccrs.cc=0.9 --fail-under ccrs.qr=0.8", 1),
        ("report good.jsonl --fail-under ccrs.cc=80", 2),
        ("report good.jsonl --fail-under ccrs.cc", 2),
        ("report good.jsonl --fail-under ccrs.cc=0.8 --fail-under ccrs.cc=0.9", 2),
        ("replay rows.jsonl --judge lexical --metrics ccrs.cc --fail-under ccrs.cc=0.8", 0),
        ("replay rows.jsonl --judge lexical --metrics ccrs.cc --fail-under ccrs.cc=0.95", 1),
    ],
)
def test_exit_codes(command: str, code: int) -> None:
    """0 passed, 1 failed or undecided, 2 an invalid threshold, 3 no score to decide with."""
    done = run_command(*command.split())
    assert code == done.returncode, done.stderr


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("command", ["evaluate", "replay"])
def test_an_invalid_threshold_is_refused_before_any_call(command: str) -> None:
    """No judge is asked, and no file is written."""
    before = sorted(Path().iterdir())
    options = ["--judge", "http://127.0.0.1:9/v1", "--metrics", "ccrs.cc", "--fail-under", "ccrs.cc=80"]
    done = run_command(command, "rows.jsonl", *options)
    assert (2, before) == (done.returncode, sorted(Path().iterdir()))
    assert "the threshold of ccrs.cc must be a number above 0 and below 1, got 80.0" in done.stderr


@pytest.mark.usefixtures("rows")
def test_the_output_has_the_table_and_json_the_numbers() -> None:
    """On stdout, below the means."""
    options = ["--judge=lexical", "--metrics=ccrs.cc", "--fail-under", "ccrs.cc=0.8"]
    assert "\nall thresholds reached\n" in run_command("evaluate", "rows.jsonl", *options).stdout
    for command in (["evaluate", "rows.jsonl", *options], ["report", "good.jsonl", *options[2:]]):
        gate = json.loads(run_command(*command, "--json").stdout)["gate"]
        assert (True, ["reached"]) == (gate["ok"], [each["state"] for each in gate["gates"]])
    assert json.loads(run_command("evaluate", "rows.jsonl", *options[:2], "--json").stdout)["gate"] is None


def ceiling(rng: np.random.Generator, n: int) -> np.ndarray:
    """Scores in steps of 0.25 with mean 0.8125, 60% of them 1."""
    return rng.choice([0.0, 0.25, 0.5, 0.75, 1.0], n, p=[0.05, 0.05, 0.1, 0.2, 0.6])


def share_passed(threshold: float, n: int, draws: int, *, size: int = 1, icc: float = 0.0) -> float:
    """The share of simulated runs that pass. With clusters of `size`, a share `icc` of rows copies its cluster's score."""
    rng = np.random.default_rng(n)
    passed = 0
    for _ in range(draws):
        own, shared = ceiling(rng, n), np.repeat(ceiling(rng, -(-n // size)), size)[:n]
        values = np.where(rng.random(n) < math.sqrt(icc), shared, own)
        metadata = [{"session_id": f"s{i // size}"} for i in range(n)] if size > 1 else ()
        passed += experiment(values.tolist(), metadata=metadata).check({METRIC: threshold}).ok
    return passed / draws


def test_a_mean_at_the_threshold_rarely_passes_and_a_clear_one_does() -> None:
    """The quick version of the simulation below: 200 runs have a standard error of 1.5 points."""
    assert 0.05 + 3 * 0.0155 >= share_passed(0.8125, 100, 200)
    assert 0.95 - 3 * 0.0155 <= share_passed(0.7125, 120, 200)


def sized(slow: Sequence[float], long: Sequence[float]) -> list[Any]:
    """Parameters of a test: some in the session `slow`, some in `long`."""
    return [
        pytest.param(n, marks=mark) for mark, each in ((pytest.mark.slow, slow), (pytest.mark.long, long)) for n in each
    ]


@pytest.mark.parametrize("n", sized([20], [11, 59, 100, 300]))
def test_a_mean_at_the_threshold_passes_in_at_most_5_percent(n: int) -> None:
    """Ceiling scores, and scores of 0 and 1 with sizes at which the mid-p rule would pass in 8%."""
    assert 0.05 + 3 * 0.005 >= share_passed(0.8125, n, 2000)
    rng = np.random.default_rng(n)
    share = np.mean([mean_interval((rng.random(n) < 0.8).astype(float), side="lower").low >= 0.8 for _ in range(2000)])
    assert 0.05 + 3 * 0.005 >= share


@pytest.mark.parametrize("icc", sized([0.5], [0.3]))
def test_sessions_at_the_threshold_pass_in_at_most_6_percent(icc: float) -> None:
    """Sixty sessions of five rows."""
    assert 0.06 + 3 * 0.007 >= share_passed(0.8125, 300, 1000, size=5, icc=icc)


def test_a_metric_without_outcomes_has_no_score() -> None:
    """It was to be scored, so it is not unknown."""
    check = experiment([]).check({METRIC: 0.5})
    assert ("no score", False) == (check.gates[0].state, check.ok)
    assert [METRIC] == list(experiment([]).source().table()[0].metrics)


def test_a_threshold_at_an_end_is_answered_with_one_inside() -> None:
    """Near the good end of the range."""
    with pytest.raises(ConfigurationError, match=r"Give a value inside, such as own\.harm=2$"):
        experiment([2.0], metric="own.harm").check({"own.harm": 10.0})


def test_failed_metrics_are_first_in_the_summary_of_a_job() -> None:
    """Those that pass follow."""
    (gate,) = experiment(SCORES).check({METRIC: 0.7}).gates
    check = experiment(SCORES).check({METRIC: 0.7})
    both = replace(check, gates=(gate, replace(gate, metric="ccrs.qr", state="missed", ok=False)))
    rows = [line for line in both.to_markdown().splitlines() if "ccrs" in line]
    assert [("FAILED" in row, "ccrs.qr" in row) for row in rows] == [(True, True), (False, False)]
