"""Laws of UDCG: bounds, monotonicity, order, and that what is missing is bounded by what it could be."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import make_sample
from fake_models import FakeReader
from ragstone.errors import JudgeError
from ragstone.metrics import Udcg, UdcgTheta
from ragstone.schema import Failure, Passage, Score
from ragstone.testing import FakeJudge

probabilities = st.floats(0, 1)
passages = st.lists(st.tuples(st.booleans(), probabilities), min_size=1, max_size=8)
weights = st.floats(-5, 5)


def sample_of(found, missing_labels=()):
    contexts = [
        Passage(text=str(i), relevance=None if i in missing_labels else float(relevant))
        for i, (relevant, _) in enumerate(found)
    ]
    return make_sample(contexts=contexts, reference=())


def outcome_of(metric, found, *, half_width=0.0, no_p=(), no_label=()):
    def p(query, texts):
        i = int(texts[0])
        return JudgeError("gone") if i in no_p else found[i][1]

    judge = FakeJudge(fail=lambda prompt: JudgeError("gone"))
    bound = metric.with_reader(FakeReader(p, half_width=half_width))
    return asyncio.run(bound.score(sample_of(found, no_label), judge))


def value_of(metric, found):
    outcome = outcome_of(metric, found)
    assert isinstance(outcome, Score)
    return outcome.value


@given(passages, st.floats(0, 1))
def test_value_lies_in_the_card_s_range(found, gamma):
    """Whatever the passages are."""
    metric = Udcg(gamma=gamma)
    assert metric.card.low - 1e-12 <= value_of(metric, found) <= metric.card.high + 1e-12


@given(passages, st.randoms(use_true_random=False))
def test_order_of_passages_does_not_matter(found, random):
    """UDCG without weights knows no positions."""
    shuffled = random.sample(found, len(found))
    assert value_of(Udcg(), found) == pytest.approx(value_of(Udcg(), shuffled), abs=1e-12)


@given(passages, st.data())
def test_more_answers_help_from_relevant_passages_and_harm_from_others(found, data):
    """Lowering one p(abstain) raises UDCG if the passage is relevant, and lowers it if not."""
    i = data.draw(st.integers(0, len(found) - 1))
    relevant, p = found[i]
    lower = data.draw(st.floats(0, p))
    after = value_of(Udcg(), [*found[:i], (relevant, lower), *found[i + 1 :]])
    before = value_of(Udcg(), found)
    assert after >= before - 1e-12 if relevant else after <= before + 1e-12


@given(passages)
def test_theta_with_equal_weights_is_udcg(found):
    """The learned variant contains the other."""
    k = len(found)
    theta = UdcgTheta([1 / k] * k, [1 / 3 / k] * k)
    assert value_of(Udcg(), found) == pytest.approx(value_of(theta, found), abs=1e-12)


@given(passages, st.floats(0, 0.5))
def test_interval_holds_the_value_and_stays_in_range(found, half_width):
    """The interval of draws is around the value, and no wider than what is possible."""
    metric = Udcg()
    outcome = outcome_of(metric, found, half_width=half_width)
    assert isinstance(outcome, Score)
    assert outcome.interval.low <= outcome.value <= outcome.interval.high
    assert metric.card.low - 1e-12 <= outcome.interval.low
    assert outcome.interval.high <= metric.card.high + 1e-12


@given(st.data())
def test_bounds_hold_any_value_of_what_is_missing(data):
    """Whatever the missing labels and probabilities turn out to be, the value lies in the failure's bounds."""
    found = data.draw(passages)
    indices = st.sets(st.integers(0, len(found) - 1))
    no_p, no_label = data.draw(indices), data.draw(indices)
    metric = data.draw(
        st.one_of(
            st.floats(0, 1).map(lambda gamma: Udcg(gamma=gamma)),
            st.tuples(*[weights] * (2 * len(found))).map(lambda w: UdcgTheta(w[: len(found)], w[len(found) :])),
        )
    )
    outcome = outcome_of(metric, found, no_p=no_p, no_label=no_label)
    if not no_p | no_label:
        assert isinstance(outcome, Score)
        return
    assert isinstance(outcome, Failure)
    truth = [
        (
            data.draw(st.booleans()) if i in no_label else relevant,
            data.draw(probabilities) if i in no_p else p,
        )
        for i, (relevant, p) in enumerate(found)
    ]
    low, high = outcome.details["bounds"]
    assert low - 1e-12 <= value_of(metric, truth) <= high + 1e-12
    assert f"{len(no_p | no_label)} of {len(found)} passages" in outcome.reason
