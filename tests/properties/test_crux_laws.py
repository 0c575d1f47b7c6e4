"""Laws of the CRUX metrics, for all rating matrices; and of documents cut into spans."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragstone.metrics.crux import (
    Coverage,
    Density,
    Novelty,
    RankedCoverage,
    Redundancy,
    answerable,
    relative_density,
    required_subset,
)
from ragstone.schema import NotApplicable, Passage, Sample
from ragstone.testing import FakeJudge
from ragstone_lab._dataset.documents import Document, sections_of, spans_of

PASSAGES = ("a", "b", "c", "d", "e")
MATRICES = (
    st.integers(1, 5)
    .flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 5), min_size=len(PASSAGES), max_size=len(PASSAGES)), min_size=n, max_size=n
        )
    )
    .map(lambda rows: {f"q{i}?": dict(zip(PASSAGES, map(float, row), strict=True)) for i, row in enumerate(rows)})
)
RETRIEVED = st.lists(st.sampled_from(PASSAGES), max_size=6)


def value(metric, ratings, ids):
    """The metric's value, or None where it has none; no one may be asked."""
    judge = FakeJudge()
    sample = Sample(
        id="s",
        contexts=tuple(Passage(id=name, text=f"text of {name}") for name in ids),
        sub_questions=tuple(ratings),
        ratings=ratings,
        metadata={"required": {name: f"text of {name}" for name in required_subset(ratings)}},
    )
    outcome = asyncio.run(metric.score(sample, judge))
    assert [] == judge.prompts
    return None if isinstance(outcome, NotApplicable) else outcome.value


@given(MATRICES, RETRIEVED, st.sampled_from(PASSAGES))
def test_one_more_passage_never_lowers_coverage(ratings, ids, more):
    """And coverage is from 0 to 1."""
    assume(answerable(ratings))
    before, after = (value(Coverage(), ratings, found) for found in (ids, [*ids, more]))
    assert 0 <= before <= after <= 1


@given(MATRICES, RETRIEVED, st.randoms(use_true_random=False))
def test_coverage_and_redundancy_do_not_depend_on_the_order(ratings, ids, rng):
    """Ranked coverage and novelty do."""
    other = ids[:]
    rng.shuffle(other)
    for metric in (Coverage(), Redundancy()):
        assert value(metric, ratings, ids) == value(metric, ratings, other)


@given(MATRICES, RETRIEVED, st.permutations(range(5)))
def test_no_value_depends_on_the_order_of_the_sub_questions(ratings, ids, order):
    """A matrix read in another order is the same matrix."""
    names = list(ratings)
    turned = {names[i]: ratings[names[i]] for i in order if i < len(names)}
    for metric in (Coverage(), Redundancy(), Novelty(), RankedCoverage(), Density()):
        assert value(metric, ratings, ids) == pytest.approx(value(metric, turned, ids))


@given(MATRICES)
def test_the_required_subset_covers_all_and_nothing_of_it_can_go(ratings):
    """Its coverage and density are 1; without any one passage something is missing."""
    required = required_subset(ratings)
    if not answerable(ratings):
        assert () == required
        return
    assert 1.0 == value(Coverage(), ratings, required)
    assert 1.0 == value(Density(), ratings, required)
    for gone in required:
        assert value(Coverage(), ratings, [p for p in required if p != gone]) < 1


@given(MATRICES)
def test_the_required_subset_is_at_most_the_greedy_factor_too_large(ratings):
    """Greedy set cover is within the harmonic number of the largest set, which is below 2.284 for five sub-questions."""
    n = len(answerable(ratings))
    assume(n)
    least = next(
        size
        for size in range(1, len(PASSAGES) + 1)
        if any(value(Coverage(), ratings, ids) == 1 for ids in itertools.combinations(PASSAGES, size))
    )
    assert len(required_subset(ratings)) <= least * sum(1 / i for i in range(1, n + 1)) + 1e-9


@given(MATRICES, RETRIEVED, st.sampled_from(PASSAGES))
def test_a_repetition_only_adds_redundancy(ratings, ids, again):
    """A passage that is retrieved once more covers nothing, and makes nothing less redundant or more novel."""
    assume(again in ids)
    more = [*ids, again]
    assert value(Coverage(), ratings, ids) == value(Coverage(), ratings, more)
    redundancy = value(Redundancy(), ratings, ids)
    if redundancy is not None:
        assert redundancy <= value(Redundancy(), ratings, more) < 1
    novelty = value(Novelty(), ratings, ids)
    if novelty is not None:
        assert value(Novelty(), ratings, more) <= novelty


@given(
    st.floats(0.01, 1), st.integers(1, 10**6), st.floats(0.01, 1), st.integers(1, 10**6), st.integers(1, 50),
    st.floats(0.1, 3),
)  # fmt: skip
def test_density_scales(coverage, tokens, required_coverage, required_tokens, factor, weight):
    """The unit of tokens cancels out; `factor` times the tokens for the same divides by factor to the power w."""
    fixed = {"coverage": coverage, "required_coverage": required_coverage, "weight": weight}
    one = relative_density(tokens=tokens, required_tokens=required_tokens, **fixed)
    both = relative_density(tokens=tokens * factor, required_tokens=required_tokens * factor, **fixed)
    longer = relative_density(tokens=tokens * factor, required_tokens=required_tokens, **fixed)
    assert one == pytest.approx(both)
    assert longer == pytest.approx(one / factor**weight)


@given(st.text(alphabet=st.sampled_from("ab .!?\n\r\t\"'界。é1"), max_size=400), st.integers(1, 30))
def test_spans_are_places_of_their_document_and_lose_no_word(text, words):
    """Each span is found at its place, none overlap, and between them is nothing with a word in it."""
    document = Document(name="d", text=text)
    spans = spans_of(document, words=words)
    assert [span.text for span in spans] == [text[span.start : span.end] for span in spans]
    places = [0, *itertools.chain.from_iterable((span.start, span.end) for span in spans), len(text)]
    assert places == sorted(places)
    between = [text[places[i] : places[i + 1]] for i in range(0, len(places), 2)]
    assert not any(character.isalnum() for gap in between for character in gap)
    assert spans == tuple(itertools.chain.from_iterable(sections_of(spans, words=words)))
