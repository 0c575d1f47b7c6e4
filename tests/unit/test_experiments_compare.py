"""`compare`: what is claimed, what is not, and in which words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import ragstone
from ragstone.errors import ConfigurationError
from ragstone.experiments import Experiment
from ragstone.judges import JudgeIdentity
from ragstone.metrics import MetricCard, resolve_metrics
from ragstone.schema import Failure, NotApplicable, Score, Usage
from ragstone.stats import holm

Value = float | str | None
"""A score, "n.a.", or None for a failure."""


def card(name: str, **options: object) -> MetricCard:
    """A metric of the caller's own."""
    shape: dict[str, object] = {"title": "T", "description": "D", "low": 0.0, "high": 1.0, "needs": (), "version": "1"}
    return MetricCard(**{"name": name, "source": "here", "group": "own", "judge_calls": 0, **shape, **options})


QR, CC, BAD, OPEN = "ccrs.qr", "ccrs.cc", "own.harm", "own.density"
CARDS = {m.card.name: m.card for m in resolve_metrics([QR, CC])} | {
    BAD: card(BAD, direction="lower"),
    OPEN: card(OPEN, high=math.inf),
}


def system(values: Mapping[str, Sequence[Value]], *, first: int = 0) -> Experiment:
    """A system with these values for samples `first`, `first` + 1, ..."""
    outcomes = []
    for metric, of in values.items():
        for at, value in enumerate(of, start=first):
            common = {
                "sample_id": f"q{at}",
                "metric": metric,
                "metric_version": "1",
                "judge": "j",
                "judge_hash": "h",
            }
            if value is None:
                outcomes.append(Failure(kind="timeout", reason="late", **common))
            elif isinstance(value, str):
                outcomes.append(NotApplicable(reason="no", **common))
            else:
                outcomes.append(Score(value=value, method="x", **common))
    return Experiment(
        samples=(),
        outcomes=tuple(outcomes),
        cards=tuple(CARDS[metric] for metric in values),
        judge=JudgeIdentity(name="j", hash="h"),
        usage=Usage(),
        wall_s=0.0,
    )


def noisy(shift: float, *, n: int = 80, spread: float = 0.1, seed: int = 0) -> list[float]:
    """Scores around those of the samples, which all systems share."""
    base = np.random.default_rng(99).uniform(0.3, 0.6, n)
    return np.clip(base + shift + np.random.default_rng(seed).normal(0, spread, n), 0, 1).tolist()


def test_a_difference_is_claimed_with_its_size_and_interval() -> None:
    """The verdict is one sentence that needs no statistics, and its numbers are those of the pair."""
    result = ragstone.compare({"A": system({QR: noisy(0)}), "B": system({QR: noisy(0.1, seed=1)})})
    (pair,) = result.metrics[0].pairs

    assert ("B", "A", "B", 80) == (pair.system, pair.other, pair.better, pair.n)
    assert 0.0001 >= pair.p_value
    numbers = [f"{100 * x:.1f}" for x in (pair.difference, pair.low, pair.high)]
    assert (f"B beats A on ccrs.qr by {numbers[0]} points [{numbers[1]}, {numbers[2]}]",) == result.verdict
    assert "discriminative power" not in result.details(), "of one pair it is 0 or 1"
    assert np.mean(noisy(0.1, seed=1)) - np.mean(noisy(0)) == pytest.approx(pair.difference)


def test_no_difference_says_what_more_samples_would_show() -> None:
    """Neither a difference nor its absence is claimed; the number of samples is that of a paired t-test, nearly."""
    result = ragstone.compare({"A": system({QR: noisy(0)}), "B": system({QR: noisy(0, seed=1)})}, min_effect=0.02)
    (pair,) = result.metrics[0].pairs
    sd = np.std(np.subtract(noisy(0), noisy(0, seed=1)), ddof=1)

    assert pair.better is None
    # 1.960 + 0.842: quantiles of the normal distribution for a level of 95 % and a power of 80 %.
    assert (2.802 * sd / 0.02) ** 2 == pytest.approx(80 + pair.n_more, rel=0.05)
    # At as many samples as there are, the detectable difference takes no more.
    again = ragstone.compare(
        {"A": system({QR: noisy(0)}), "B": system({QR: noisy(0, seed=1)})}, min_effect=pair.detectable
    )
    assert 0 == again.metrics[0].pairs[0].n_more
    (sentence,) = result.verdict
    assert sentence.startswith("Question relevance (ccrs.qr): no significant difference between B and A (")
    unit = 10 ** (len(str(pair.n_more)) - 2)
    assert sentence.endswith(
        f"About {math.ceil(pair.n_more / unit) * unit} more samples would detect a difference of 2 points."
    )


