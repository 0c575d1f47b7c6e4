"""The gate: what lets a candidate through, and what does not."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import ragstone
from command_line import app
from ragstone.errors import ConfigurationError, DataError
from ragstone.schema import Failure, NotApplicable, Outcome, Score
from ragstone.stats import holm, simultaneous_differences

METRICS = ("ccrs.qr", "ccrs.cc", "ccrs.ac")


@pytest.fixture
def write(tmp_path: Path):
    """Write values by metric as a file of outcomes; None is a failure, "n.a." what does not apply."""

    def file(name: str, **by_metric: list[float | str | None]) -> Path:
        found: list[Outcome] = []
        for metric, values in by_metric.items():
            for i, value in enumerate(values):
                common = {"sample_id": f"q{i}", "metric": f"ccrs.{metric}", "metric_version": "1", "judge_hash": "h"}
                found.append(
                    Failure(kind="timeout", reason="late", **common)
                    if value is None
                    else NotApplicable(reason="no claim", **common)
                    if value == "n.a."
                    else Score(value=value, method="x", **common)
                )
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(o.model_dump_json() + "\n" for o in found), encoding="utf-8")
        return path

    return file


def noisy(shift: float, seed: int, *, n: int = 100) -> list[float]:
    """Scores around those of the samples, which all systems share."""
    base = np.random.default_rng(99).uniform(0.3, 0.6, n)
    return np.clip(base + shift + np.random.default_rng(seed).normal(0, 0.05, n), 0, 1).tolist()


def test_a_significant_loss_fails_and_the_message_is_a_table(write) -> None:
    """It names the metric, how large the loss is, and how sure that is."""
    old, new = write("old", cc=noisy(0, 1), qr=noisy(0, 0)), write("new", cc=noisy(0, 3), qr=noisy(-0.05, 2))

    with pytest.raises(AssertionError) as failure:
        ragstone.assert_no_regression(old, new)
    lines = str(failure.value).splitlines()
    assert "baseline: FAILED on 1 of 2" == lines[0]
    assert "(ccrs.qr)" in lines[4], "what failed is read first"
    assert "(ccrs.cc)" in lines[5]
    assert any("(ccrs.qr)" in line and "WORSE (p = " in line for line in lines)
    assert any("(ccrs.cc)" in line and "not shown to be worse" in line for line in lines)
    ragstone.assert_no_regression(old, new, ["ccrs.cc"])
    ragstone.assert_no_regression(new, old)


def test_less_is_better_where_the_metric_says_so(write, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of what should be little is a loss."""
    from dataclasses import replace

    from ragstone.experiments import _cards

    known = _cards.card_of
    monkeypatch.setattr(_cards, "card_of", lambda name: replace(known(name), direction="lower"))
    old, new = write("old", qr=noisy(0, 0)), write("new", qr=noisy(0.05, 2))
    ragstone.assert_no_regression(new, old, margin=0.03)
    (gate,) = ragstone.compare([write("a", qr=[0.4] * 4), write("b", qr=[0.4] * 3 + [None])]).check_regression().gates
    assert -0.6 / 4 == pytest.approx(gate.worst)
    with pytest.raises(AssertionError, match=r"-[45]\.\d points"):
        ragstone.assert_no_regression(old, new)


def test_p_values_are_those_of_the_one_sided_test_with_holm(write) -> None:
    """For all metrics of the gate together, so that more metrics do not mean more false alarms."""
    shifts = dict(zip(("qr", "cc", "ac"), (0.0, -0.012, -0.02), strict=True))
    values = {m: (noisy(0, i), noisy(s, i + 30)) for i, (m, s) in enumerate(shifts.items())}
    old = write("old", **{m: v[0] for m, v in values.items()})
    new = write("new", **{m: v[1] for m, v in values.items()})
    check = ragstone.compare([old, new]).check_regression()
    tables = (np.stack([new, old], axis=1) for old, new in values.values())
    alone = [simultaneous_differences([x], pairs=[(0, 1)], alternative="less")[0].pairs[0].p_value for x in tables]

    assert holm(alone).adjusted == pytest.approx([gate.p_value for gate in check.gates], abs=0.02)
    assert list(holm(alone).rejected) == [not gate.ok for gate in check.gates]
    assert [False, True] == [check.ok, ragstone.compare([old, new]).check_regression("ccrs.qr").ok]


