"""The verdict as it is printed: what can be claimed comes first, and much of it is grouped."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import ragstone
from ragstone.experiments import Experiment
from ragstone.judges import JudgeIdentity
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, Score, Usage

N = 40
BASE = np.random.default_rng(0).uniform(0.3, 0.6, N)


def system(shifts: Mapping[str, float], *, seed: int, failed: int = 0) -> Experiment:
    """A system that is better by so much on these metrics; a shift of 9 scores 0.5 everywhere."""
    rng = np.random.default_rng(seed)
    cards, outcomes = [], []
    for metric, shift in shifts.items():
        cards.append(
            MetricCard(
                name=metric, title="T", description="D", low=0.0, high=1.0, needs=(), version="1", source="here",
                group="own", judge_calls=0, direction="lower" if metric.startswith("harm") else "higher",
            )
        )  # fmt: skip
        values = [0.5] * N if shift == 9 else (BASE + shift + rng.normal(0, 0.05, N)).tolist()
        for at, value in enumerate(values):
            common = {"sample_id": f"q{at}", "metric": metric, "metric_version": "1"}
            if at < failed and shift == 9:
                outcomes.append(Failure(kind="timeout", reason="late", **common))
            else:
                outcomes.append(Score(value=value, method="x", **common))
    return Experiment(
        samples=(),
        outcomes=tuple(outcomes),
        cards=tuple(cards),
        judge=JudgeIdentity(name="j", hash="h"),
        usage=Usage(),
        wall_s=0.0,
    )


def metrics(*, better: int = 0, same: int = 0, alike: int = 0, harm: int = 0) -> dict[str, float]:
    """Shifts of as many metrics of each kind."""
    return (
        {f"same{i}": 0.0 for i in range(same)}
        | {f"alike{i}": 9.0 for i in range(alike)}
        | {f"better{i}": 0.2 for i in range(better)}
        | {f"harm{i}": -0.2 for i in range(harm)}
    )


def printed(*systems: Experiment, **options: bool) -> list[str]:
    """The printed verdict, without the tables."""
    result = ragstone.compare(dict(zip("ABCDEF", systems, strict=False)), n_permutations=500, **options)
    return str(result).split("\n\nmethod: ")[0].splitlines()


def test_claims_come_first() -> None:
    """What differs is told before what does not, whatever the order of the metrics."""
    kinds = metrics(same=2, alike=1, better=1)
    result = ragstone.compare(
        {"A": system(dict.fromkeys(kinds, 0.0) | {"alike0": 9}, seed=1), "B": system(kinds, seed=2)}
    )
    assert ["beats", "no significant", "no significant", "(identical"] == [
        next(words for words in ("beats", "(identical", "no significant") if words in sentence)
        for sentence in result.verdict
    ]
    assert list(result.verdict) == str(result).splitlines()[:4]


def test_many_results_are_grouped_by_systems() -> None:
    """Fourteen metrics are no fourteen sentences; claims keep their sizes, and less-is-better is said."""
    kinds = metrics(same=6, alike=3, better=4, harm=1)
    lines = printed(system(dict.fromkeys(kinds, 0.0) | metrics(alike=3), seed=1), system(kinds, seed=2))
    assert "B beats A on 5 of 14 metrics:" == lines[0]
    assert ["better0", "better1", "better2", "better3", "harm0"] == [line.split()[0] for line in lines[1:6]]
    assert all(" by 1" in line or " by 2" in line for line in lines[1:6])
    assert all("[" in line for line in lines[1:6])
    assert "harm0 (lower is better)  by" in lines[5]
    assert "  B and A: same0, same1, same2, same3, same4, same5" in lines
    assert [
        "no significant difference (identical scores on all samples):",
        "  B and A: alike0, alike1, alike2",
    ] == lines[-2:]


def test_a_missing_correction_is_stated() -> None:
    """Only if it is missing, and there are several metrics."""
    kinds = metrics(same=14)
    pair = system(kinds, seed=1), system(kinds, seed=2)
    assert any("not corrected for 14 metrics" in line for line in printed(*pair, across_metrics=False))
    assert not any("not corrected" in line for line in printed(*pair))
    kinds = metrics(same=2)
    (note,) = [
        line
        for line in printed(system(kinds, seed=1), system(kinds, seed=2), across_metrics=False)
        if "(not corr" in line
    ]
    assert note == (
        "(not corrected for 2 metrics: without any real difference, each of them shows a significant difference with a "
        "probability of up to 5%)"
    )
    one = metrics(same=1)
    alone = printed(system(one, seed=1), system(one, seed=2), across_metrics=False)
    assert not any("not corrected" in line for line in alone)


def test_nothing_to_claim_is_said_first() -> None:
    """Of many metrics none of which differs."""
    kinds = metrics(same=14)
    assert "no significant difference on any of 14 metrics" == printed(system(kinds, seed=1), system(kinds, seed=1))[0]


def test_several_systems() -> None:
    """The one with most claims is first; what holds for all pairs is told once, long lists as a number."""
    kinds = metrics(same=3, better=11)
    plain = dict.fromkeys(kinds, 0.0)
    lines = printed(*(system(plain, seed=seed) for seed in (1, 2)), system(kinds, seed=3))
    names = ", ".join(f"better{i}" for i in range(11))
    assert [f"C beats A on 11 of 14 metrics: {names}", f"C beats B on 11 of 14 metrics: {names}"] == [
        line for line in lines if "beats" in line
    ]
    assert "  all pairs: same0, same1, same2" in lines
    assert "  B and A: 11 metrics" in lines or f"  B and A: {names}" in lines
    more = printed(*(system(plain, seed=seed) for seed in (1, 2)), *(system(kinds, seed=seed) for seed in (3, 4)))
    assert f"C beats A on 11 of 14 metrics: {names}" in more
    assert "(sizes and intervals: see the table of differences)" in more


def test_the_verdict_has_at_most_twenty_lines() -> None:
    """Six systems of which each beats some others, on metrics of three kinds: the rest is counted."""
    kinds = metrics(same=2, better=3)
    systems = [system(kinds | {f"better{i}": 0.05 * step for i in range(3)}, seed=step) for step in range(6)]
    lines = printed(*systems)
    assert sum(" beats " in line for line in lines) >= 10
    assert len(lines) <= 20
    few = printed(*systems[:2])
    assert "B beats A on 3 of 5 metrics" not in few, "few results are sentences with sizes"
    nine = {f"s{step}": system(kinds | {f"better{i}": 0.03 * step for i in range(3)}, seed=step) for step in range(9)}
    many = str(ragstone.compare(nine, n_permutations=200)).split("\n\nmethod: ")[0].splitlines()
    assert len(many) == 20
    assert "more lines: see the table of differences" in many[-1]


def test_grouping_keeps_the_doubt_about_failed_samples() -> None:
    """Metrics that failed samples could undo are not among those that are alike without a doubt."""
    kinds = metrics(same=11, alike=2)
    lines = printed(system(kinds, seed=1), system(kinds, seed=2, failed=4))
    assert "alike0 (but 4 samples failed: depending on their scores, the difference lies in [-5, 5])" in lines[-1]


@pytest.mark.parametrize(("p", "told"), [(0.0321, "p = 0.032"), (1e-9, "p < 0.0001")])
def test_a_p_value_behind_its_letter(p: float, told: str) -> None:
    """No "p = < 0.0001"."""
    from ragstone.experiments._compare.text import format_p_value

    assert told == f"p {format_p_value(p)}"


def test_the_table_tells_how_many_more_samples_are_wanted() -> None:
    """For what is undecided only."""
    kinds = metrics(same=1, better=1)
    result = ragstone.compare({"A": system(dict.fromkeys(kinds, 0.0), seed=1), "B": system(kinds, seed=2)})
    rows = result.details().split("more samples\n")[1].splitlines()
    same, better = rows[1:3]
    assert same.startswith("same0")
    assert same.endswith(" to detect 1 point")
    assert better.endswith(str(N))


def test_who_can_claim_most_is_told_first() -> None:
    """Whatever the order of the systems."""
    kinds = metrics(same=2, better=12)
    some = kinds | {f"better{i}": 0.0 for i in range(6)}
    lines = printed(system(dict.fromkeys(kinds, 0.0), seed=1), system(some, seed=2), system(kinds, seed=3))
    assert ["C", "C", "B"] == [line[0] for line in lines if " beats " in line]


def test_a_turned_pair_is_the_difference_of_the_other_system() -> None:
    """All numbers change their sign or place, and twice turned it is the same pair."""
    rows = [
        {"id": f"{i}", "query": "Why?", "contexts": ["Rain."], "response": "Rain." if i < 9 else "Sun."}
        for i in range(12)
    ]
    dry = [row | {"response": "Sun." if i else "Rain."} for i, row in enumerate(rows)]
    systems = {
        "a": ragstone.evaluate(rows, ["ccrs.cc"], judge="lexical"),
        "b": ragstone.evaluate(dry, ["ccrs.cc"], judge="lexical"),
    }
    (pair,) = ragstone.compare(systems).metrics[0].pairs
    turned = pair.turned()
    assert pair.n_higher != pair.n_lower
    assert (pair.other, pair.system, pair.n_lower, pair.n_higher) == (
        turned.system,
        turned.other,
        turned.n_higher,
        turned.n_lower,
    )
    assert (-pair.difference, -pair.high, -pair.low) == (turned.difference, turned.low, turned.high)
    assert pair == turned.turned()


def test_all_pairs_are_not_said_of_two_of_three() -> None:
    """A system without a score leaves one pair that can be compared."""
    kinds = metrics(same=14)
    lost = system(dict.fromkeys(kinds, 9.0), seed=3, failed=N)
    lines = printed(system(kinds, seed=1), system(kinds, seed=2), lost)
    assert "not comparable, no sample has a score of both:" in lines
    assert "  C and A; C and B: 14 metrics" in lines
    assert not any("all pairs" in line for line in lines)