def test_less_is_better_where_the_metric_says_so() -> None:
    """The system with the lower mean wins, and the sentence says how to read it."""
    result = ragstone.compare({"A": system({BAD: noisy(0.1)}), "B": system({BAD: noisy(0, seed=1)})})
    (pair,) = result.metrics[0].pairs

    assert ("B", True) == (pair.better, pair.difference < 0 and pair.high < 0)
    assert result.verdict[0].startswith("B beats A on own.harm (lower is better) by 1")


def test_metrics_without_a_bound_are_told_in_their_own_units() -> None:
    """No points, and no number of samples where no one said which difference matters."""
    slow, fast = ([x * 40 for x in noisy(shift, seed=seed)] for shift, seed in ((0, 0), (0.02, 1)))
    one = ragstone.compare({"A": system({OPEN: slow}), "B": system({OPEN: fast})})
    two = ragstone.compare({"A": system({OPEN: slow}), "B": system({OPEN: fast})}, min_effect=0.5)

    assert (None, None) == (one.metrics[0].min_effect, one.metrics[0].pairs[0].n_more)
    assert "point" not in one.verdict[0]
    assert "more samples would detect a difference of 0.5." in two.verdict[0]
    json.dumps(one.to_dict(), allow_nan=False)
    three = {
        name: system({OPEN: [x * 40 for x in noisy(0, spread=s, seed=i)]})
        for i, (name, s) in enumerate(zip("ABC", (0.01, 0.02, 0.1), strict=True))
    }
    (metric,) = ragstone.compare(three).metrics
    assert [None] * 3 == [pair.better for pair in metric.pairs]
    largest = max(pair.detectable for pair in metric.pairs)
    assert ragstone.compare(three).verdict[0].endswith(f"These samples detect a difference of {largest:.4g}.")


def test_a_difference_that_matters_can_be_ruled_out() -> None:
    """An interval inside plus and minus the difference that matters is a claim of its own."""
    close = ragstone.compare(
        {"A": system({QR: noisy(0, spread=0.002)}), "B": system({QR: noisy(0, spread=0.002, seed=1)})}
    )
    assert close.verdict[0].startswith("B and A are within 1 point of each other on ccrs.qr: ")
    # A difference that is as large as the one that matters is not ruled out by an interval that ends there.
    (pair,) = close.metrics[0].pairs
    edge = max(-pair.low, pair.high)
    sources = {"A": system({QR: noisy(0, spread=0.002)}), "B": system({QR: noisy(0, spread=0.002, seed=1)})}
    assert [False, True] == [
        "are within" in ragstone.compare(sources, min_effect=effect).verdict[0] for effect in (edge, edge + 1e-9)
    ]
    # Of a difference of which only one side is ruled out, nothing is said but what would decide.
    open_ = ragstone.compare({"A": system({QR: noisy(0)}), "B": system({QR: noisy(0.02, seed=1)})}, min_effect=0.03)
    (pair,) = open_.metrics[0].pairs
    assert -0.03 < pair.low < 0.03 < pair.high
    assert open_.verdict[0].startswith("Question relevance (ccrs.qr): no significant difference")


@pytest.mark.parametrize("n", [1, 2, 30])
def test_identical_systems_score_alike(n: int) -> None:
    """Nothing is claimed, and it is said that not one sample differs."""
    result = ragstone.compare({"A": system({QR: noisy(0, n=n)}), "B": system({QR: noisy(0, n=n)})})

    assert (None, 0.0, 1.0) == tuple(
        getattr(result.metrics[0].pairs[0], name) for name in ("better", "difference", "p_value")
    )
    alike = "the one sample they share" if n == 1 else f"all {n} samples"
    name = "Question relevance (ccrs.qr)"
    assert (f"{name}: no significant difference between B and A (identical scores on {alike})",) == result.verdict
    assert str(result).startswith(result.verdict[0])


@pytest.mark.parametrize("n", [1, 2, 4])
def test_too_few_samples_claim_nothing(n: int) -> None:
    """Four samples that all differ one way could have come by luck once in eight: no interval, and no claim."""
    result = ragstone.compare({"A": system({QR: [0.1] * n}), "B": system({QR: [0.9] * n})})
    (pair,) = result.metrics[0].pairs

    assert (None, None, None, None) == (pair.better, pair.low, pair.detectable, pair.n_more)
    assert result.verdict[0].endswith(f"(+80 points). Too few samples differ for a test ({n} of {n}).")