def test_a_margin_asks_for_proof(write) -> None:
    """The same difference passes with many samples and fails with few; the bound is the interval's."""
    few = write("few", qr=noisy(0, 0, n=20)), write("few_new", qr=noisy(0, 1, n=20))
    many = write("many", qr=noisy(0, 0, n=400)), write("many_new", qr=noisy(0, 1, n=400))

    ragstone.assert_no_regression(*many, margin=0.01)
    ragstone.assert_no_regression(*few)
    with pytest.raises(AssertionError, match="NOT SHOWN: the loss may be 1 point or more"):
        ragstone.assert_no_regression(*few, margin=0.01)
    (gate,) = ragstone.compare(many).check_regression(margin=0.01).gates
    difference = np.subtract(noisy(0, 1, n=400), noisy(0, 0, n=400))
    assert difference.mean() - 1.6487 * difference.std(ddof=1) / 20 == pytest.approx(gate.low, abs=1e-5)


def test_a_margin_may_be_one_for_each_metric(write) -> None:
    """By name, for all of the gate."""
    old, new = write("old", qr=noisy(0, 0), cc=noisy(0, 1)), write("new", qr=noisy(-0.05, 2), cc=noisy(0, 3))
    ragstone.assert_no_regression(old, new, margin={"ccrs.qr": 0.1, "ccrs.cc": 0.04})
    with pytest.raises(AssertionError):
        ragstone.assert_no_regression(old, new, margin={"ccrs.qr": 0.03, "ccrs.cc": 0.1})
    with pytest.raises(ConfigurationError, match=r"margin lacks ccrs\.cc"):
        ragstone.assert_no_regression(old, new, margin={"ccrs.qr": 0.1})


def test_samples_that_score_alike_bound_what_others_may_lose(write) -> None:
    """No change in n samples leaves room for the share that shows none in n with a chance of 5 %."""
    same = [0.5, 0.75] * 50
    a, b = write("a", qr=same), write("b", qr=same)
    (gate,) = ragstone.compare([a, b]).check_regression(margin=0.03).gates

    assert -(1 - 0.05 ** (1 / 100)) == pytest.approx(gate.low)
    assert [True, False] == [
        ragstone.compare([a, b]).check_regression(margin=margin).ok for margin in (-gate.low + 1e-6, -gate.low)
    ]


def test_changes_that_cancel_are_not_taken_for_none(write) -> None:
    """A mean difference of 0 is bounded by how much samples differ, not by that none does."""
    a, b = write("a", qr=[0.3, 0.7] * 150), write("b", qr=[0.7, 0.3] * 150)
    (gate,) = ragstone.compare([a, b]).check_regression(margin=0.03).gates
    assert (0.0, False) == (pytest.approx(gate.gain), gate.ok)
    assert -1.64997 * 0.4 * (300 / 299) ** 0.5 / 300**0.5 == pytest.approx(gate.low, abs=1e-4)


def test_a_loss_of_the_margin_is_rarely_passed_on(write) -> None:
    """The limit of proportions is exact: with the mid-p rule, one loss of 77 would pass a loss of 5% of the samples."""
    old = write("old", qr=[1.0] * 77)
    one, none = write("one", qr=[1.0] * 76 + [0.0]), write("none", qr=[1.0] * 77)
    assert [False, True] == [ragstone.compare([old, new]).check_regression(margin=0.05).ok for new in (one, none)]


def test_rare_losses_are_not_taken_for_none(write) -> None:
    """Three samples of 100 that lose everything: too few for a permutation test, and still no proof of a loss below 5."""
    a, b = write("a", qr=[1.0] * 100), write("b", qr=[1.0] * 97 + [0.0] * 3)
    ragstone.assert_no_regression(a, b)
    with pytest.raises(AssertionError, match="NOT SHOWN"):
        ragstone.assert_no_regression(a, b, margin=0.05)


