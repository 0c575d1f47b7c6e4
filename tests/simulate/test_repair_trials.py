"""Shares of `ragstone repair` for a planted application: the table of docs/how-to/repair.md."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np

from ragstone.experiments._repair.interventions import Case, assign
from ragstone.experiments._repair.shares import Answer, is_order_clear, leading, repair_shares
from ragstone.schema import Sample

RUNS = 1000
CASES = 200
CALLS = 5
LIMIT = 0.93 - 2 * math.sqrt(0.93 * 0.07 / RUNS)

MECHANISMS = {"distracted": 0.3, "buried": 0.15, "dropped": 0.1, "missed": 0.15, "model error": 0.3}
"""What makes answers wrong, and how often."""
CORRECTED = {
    "fewer_passages": {"distracted": 0.7, "buried": 0.02},
    "best_first": {"buried": 0.8, "distracted": 0.3},
    "relevant_only": {"distracted": 0.75, "buried": 0.75},
    "more_passages": {"missed": 0.5, "distracted": 0.05},
    "dropped_first": {"dropped": 0.8},
    "reference_passages": {"distracted": 0.85, "buried": 0.85, "dropped": 0.85, "missed": 0.85},
    "no_passages": {},
}
"""Probability of a right answer under an intervention, where it differs from that of a repeat."""
LABELED = Case(sample=Sample(id="q"), utilities={"good": 1.0, "bad": -1.0}, references=("good",))
UNLABELED = Case(sample=Sample(id="q"))
NEEDS_LABELS = {"best_first", "relevant_only", "reference_passages"}


def draw_case(rng: random.Random) -> tuple[str, float, bool]:
    """A request whose answer was wrong: its mechanism, the probability that a repeat is right, and if it has labels."""
    while True:
        luck = rng.betavariate(0.7, 2.0)
        if rng.random() >= luck:
            mechanism = rng.choices(list(MECHANISMS), list(MECHANISMS.values()))[0]
            # Distracted requests have labels more often, so that a mean over the assigned cases alone would be biased.
            return mechanism, luck, rng.random() < (0.9 if mechanism == "distracted" else 0.6)


def p_right(name: str, mechanism: str, luck: float) -> float:
    return CORRECTED.get(name, {}).get(mechanism, luck)


def true_shares() -> dict[str, float]:
    """The difference to a repeat, over all wrong answers that an intervention is possible for."""
    rng = random.Random(0)
    cases = [draw_case(rng) for _ in range(200_000)]
    return {
        name: float(
            np.mean([p_right(name, m, luck) - luck for m, luck, known in cases if known or name not in NEEDS_LABELS])
        )
        for name in CORRECTED
    }


def simulate(rng: random.Random) -> tuple[list, bool, int]:
    """One trial as `repair` makes it: two looks, and its end after the first if the order is clear."""
    drawn = [draw_case(rng) for _ in range(CASES)]
    cases = [LABELED if known else UNLABELED for _, _, known in drawn]
    asked: list[dict[str, Answer]] = []
    for start, end in ((0, CASES // 2), (CASES // 2, CASES)):
        for (mechanism, luck, _), names in zip(drawn[start:end], assign(cases[start:end], CALLS - 1, rng), strict=True):
            answers = {"control": Answer(rng.random() < luck, "unchanged")}
            for name, probability in names.items():
                answers[name] = Answer(rng.random() < p_right(name, mechanism, luck), "changed", probability)
            asked.append(answers)
        shares = repair_shares(asked, [1.0] * len(asked), 0.975)
        if end < CASES and is_order_clear(shares):
            return shares, True, sum(map(len, asked))
    return shares, False, sum(map(len, asked))


def two_of_three(rng: random.Random, name: str) -> float:
    """The share of 200 wrong answers that are right in two of three repeats under an intervention, without a control."""
    drawn = [draw_case(rng) for _ in range(CASES)]
    passed = sum(sum(rng.random() < p_right(name, m, luck) for _ in range(3)) >= 2 for m, luck, _ in drawn)
    return passed / CASES


def test_intervals_of_repairs_cover_and_the_best_is_named() -> None:
    """At least 93 in 100 for each share, and the best repair first in at least 90 in 100, with early ends."""
    truth = true_shares()
    best = max((name for name in truth if name not in ("reference_passages", "no_passages")), key=truth.__getitem__)
    covered, named, early, calls = Counter[str](), 0, 0, 0
    widths: dict[str, list[float]] = {name: [] for name in truth}
    for seed in range(RUNS):
        shares, stopped, n_calls = simulate(random.Random(seed))
        for share in shares:
            covered[share.name] += share.estimate.low <= truth[share.name] <= share.estimate.high
            widths[share.name].append((share.estimate.high - share.estimate.low) / 2)
        named += leading(shares).name == best
        early += stopped
        calls += n_calls
    rule = {name: np.mean([two_of_three(random.Random(seed), name) for seed in range(100)]) for name in truth}
    for name, value in truth.items():
        print(
            f"{name} | {100 * value:.1f} | {100 * covered[name] / RUNS:.1f} | {100 * np.mean(widths[name]):.0f} | "
            f"{100 * rule[name]:.1f}"
        )
    print(f"best named {100 * named / RUNS:.1f}, early {100 * early / RUNS:.1f}, calls {calls / RUNS:.0f}")
    assert min(covered.values()) / RUNS >= LIMIT
    assert named / RUNS >= 0.90


def test_an_application_that_no_repair_helps_is_rarely_said_to_be_helped() -> None:
    """Answers that are right by luck alone: the leading repair's interval excludes 0 seldom."""
    claimed = 0
    for seed in range(RUNS):
        rng = random.Random(seed)
        asked = []
        for names in assign([LABELED] * 60, 3, rng):
            luck = rng.betavariate(0.7, 2.0)
            asked.append({name: Answer(rng.random() < luck, "changed", 3 / 7) for name in names})
            asked[-1]["control"] = Answer(rng.random() < luck, "unchanged")
        estimate = leading(repair_shares(asked, [1.0] * 60, 0.975)).estimate
        claimed += estimate.low > 0
    print(f"falsely claimed: {100 * claimed / RUNS:.1f}")
    assert claimed / RUNS <= 0.08