def test_a_p_value_equal_to_the_limit_is_significant() -> None:
    """Five samples that all differ one way have a p-value of 2 / 32, which is 1 - 0.9375."""
    sources = {"A": system({QR: [0.1] * 5}), "B": system({QR: [0.9] * 5})}
    (pair,) = ragstone.compare(sources, confidence_level=0.9375).metrics[0].pairs
    assert (0.0625, "B") == (pair.p_value, pair.better)


def test_a_point_is_a_hundredth_of_the_range_of_the_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a metric from -1 to 1 the default difference of interest is 0.02."""
    monkeypatch.setitem(CARDS, BAD, card(BAD, low=-1.0))
    (metric,) = ragstone.compare({"A": system({BAD: noisy(0)}), "B": system({BAD: noisy(0, seed=1)})}).metrics
    assert pytest.approx(0.02) == metric.min_effect


@pytest.mark.parametrize(("n", "better"), [(5, None), (6, "B")])
def test_the_fewest_samples_that_can_show_a_difference_are_six(n: int, better: str | None) -> None:
    """Five that all differ one way are luck once in sixteen, six once in 32."""
    result = ragstone.compare({"A": system({QR: [0.1] * n}), "B": system({QR: [0.9] * n})})
    assert better == result.metrics[0].pairs[0].better


def test_several_pairs_are_told_by_who_wins() -> None:
    """One sentence for each winner, one for all pairs that are open."""
    shifts = {"bm25": 0, "e5": 0.1, "hybrid": 0.101}
    result = ragstone.compare({name: system({QR: noisy(s, seed=i)}) for i, (name, s) in enumerate(shifts.items())})
    told = result.verdict

    assert ["e5 beats bm25 on", "hybrid beats bm2", "Question relevan"] == [sentence[:16] for sentence in told]
    assert "no significant difference between hybrid and e5 (" in told[2]
    power = result.metrics[0].discriminative_power
    assert (2, 3, 2 / 3) == (power.n_significant, power.n_pairs, power.value)
    assert "2 of 3 pairs of systems differ significantly (discriminative power 0.667)" in result.details()


def test_a_winner_of_several_names_all() -> None:
    """Metric once, then each loser with its difference."""
    shifts = {"A": 0, "B": 0.01, "C": 0.2}
    result = ragstone.compare({name: system({QR: noisy(s, seed=i)}) for i, (name, s) in enumerate(shifts.items())})
    assert 1 == result.verdict[0].count("ccrs.qr")
    assert result.verdict[0].startswith("C beats A on ccrs.qr by ")
    assert "], and B by " in result.verdict[0]


def test_a_baseline_leaves_fewer_pairs_and_more_power() -> None:
    """The others are compared with it alone, and its pairs need less proof than among all."""
    sources = {name: system({QR: noisy(0.04 * i, seed=i)}) for i, name in enumerate("ABCDE")}
    every, few = ragstone.compare(sources), ragstone.compare(sources, baseline="A")

    assert [("B", "A"), ("C", "A"), ("D", "A"), ("E", "A")] == [(p.system, p.other) for p in few.metrics[0].pairs]
    assert few.metrics[0].discriminative_power is None
    wide = next(p for p in every.metrics[0].pairs if (p.system, p.other) == ("B", "A"))
    assert few.metrics[0].pairs[0].p_value < wide.p_value
    assert few.metrics[0].pairs[0].high < wide.high
    with pytest.raises(ConfigurationError, match=r"unknown baseline 'F'\. Systems: 'A', 'B'"):
        ragstone.compare(sources, baseline="F")


def test_all_metrics_are_corrected_together_by_default() -> None:
    """P-values are between those of each metric alone and Holm's, and `across_metrics=False` gives the former and says so."""
    shifts = {QR: 0.03, CC: 0.0, BAD: 0.06}
    sources = {
        "A": system({m: noisy(0, seed=5 * i) for i, m in enumerate(shifts)}),
        "B": system({m: noisy(s, seed=5 * i + 1) for i, (m, s) in enumerate(shifts.items())}),
    }
    plain, across = ragstone.compare(sources, across_metrics=False), ragstone.compare(sources)
    alone = [m.pairs[0].p_value for m in plain.metrics]
    for p, expected, found in zip(alone, holm(alone).adjusted, across.metrics, strict=True):
        assert p - 0.01 <= found.pairs[0].p_value <= expected + 0.02
    assert "not corrected for 3 metrics" in str(plain)
    assert "not corrected" not in str(across)
    assert (across.across_metrics, plain.across_metrics) == (True, False)
    for before, after in zip(plain.metrics, across.metrics, strict=True):
        assert after.pairs[0].high - after.pairs[0].low > 1.1 * (before.pairs[0].high - before.pairs[0].low)