@pytest.mark.parametrize("margin", [None, 0.5])
def test_what_cannot_be_tested_fails(write, margin: float | None) -> None:
    """A judge that failed on everything, or a metric that was lost, must not open the gate."""
    good, failed, lost = (
        write("good", qr=noisy(0, 0), cc=noisy(0, 0)),
        write("failed", qr=[None] * 100, cc=noisy(0, 1)),
        write("lost", cc=noisy(0, 1)),
    )
    for candidate in (failed, lost):
        with pytest.raises(AssertionError, match="UNTESTABLE"):
            ragstone.assert_no_regression(good, candidate, margin=margin)
    with pytest.raises(AssertionError, match="UNTESTABLE"):
        ragstone.assert_no_regression(failed, good, margin=margin)


def test_a_new_metric_is_no_regression(write) -> None:
    """What the baseline never had cannot become worse; it is noted. Asked for by name, it is missing."""
    old, new = write("old", qr=noisy(0, 0)), write("new", qr=noisy(0, 0), cc=noisy(0, 1))
    check = ragstone.compare([old, new]).check_regression()
    assert (True, ["ccrs.qr"]) == (check.ok, [g.metric for g in check.gates])
    assert "not in the gate, because the baseline does not have scores: ccrs.cc" in str(check)
    assert not ragstone.compare([old, new]).check_regression("ccrs.cc").ok


def test_a_baseline_without_scores_holds_nothing(write) -> None:
    """An empty gate is not an open one."""
    old, new = write("old", qr=[None] * 3), write("new", qr=[0.5] * 3, cc=[0.5] * 3)
    with pytest.raises(AssertionError, match="UNTESTABLE"):
        ragstone.assert_no_regression(old, new)
    both = ragstone.compare([old, new], metrics="ccrs.cc")
    with pytest.raises(DataError, match="the baseline 'old' does not have a score of any metric"):
        both.check_regression()


def test_failed_samples_are_told_with_their_worst_case(write) -> None:
    """The gain is over what both scored; what the others could change stands below."""
    old, new = write("old", qr=[0.5] * 40), write("new", qr=[0.6] * 30 + [None] * 10)
    check = ragstone.compare([old, new]).check_regression()
    # 30 samples gain 0.1, 10 lose 0.5.
    assert (10, (3 - 5) / 40) == (check.gates[0].n_failed, pytest.approx(check.gates[0].worst))
    assert (
        "the gain of new excludes 10 failed samples. With their worst possible scores, it would be -5 points."
        in str(check)
    )


def test_a_margin_is_not_shown_by_samples_that_failed(write) -> None:
    """A candidate that fails on what it is bad at must not pass as one that loses nothing, on either side of a metric."""
    old, new = write("old", qr=[0.5, 0.6] * 200), write("new", qr=[0.6, 0.7] * 100 + [None] * 200)
    ragstone.assert_no_regression(old, new)
    with pytest.raises(AssertionError, match="NOT SHOWN: the loss may be 5 points or more"):
        ragstone.assert_no_regression(old, new, margin=0.05)
    # One of 400 costs at most its score and its gain: that can be borne.
    one = write("one", qr=[0.6, 0.7] * 199 + [0.6, None])
    ragstone.assert_no_regression(old, one, margin=0.05)
    (full,), (lacking,) = (
        ragstone.compare([old, path]).check_regression(margin=0.05).gates
        for path in (write("full", qr=[0.6, 0.7] * 200), one)
    )
    assert full.gain - (0.1 + 0.6) / 400 == pytest.approx(lacking.worst)
    assert lacking.low < full.low


def test_a_failure_of_a_metric_without_bounds_rules_nothing_out(write) -> None:
    """It may have cost anything: the bound is unknown, and a margin not shown."""
    old, new = write("old", odd=[5.0, 6.0] * 40), write("new", odd=[7.0, 8.0] * 39 + [7.0, None])
    (gate,) = ragstone.compare([old, new]).check_regression(margin=1).gates
    assert ("not shown", None, 1) == (gate.state, gate.low, gate.n_failed)
    (whole,) = (
        ragstone.compare([old, write("whole", odd=[7.0, 8.0] * 39 + [7.0, 9.0])]).check_regression(margin=1).gates
    )
    assert whole.ok


