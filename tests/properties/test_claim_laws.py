"""Laws of metrics on claims: what must add up does, bounds hold whatever is missing, and order does not matter."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import make_sample
from ragstone.errors import JudgeError
from ragstone.metrics import resolve_metrics
from ragstone.metrics._shares import any_of, both, harmonic, negated, share, share_among
from ragstone.metrics.ragas._metrics import average_precision_bounds
from ragstone.schema import Failure, Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

LETTERS = st.lists(st.sampled_from("abcdef"), max_size=5, unique=True).map(" ".join)
MARKS = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=6)


def letters(prompt):
    """Texts are letters: each is a claim, and supported by whatever text has it."""
    if prompt.construct == "claims":
        return {"items": prompt.fields["text"].split()}
    evidence = prompt.fields["evidence"]
    parts = (evidence,) if isinstance(evidence, str) else evidence
    there = {letter for part in parts for letter in part.split()}
    return {str(n): int(claim in there) for n, claim in enumerate(prompt.fields["claims"], start=1)}


def scored(response, references, contexts, fail=None):
    sample = make_sample(query=None, response=response, reference=references, contexts=contexts)
    scorer = Scorer(
        resolve_metrics(["ragchecker", "ragas.faithfulness", "ragas.context_recall"]),
        FakeJudge(json=letters, fail=fail),
    )
    return {outcome.metric: outcome for outcome in asyncio.run(scorer.score(sample))}


def resolutions(marks):
    """All that the unknown marks may be."""
    return itertools.product(*([mark] if mark is not None else [True, False] for mark in marks))


@given(LETTERS, st.lists(LETTERS, min_size=1, max_size=3), st.lists(LETTERS, max_size=4))
def test_each_claim_is_right_or_wrong_in_one_way(response, references, contexts):
    """Precision, both noise sensitivities and hallucination are 1 together; what is not found is invented or known."""
    values = {
        name.removeprefix("ragchecker."): outcome.value
        for name, outcome in scored(response, references, contexts).items()
        if isinstance(outcome, Score)
    }
    wrong = ("noise_sensitivity_relevant", "noise_sensitivity_irrelevant", "hallucination")
    if set(wrong) <= set(values):
        assert pytest.approx(1) == values["precision"] + sum(values[name] for name in wrong)
    if {"faithfulness", "hallucination"} <= set(values):
        assert pytest.approx(1) == values["faithfulness"] + values["hallucination"] + values["self_knowledge"]


@given(LETTERS, st.lists(LETTERS, min_size=1, max_size=2), st.lists(LETTERS, max_size=3), st.integers(0, 7))
def test_bounds_hold_the_value(response, references, contexts, broken):
    """Whatever verdict is missing, the value that it would have given lies within the bounds."""
    asked = itertools.count()

    def fail(prompt):
        trouble = prompt.construct == "entailment" and next(asked) % 8 == broken
        return JudgeError("what?", kind="timeout") if trouble else None

    whole, found = scored(response, references, contexts), scored(response, references, contexts, fail)
    for name, outcome in found.items():
        if isinstance(outcome, Failure) and isinstance(whole[name], Score):
            low, high = outcome.details["bounds"]
            assert low - 1e-12 <= whole[name].value <= high + 1e-12
        elif isinstance(outcome, Score):
            assert outcome.value == whole[name].value


@given(LETTERS, LETTERS, st.permutations(["a b", "c", "d e"]))
def test_the_order_of_passages_does_not_matter(response, reference, contexts):
    """These metrics look at what was retrieved, not where it stands."""
    one = scored(response, (reference,), contexts)
    other = scored(response, (reference,), sorted(contexts))
    values = [{n: getattr(o, "value", None) for n, o in outcomes.items()} for outcomes in (one, other)]
    assert values[0] == values[1]


@given(st.data())
def test_three_valued_logic_is_sound(data):
    """Each mark that is sure is so in all resolutions."""
    a = data.draw(MARKS)
    b = data.draw(st.lists(st.sampled_from([True, False, None]), min_size=len(a), max_size=len(a)))
    for x, y in itertools.product(resolutions(a), resolutions(b)):
        for three, plain in (
            (both(a, b), [p and q for p, q in zip(x, y, strict=True)]),
            (any_of([a, b], len(a)), [p or q for p, q in zip(x, y, strict=True)]),
            (negated(a), [not p for p in x]),
        ):
            assert all(mark in (None, value) for mark, value in zip(three, plain, strict=True))


@given(MARKS)
def test_share_is_what_resolutions_span(marks):
    """The ends are reached."""
    values = [sum(each) / len(each) for each in resolutions(marks)]
    assert (min(values), max(values)) == (share(marks).low, share(marks).high)


@given(st.data())
def test_share_among_is_what_resolutions_span(data):
    """The ends are reached, but where it is open whether there is anything to share."""
    marks = data.draw(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4))
    among = data.draw(st.lists(st.sampled_from([True, False, None]), min_size=len(marks), max_size=len(marks)))
    values = [
        sum(x for x, counted in zip(xs, cs, strict=True) if counted) / sum(cs)
        for xs, cs in itertools.product(resolutions(marks), resolutions(among))
        if any(cs)
    ]
    found = share_among(marks, among)
    if found is None:
        assert values == []
    elif True in among:
        assert pytest.approx((min(values), max(values))) == (found.low, found.high)
    else:
        assert (0, 1) == (found.low, found.high)


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=6))
def test_context_precision_bounds_are_what_resolutions_span(marks):
    """Against the formula, written out once more."""

    def plain(useful):
        at = [sum(useful[:k]) / k for k in range(1, len(useful) + 1) if useful[k - 1]]
        return sum(at) / len(at) if at else 0.0

    texts = [str(n) for n in range(len(marks))]
    values = [plain(each) for each in resolutions(marks)]
    bounds = average_precision_bounds(texts, dict(zip(texts, marks, strict=True)))
    assert pytest.approx((min(values), max(values))) == bounds


@given(MARKS, MARKS)
def test_harmonic_mean_lies_between(one, other):
    """And rises with either, so its bounds come from theirs."""
    a, b = share(one), share(other)
    mean = harmonic(a, b)
    assert mean.low <= mean.high
    assert min(a.low, b.low) - 1e-12 <= mean.low <= max(a.low, b.low) + 1e-12 or mean.low == 0