def test_identical_metrics_cost_nothing_together() -> None:
    """The correction uses the correlation of the metrics: copies of one metric have its p-value, where Holm's is larger."""
    a, b = noisy(0), noisy(0.04, seed=1)
    one = ragstone.compare({"A": system({QR: a}), "B": system({QR: b})})
    both = ragstone.compare({"A": system({QR: a, CC: a, BAD: a}), "B": system({QR: b, CC: b, BAD: b})})
    assert 0.001 < one.metrics[0].pairs[0].p_value < 0.5
    for metric in both.metrics:
        assert metric.pairs[0].p_value == pytest.approx(one.metrics[0].pairs[0].p_value, abs=0.01)


def test_a_metric_leaves_the_family_only_if_all_its_pairs_differ() -> None:
    """One clear pair of a metric does not make it easier to claim something about the next."""
    clear = {"A": noisy(0), "B": noisy(0.001, seed=1), "C": noisy(0.3, seed=2)}
    weak = {"A": noisy(0, seed=3), "B": noisy(0, seed=4), "C": noisy(0.03, seed=5)}
    sources = {name: system({QR: clear[name], CC: weak[name]}) for name in clear}
    plain, across = ragstone.compare(sources, across_metrics=False), ragstone.compare(sources)
    assert across.metrics[1].pairs[1].p_value > 1.3 * plain.metrics[1].pairs[1].p_value
    # All three pairs of one metric claimed: the other is then alone.
    apart = {"A": noisy(0), "B": noisy(0.2, seed=1), "C": noisy(0.4, seed=2)}
    sources = {name: system({QR: apart[name], CC: weak[name]}) for name in clear}
    plain, across = ragstone.compare(sources, across_metrics=False), ragstone.compare(sources)
    assert [p.p_value for p in plain.metrics[1].pairs] == pytest.approx(
        [p.p_value for p in across.metrics[1].pairs], abs=0.02
    )


def test_a_primary_metric_is_tested_alone() -> None:
    """Its p-value is that of the metric alone, it comes first, and the others are exploratory."""
    sources = {
        "A": system({QR: noisy(0), CC: noisy(0, seed=2)}),
        "B": system({QR: noisy(0.2, seed=1), CC: noisy(0.2, seed=3)}),
    }
    result = ragstone.compare(sources, primary=CC)
    (alone,) = ragstone.compare(sources, metrics=[CC]).metrics
    assert [CC, QR] == [m.metric for m in result.metrics]
    assert result.metrics[0].pairs == alone.pairs
    assert [False, True] == [m.exploratory for m in result.metrics]
    assert (False, True) == (result.across_metrics, "intervals for all pairs of a metric" in result.method)
    assert result.verdict[0].startswith("B beats A on ccrs.cc")
    assert result.verdict[1].startswith("exploratory: B beats A on ccrs.qr")
    assert "exploratory, because ccrs.cc is the primary metric (not corrected for 1 metrics):" in str(result)
    with pytest.raises(ConfigurationError, match=r"unknown primary metric 'ccrs\.ir'\. Compared: ccrs\.qr, ccrs\.cc"):
        ragstone.compare(sources, primary="ccrs.ir")


def test_hypotheses_hold_if_all_their_claims_do() -> None:
    """The largest p-value counts, a claim in the wrong direction is none, and Holm corrects for their number."""
    sources = {
        "bm25": system({QR: noisy(0), BAD: noisy(0.2)}),
        "e5 > all": system({QR: noisy(0.1, seed=1), BAD: noisy(0, seed=1)}),
    }
    found = ragstone.compare(
        sources,
        hypotheses={
            "better": "e5 > all > bm25",
            "worse": ["bm25 > e5 > all on ccrs.qr"],
            "mixed": ["e5 > all > bm25 on ccrs.qr", "bm25 > e5 > all on own.harm"],
            "other": "bm25 != e5 > all on ccrs.qr,own.harm",
        },
    ).hypotheses

    assert [True, False, False, True] == [h.supported for h in found]
    assert [("e5 > all", "bm25", "ccrs.qr"), ("e5 > all", "bm25", "own.harm")] == [
        (c.system, c.other, c.metric) for c in found[0].claims
    ]
    assert [max(c.p_value for c in h.claims) for h in found] == [h.p_value for h in found]
    assert list(holm([h.p_value for h in found]).adjusted) == [h.adjusted for h in found]
    assert 0.99 < found[1].p_value


def test_a_claim_is_read_by_the_names_there_are() -> None:
    """A system may be called by a word of the language of claims."""
    sources = {"bm25": system({QR: noisy(0), CC: noisy(0)}), "e5 on on": system({QR: noisy(0.1), CC: noisy(0.1)})}
    found = ragstone.compare(sources, hypotheses=["bm25 > e5 on on", "bm25 > e5 on on on ccrs.cc"]).hypotheses
    assert [["ccrs.qr", "ccrs.cc"], ["ccrs.cc"]] == [[c.metric for c in h.claims] for h in found]