def test_samples_that_dropped_out_are_told(write) -> None:
    """A candidate that makes no claim where it was wrong is not better there; the message says on how many it did so."""
    old, new = write("old", qr=[0.5] * 40 + ["n.a."] * 2), write("new", qr=[0.6] * 30 + ["n.a."] * 12)
    check = ragstone.compare([old, new]).check_regression()
    assert (0, 10) == (check.gates[0].n_failed, check.gates[0].n_not_applicable)
    assert "the gain excludes 10 samples with a score of old, to which the metric is not applicable for new." in str(
        check
    )
    assert "not applicable" not in str(ragstone.compare([new, old]).check_regression())


def test_every_candidate_faces_the_baseline(write) -> None:
    """Each against the one that is named, or the first."""
    files = [write(name, qr=noisy(shift, i)) for i, (name, shift) in enumerate((("a", 0), ("b", -0.05), ("c", 0.05)))]
    first = ragstone.compare(files).check_regression()
    named = ragstone.compare(files, baseline="c").check_regression()
    given = ragstone.compare(files).check_regression(baseline="b")

    assert [("b", False), ("c", True)] == [(g.candidate, g.ok) for g in first.gates]
    assert [("a", False), ("b", False)] == [(g.candidate, g.ok) for g in named.gates]
    assert [("a", True), ("c", True)] == [(g.candidate, g.ok) for g in given.gates]
    json.dumps(first.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 0.0}, "margin must be a finite number above 0"),
        ({"margin": math.nan}, "margin must be a finite number"),
        ({"margin": 2}, r"margin must be below the range of ccrs\.qr, which is 1, got 2"),
        ({"confidence_level": 0.5}, r"must be above 0\.5 and below 1"),
        ({"metrics": "bleu"}, "no system has outcomes of 'bleu'"),
        ({"metrics": []}, "metrics is empty. Name at least one metric"),
    ],
)
def test_options_out_of_range_are_refused(write, options: dict[str, object], message: str) -> None:
    """A gate that cannot be what was meant is no gate."""
    old, new = write("old", qr=noisy(0, 0)), write("new", qr=noisy(0, 1))
    with pytest.raises(ConfigurationError, match=message):
        ragstone.assert_no_regression(old, new, **options)
    with pytest.raises(
        ConfigurationError, match="a source must be an Experiment, a file of outcomes or a store, got list"
    ):
        ragstone.assert_no_regression([], new)
    with pytest.raises(ConfigurationError, match=r"unknown metric 'ccrs\.cc' for the gate. Compared: ccrs\.qr"):
        ragstone.compare([old, new]).check_regression("ccrs.cc")
    with pytest.raises(ConfigurationError, match="unknown baseline 'x'"):
        ragstone.compare([old, new]).check_regression(baseline="x")


