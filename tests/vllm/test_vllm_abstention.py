"""p(NO-RESPONSE) on a real vLLM server: exact against a forward pass, and the estimates against the exact."""

from __future__ import annotations

import asyncio
import math
import random

import pytest

from intervals import ends
from ragstone.judges import ChatReader, OpenAICompatibleModel
from ragstone.stats import wilson_interval

# Starting a server takes most of a minute on two quiet cores.
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

N_CASES = 320
CLOSE = 1e-4
"""Largest difference between two ways to the same probability in float32."""
OTHER_SPELLINGS = 1e-3
"""Largest probability of the phrase in other tokens than the usual ones, which only the reader counts. It depends on the
training: 0.0001 was measured."""
LEVEL = 0.95


def in_one_session(work, items, *, at_once=16):
    """Results of `work(item)` for all items, a few at a time, in one event loop."""

    async def session():
        slots = asyncio.Semaphore(at_once)

        async def one(item):
            async with slots:
                return await work(item)

        return await asyncio.gather(*map(one, items))

    return asyncio.run(session())


@pytest.fixture(scope="module")
def cases(ships):
    """Questions with one passage each, as many of each kind; half of the ships were never asked about in training."""
    rng = random.Random(20)
    kinds = [ships.KINDS[n % len(ships.KINDS)] for n in range(N_CASES)]
    return [ships.make_case(rng, [kind], held_out=n % 2 == 0) for n, kind in enumerate(kinds)]


@pytest.fixture(scope="module")
def model(reader_url):
    """The chat model behind the reader."""
    return OpenAICompatibleModel(reader_url)


@pytest.fixture(scope="module")
def readings(model, ships, cases):
    """What a reader with the given options says about the cases, asked once for each set of options."""
    known = {}

    def read(estimator, **options):
        key = (estimator, *options.items())
        if key not in known:
            reader = ChatReader(model, estimator=estimator, **ships.READER, **options)
            known[key] = in_one_session(lambda case: reader.estimate_abstention(case.question, case.passages), cases)
        return known[key]

    return read


@pytest.fixture(scope="module")
def truth(ships, cases, forward_probability):
    """(starts with, is exactly) for each case, by transformers."""
    return [forward_probability(case.messages, ships.PHRASE) for case in cases]


def test_exact_is_what_transformers_says(readings, truth, record_property):
    """Both events, "starts with the phrase" and "is the phrase and nothing else", agree with a plain forward pass."""
    found = readings("exact_sequence")
    assert {"exact_sequence"} == {reading.method for reading in found}
    starts = max(abs(reading.value - p) for reading, (p, _) in zip(found, truth, strict=True))
    whole = max(abs(reading.complete - p) for reading, (_, p) in zip(found, truth, strict=True))
    record_property("exact_cases", len(found))
    record_property("exact_max_difference_starts_with", starts)
    record_property("exact_max_difference_is_exactly", whole)
    print(f"{len(found)} passages: max |difference| {starts:.2g} (starts with), {whole:.2g} (is exactly)")
    assert len(found) >= 200
    assert starts <= OTHER_SPELLINGS
    assert whole <= OTHER_SPELLINGS
    # A reader that always or never abstains would pass the lines above with any error in them.
    assert sum(0.1 < p < 0.9 for p, _ in truth) >= 60


def test_both_routes_agree_with_transformers(model, ships, cases, truth, record_property):
    """The chain of token-id prompts and the echoed completion give the forward pass's probabilities, end of turn included."""
    some, expected = cases[:220], truth[:220]
    for route, read in (("chain", model.reply_logprobs), ("echo", model.echoed)):
        found = in_one_session(lambda case, read=read: read(case.messages, ships.PHRASE), some)

        starts = [math.exp(sum(reading.logprobs)) for reading in found]
        whole = [math.exp(sum(reading.logprobs) + reading.end_logprob) for reading in found]
        worst = max(
            max(abs(one - p), abs(other - q)) for one, other, (p, q) in zip(starts, whole, expected, strict=True)
        )
        record_property(f"{route}_max_difference", worst)
        print(f"{route}: {len(found)} prompts, max |difference| {worst:.2g}")
        assert worst <= CLOSE, route


def test_the_reader_learned_its_world(ships, cases, readings):
    """The more a passage convinces, the less the reader abstains: the prompts reach the model with their material."""
    mean = {
        kind: sum(r.value for r, case in zip(readings("exact_sequence"), cases, strict=True) if case.kinds == (kind,))
        / sum(case.kinds == (kind,) for case in cases)
        for kind in ships.KINDS
    }
    print({kind: round(value, 3) for kind, value in mean.items()})
    assert mean["gold"] < mean["hard"] < mean["weak"] < mean["unrelated"]
    assert mean["gold"] < 0.2
    assert mean["unrelated"] > 0.9


def coverage(found, exact):
    """Share of intervals that hold the exact value."""
    inside = [r.interval.low <= e.value <= r.interval.high for r, e in zip(found, exact, strict=True)]
    return sum(inside) / len(inside)


def expected_wilson_coverage(p, n):
    """Probability that Wilson's interval of n draws holds p."""
    from scipy.stats import binom

    total = 0.0
    for k in range(n + 1):
        low, high = ends(wilson_interval(k, n, confidence_level=LEVEL))
        if low <= p <= high:
            total += float(binom.pmf(k, n, p))
    return total