def test_the_confidence_level_decides_on_hypotheses() -> None:
    """Five samples that all differ one way support it at 95%, and not at 99%."""
    sources = {"A": system({QR: [0.1] * 5}), "B": system({QR: [0.9] * 5})}
    (usual,), (strict,) = (
        ragstone.compare(sources, hypotheses="B > A", confidence_level=level).hypotheses for level in (0.95, 0.99)
    )
    assert (1 / 32, True, False) == (strict.adjusted, usual.supported, strict.supported)


def test_an_untestable_claim_counts_as_refuted() -> None:
    """A metric without a common score has no p-value, and that must not make an AND easier."""
    sources = {"A": system({QR: noisy(0), CC: [0.5]}), "B": system({QR: noisy(0.2, seed=1), CC: [None]})}
    (found,) = ragstone.compare(sources, hypotheses=["B > A"]).hypotheses
    assert ([None], 1.0, False) == (
        [c.p_value for c in found.claims if c.metric == "ccrs.cc"], found.p_value, found.supported
    )  # fmt: skip


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        (["A > C"], r"'A > C' is not a hypothesis about these systems \('A', 'B'\)\. Write 'B > A'"),
        (["A < B"], "is not a hypothesis"),
        (["A > A"], "is not a hypothesis"),
        (["B > A on nope"], "unknown metric 'nope'"),
        ({"H": []}, "the hypothesis 'H' is empty"),
        (["B > A on some of "], "names no metric"),
    ],
)
def test_a_claim_that_cannot_be_read_is_refused(claims: object, message: str) -> None:
    """What is meant must not be guessed."""
    sources = {"A": system({QR: [0.1] * 9}), "B": system({QR: [0.2] * 9})}
    with pytest.raises(ConfigurationError, match=message):
        ragstone.compare(sources, hypotheses=claims)


def test_what_failed_is_counted_bounded_and_named_in_the_verdict() -> None:
    """Pairs are complete, and a claim that failed samples could undo says so."""
    few = {"A": system({QR: [0.2] * 30}), "B": system({QR: [0.6] * 29 + [None]})}
    many = {"A": system({QR: [0.2] * 30}), "B": system({QR: [0.6] * 10 + [None] * 19 + ["n.a."]})}
    one, two = ragstone.compare(few), ragstone.compare(many)
    (pair,) = two.metrics[0].pairs

    assert (10, 19) == (pair.n, pair.n_failed)
    # 10 samples gain 0.4; 19 gain between -0.2 and 0.8.
    assert ((4 - 3.8) / 29, (4 + 15.2) / 29) == pytest.approx(pair.bounds)
    assert "failed" not in one.verdict[0]
    assert "failed" not in two.verdict[0]
    worse = {"A": system({QR: [0.4] * 30}), "B": system({QR: [0.6] * 10 + [None] * 20})}
    assert (
        ragstone.compare(worse)
        .verdict[0]
        .endswith("(but 20 samples failed: depending on their scores, it lies in [-20, 46.7])")
    )
    turned = {"A": worse["B"], "B": worse["A"]}
    assert ragstone.compare(turned).verdict[0].endswith("it lies in [-20, 46.7])")


def test_failed_samples_put_likeness_in_doubt_too() -> None:
    """That systems score alike, or nearly so, is a claim as well, and what failed could undo it."""
    half = {"A": system({QR: [0.5] * 20}), "B": system({QR: [0.5] * 10 + [None] * 10})}
    (sentence,) = ragstone.compare(half).verdict
    assert sentence.startswith(
        "Question relevance (ccrs.qr): no significant difference between B and A (identical scores on all 10 samples)"
        " (but 10 samples failed: "
    )
    assert sentence.endswith("depending on their scores, the difference lies in [-25, 25])")
    base = noisy(0, spread=0.002)
    near = [*noisy(0, spread=0.002, seed=1)[:-9], *[None] * 9]
    (sentence,) = ragstone.compare({"A": system({QR: base}), "B": system({QR: near})}).verdict
    assert sentence.startswith("B and A are within 1 point of each other on ccrs.qr: ")
    assert "(but 9 samples failed: depending on their scores, it lies in [" in sentence
    # One failed sample of 80 moves the difference by less than a point.
    (sentence,) = ragstone.compare(
        {"A": system({QR: base}), "B": system({QR: [*near[:-9], *base[-9:-1], None]})}
    ).verdict
    assert sentence.startswith("B and A are within 1 point of each other")
    assert "failed" not in sentence
    # What failed can only have gained, because the other system has 0 there.
    zeros = [*base[:-9], *[0.0] * 9]
    (sentence,) = ragstone.compare({"A": system({QR: zeros}), "B": system({QR: near})}).verdict
    assert sentence.startswith("B and A are within 1 point of each other")
    assert "(but 9 samples failed: depending on their scores, it lies in [0" in sentence
    one = {"A": system({QR: [0.5] * 20}), "B": system({QR: [0.5] * 19 + [None]})}
    assert (
        ragstone.compare(one)
        .verdict[0]
        .endswith("(but 1 sample failed: depending on its score, the difference lies in [-2.5, 2.5])")
    )