class TestEquivalence:
    """Neither a loss nor a gain of the margin."""

    def test_both_limits_decide(self, write) -> None:
        """The limits are those of both directions, so that order and sign of the systems do not matter."""
        old, new = write("old", qr=noisy(0, 0, n=400)), write("new", qr=noisy(0.02, 1, n=400))
        comparison = ragstone.compare({"old": old, "new": new})
        (gate,) = comparison.check_equivalence(0.05).gates
        (loss,) = comparison.check_regression(margin=0.05).gates
        (back,) = comparison.check_equivalence(0.05, baseline="new").gates
        assert (loss.low, "ok") == (gate.low, gate.state)
        assert (-gate.high, -gate.low) == pytest.approx((back.low, back.high))
        assert gate.low < gate.gain < gate.high
        assert [True, False] == [comparison.check_equivalence(m).ok for m in (gate.high + 1e-6, gate.high)]
        assert comparison.check_regression(margin=gate.high).ok, "a gain is not a loss"
        assert loss.high is None

    def test_the_text_names_both_limits(self, write) -> None:
        """And the rule."""
        old, new = write("old", qr=noisy(0, 0, n=400)), write("new", qr=noisy(0.02, 1, n=400))
        check = ragstone.compare([old, new]).check_equivalence(0.05)
        assert str(check).startswith("baseline old: equivalent on all metrics\n")
        assert "differs by less than 5 points" in str(check)
        assert "at most" in str(check)
        wide = ragstone.compare([old, new]).check_equivalence(0.02)
        assert "NOT SHOWN: the difference may be 2 points or more" in str(wide)
        assert wide.to_dict()["equivalence"]

    def test_failed_samples_count_with_their_best_scores_too(self, write) -> None:
        """A candidate that failed may also be better than it seems."""
        old, new = write("old", qr=[0.5] * 400), write("new", qr=[0.5] * 360 + [None] * 40)
        (gate,) = ragstone.compare([old, new]).check_equivalence(0.04).gates
        assert ("not shown", pytest.approx(-gate.low)) == (gate.state, gate.high)
        assert gate.high > 0.05

    def test_a_high_score_is_a_loss_if_lower_is_better(self, write, monkeypatch: pytest.MonkeyPatch) -> None:
        """The gain keeps its meaning, and so do its limits."""
        from dataclasses import replace

        from ragstone.experiments import _cards

        old, new = write("old", qr=noisy(0, 0, n=400)), write("new", qr=noisy(0.02, 1, n=400))
        (higher,) = ragstone.compare([old, new]).check_equivalence(0.05).gates
        known = _cards.card_of
        monkeypatch.setattr(_cards, "card_of", lambda name: replace(known(name), direction="lower"))
        (lower,) = ragstone.compare([old, new]).check_equivalence(0.05).gates
        assert (-higher.high, -higher.low) == pytest.approx((lower.low, lower.high))


def test_nothing_of_a_test_framework_is_needed() -> None:
    """It raises what `assert` does, and works in any test runner."""
    import subprocess
    import sys

    code = "import sys, ragstone; ragstone.assert_no_regression; sys.exit('pytest' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode


def test_notes_are_printed_once(tmp_path) -> None:
    """The gate below a comparison does not repeat its notes, but has them alone."""
    rows = [{"id": f"q{i}", "query": "Why?", "contexts": ["Rain."], "response": "Rain."} for i in range(4)]
    files = [tmp_path / f"{name}.jsonl" for name in ("old", "new")]
    for file in files:
        ragstone.evaluate(rows, ["ccrs.qr"], judge="lexical", output=file)
    note = "which is not a judge"
    found = CliRunner().invoke(app, ["compare", *map(str, files), "--margin", "0.2"])
    assert 1 == " ".join(found.output.split()).count(note)
    assert note in str(ragstone.compare(files).check_regression(margin=0.2))


def test_the_worst_gain_is_weighted(write) -> None:
    """A failed sample that stands for four counts four times."""
    old, new = write("old", qr=[0.5] * 4), write("new", qr=[0.5] * 3 + [None])
    for path in (old, new):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines = [line | {"inclusion_probability": 0.25 if line["sample_id"] == "q3" else 1.0} for line in lines]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (gate,) = ragstone.compare([old, new]).check_regression().gates
    assert -0.5 * 4 / 7 == pytest.approx(gate.worst)


def test_the_confidence_level_decides(write) -> None:
    """Five samples that all lose have a p-value of 1 / 32. The gate of a comparison has its level."""
    old, new = write("old", qr=[0.9] * 5), write("new", qr=[0.1] * 5)
    with pytest.raises(AssertionError, match="WORSE"):
        ragstone.assert_no_regression(old, new)
    ragstone.assert_no_regression(old, new, confidence_level=0.99)
    checks = [ragstone.compare([old, new], confidence_level=level).check_regression() for level in (0.95, 0.99)]
    assert [(0.95, False), (0.99, True)] == [(check.confidence_level, check.ok) for check in checks]


def test_other_judges_are_compared_only_if_that_is_asked_for(write) -> None:
    """As in `compare`."""
    old, new = write("old", qr=noisy(0, 0)), write("new", qr=noisy(0, 1))
    new.write_text(new.read_text().replace('"judge_hash":"h"', '"judge_hash":"g"'))
    with pytest.raises(ConfigurationError, match="a judge with different settings"):
        ragstone.assert_no_regression(old, new)
    ragstone.assert_no_regression(old, new, allow_different_judges=True)