def test_wilson_intervals_of_twenty_draws_cover(readings, record_property):
    """They hold the exact value as often as Wilson's interval does for these probabilities, up to chance (four sigma)."""
    exact = readings("exact_sequence")
    found = readings("monte_carlo", max_draws=20, target_width=None)
    assert {("monte_carlo", 20, "wilson")} == {(r.method, r.n, r.interval.method) for r in found}
    rate = coverage(found, exact)
    promised = [expected_wilson_coverage(e.value, 20) for e in exact]
    mean = sum(promised) / len(promised)
    sigma = sum(p * (1 - p) for p in promised) ** 0.5 / len(promised)
    error = sum((r.value - e.value) ** 2 for r, e in zip(found, exact, strict=True)) / len(found)
    theory = sum(e.value * (1 - e.value) / 20 for e in exact) / len(exact)
    for name, value in (
        ("wilson_passages", len(found)),
        ("wilson_coverage", rate),
        ("wilson_expected_coverage", mean),
        ("draws_rms_error", error**0.5),
        ("draws_rms_error_in_theory", theory**0.5),
    ):
        record_property(name, value)
    print(f"Wilson, n=20: {rate:.3f} of {len(found)} cover (expected {mean:.3f} +- {sigma:.3f}, nominal {LEVEL})")
    print(f"rms error of 20 draws: {error**0.5:.4f}, in theory {theory**0.5:.4f}")
    assert len(found) >= 300
    assert abs(rate - mean) <= 4 * sigma
    assert rate >= LEVEL - 4 * (LEVEL * (1 - LEVEL) / len(found)) ** 0.5
    # Draws with one and the same seed would be one draw, and err four times as much.
    assert error**0.5 <= 1.3 * theory**0.5


def test_sequential_intervals_cover(readings, record_property):
    """Stopping early costs no coverage: the interval for the planned looks holds the exact value at least at its level."""
    exact = readings("exact_sequence")
    found = readings("monte_carlo", max_draws=20)
    assert {("monte_carlo", "stopped")} == {(r.method, r.interval.method) for r in found}
    rate = coverage(found, exact)
    draws = sum(r.n for r in found) / len(found)
    record_property("stopped_passages", len(found))
    record_property("stopped_coverage", rate)
    record_property("stopped_mean_draws", draws)
    print(f"stopped: {rate:.3f} of {len(found)} cover, {draws:.1f} draws on average")
    assert rate >= LEVEL - 4 * (LEVEL * (1 - LEVEL) / len(found)) ** 0.5
    assert draws <= 20


def test_the_first_token_bound_holds_the_exact_value(ships, cases, readings, record_property):
    """Always, also where other answers begin with the phrase's first token, as all permits do."""
    exact, found = readings("exact_sequence"), readings("first_token")
    assert {"first_token"} == {r.method for r in found}
    # Float32 of the server on both sides.
    outside = [
        (case.kinds, case.entry, r.interval, e.value)
        for case, r, e in zip(cases, found, exact, strict=True)
        if not r.interval.low - 1e-6 <= e.value <= r.interval.high + 1e-6
    ]
    widths = [r.interval.high - r.interval.low for r in found]
    record_property("bound_passages", len(found))
    record_property("bound_mean_width", sum(widths) / len(widths))
    print(f"bound: {len(found) - len(outside)} of {len(found)} hold it, mean width {sum(widths) / len(widths):.3f}")
    assert [] == outside


def test_the_trap_is_real(model, ships, readings, cases, record_property):
    """On gold permits the first token is likely and the phrase is not: who reads one token is wrong by nearly 1."""
    trapped = [n for n, case in enumerate(cases) if case.entry == "permit" and case.kinds == ("gold",)]
    first = in_one_session(lambda n: model.reply_logprobs(cases[n].messages, ships.PHRASE), trapped)

    overstated = [
        math.exp(reading.logprobs[0]) - readings("exact_sequence")[n].value
        for n, reading in zip(trapped, first, strict=True)
    ]
    record_property("first_token_overstates_by", max(overstated))
    assert len(trapped) >= 5
    assert sum(overstated) / len(overstated) > 0.5


def test_the_bound_holds_on_a_server_that_others_use(model, ships, cases, readings, record_property):
    """The lists of requests are cut by vLLM where they share a step with reads by token id: bounds get wide, and stay true."""
    some = list(range(60))
    exact = readings("exact_sequence")
    bounding, reading = (
        ChatReader(model, estimator=name, **ships.READER) for name in ("first_token", "exact_sequence")
    )

    async def mixed(n):
        case = cases[n % len(some)]
        reader = bounding if n < len(some) else reading
        return await reader.estimate_abstention(case.question, case.passages)

    order = [place for n in some for place in (n, n + len(some))]
    found = dict(zip(order, in_one_session(mixed, order, at_once=24), strict=True))
    outside = [n for n in some if not found[n].interval.low - 1e-6 <= exact[n].value <= found[n].interval.high + 1e-6]
    width = sum(found[n].interval.high - found[n].interval.low for n in some) / len(some)
    alone = readings("first_token")
    before = sum(alone[n].interval.high - alone[n].interval.low for n in some) / len(some)
    record_property("bound_mean_width_on_a_busy_server", width)
    print(f"bound beside reads by token id: {len(some) - len(outside)} of {len(some)} hold it, width {width:.3f}")
    print(f"alone: width {before:.3f}")
    assert [] == outside
    assert max(abs(found[n + len(some)].value - exact[n].value) for n in some) <= CLOSE