def test_a_failure_without_an_upper_bound_leaves_equivalence_open() -> None:
    """It cannot have cost more than the range allows, and can have gained anything."""
    values = [5 + value for value in noisy(0)]
    comparison = ragstone.compare({"A": system({OPEN: values}), "B": system({OPEN: [*values[:-1], None]})})
    (loss,), (both,) = comparison.check_regression(margin=1).gates, comparison.check_equivalence(1).gates
    assert ("ok", "not shown", None) == (loss.state, both.state, both.high)


def test_a_failure_s_own_bounds_narrow_the_worst_case() -> None:
    """A context of which some passages are known cannot be anything."""
    half = system({QR: [0.5] * 8})
    named = [
        Failure(
            sample_id=f"q{i}",
            metric=QR,
            metric_version="1",
            judge="j",
            judge_hash="h",
            kind="timeout",
            reason="late",
            details={"bounds": [0.4, 0.7]},
        )
        for i in range(8)
    ]
    other = Experiment(
        samples=(), outcomes=tuple(named), cards=(CARDS[QR],), judge=half.judge, usage=Usage(), wall_s=0.0
    )  # fmt: skip
    (pair,) = ragstone.compare({"A": half, "B": other}).metrics[0].pairs
    assert (-0.1, 0.2) == pytest.approx(pair.bounds)


def test_the_result_is_the_same_whatever_the_order_of_the_rows_and_again() -> None:
    """Samples are matched by id; a seed gives one result."""
    values = {"A": noisy(0), "B": noisy(0.02, seed=1)}
    sources = {name: system({QR: of}) for name, of in values.items()}
    turned = system({QR: values["B"]})
    shuffled = Experiment(
        samples=(), outcomes=turned.outcomes[::-1], cards=(CARDS[QR],), judge=turned.judge, usage=Usage(), wall_s=0.0
    )
    first = ragstone.compare(sources, n_permutations=500)

    assert first == ragstone.compare(sources, n_permutations=500)
    assert first.metrics == ragstone.compare(sources | {"B": shuffled}, n_permutations=500).metrics
    assert first.metrics != ragstone.compare(sources, n_permutations=500, seed=1).metrics


@pytest.mark.parametrize(
    "options", [{"confidence_level": 1.0}, {"confidence_level": 0.0}, {"min_effect": 0.0}, {"min_effect": math.nan}]
)
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    """Before anything is computed."""
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        ragstone.compare({"A": system({QR: [0.1]}), "B": system({QR: [0.2]})}, **options)


def test_the_table_holds_means_with_intervals_and_denominators() -> None:
    """A bare mean never appears, and the method stands below."""
    result = ragstone.compare({"ältere": system({QR: [0.5, None, "n.a."]}), "新": system({QR: [0.25, 0.5, 0.5]})})
    lines = result.details().splitlines()

    assert any("(ccrs.qr)  ältere" in line and line.endswith("1 / 1 / 1") for line in lines)
    assert any("新 - ältere" in line and "-25 points" in line for line in lines)
    assert "seed 0" in str(result)
    assert "ältere" in json.dumps(result.to_dict(), allow_nan=False, ensure_ascii=False)


@pytest.mark.parametrize("turned", [False, True])
def test_what_a_later_step_claims_has_no_interval_across_0(turned: bool) -> None:
    """Its interval is made for all metrics at once, and would hold 0; "beats by 3.5 points [-0.1, 7]" is no sentence."""
    a = system({QR: noisy(0), CC: noisy(0, seed=5)})
    b = system({QR: noisy(0.2, seed=1), CC: noisy(0.01, seed=6)})
    result = ragstone.compare({"B": b, "A": a} if turned else {"A": a, "B": b}, across_metrics=True)
    sure, barely = (metric.pairs[0] for metric in result.metrics)

    assert ("B", "B") == (sure.better, barely.better)
    assert 0.025 < barely.p_value < 0.05
    assert 0.0 == (barely.high if turned else barely.low)
    assert "B beats A on ccrs.cc by 3.5 points [0.0, 7" in " ".join(result.verdict)
    assert 0.1 < abs(sure.high if turned else sure.low)


def test_some_metric_is_a_global_test_of_several() -> None:
    """Its p-value is the smallest of those adjusted for the metrics, not of those of each metric."""
    values = {QR: (noisy(0), noisy(0.035, seed=1)), CC: (noisy(0, seed=2), noisy(0, seed=3))}
    sources = {name: system({m: v[i] for m, v in values.items()}) for i, name in enumerate("AB")}
    terms = ["B != A on some metric", f"B != A on some of {QR}, {CC}", f"B != A on {QR}", "B > A on some metric"]
    comparison = ragstone.compare(sources, hypotheses={str(i): term for i, term in enumerate(terms)})
    every, named, alone, better = [h.p_value for h in comparison.hypotheses]

    assert min(metric.pairs[0].p_value for metric in comparison.metrics) == pytest.approx(every, rel=0.2)
    assert every == named
    assert 1.2 * alone < every < 2.4 * alone
    assert better < 0.7 * every
    assert f"some of {QR}, {CC}" == comparison.hypotheses[0].claims[0].metric
    assert 1 == len(comparison.hypotheses[0].claims)


def test_some_metric_uses_the_direction_of_each() -> None:
    """A lower score is better for one of them, and worse for the other."""
    values = {QR: (noisy(0), noisy(0, seed=1)), BAD: (noisy(0.2), noisy(0, seed=1))}
    sources = {name: system({m: v[i] for m, v in values.items()}) for i, name in enumerate("AB")}
    better, worse = ragstone.compare(sources, hypotheses=["B > A on some metric", "A > B on some metric"]).hypotheses
    assert (True, False) == (better.supported, worse.supported)


def test_pairs_of_which_one_is_stated_and_terms_that_all_are() -> None:
    """H3 of the CCRS paper: C over E or D over F, on some metric."""
    better = {"C": 0.0, "D": 0.2, "E": 0.0, "F": 0.0}
    sources = {
        name: system({QR: noisy(0, seed=seed), CC: noisy(shift, seed=seed + 10)})
        for seed, (name, shift) in enumerate(better.items())
    }
    result = ragstone.compare(
        sources,
        hypotheses={
            "H3": "C > E or D > F on some metric",
            "one metric": f"C > E or D > F on {CC}",
            "other metric": f"C > E or D > F on {QR}",
            "both": f"D > F on {CC} and D > E on {CC}",
            "not on all": f"D > F on {CC} and D > E",
            "not both": f"D > F on {CC} and C > E on {CC}",
            "alone": f"D > F on {CC}",
        },
    )
    found = {h.name: h for h in result.hypotheses}
    assert {"H3", "one metric", "both", "alone"} == {name for name, h in found.items() if h.supported}
    assert [1, 2] == [len(found[name].claims) for name in ("H3", "both")]
    (term,) = found["H3"].claims
    assert ("C or D", "E or F", f"some of {QR}, {CC}") == (term.system, term.other, term.metric)
    assert found["alone"].p_value <= found["one metric"].p_value <= found["H3"].p_value
    assert str(result).startswith("hypothesis H3: supported")


def test_names_with_and_and_or() -> None:
    """The longest text that is a name counts."""
    names = ("salt and pepper", "this or that", "that")
    sources = {
        name: system({QR: noisy(shift, seed=i)}) for i, (name, shift) in enumerate(zip(names, (0.2, 0, 0), strict=True))
    }
    texts = [
        "salt and pepper > this or that",
        "salt and pepper > that or salt and pepper > this or that and that != this or that",
    ]
    one, two = ragstone.compare(sources, hypotheses=texts).hypotheses
    assert (True, False) == (one.supported, two.supported)
    assert ["this or that", "that or this or that", "this or that"] == [c.other for h in (one, two) for c in h.claims]
    with pytest.raises(ConfigurationError, match="'that > salt' is not a hypothesis"):
        ragstone.compare(sources, hypotheses=["salt and pepper > that and that > salt"])
    with pytest.raises(ConfigurationError, match="joins '>' and '!=' by 'or'"):
        ragstone.compare(sources, hypotheses=["salt and pepper > that or that != this or that"])


@pytest.mark.slow
def test_one_of_two_pairs_is_rarely_supported_without_a_difference() -> None:
    """Four equal systems and two metrics: at most 5% of 400 experiments, with a standard error of 1.1 points."""
    n_supported = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        sources = {name: system({m: rng.integers(0, 5, 30) / 4 for m in (QR, CC)}) for name in "CDEF"}
        text = "C > E or D > F on some metric"
        (found,) = ragstone.compare(sources, hypotheses=text, n_permutations=200, seed=seed).hypotheses
        n_supported += found.supported
    assert 0.05 + 3 * 0.011 >= n_supported / 400


@pytest.mark.slow
def test_some_metric_is_rarely_supported_without_a_difference() -> None:
    """Three metrics, equal systems: at most 5% of 400 experiments, with a standard error of 1.1 points."""
    n_supported = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        sources = {
            name: system({m: rng.integers(0, 5, 30) / 4 for m in (QR, CC)} | {BAD: (rng.random(30) < 0.9) * 1.0})
            for name in "AB"
        }
        compared = ragstone.compare(sources, hypotheses="B != A on some metric", n_permutations=400, seed=seed)
        (found,) = compared.hypotheses
        n_supported += found.supported
    assert 0.05 + 3 * 0.011 >= n_supported / 400


PRECISION, RECALL, F1 = "precision@5", "recall@5", "f1@5"


@pytest.fixture
def ranked(monkeypatch) -> dict[str, dict[str, list[float]]]:
    """Scores of two systems on precision, recall and F1, of which the last one follows from the others."""
    for metric in resolve_metrics([PRECISION, RECALL, F1]):
        monkeypatch.setitem(CARDS, metric.card.name, metric.card)
    shares = {
        name: (noisy(shift, seed=at), noisy(shift * 0.6, seed=at + 7))
        for at, (name, shift) in enumerate({"A": 0.0, "B": 0.05}.items())
    }
    return {
        name: {PRECISION: p, RECALL: r, F1: [2 * x * y / (x + y) for x, y in zip(p, r, strict=True)]}
        for name, (p, r) in shares.items()
    }


def test_a_metric_that_follows_from_others_is_not_corrected_for(ranked) -> None:
    """F1 beside precision and recall is named and exploratory, and does not change their numbers."""
    both = {name: {m: values[m] for m in (PRECISION, RECALL)} for name, values in ranked.items()}
    without = ragstone.compare({name: system(values) for name, values in both.items()})
    result = ragstone.compare({name: system(values) for name, values in ranked.items()})
    precision, recall, f1 = result.metrics
    assert without.metrics == (precision, recall)
    assert (True, (PRECISION, RECALL)) == (f1.exploratory, f1.follows_from)
    alone = ragstone.compare({name: system({F1: values[F1]}) for name, values in ranked.items()}).metrics[0]
    assert (False, alone.pairs) == (alone.exploratory, f1.pairs)
    assert f"exploratory, because {F1} follows from {PRECISION} and {RECALL} (not corrected for 1 metrics):" in str(
        result
    )
    assert result.to_dict()["metrics"][2]["follows_from"] == [PRECISION, RECALL]


def test_f1_without_recall_is_a_metric_of_its_own(ranked) -> None:
    """If not all parts are compared, or the caller names a primary metric, nothing is left out of the correction."""
    two = {name: system({m: values[m] for m in (PRECISION, F1)}) for name, values in ranked.items()}
    assert not any(metric.exploratory for metric in ragstone.compare(two).metrics)
    all_ = {name: system(values) for name, values in ranked.items()}
    assert [False, True, True] == [m.exploratory for m in ragstone.compare(all_, primary=F1).metrics]
    assert not any(m.exploratory for m in ragstone.compare(all_, across_metrics=False).metrics)


def test_composites_name_their_parts() -> None:
    """A composite follows from the metrics that it weights."""
    from ragstone.metrics import Composite

    assert ("ccrs.cc", "ccrs.qr") == Composite(resolve_metrics(["ccrs.cc", "ccrs.qr"]), [2, 1]).card.follows_from
    (f1,) = resolve_metrics(["ragchecker.f1"])
    assert ("ragchecker.precision", "ragchecker.recall") == f1.card.follows_from


def test_a_metric_without_scores_takes_no_part() -> None:
    """It is named, and has no row. A gate still has it, because it cannot be passed without a score."""
    values = {"A": noisy(0), "B": noisy(0.02, seed=1)}
    alone = ragstone.compare({name: system({QR: of}) for name, of in values.items()})
    result = ragstone.compare({name: system({QR: of, CC: [None] * 40 + ["n.a."] * 40}) for name, of in values.items()})
    assert alone.metrics == result.metrics
    assert "not compared, because no system has a score: ccrs.cc" in result.notes
    assert not result.check_regression().ok
    # With a score of one system, what is missing is said of the pair.
    one = ragstone.compare(
        {"A": system({QR: values["A"], CC: [0.5] * 80}), "B": system({QR: values["B"], CC: [None] * 80})}
    )
    assert [QR, CC] == [metric.metric for metric in one.metrics]
